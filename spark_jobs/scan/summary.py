"""The message of a scan to the store: rows of a dozen kinds in one flat schema, so that a Spark task can return them.

Each kind is a NamedTuple; `_LAYOUT` says which column of the schema holds which of its fields. `rows_of` reads back exactly
what `batches_of` wrote. Rows of a kind keep their order within a partition of the metadata topic.
`at` orders steps within one partition of the metadata topic and one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from records.log import BrokenRule

_LONGS = tuple("abcdefghij")

SUMMARY_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("kpart", pa.int32()),
        ("offset", pa.int64()),
        ("text", pa.string()),
        ("detail", pa.string()),
        ("topic", pa.binary()),
        ("part", pa.int32()),
        *((name, pa.int64()) for name in _LONGS),
        ("raw", pa.binary()),
    ]
)

SUMMARY_DDL = ", ".join(
    [
        "kind string, kpart int, offset long, text string, detail string, topic binary, part int",
        *(f"{name} long" for name in _LONGS),
        "raw binary",
    ]
)
"""The schema in Spark's words."""

STEP = 1 << 27
"""Steps per entry: more records than any entry and any held transaction has."""


def operation_of(at: int) -> int:
    """Number the entry or the whole transaction of a step: what has one number takes effect together."""
    return at // STEP


class HeadRow(NamedTuple):
    """Where the scan began and ended; `state` is JSON of what `Head` holds beyond the numbers."""

    kpart: int
    next_offset: int
    scanned_from: int
    first_offset: int
    append_ms: int
    oldest_ms: int
    epoch: int | None
    term: int | None
    seq: int | None
    state: str


class HeldRow(NamedTuple):
    """An entry of the open transaction, all of them again at every micro-batch that added one."""

    kpart: int
    offset: int
    append_ms: int
    value: bytes


class CountRow(NamedTuple):
    """Something to add to a total."""

    kpart: int
    name: str
    value: int


class SecondRow(NamedTuple):
    """Activity of a second."""

    kpart: int
    second: int
    files: int
    batches: int
    records: int
    size_bytes: int
    file_bytes: int
    multi_owner_files: int
    void_entries: int
    entries: int


class MinuteRow(NamedTuple):
    """Activity of a user partition in a minute."""

    kpart: int
    minute: int
    topic_id: bytes
    partition: int
    batches: int
    records: int
    size_bytes: int


class UploaderRow(NamedTuple):
    """Activity of an uploader in a minute."""

    kpart: int
    minute: int
    uploader: int
    files: int
    batches: int
    size_bytes: int
    file_bytes: int


class BucketRow(NamedTuple):
    """Values of a histogram that are at most `upper`, and above the bucket before."""

    kpart: int
    name: str
    minute: int
    upper: int
    values: int


class LinkRow(NamedTuple):
    """Batches of one user partition without a gap between them; `frame` lists them (`scan.blocks`), `first_end` ends the first."""

    kpart: int
    at: int
    offset: int
    topic_id: bytes
    partition: int
    base_offset: int
    first_end: int
    next_offset: int
    log_start: int
    batches: int
    records: int
    size_bytes: int
    first_append_ms: int
    append_ms: int
    frame: bytes


class ProducerLinkRow(NamedTuple):
    """Batches of one producer in one user partition that follow each other in one epoch."""

    kpart: int
    at: int
    offset: int
    topic_id: bytes
    partition: int
    producer_id: int
    epoch: int
    base_sequence: int
    next_sequence: int
    append_time_ms: int
    base_offset: int


class ScannedFileRow(NamedTuple):
    """A file that was committed, with what was accepted of it. `owners` is a JSON list; `number` counts files of the entry."""

    kpart: int
    at: int
    offset: int
    number: int
    object_key: str
    owners: str
    append_ms: int
    created_ms: int
    uploader: int
    file_bytes: int
    batches: int
    size_bytes: int


class EventRow(NamedTuple):
    """A record that is no FileCommitted, as an entry of its own; `epoch` and `seq` are those of its entry."""

    kpart: int
    at: int
    offset: int
    append_ms: int
    entry: bytes


class RestartRow(NamedTuple):
    """Entries `[expected, offset)` are lost: every chain starts anew."""

    kpart: int
    at: int
    offset: int


class FindingRow(NamedTuple):
    """Something that is wrong."""

    kpart: int
    offset: int
    rule: str
    message: str
    topic_id: bytes | None = None
    partition: int | None = None
    producer_id: int | None = None
    object_key: str | None = None
    expected: int | None = None
    found: int | None = None

    @classmethod
    def of(
        cls,
        kpart: int,
        offset: int,
        fault: BrokenRule,
        *,
        topic_id: bytes | None = None,
        partition: int | None = None,
        producer_id: int | None = None,
        object_key: str | None = None,
    ) -> FindingRow:
        """The finding of a fault, and what it is about."""
        about = (topic_id or fault.topic_id, partition, producer_id, object_key)
        return cls(kpart, offset, fault.rule, fault.message, *about, fault.expected, fault.found)


