"""Runs the passes of `verify` in Spark and puts their rows together again."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from records.fast import PLAIN_COMMIT_PREFIXES
from records.state_digest import Digest
from spark_jobs.batch_read import LogPlace, read_range
from spark_jobs.verify.passes import DELETIONS_DDL, STATE_DDL, find_deletions, rebuild_states
from spark_jobs.verify.tally import Group, Row, RowKind, Sum, Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS_MAX = 10

_PREFIXES = ", ".join(f"X'{prefix.hex()}'" for prefix in PLAIN_COMMIT_PREFIXES)
_WITHOUT_PLAIN_COMMITS = f"CASE WHEN substring(value, 1, {len(PLAIN_COMMIT_PREFIXES[0])}) IN ({_PREFIXES}) THEN X'' ELSE value END AS value"


@dataclass(slots=True)
class Rebuilt:
    """The state of a metadata partition from the log alone; `fault` says why there is none.

    `began` is the offset at which a transaction begins that is open at the end; the state is the one before it.
    """

    tally: Tally = field(default_factory=Tally)
    fault: str = ""
    entries: int = 0
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
    """Rebuilds states as of given ends of the log; what was deleted below an end is found once.

    Whether a deletion contradicts the log is known after the second pass, and then both are made again. An entry is judged by
    those before it alone, so each round settles one more of them at least.
    """

    session: SparkSession
    place: LogPlace
    _deletions: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _faults: dict[tuple[int, int], str] = field(default_factory=dict)
    _void: dict[int, Set[int]] = field(default_factory=dict)

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
        found = {kpart: self._deletions[kpart, end] for kpart, end in ends.items() if end > 0}
        return found, {kpart: one.fault for kpart, one in rebuilt.items() if one.fault}

    def _rebuild(self, ends: Mapping[int, int], wanted: Mapping[int, Set[Group]] | None = None) -> dict[int, Rebuilt]:
        self._find_deletions(ends)
        rebuilt = {kpart: Rebuilt(entries=end) for kpart, end in ends.items()}
        for kpart, end in ends.items():
            rebuilt[kpart].fault = self._faults.get((kpart, end), "")
        readable = {kpart: end for kpart, end in ends.items() if end > 0 and not rebuilt[kpart].fault}
        for kpart, end in ends.items():
            if end == 0:
                rebuilt[kpart].tally.add_header(epoch=0, term=0, seq=0, log_time_ms=0)
        if readable:
            deletions = {kpart: self._deletions[kpart, end] for kpart, end in readable.items()}
            for row in self.states_of(readable, deletions, wanted or {}):
                _take(rebuilt[int(str(row["kpart"]))], row)
        return rebuilt

    def _find_deletions(self, ends: Mapping[int, int]) -> None:
        unknown = {kpart: end for kpart, end in ends.items() if end > 0 and (kpart, end) not in self._deletions}
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
                self._deletions[kpart, end], self._faults[kpart, end] = b"", f"the log is empty, entry {end - 1} is not in it"

    def deletions_of(self, ends: Mapping[int, int]) -> list[dict[str, object]]:
        """Run the first pass: rows of `DELETIONS_SCHEMA`."""
        entries = self._read(ends).selectExpr("partition", "offset", "key", _WITHOUT_PLAIN_COMMITS)
        rows: list[dict[str, object]] = entries.mapInArrow(find_deletions(self._void), DELETIONS_DDL).toArrow().to_pylist()
        return rows

    def states_of(
        self, ends: Mapping[int, int], deletions: Mapping[int, bytes], wanted: Mapping[int, Set[Group]]
    ) -> list[dict[str, object]]:
        """Run the second pass: rows of `STATE_SCHEMA`."""
        found: list[dict[str, object]] = self._read(ends).mapInArrow(rebuild_states(deletions, wanted), STATE_DDL).toArrow().to_pylist()
        return found

    def _read(self, ends: Mapping[int, int]) -> DataFrame:
        return read_range(self.session, self.place, {}, ends).select("partition", "offset", "key", "value")


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
