"""An Iceberg table as the target of an export, by PyIceberg: the position is the table property `diskless.offsets`.

The property moves in the transaction that appends, since the summary of a snapshot is out of sight with the next foreign commit. PyIceberg
repeats a commit that was refused, with rows that may be there already; the table property `commit.retry.num-retries=0` forbids it, so of
two writers that commit on one snapshot the second is refused. PyIceberg writes lists that are null as empty ones: `headers` of records
without headers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table

from tables.errors import CommitConflictError, OtherContentError, RivalWriterError, TableError
from tables.export.columns import DATE
from tables.export.target import KEPT_HOURS, MAINTAINED_EVERY_S, ExportedTopic, Position

OFFSETS: Final = "diskless.offsets"
MAINTAINED: Final = "diskless.maintained"
_TOPIC: Final = "diskless.topic"
_IDENTITY: Final = "diskless.identity"
_RETRIES: Final = "commit.retry.num-retries"
_PROPERTIES: Final = {
    _RETRIES: "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.parquet.compression-codec": "zstd",
}


@dataclass(slots=True)
class IcebergTarget:
    """`ExportTarget` over a table of a catalog; options are properties of it, beside PyIceberg's configuration and environment."""

    table: Table
    place: str

    @staticmethod
    def open(place: str, topic: ExportedTopic, options: Mapping[str, str], begin: Position) -> IcebergTarget:
        """Open the table CATALOG.NAMESPACE.TABLE, or make it with the position `begin`. Raises `OtherContentError`, `TableError`."""
        found = IcebergTarget.find(place, topic, options)
        if found is not None:
            return found
        with _errors(place):
            catalog, name = _catalog(place, options)
            catalog.create_namespace_if_not_exists(name[:-1])
            properties = {**_PROPERTIES, _TOPIC: topic.name, _IDENTITY: json.dumps(topic.identity), OFFSETS: _text(begin)}
            try:
                with catalog.create_table_transaction(name, topic.schema, properties=properties) as making, making.update_spec() as spec:
                    spec.add_identity(DATE)
            except (TableAlreadyExistsError, CommitFailedException):
                pass  # another process made it meanwhile
        made = IcebergTarget.find(place, topic, options)
        if made is None:
            raise TableError(f"{place}: the table that was made is not there; does another process delete it?")
        return made

    @staticmethod
    def find(place: str, topic: ExportedTopic, options: Mapping[str, str]) -> IcebergTarget | None:
        """Open the table; None when there is none. Raises `OtherContentError`, `TableError`."""
        with _errors(place):
            catalog, name = _catalog(place, options)
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                return None
            _check(table, place, topic)
            return IcebergTarget(table, place)

    def position(self, partitions: Iterable[int]) -> dict[int, int]:
        """See `ExportTarget`."""
        known = self._newest()
        return {partition: known[partition] for partition in partitions if partition in known}

    def append(self, rows: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
        """See `ExportTarget`."""
        known = self._newest()
        for partition in after:
            if known.get(partition) != before.get(partition):
                was, due = known.get(partition), before.get(partition)
                raise RivalWriterError(
                    f"another process writes {self.place}: partition {partition} is at {was}, not {due}; stop one of them"
                )
        with _errors(self.place):
            _check_retries(self.table, self.place)
            with self.table.transaction() as change:
                change.append(pa.Table.from_batches(rows, self._schema()))
                change.set_properties({OFFSETS: _text({**known, **after})})

    def is_maintenance_due(self) -> bool:
        """See `ExportTarget`."""
        self.position(())
        return time.time() - int(self.table.properties.get(MAINTAINED, 0)) >= MAINTAINED_EVERY_S

    def maintain(self) -> str:
        """Expire snapshots; PyIceberg joins no files, which engines do (`rewrite_data_files`). See `ExportTarget`."""
        with _errors(self.place):
            self.table.refresh()
            count = len(self.table.snapshots())
            self.table.maintenance.expire_snapshots().older_than(datetime.now(UTC) - timedelta(hours=KEPT_HOURS)).commit()
            self.table.refresh()
            with self.table.transaction() as change:
                change.set_properties({MAINTAINED: str(int(time.time()))})
            return f"{count - len(self.table.snapshots())} snapshots expired"

    def _newest(self) -> dict[int, int]:
        """The position in the newest version. Raises `TableError`."""
        with _errors(self.place):
            self.table.refresh()
        try:
            return {int(partition): int(offset) for partition, offset in json.loads(self.table.properties[OFFSETS]).items()}
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise TableError(f"{self.place}: the table property {OFFSETS} is not what this export wrote; restore it") from error

    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, _plain(field.type)) for field in self.table.schema().as_arrow()])


@contextmanager
def _errors(place: str) -> Iterator[None]:
    """PyIceberg, its catalogs and its file systems have no common root of their errors."""
    try:
        yield
    except TableError:
        raise
    except CommitFailedException as error:
        raise CommitConflictError(place) from error
    except Exception as error:
        raise TableError(f"iceberg:{place}: {type(error).__name__}: {error}") from error


def _catalog(place: str, options: Mapping[str, str]) -> tuple[Catalog, tuple[str, ...]]:
    catalog, *name = place.split(".")
    if len(name) < 2 or not all((catalog, *name)):
        raise TableError(f"iceberg:{place}: expected iceberg:CATALOG.NAMESPACE.TABLE")
    return load_catalog(catalog, **options), tuple(name)


def _check(table: Table, place: str, topic: ExportedTopic) -> None:
    try:
        known = json.loads(table.properties[_IDENTITY])
    except (KeyError, ValueError):
        raise TableError(
            f"{place} is another table: its properties do not say that it exports a topic; name one that is not there"
        ) from None
    if (table.properties.get(_TOPIC), known) != (topic.name, topic.identity):
        raise OtherContentError(
            f"{place} exports topic {table.properties.get(_TOPIC)} with {known}, not {topic.name} with {topic.identity}; "
            "was the topic recreated? Use another table"
        )
    columns = {field.name: _plain(field.type) for field in table.schema().as_arrow()}
    if columns != {field.name: _plain(field.type) for field in topic.schema}:
        raise OtherContentError(f"{place} has other columns than are to be written; was it made with other options? Use another table")
    _check_retries(table, place)


def _check_retries(table: Table, place: str) -> None:
    if table.properties.get(_RETRIES) != "0":
        raise TableError(f"{place}: the table property {_RETRIES} must be 0, or rows may be written twice; set it")


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without what PyIceberg adds to it: large offsets, and ids of fields."""
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind


def _text(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())})
