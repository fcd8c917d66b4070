"""Compares rebuilt states with those of replicas at the same offsets: "log and service agree", or which rows differ.

A replica tells a digest and an offset; where its rows are at hand, too, everything is compared that the log determines:
besides what the digest covers also largest timestamps, and what a replica keeps beside its files: counters, proofs, kept answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from records.state_digest import Digest
from spark_jobs.log_begin import LogPrunedError
from spark_jobs.verify.job import Rebuilder, Rebuilt
from spark_jobs.verify.tally import IDENTITY, Group, Row, RowKind, Tally, differing

GROUPS_LOOKED_INTO_MAX = 10
DIFFERENCES_TOLD_MAX = 20


class ComparedReplica(Protocol):
    """A replica of a metadata partition; `offset` is the last entry it applied, `complaint` what it says against itself."""

    @property
    def name(self) -> str: ...
    @property
    def kpart(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def digest(self) -> Digest: ...
    @property
    def complaint(self) -> str: ...
    def tally(self, wanted: Set[Group]) -> Tally | None:
        """Return the sums of the rows, with the rows of the wanted groups; None when only the digest is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A row that only one side has, or that says different things; `log` and `replica` hold what differs."""

    kind: RowKind
    identity: Row
    log: Row | None
    replica: Row | None

    def text(self) -> str:
        """The difference in one line."""
        named = " ".join([self.kind.value, *(f"{name}={value}" for name, value in self.identity.items())])
        if self.log is None or self.replica is None:
            return f"{named} is in the {'log' if self.replica is None else 'replica'} only"
        return f"{named}: " + ", ".join(f"{name} is {self.log[name]} in the log, {self.replica[name]} in the replica" for name in self.log)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaComparison:
    """The result for one replica. `agree` None: it could not be found out, and `difference` says why."""

    replica: str
    kpart: int
    offset: int
    digest: str
    agree: bool | None
    begin: int = 0
    """The first entry that was read: those before are in a snapshot that it begins with."""
    is_pruned: bool = False
    """Whether it could not be found out because the log's beginning is deleted."""
    difference: str = ""
    differences: Sequence[RowDifference] = ()
    batches: int = 0
    contradictions: Mapping[int, str] = field(default_factory=dict)
    """Entries up to the offset that are void because they contradict the log, and what is wrong with each; no disagreement."""

    def as_json(self) -> dict[str, object]:
        """Return the comparison as JSON values, as they are stored and printed."""
        return {
            "kpart": self.kpart,
            "begin": self.begin,
            "offset": self.offset,
            "digest": self.digest,
            "agree": self.agree,
            "difference": self.difference,
            "replica": self.replica,
            "rows": [{"kind": one.kind.value, "id": one.identity, "log": one.log, "replica": one.replica} for one in self.differences],
        }


def compare(rebuilder: Rebuilder, replicas: Sequence[ComparedReplica], log_starts: Mapping[int, int]) -> list[ReplicaComparison]:
    """Compare each replica with the log up to its offset; `log_starts` says where the log of each metadata partition begins."""
    results: list[ReplicaComparison] = []
    waiting: list[ComparedReplica] = []
    for replica in replicas:
        log_start = log_starts.get(replica.kpart)
        if log_start is None:
            results.append(_unknown(replica, "the metadata topic has no such partition"))
        elif replica.offset < 0:
            results.append(_unknown(replica, "it has written no state yet"))
        else:
            try:
                rebuilder.begin(replica.kpart, log_start, replica.offset + 1)
            except LogPrunedError as pruned:
                results.append(replace(_unknown(replica, f"it cannot be rebuilt: {pruned}"), is_pruned=True))
            else:
                waiting.append(replica)
    while waiting:
        # One state per metadata partition and run: replicas at another offset take the next run.
        ends: dict[int, int] = {}
        for replica in waiting:
            ends.setdefault(replica.kpart, replica.offset + 1)
        now = [replica for replica in waiting if ends[replica.kpart] == replica.offset + 1]
        waiting = [replica for replica in waiting if ends[replica.kpart] != replica.offset + 1]
        results += _compare_at(rebuilder, now, ends)
    return sorted(results, key=lambda one: (one.kpart, one.replica))


def contradictions_of(results: Iterable[ReplicaComparison]) -> list[dict[str, object]]:
    """The entries that contradict the log, below the offsets at which replicas were compared, as they are printed."""
    found = {(one.kpart, offset): why for one in results for offset, why in one.contradictions.items()}
    return [{"kpart": kpart, "offset": offset, "why": why} for (kpart, offset), why in sorted(found.items())]


