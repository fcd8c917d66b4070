"""The checker's rules about real time: what was told to somebody before a request began is seen by its answer.

Each is a function of the evidence that yields a sentence for every contradiction.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from integration_tests.evidence import Evidence, Placed, all_placed
from integration_tests.history import Deletion, Origin, StartRead, UserPartition

OFFSET_OUT_OF_RANGE = 1
RESOURCE_NOT_FOUND = 91


def reads_are_linearizable(evidence: Evidence) -> Iterator[str]:
    """A strict read sees all that was acknowledged before it began, nothing sent after it ended, and no less than earlier reads."""
    floors = _floors(evidence)
    boundaries = {where: {0, *(found.last_offset + 1 for found in batches)} for where, batches in evidence.batches.items()}
    sent_by = {where: Sent(placed, evidence.first_invoked_s) for where, placed in evidence.placed.items()}
    for read in evidence.history.reads:
        who = f"read of {read.where} at node {read.node_id}, {read.invoked_s:.3f}..{read.answered_s:.3f}, saw {read.offset}"
        floor = floors[read.where].before(read.invoked_s)
        if read.offset < floor:
            yield f"{who}, but {floor} had been told to somebody before it began"
        if read.offset not in boundaries[read.where]:
            yield f"{who}, where no batch ends"
        if sent_by[read.where].latest_s(read.offset) > read.answered_s:
            yield f"{who}, with batches that were sent only later"


def commits_follow_real_time(evidence: Evidence) -> Iterator[str]:
    """A batch sent first after something was told lies behind it."""
    floors = _floors(evidence)
    for placed in all_placed(evidence):
        invoked_s = evidence.first_invoked_s.get(placed.origin)
        floor = 0 if invoked_s is None else floors[placed.where].before(invoked_s)
        if placed.found.base_offset < floor:
            at = f"{placed.found.base_offset} of {placed.where}"
            yield f"{placed.origin} was sent at {invoked_s:.3f}, when {floor} was known, but is at {at}"


class Floor:
    """What a partition's watermark must have reached by a moment: the greatest offset told to anybody before."""

    def __init__(self, told: Iterable[tuple[float, int]]) -> None:
        self._times_s: list[float] = []
        self._offsets: list[int] = [0]
        for time_s, offset in sorted(told):
            self._times_s.append(time_s)
            self._offsets.append(max(self._offsets[-1], offset))

    def before(self, time_s: float) -> int:
        """The greatest offset told at or before this moment."""
        return self._offsets[bisect_right(self._times_s, time_s)]


class Sent:
    """When the batches of a partition were sent first."""

    def __init__(self, placed: Iterable[Placed], first_invoked_s: Mapping[Origin, float]) -> None:
        self._ends: list[int] = []
        self._latest_s: list[float] = [0.0]
        for one in placed:
            self._ends.append(one.found.last_offset + 1)
            self._latest_s.append(max(self._latest_s[-1], first_invoked_s.get(one.origin, 0.0)))

    def latest_s(self, offset: int) -> float:
        """When the last one of the batches that end at or before an offset was sent."""
        return self._latest_s[bisect_right(self._ends, offset)]


def _floors(evidence: Evidence) -> dict[UserPartition, Floor]:
    told: dict[UserPartition, list[tuple[float, int]]] = {where: [] for where in evidence.final.partitions}
    for origin, acks in evidence.acknowledged.items():
        sent = evidence.history.batch(origin)
        for ack in acks:
            if ack.answer.error_code == 0:
                told[sent.where].append((ack.attempt.answered_s, ack.answer.base_offset + sent.record_count))
    for read in evidence.history.reads:
        told[read.where].append((read.answered_s, read.offset))
    for find in evidence.history.finds:
        told[find.where].append((find.answered_s, find.high_watermark))
    return {where: Floor(pairs) for where, pairs in told.items()}


def finds_are_true(evidence: Evidence) -> Iterator[str]:
    """What FindBatches tells, though perhaps late, is there in the end, without a hole from the offset asked for, and was sent before."""
    index = {where: {found.base_offset: found for found in batches} for where, batches in evidence.batches.items()}
    sent_by = {where: Sent(placed, evidence.first_invoked_s) for where, placed in evidence.placed.items()}
    for find in evidence.history.finds:
        who = f"find in {find.where} at node {find.node_id} from {find.asked}, {find.invoked_s:.3f}..{find.answered_s:.3f}"
        if find.error_code == OFFSET_OUT_OF_RANGE:
            if find.log_start_offset <= find.asked:
                yield f"{who} was out of range of {find.log_start_offset}..{find.high_watermark}, though that offset had been told"
            continue
        if find.error_code != 0:
            yield f"{who} was answered {find.error_code}"
            continue
        due: int | None = None
        for found in find.batches:
            is_due = found.base_offset <= find.asked <= found.last_offset if due is None else found.base_offset == due
            if not is_due or index[find.where].get(found.base_offset) != found:
                yield f"{who} told {found}, which is not there or does not follow"
            due = found.last_offset + 1
        if due is not None and due > find.high_watermark:
            yield f"{who} told batches up to {due}, behind the watermark {find.high_watermark}"
        if sent_by[find.where].latest_s(max(find.high_watermark, due or 0)) > find.answered_s:
            yield f"{who} told {find.high_watermark} and batches that were sent only later"


