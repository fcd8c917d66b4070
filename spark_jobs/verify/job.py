"""Runs the passes of `verify` in Spark and puts their rows together again."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from records.committed_files.codec import PREFIX_BYTES, file_prefixes
from records.state_digest import Digest
from spark_jobs.batch_read import LogPlace, read_range
from spark_jobs.log_begin import Start, Starts, WholeLog
from spark_jobs.snapshots.shipping import ship
from spark_jobs.verify.passes import DELETIONS_DDL, STATE_DDL, find_deletions, rebuild_states, state_at_start
from spark_jobs.verify.tally import Group, Row, RowKind, Sum, Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS_MAX = 10


def _without_plain_commits() -> str:
    """The value of an entry as a column: empty where it begins like a file alone."""
    prefixes = ", ".join(f"X'{prefix.hex()}'" for prefix in file_prefixes())
    return f"CASE WHEN substring(value, 1, {PREFIX_BYTES}) IN ({prefixes}) THEN X'' ELSE value END AS value"


@dataclass(slots=True)
class Rebuilt:
    """The state of a metadata partition from the log alone; `fault` says why there is none.

    A log whose beginning is deleted was read from `begin` on, where a snapshot ends.
    `began` is the offset at which a transaction begins that is open at the end; the state is the one before it.
    """

    tally: Tally = field(default_factory=Tally)
    fault: str = ""
    entries: int = 0
    begin: int = 0
    batches: int = 0
    began: int | None = None
    contradictions: dict[int, str] = field(default_factory=dict)
    """Entries that are void because they contradict the log, and what is wrong with them."""

    @property
    def digest(self) -> Digest:
        """The state digest as the service counts it."""
        return self.tally.digest()


@dataclass(slots=True)
class Rebuilder:
    """Rebuilds states as of given ends of the log, from its first entry on or from a snapshot; what was deleted below an end is found once.

    Whether a deletion contradicts the log is known after the second pass, and then both are made again. An entry is judged by
    those before it alone, so each round settles one more of them at least.
    """

    session: SparkSession
    place: LogPlace
    starts: Starts = field(default_factory=WholeLog)
    _begins: dict[tuple[int, int], Start] = field(default_factory=dict)
    _shipped: set[Path] = field(default_factory=set)
    _deletions: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _faults: dict[tuple[int, int], str] = field(default_factory=dict)
    _void: dict[int, Set[int]] = field(default_factory=dict)

    def begin(self, kpart: int, log_start: int, end: int) -> Start:
        """Choose where to begin in a log that begins at `log_start`, for states before `end`. Raises `LogPrunedError`."""
        if (kpart, end) not in self._begins:
            start = self._begins[kpart, end] = self.starts.begin(kpart, log_start, end)
            if start.snapshot is not None and start.snapshot not in self._shipped:
                self._shipped.add(start.snapshot)
                self.ship(start.snapshot)
        return self._begins[kpart, end]

    def begin_of(self, kpart: int, end: int) -> Start:
        """Where states before `end` begin: the log's first entry, if nothing else was chosen."""
        return self._begins.get((kpart, end), Start())

    def ship(self, snapshot: Path) -> None:
        """Make a snapshot reachable for Spark's tasks."""
        ship(self.session, snapshot)

    def rebuild(self, ends: Mapping[int, int], wanted: Mapping[int, Set[Group]] | None = None) -> dict[int, Rebuilt]:
        """The states after the entries below `ends`, with the rows of the wanted groups."""
        for _ in range(ROUNDS_MAX):
            rebuilt = self._rebuild(ends, wanted)
            found = {kpart: frozenset(one.contradictions) for kpart, one in rebuilt.items()}
            unsettled = [kpart for kpart, void in found.items() if void and void != self._void.get(kpart)]
            if not unsettled:
                return rebuilt
            for kpart in unsettled:
                self._void[kpart] = found[kpart]
                self._deletions.pop((kpart, ends[kpart]), None)
        for kpart in unsettled:
            rebuilt[kpart].fault = f"which of its entries contradict others was not settled within {ROUNDS_MAX} rounds"
        return rebuilt

    def deletions(self, ends: Mapping[int, int]) -> tuple[dict[int, bytes], dict[int, str]]:
        """Return the deletions below `ends` that do not contradict the log, and why partitions cannot be rebuilt."""
        rebuilt = self.rebuild(ends)
        found = {kpart: self._deletions[kpart, end] for kpart, end in ends.items() if (kpart, end) in self._deletions}
        return found, {kpart: one.fault for kpart, one in rebuilt.items() if one.fault}

    def _rebuild(self, ends: Mapping[int, int], wanted: Mapping[int, Set[Group]] | None = None) -> dict[int, Rebuilt]:
        self._find_deletions(ends)
        begins = self._begins_of(ends)
        rebuilt = {kpart: Rebuilt(entries=end, begin=begins[kpart].offset) for kpart, end in ends.items()}
        for kpart, end in ends.items():
            rebuilt[kpart].fault = self._faults.get((kpart, end), "")
            if end == 0:
                rebuilt[kpart].tally.add_header(epoch=0, term=0, seq=0, log_time_ms=0)
        readable = {kpart: end for kpart, end in ends.items() if end > 0 and not rebuilt[kpart].fault}
        in_log = {kpart: end for kpart, end in readable.items() if end > begins[kpart].offset}
        rows: list[dict[str, object]] = []
        for kpart in readable.keys() - in_log.keys():
            rows += state_at_start(self.with_snapshots(ends), wanted or {}, kpart)
        if in_log:
            rows += self.states_of(in_log, {kpart: self._deletions[kpart, end] for kpart, end in in_log.items()}, wanted or {})
        for row in rows:
            _take(rebuilt[int(str(row["kpart"]))], row)
        return rebuilt

    def _begins_of(self, ends: Mapping[int, int]) -> dict[int, Start]:
        return {kpart: self.begin_of(kpart, end) for kpart, end in ends.items()}

    def _find_deletions(self, ends: Mapping[int, int]) -> None:
        begins = self._begins_of(ends)
        unknown = {kpart: end for kpart, end in ends.items() if end > begins[kpart].offset and (kpart, end) not in self._deletions}
        if not unknown:
            return
        for row in self.deletions_of(unknown):
            kpart = int(str(row["kpart"]))
            place = (kpart, unknown[kpart])
            self._deletions[place] = _bytes(row["deletions"])
            if row["fault"]:
                self._faults[place] = str(row["fault"])
            elif row["entries"] != place[1]:
                self._faults[place] = f"the log ends at {row['entries']}, entry {place[1] - 1} is not in it"
        for kpart, end in unknown.items():
            if (kpart, end) not in self._deletions:
                self._deletions[kpart, end] = b""
                self._faults[kpart, end] = f"the log has no entries from {begins[kpart].offset} on, entry {end - 1} is not in it"

    def deletions_of(self, ends: Mapping[int, int]) -> list[dict[str, object]]:
        """Run the first pass: rows of `DELETIONS_SCHEMA`."""
        entries = self.read(ends).selectExpr("partition", "offset", "key", _without_plain_commits())
        rows: list[dict[str, object]] = (
            entries.mapInArrow(find_deletions(self._void, self.with_snapshots(ends)), DELETIONS_DDL).toArrow().to_pylist()
        )
        return rows

    def states_of(
        self, ends: Mapping[int, int], deletions: Mapping[int, bytes], wanted: Mapping[int, Set[Group]]
    ) -> list[dict[str, object]]:
        """Run the second pass: rows of `STATE_SCHEMA`."""
        states = rebuild_states(deletions, wanted, self.with_snapshots(ends))
        found: list[dict[str, object]] = self.read(ends).mapInArrow(states, STATE_DDL).toArrow().to_pylist()
        return found

    def with_snapshots(self, ends: Mapping[int, int]) -> dict[int, Start]:
        """Where partitions begin that begin with a snapshot, for these ends."""
        return {kpart: one for kpart, one in self._begins_of(ends).items() if one.snapshot is not None}

    def read(self, ends: Mapping[int, int]) -> DataFrame:
        """The entries from where states begin to these ends."""
        starts = {kpart: one.offset for kpart, one in self._begins_of(ends).items()}
        return read_range(self.session, self.place, starts, ends).select("partition", "offset", "key", "value")


def _take(rebuilt: Rebuilt, row: Mapping[str, object]) -> None:
    """Put a row of `STATE_SCHEMA` back in its place."""
    import json

    match row["what"]:
        case "sum":
            group: Group = (RowKind(str(row["kind"])), _bytes(row["grp"]))
            rebuilt.tally.groups[group] = Sum(Digest.from_bytes(_bytes(row["digest"])), int(str(row["count"])))
        case "row":
            fields: Row = json.loads(str(row["text"]))
            rebuilt.tally.rows.append((RowKind(str(row["kind"])), _bytes(row["grp"]), fields))
        case "batches":
            rebuilt.batches = int(str(row["count"]))
        case "void":
            rebuilt.contradictions[int(str(row["count"]))] = str(row["text"])
        case "open":
            rebuilt.began = int(str(row["count"]))
        case "fault":
            rebuilt.fault = str(row["text"])
        case other:
            raise AssertionError(f"a task returned a row of kind {other}")


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes), value
    return value