def _unknown(replica: ComparedReplica, why: str) -> ReplicaComparison:
    return ReplicaComparison(replica=replica.name, kpart=replica.kpart, offset=replica.offset, digest="", agree=None, difference=why)


def _compare_at(rebuilder: Rebuilder, replicas: Sequence[ComparedReplica], ends: Mapping[int, int]) -> list[ReplicaComparison]:
    rebuilt = rebuilder.rebuild(ends)
    suspects = {id(one): _differing_groups(one, rebuilt[one.kpart]) for one in replicas}
    wanted: dict[int, set[Group]] = {}
    for one in replicas:
        wanted.setdefault(one.kpart, set()).update(suspects[id(one)])
    again = {kpart: ends[kpart] for kpart, groups in wanted.items() if groups}
    rows = rebuilder.rebuild(again, wanted) if again else {}
    return [_result(one, rebuilt[one.kpart], suspects[id(one)], rows.get(one.kpart)) for one in replicas]


def _differing_groups(replica: ComparedReplica, rebuilt: Rebuilt) -> list[Group]:
    tally = None if rebuilt.fault else replica.tally(frozenset())
    return [] if tally is None else list(islice(differing(rebuilt.tally.groups, tally.groups), GROUPS_LOOKED_INTO_MAX))


def _result(replica: ComparedReplica, rebuilt: Rebuilt, groups: Sequence[Group], rows: Rebuilt | None) -> ReplicaComparison:
    told: list[str] = []
    differences: list[RowDifference] = []
    if rebuilt.fault:
        told.append(f"the log cannot be what this replica applied: {rebuilt.fault}")
    elif groups:
        assert rows is not None
        theirs = replica.tally(frozenset(groups))
        assert theirs is not None
        differences = find_differences(rows.tally.rows, theirs.rows)
        told += [one.text() for one in differences[:DIFFERENCES_TOLD_MAX]]
    elif rebuilt.digest != replica.digest:
        told.append(
            f"the replica's digest is {replica.digest.to_bytes().hex()}; compare its state database (--state) to learn which rows differ"
        )
    if rebuilt.began is not None:
        told.append(f"it is inside the transaction that begins at entry {rebuilt.began}, where no replica's state may end")
    if replica.complaint:
        told.append(replica.complaint)
    return ReplicaComparison(
        replica=replica.name,
        kpart=replica.kpart,
        offset=replica.offset,
        digest=rebuilt.digest.to_bytes().hex(),
        agree=not told,
        begin=rebuilt.begin,
        difference="; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else ""),
        differences=differences[:DIFFERENCES_TOLD_MAX],
        batches=rebuilt.batches,
        contradictions=rebuilt.contradictions,
    )


def find_differences(log: Iterable[tuple[RowKind, bytes, Row]], replica: Iterable[tuple[RowKind, bytes, Row]]) -> list[RowDifference]:
    """The rows that differ, in the order of kinds."""
    ours, theirs = _by_identity(log), _by_identity(replica)
    found: list[RowDifference] = []
    for name in ours.keys() | theirs.keys():
        kind, identity = name[0], json.loads(name[1])
        for left, right in _pairs(ours.get(name, []), theirs.get(name, [])):
            if left is None or right is None:
                found.append(RowDifference(kind=kind, identity=identity, log=left, replica=right))
            else:
                # A field that only one side has differs, too.
                changed = [field for field in left | right if (field in left, left.get(field)) != (field in right, right.get(field))]
                found.append(
                    RowDifference(
                        kind=kind,
                        identity=identity,
                        log={field: left.get(field) for field in changed},
                        replica={field: right.get(field) for field in changed},
                    )
                )
    return sorted(found, key=lambda one: (list(RowKind).index(one.kind), json.dumps(one.identity)))


def _by_identity(rows: Iterable[tuple[RowKind, bytes, Row]]) -> dict[tuple[RowKind, str], list[Row]]:
    found: dict[tuple[RowKind, str], list[Row]] = {}
    for kind, _, row in rows:
        name = json.dumps({field: row[field] for field in IDENTITY[kind]})
        found.setdefault((kind, name), []).append({field: value for field, value in row.items() if field not in IDENTITY[kind]})
    return found


def _pairs(ours: list[Row], theirs: list[Row]) -> Iterable[tuple[Row | None, Row | None]]:
    """Rows of one name that are not on both sides alike; a damaged state may have several of a name."""
    left = [row for row in ours if row not in theirs]
    right = [row for row in theirs if row not in ours]
    longest = max(len(left), len(right))
    if not longest and len(ours) != len(theirs):
        yield (ours[0], None) if len(ours) > len(theirs) else (None, theirs[0])
    for place in range(longest):
        yield left[place] if place < len(left) else None, right[place] if place < len(right) else None