def log_starts_are_linearizable(evidence: Evidence) -> Iterator[str]:
    """Log starts are what somebody asked for, never go back, and a strict read sees every deletion acknowledged before it began."""
    asked: dict[UserPartition, list[tuple[float, int]]] = defaultdict(list)
    told: dict[UserPartition, list[tuple[float, int]]] = {where: [] for where in evidence.final.partitions}
    for deletion in evidence.history.deletions:
        asked[deletion.where].append((deletion.invoked_s, deletion.offset))
        if deletion.error_code == 0:
            told[deletion.where].append((deletion.answered_s, deletion.low_watermark))
    for find in evidence.history.finds:
        told[find.where].append((find.answered_s, find.log_start_offset))
    for read in evidence.history.start_reads:
        told[read.where].append((read.answered_s, read.offset))
    floors = {where: Floor(pairs) for where, pairs in told.items()}
    ceilings = {where: Floor(pairs) for where, pairs in asked.items()}
    allowed = {where: {0, *(offset for _, offset in pairs)} for where, pairs in asked.items()}
    strict: list[tuple[StartRead | Deletion, int, int]] = [(read, read.offset, 0) for read in evidence.history.start_reads]
    strict += [(one, one.low_watermark, one.offset) for one in evidence.history.deletions if one.error_code == 0]
    for one, start, least in strict:
        who = f"{type(one).__name__} of {one.where} at node {one.node_id}, {one.invoked_s:.3f}..{one.answered_s:.3f}, saw log start {start}"
        floor = max(least, floors[one.where].before(one.invoked_s))
        ceiling = ceilings[one.where].before(one.answered_s) if one.where in ceilings else 0
        if not floor <= start <= ceiling or start not in allowed.get(one.where, {0}):
            yield f"{who}; it had to be from {floor} to {ceiling}, and an offset that was asked for"
    for where, partition in evidence.final.partitions.items():
        start = partition.log_start_offset
        logged = evidence.logs[partition.coordinator_id].log_starts.get(where, 0)
        if start != logged or start < floors[where].before(inf) or start not in allowed.get(where, {0}):
            least = floors[where].before(inf)
            yield f"{where}: the log starts at {start} in the end, the entries say {logged}, the clients were told {least}"


def descriptions_are_linearizable(evidence: Evidence) -> Iterator[str]:
    """DescribeFiles knows every file that was acknowledged before, and whether some batch of it is neither deleted nor about to be."""
    asked: dict[UserPartition, list[tuple[float, int]]] = defaultdict(list)
    told: dict[UserPartition, list[tuple[float, int]]] = defaultdict(list)
    for deletion in evidence.history.deletions:
        asked[deletion.where].append((deletion.invoked_s, deletion.offset))
        if deletion.error_code == 0:
            told[deletion.where].append((deletion.answered_s, deletion.low_watermark))
    ceilings, floors = ({where: Floor(pairs) for where, pairs in known.items()} for known in (asked, told))
    acknowledged_s = {origin: min(ack.attempt.answered_s for ack in acks) for origin, acks in evidence.acknowledged.items()}
    placed_of: dict[str, list[Placed]] = defaultdict(list)
    for placed in all_placed(evidence):
        placed_of[placed.origin.object_key].append(placed)

    def start(starts: Mapping[UserPartition, Floor], where: UserPartition, time_s: float) -> int:
        return starts[where].before(time_s) if where in starts else 0

    for one in evidence.history.descriptions:
        said = f"{one.error_code}, live: {one.has_live_batches}"
        who = f"{one.object_key} was described at {one.invoked_s:.3f}..{one.answered_s:.3f} with {said}"
        file = evidence.history.files[one.object_key]
        origins = [Origin(one.object_key, place) for place in range(len(file.batches))]
        known = [origin for origin in origins if acknowledged_s.get(origin, inf) <= one.invoked_s]
        if one.error_code == RESOURCE_NOT_FOUND:
            if known:
                yield f"{who}, though {known[0]} had been acknowledged"
        elif one.error_code != 0:
            yield who
        elif one.has_live_batches:
            is_gone = all(p.found.last_offset < start(floors, p.where, one.invoked_s) for p in placed_of[one.object_key])
            if is_gone and len(known) == len(origins):
                yield f"{who}, though all of it had been deleted"
        else:
            for p in placed_of[one.object_key]:
                if p.origin in known and p.found.last_offset >= start(ceilings, p.where, one.answered_s):
                    yield f"{who}, though {p.origin} is live at {p.found.base_offset} of {p.where}"