class QuarantineRow(NamedTuple):
    """An entry that cannot be read."""

    kpart: int
    offset: int
    error: str
    size_bytes: int
    first_bytes: bytes


class LevelRow(NamedTuple):
    """The first entry of a partition of the metadata topic at a schema level."""

    kpart: int
    offset: int
    level: int


class NoteRow(NamedTuple):
    """Something an operator may want to know, which is not wrong."""

    kpart: int
    offset: int
    text: str


SummaryRow = (
    HeadRow | HeldRow | CountRow | SecondRow | MinuteRow | UploaderRow | BucketRow | LinkRow | ProducerLinkRow | EventRow | RestartRow
    | FindingRow | QuarantineRow | LevelRow | NoteRow
)  # fmt: skip

_LAYOUT: dict[type[tuple[object, ...]], tuple[str, tuple[str, ...]]] = {
    HeadRow: ("head", ("kpart", "offset", "a", "b", "c", "d", "e", "f", "g", "text")),
    HeldRow: ("held", ("kpart", "offset", "a", "raw")),
    CountRow: ("count", ("kpart", "text", "a")),
    SecondRow: ("second", ("kpart", "a", "b", "c", "d", "e", "f", "g", "h", "i")),
    MinuteRow: ("minute", ("kpart", "a", "topic", "part", "b", "c", "d")),
    UploaderRow: ("uploader", ("kpart", "a", "b", "c", "d", "e", "f")),
    BucketRow: ("bucket", ("kpart", "text", "a", "b", "c")),
    LinkRow: ("link", ("kpart", "a", "offset", "topic", "part", "b", "c", "d", "e", "f", "g", "h", "i", "j", "raw")),
    ProducerLinkRow: ("producer", ("kpart", "a", "offset", "topic", "part", "b", "c", "d", "e", "f", "g")),
    ScannedFileRow: ("file", ("kpart", "a", "offset", "b", "text", "detail", "c", "d", "e", "f", "g", "h")),
    EventRow: ("event", ("kpart", "a", "offset", "b", "raw")),
    RestartRow: ("restart", ("kpart", "a", "offset")),
    FindingRow: ("finding", ("kpart", "offset", "text", "detail", "topic", "part", "a", "raw", "b", "c")),
    QuarantineRow: ("quarantine", ("kpart", "offset", "text", "a", "raw")),
    LevelRow: ("level", ("kpart", "offset", "a")),
    NoteRow: ("note", ("kpart", "offset", "text")),
}

ROWS_PER_BATCH = 20_000

R = TypeVar("R", bound=tuple[object, ...])


def batches_of(rows: Sequence[SummaryRow]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow batches, kind by kind."""
    by_kind: dict[type[tuple[object, ...]], list[SummaryRow]] = {}
    for row in rows:
        by_kind.setdefault(type(row), []).append(row)
    for row_type, same in by_kind.items():
        for start in range(0, len(same), ROWS_PER_BATCH):
            yield _batch(row_type, same[start : start + ROWS_PER_BATCH])


def _batch(row_type: type[tuple[object, ...]], rows: Sequence[SummaryRow]) -> pa.RecordBatch:
    kind, columns = _LAYOUT[row_type]
    values = dict(zip(columns, zip(*rows, strict=True), strict=True))
    size = len(rows)
    arrays = []
    for field in SUMMARY_SCHEMA:
        if field.name == "kind":
            arrays.append(pa.repeat(pa.scalar(kind), size))
        elif field.name in values:
            arrays.append(pa.array(values[field.name], field.type))
        else:
            arrays.append(pa.nulls(size, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SUMMARY_SCHEMA)


def batch_of_columns(row_type: type[tuple[object, ...]], kpart: int, values: Mapping[str, object], size: int) -> pa.RecordBatch:
    """Return rows of a kind as an Arrow batch, given a column for each of its fields but `kpart`."""
    kind, columns = _LAYOUT[row_type]
    named = dict(zip(columns, row_type._fields, strict=True))  # type: ignore[attr-defined]
    constant = {"kind": kind, "kpart": kpart}
    arrays = []
    for field in SUMMARY_SCHEMA:
        if field.name in constant:
            arrays.append(pa.repeat(pa.scalar(constant[field.name], field.type), size))
        elif field.name in named:
            arrays.append(pa.array(values[named[field.name]], field.type))
        else:
            arrays.append(pa.nulls(size, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SUMMARY_SCHEMA)


def rows_of(summary: pa.Table, row_type: type[R]) -> list[R]:
    """Return the rows of one kind."""
    kind, columns = _LAYOUT[row_type]
    same = summary.filter(pc.equal(summary.column("kind"), kind))
    if not same.num_rows:
        return []
    rows = map(row_type._make, zip(*(_values(same.column(name)) for name in columns), strict=True))  # type: ignore[attr-defined]
    return cast(list[R], list(rows))


def _values(column: pa.ChunkedArray) -> list[object]:
    if pa.types.is_integer(column.type) and not column.null_count:
        return cast(list[object], column.to_numpy().tolist())
    return cast(list[object], column.to_pylist())
