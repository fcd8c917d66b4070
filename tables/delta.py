"""A Delta table with one writer: rows and the writer's position move in one commit, so no row is ever in it twice.

The position is a set of numbers by name, kept as app transactions of the Delta log, which its checkpoints keep. delta-rs takes a lower
number without an error, so `append` compares the position first; and it forbids delta-rs to repeat a commit, so of two writers that
commit on one version the second is refused. Name and description of the table say what it holds; a table of other content is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tables.errors import CommitConflictError, OtherContentError, RivalWriterError, TableError

PARTITION_BY: Final = ["date"]
FILE_BYTES: Final = 256 << 20
"""The size of files that compaction aims at."""
_WRITER: Final = WriterProperties(compression="ZSTD")
_POSITION_EXPIRES: Final = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaContent:
    """What a table holds: `name` and `identity` tell it from others, and `what` names the kind in errors ("archives", "is an export of").

    `configuration` are properties of a table that is made.
    """

    name: str
    identity: Mapping[str, str]
    what: str
    schema: pa.Schema
    configuration: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class DeltaSink:
    """The table at a URL or in a folder. `storage_options` are delta-rs's; others come from the environment."""

    table: DeltaTable
    place: str

    @staticmethod
    def open(place: str, content: DeltaContent, storage_options: Mapping[str, str], begin: Mapping[str, int] | None = None) -> DeltaSink:
        """Open the table, or make it with the position `begin`. Raises `OtherContentError` and `TableError`."""
        found = DeltaSink.find(place, content, storage_options)
        if found is not None:
            return found
        with _errors(place):
            if "://" not in place:
                Path(place).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                place,
                content.schema,
                mode="ignore",
                partition_by=PARTITION_BY,
                name=content.name,
                description=json.dumps(content.identity),
                configuration=content.configuration,
                storage_options=dict(storage_options),
                commit_properties=CommitProperties(app_transactions=_transactions(begin or {})),
            )
        made = DeltaSink.find(place, content, storage_options)
        if made is None:
            raise TableError(f"{place}: the table that was made is not there; does another process delete it?")
        return made

    @staticmethod
    def find(place: str, content: DeltaContent, storage_options: Mapping[str, str]) -> DeltaSink | None:
        """Open the table; None when there is none. Raises `OtherContentError` and `TableError`."""
        with _errors(place):
            try:
                table = DeltaTable(place, storage_options=dict(storage_options))
            except TableNotFoundError:
                return None
            _check(table, place, content)
            return DeltaSink(table, place)

    def refresh(self) -> None:
        """Read the newest version. Raises `TableError`."""
        with _errors(self.place):
            self.table.update_incremental()

    def number(self, name: str) -> int | None:
        """A number of the position in the version that was read last."""
        return self.table.transaction_version(name)

    def append(
        self, rows: pa.Table | pa.RecordBatchReader | Sequence[pa.RecordBatch], expected: Mapping[str, int | None], moves: Mapping[str, int]
    ) -> None:
        """Append rows and move the position in one commit.

        Raises `RivalWriterError` when the table's position is not `expected`, `CommitConflictError` when another commit was quicker, and
        `TableError`, after which the commit may be there: `refresh` and `number` tell.
        """
        self.refresh()
        for name, number in expected.items():
            if (found := self.number(name)) != number:
                raise RivalWriterError(f"another process writes {self.place}: its {name} is {found}, not {number}; stop one of them")
        with _errors(self.place):
            write_deltalake(
                self.table,
                rows,
                mode="append",
                writer_properties=_WRITER,
                commit_properties=CommitProperties(app_transactions=_transactions(moves), max_commit_retries=0),
            )

    def compact(self, vacuum_hours: int | None) -> str:
        """Join small files, and delete those that no version younger than so many hours needs; return what was done.

        Raises `CommitConflictError`, `TableError`.
        """
        self.refresh()
        with _errors(self.place):
            done = self.table.optimize.compact(target_size=FILE_BYTES, writer_properties=_WRITER)
            text = f"{done['numFilesRemoved']} files joined into {done['numFilesAdded']}"
            self.table.create_checkpoint()
            if vacuum_hours is not None:
                gone = self.table.vacuum(vacuum_hours, dry_run=False, enforce_retention_duration=False)
                text += f", {len(gone)} deleted"
            return text


@contextmanager
def _errors(place: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise CommitConflictError(place) from error
    except (DeltaError, OSError) as error:
        raise TableError(f"{place}: {error}") from error


def _transactions(numbers: Mapping[str, int]) -> list[Transaction]:
    return [Transaction(name, number) for name, number in numbers.items()]


def _check(table: DeltaTable, place: str, content: DeltaContent) -> None:
    metadata = table.metadata()
    try:
        known = json.loads(metadata.description or "")
    except ValueError:
        known = None
    if not isinstance(known, dict) or known.keys() != content.identity.keys():
        raise TableError(f"{place} is another table: nothing in its description says that it {content.what} a topic; name an empty folder")
    if (metadata.name, known) != (content.name, dict(content.identity)):
        raise OtherContentError(
            f"{place} {content.what} topic {metadata.name} with {_shown(known)}, not {content.name} with {_shown(content.identity)}; "
            "was the topic recreated? Use another folder"
        )
    if Schema.from_arrow(content.schema) != table.schema():
        raise OtherContentError(f"{place} has other columns than are to be written; was it made with other options? Use another folder")
    if _POSITION_EXPIRES in metadata.configuration:
        raise TableError(f"{place} has the property {_POSITION_EXPIRES}, by which the position of its writer expires; remove the property")


def _shown(identity: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in identity.items())
