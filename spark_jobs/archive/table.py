"""The Delta table of the archive: rows and heads move in one commit, so nothing is ever in it twice.

Heads are app transactions of the table, one for each number of each metadata partition, the offset under
`archive-<kpart>`. The library takes a lower version without a word, so the writer compares first; of two writers that
commit at once the second is refused by the table's own conflict check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from records.entry_key import EntryKey
from spark_jobs.archive.columns import SCHEMA
from spark_jobs.scan.head import Head

KNOWN, ADOPTED, CONFIRMED, RIVAL = 1, 2, 4, 8
PARTITION_BY = ["date"]


class ArchiveError(Exception):
    """The table cannot be used for this archive; the text says why and what to do."""


class OtherLogError(ArchiveError):
    """The table holds another topic."""


@dataclass(slots=True)
class ArchiveTable:
    """The table at a URL or in a folder; `storage_options` are delta-rs's."""

    table: DeltaTable
    storage_options: Mapping[str, str]

    @staticmethod
    def open(place: str, topic: str, topic_id: str, storage_options: Mapping[str, str]) -> ArchiveTable:
        """Open the table, or make it. Raises `OtherLogError` and `ArchiveError`."""
        options = dict(storage_options)
        try:
            try:
                table = DeltaTable(place, storage_options=options)
            except TableNotFoundError:
                if "://" not in place:
                    Path(place).mkdir(parents=True, exist_ok=True)
                identity = json.dumps({"topic_id": topic_id})
                table = DeltaTable.create(
                    place, SCHEMA, mode="ignore", partition_by=PARTITION_BY, name=topic, description=identity, storage_options=options
                )
        except (DeltaError, OSError) as error:
            raise ArchiveError(f"{place}: {error}") from error
        _check_identity(table, place, topic, topic_id)
        return ArchiveTable(table, options)

    def heads(self, partitions: int) -> dict[int, Head]:
        """Where the table ends, by metadata partition; those never written are left out."""
        self.table.update_incremental()
        return {kpart: head for kpart in range(partitions) if (head := self._head(kpart)) is not None}

    def write(self, rows: pa.Table | pa.RecordBatchReader, before: Mapping[int, Head], after: Mapping[int, Head]) -> None:
        """Append rows and move the heads in one commit. Raises `ArchiveError` when another writer was quicker."""
        self.table.update_incremental()
        for kpart in after:
            found = self._head(kpart)
            if found != before.get(kpart):
                raise ArchiveError(f"another archive writes this table: partition {kpart} is at {found}, not at {before.get(kpart)}")
        moves = [one for kpart, head in after.items() for one in _transactions(kpart, head)]
        try:
            write_deltalake(
                self.table, rows, mode="append", commit_properties=CommitProperties(app_transactions=moves, max_commit_retries=0)
            )
        except DeltaError as error:
            raise ArchiveError(f"the rows cannot be written: {error}; if another archive writes this table, stop one of them") from error

    def compact(self, vacuum_hours: int | None) -> str:
        """Join small files, and delete those no version younger than so many hours needs; returns what was done."""
        self.table.update_incremental()
        done = self.table.optimize.compact()
        text = f"{done['numFilesRemoved']} files joined into {done['numFilesAdded']}"
        self.table.create_checkpoint()
        if vacuum_hours is not None:
            gone = self.table.vacuum(vacuum_hours, dry_run=False, enforce_retention_duration=False)
            text += f", {len(gone)} deleted"
        return text

    def _head(self, kpart: int) -> Head | None:
        def number(name: str = "") -> int | None:
            return self.table.transaction_version(_app_id(kpart, name))

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


def _transactions(kpart: int, head: Head) -> list[Transaction]:
    is_known = head.term is not None
    flags = KNOWN * is_known + ADOPTED * head.is_adopted + CONFIRMED * head.is_confirmed + RIVAL * (head.rival is not None)
    numbers = {"": head.next_offset, "flags": flags}
    if is_known:
        numbers |= {"epoch": head.epoch or 0, "term": head.term or 0, "seq": head.seq or 0}
    if head.rival is not None:
        numbers |= {f"rival-{name}": value for name, value in head.rival._asdict().items()}
    return [Transaction(_app_id(kpart, name), number) for name, number in numbers.items()]


def _check_identity(table: DeltaTable, place: str, topic: str, topic_id: str) -> None:
    metadata = table.metadata()
    try:
        known = json.loads(metadata.description or "")["topic_id"]
    except (ValueError, KeyError, TypeError):
        raise ArchiveError(f"{place} is no archive of a metadata topic; name an empty folder") from None
    if (metadata.name, known) != (topic, topic_id):
        raise OtherLogError(
            f"{place} archives topic {metadata.name} with id {known}, not {topic} with id {topic_id}; was it recreated? Use another folder"
        )
