"""Snapshots for tests, and files that only look like one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from records.compression import Compression
from records.record_batch import Record, encode_batch
from records.snapshot import SnapshotFile, SnapshotHead, TableRows, write_snapshot
from records.snapshot.control import FOOTER, FOOTER_KEY, HEADER_KEY, encode_header
from records.snapshot.head import HEAD_KEY, encode_head

NOW_MS = 1_795_349_718_323
HEAD = SnapshotHead(
    cluster_id="cluster",
    topic_id=bytes(range(16)),
    metadata_partition=7,
    end_offset=5_120_793,
    epoch=2,
    term=-(2**63),
    seq=12,
    log_time_ms=NOW_MS - 5,
    last_entry_hash=bytes(16),
    digest=b"\xff" * 16,
    table_version=4,
    header={"leader_node_id": -1, "leader_endpoints": '[["PLAINTEXT", "höst", 9092]]'},
)
SMALL = [
    TableRows("topic", {"topic_id": [bytes(16), b""], "name": ["orders", "ü"], "order_offset": [0, -(2**63)]}),
    TableRows("run", {"id": [1, 2, 2**63 - 1], "batches": [b"abc", b"", b"\x00\xff" * 9]}),
]

Entry = tuple[bytes | None, bytes | None, bool]
"""Key, value, and whether it is a control record."""

BEGIN: Entry = (HEADER_KEY, encode_header(NOW_MS), True)
END: Entry = (FOOTER_KEY, FOOTER, True)


def no_rest() -> None:
    """Go on at once."""


def write(folder: Path, rows: Iterable[TableRows] = SMALL, head: SnapshotHead = HEAD) -> SnapshotFile:
    """Write a snapshot."""
    return write_snapshot(folder, head, rows, log_timestamp_ms=NOW_MS, rest=no_rest)


def head_entry(head: SnapshotHead = HEAD) -> Entry:
    """The record of a head."""
    return (HEAD_KEY, encode_head(head), False)


def forge(path: Path, entries: Sequence[Entry], *, epoch: int = HEAD.epoch, compression: Compression = Compression.ZSTD) -> Path:
    """Write records as a file of batches whose offsets and checksums are right."""
    path.write_bytes(
        b"".join(
            encode_batch(
                [Record(timestamp_ms=NOW_MS, key=key, value=value)],
                compression=Compression.NONE if is_control else compression,
                base_offset=offset,
                partition_leader_epoch=epoch,
                is_control=is_control,
            )
            for offset, (key, value, is_control) in enumerate(entries)
        )
    )
    return path
