"""Writes a snapshot: header, head, rows, footer, each a record batch of one record with its offset in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from records.compression import Compression
from records.record_batch import Record, encode_batch
from records.snapshot.control import FOOTER, FOOTER_KEY, HEADER_KEY, encode_header
from records.snapshot.head import HEAD_KEY, SnapshotHead, encode_head
from records.snapshot.names import snapshot_name
from records.snapshot.part_file import PartFile, SnapshotFile
from records.snapshot.rows import TableRows, encode_rows

ZSTD_LEVEL = 1
"""Rows are packed already: a higher level takes twice the time for one percent."""


def write_snapshot(
    folder: Path, head: SnapshotHead, rows: Iterable[TableRows], *, log_timestamp_ms: int, rest: Callable[[], None]
) -> SnapshotFile:
    """Write a snapshot into a folder, durably and under its name; a file of that name is replaced.

    The memory taken is that of one piece of `rows`; pieces are cut where they are large, and not joined. `rest` is called between
    steps. The same arguments give the same bytes. Raises OSError, ValueError for values that the format cannot hold, and what
    `rows` raises; nothing is left then.
    """
    with PartFile(folder, snapshot_name(head.end_offset, head.epoch)) as part:
        offset = 0

        def append(key: bytes, value: bytes, *, is_control: bool = False) -> None:
            nonlocal offset
            batch = encode_batch(
                [Record(timestamp_ms=log_timestamp_ms, key=key, value=value)],
                compression=Compression.NONE if is_control else Compression.ZSTD,
                zstd_level=ZSTD_LEVEL,
                base_offset=offset,
                partition_leader_epoch=head.epoch,
                is_control=is_control,
            )
            rest()
            part.write(batch)
            offset += 1

        append(HEADER_KEY, encode_header(log_timestamp_ms), is_control=True)
        append(HEAD_KEY, encode_head(head))
        for piece in rows:
            for chunk in encode_rows(piece):
                rest()
                append(chunk.key, chunk.value)
        append(FOOTER_KEY, FOOTER, is_control=True)
        return part.publish()
