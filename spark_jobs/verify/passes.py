"""The work of `verify` in Spark's tasks: one ordered walk over each metadata partition, for use with `mapInArrow`.

Pure functions of Arrow batches. A task must see one Kafka partition whole and in order; the walk checks that. Whatever
the entries hold, nothing is raised: a log that cannot be rebuilt is a row that says why.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Protocol

import pyarrow as pa

from spark_jobs.log_begin import Start
from spark_jobs.snapshots.content import read_start
from spark_jobs.verify.deletions import Deletions, DeletionScan
from spark_jobs.verify.effective import EffectiveLog
from spark_jobs.verify.from_snapshot import deletions_from, rebuild_from
from spark_jobs.verify.judged import LogFault
from spark_jobs.verify.rebuild import Rebuild
from spark_jobs.verify.tally import Group, Tally

Batches = Iterator[pa.RecordBatch]

INPUT_COLUMNS = ("partition", "offset", "key", "value")

DELETIONS_DDL = "kpart int, entries long, fault string, deletions binary"
DELETIONS_SCHEMA = pa.schema([("kpart", pa.int32()), ("entries", pa.int64()), ("fault", pa.string()), ("deletions", pa.binary())])

STATE_DDL = "kpart int, what string, kind string, grp binary, digest binary, count long, text string"
STATE_SCHEMA = pa.schema(
    [
        ("kpart", pa.int32()),
        ("what", pa.string()),
        ("kind", pa.string()),
        ("grp", pa.binary()),
        ("digest", pa.binary()),
        ("count", pa.int64()),
        ("text", pa.string()),
    ]
)
"""`what`: sum (of a group), row (of a wanted group, JSON in `text`), fault (`text` says why), batches (read in all), open (the
offset in `count` began a transaction that has no end), void (the entry at the offset in `count` contradicts the log, as `text` says)."""

ROWS_PER_BATCH = 10_000


class Reader(Protocol):
    """A consumer of the entries of one metadata partition, in order."""

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next entry. Raises `LogFault`."""


def find_deletions(known_void: Mapping[int, Set[int]], starts: Mapping[int, Start]) -> Callable[[Batches], Batches]:
    """First pass: one row for each metadata partition. `known_void` are entries that the second pass found to contradict the log.

    `starts` are where partitions begin that begin with a snapshot.
    """

    def run(batches: Batches) -> Batches:
        readers: dict[int, DeletionScan] = {}
        faults: dict[int, str] = {}

        def reader_of(kpart: int) -> DeletionScan:
            if kpart not in readers:
                known, start = known_void.get(kpart, frozenset()), starts.get(kpart)
                readers[kpart] = DeletionScan(EffectiveLog(known)) if start is None else deletions_from(read_start(start), known)
            return readers[kpart]

        walk(batches, reader_of, faults)
        for kpart, reader in readers.items():
            row: dict[str, object] = {
                "kpart": kpart,
                "entries": reader.log.judge.next_offset,
                "fault": faults.get(kpart),
                "deletions": pickle.dumps(reader.deletions),
            }
            yield from to_batches([row], DELETIONS_SCHEMA)

    return run


def rebuild_states(
    deletions: Mapping[int, bytes], wanted: Mapping[int, Set[Group]], starts: Mapping[int, Start]
) -> Callable[[Batches], Batches]:
    """Second pass: the sums of every group, and the rows of the wanted ones."""

    def run(batches: Batches) -> Batches:
        readers: dict[int, Rebuild] = {}
        faults: dict[int, str] = {}

        def reader_of(kpart: int) -> Rebuild:
            if kpart not in readers:
                readers[kpart] = begin_rebuild(deletions, starts, kpart, Tally(wanted.get(kpart, frozenset())))
            return readers[kpart]

        walk(batches, reader_of, faults)
        for kpart, reader in readers.items():
            rows = _fault_rows(kpart, faults.pop(kpart, None)) or _state_rows(kpart, reader)
            yield from to_batches(rows, STATE_SCHEMA)

    return run


def state_at_start(starts: Mapping[int, Start], wanted: Mapping[int, Set[Group]], kpart: int) -> list[dict[str, object]]:
    """The rows of the second pass where no entry is read: those of the snapshot."""
    return list(_state_rows(kpart, begin_rebuild({}, starts, kpart, Tally(wanted.get(kpart, frozenset())))))


def begin_rebuild(deletions: Mapping[int, bytes], starts: Mapping[int, Start], kpart: int, tally: Tally) -> Rebuild:
    """The state of a metadata partition before the first entry that is read; `deletions` are those of the first pass."""
    found: Deletions = pickle.loads(deletions[kpart]) if kpart in deletions else Deletions()  # our own bytes
    start = starts.get(kpart)
    return Rebuild(found, tally) if start is None else rebuild_from(read_start(start), found, tally)


def walk(batches: Batches, reader_of: Callable[[int], Reader], faults: dict[int, str]) -> None:
    """Give every entry to the reader of its metadata partition; one that reports a fault gets no more, and `faults` says why."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in INPUT_COLUMNS]
        for kpart, offset, key, value in zip(*columns, strict=True):
            reader = reader_of(kpart)
            if kpart in faults:
                continue
            try:
                reader.read(offset, key, value)
            except LogFault as fault:
                faults[kpart] = str(fault)


def _fault_rows(kpart: int, fault: str | None) -> list[dict[str, object]]:
    return [] if fault is None else [_row(kpart, "fault", text=fault)]


def _state_rows(kpart: int, reader: Rebuild) -> Iterator[dict[str, object]]:
    try:
        tally = reader.finish()
    except LogFault as fault:
        yield from _fault_rows(kpart, str(fault))
        return
    yield _row(kpart, "batches", count=reader.batches)
    if reader.log.opened is not None:
        yield _row(kpart, "open", count=reader.log.opened.offset)
    for offset, text in sorted(reader.log.contradictions.items()):
        yield _row(kpart, "void", count=offset, text=text)
    for (kind, group), one in tally.groups.items():
        yield _row(kpart, "sum", kind=kind, grp=group, digest=one.digest.to_bytes(), count=one.rows)
    for kind, group, row in tally.rows:
        yield _row(kpart, "row", kind=kind, grp=group, text=json.dumps(row))


def _row(kpart: int, what: str, **columns: object) -> dict[str, object]:
    return {**dict.fromkeys(STATE_SCHEMA.names), "kpart": kpart, "what": what, **columns}


def to_batches(rows: Iterable[dict[str, object]], schema: pa.Schema) -> Batches:
    """Rows as Arrow batches of bounded length."""
    waiting: list[dict[str, object]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema)
