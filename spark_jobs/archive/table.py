"""The Delta table of the archive, a `DeltaSink`: its position is the head of each metadata partition.

A head is several numbers: the offset under `archive-<kpart>`, the others under names that begin so. The offset moves with every entry, so
it alone is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from records.entry_key import EntryKey
from spark_jobs.archive.columns import SCHEMA
from spark_jobs.scan.head import Head
from tables.delta import DeltaContent, DeltaSink

KNOWN, ADOPTED, CONFIRMED, RIVAL = 1, 2, 4, 8


@dataclass(slots=True)
class ArchiveTable:
    """The table at a URL or in a folder; `storage_options` are delta-rs's."""

    sink: DeltaSink

    @staticmethod
    def open(place: str, topic: str, topic_id: str, storage_options: Mapping[str, str]) -> ArchiveTable:
        """Open the table, or make it. Raises `OtherContentError` and `TableError`."""
        content = DeltaContent(name=topic, identity={"topic_id": topic_id}, what="archives", schema=SCHEMA)
        return ArchiveTable(DeltaSink.open(place, content, storage_options))

    def heads(self, partitions: int) -> dict[int, Head]:
        """Where the table ends, by metadata partition; those never written are left out. Raises `TableError`."""
        self.sink.refresh()
        return {kpart: head for kpart in range(partitions) if (head := self._head(kpart)) is not None}

    def write(self, rows: pa.Table | pa.RecordBatchReader, before: Mapping[int, Head], after: Mapping[int, Head]) -> None:
        """Append rows and move the heads in one commit. Raises `RivalWriterError`, `CommitConflictError`, `TableError`."""
        expected = {_app_id(kpart): before[kpart].next_offset if kpart in before else None for kpart in after}
        moves = {name: number for kpart, head in after.items() for name, number in _numbers(kpart, head).items()}
        self.sink.append(rows, expected, moves)

    def _head(self, kpart: int) -> Head | None:
        def number(name: str = "") -> int | None:
            return self.sink.number(_app_id(kpart, name))

        next_offset = number()
        if next_offset is None:
            return None
        flags = number("flags") or 0
        rival = [number(f"rival-{name}") or 0 for name in ("epoch", "term", "seq")] if flags & RIVAL else None
        is_known = bool(flags & KNOWN)
        return Head(
            next_offset=next_offset,
            epoch=number("epoch") if is_known else None,
            term=number("term") if is_known else None,
            seq=number("seq") if is_known else None,
            is_adopted=bool(flags & ADOPTED),
            is_confirmed=bool(flags & CONFIRMED),
            rival=None if rival is None else EntryKey(*rival),
        )


def _app_id(kpart: int, name: str = "") -> str:
    return f"archive-{kpart}" + (f"-{name}" if name else "")


def _numbers(kpart: int, head: Head) -> dict[str, int]:
    is_known = head.term is not None
    flags = KNOWN * is_known + ADOPTED * head.is_adopted + CONFIRMED * head.is_confirmed + RIVAL * (head.rival is not None)
    numbers = {"": head.next_offset, "flags": flags}
    if is_known:
        numbers |= {"epoch": head.epoch or 0, "term": head.term or 0, "seq": head.seq or 0}
    if head.rival is not None:
        numbers |= {f"rival-{name}": value for name, value in head.rival._asdict().items()}
    return {_app_id(kpart, name): number for name, number in numbers.items()}
