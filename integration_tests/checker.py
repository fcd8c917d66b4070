"""Judges a recorded history: was every acknowledged commit kept exactly once, in order, at the offsets it was told?

    violations = check(history, final)

Independent of the product's core: it compares what clients were told, what the service says in the end and what the
Kafka topic holds (read by `metadata_log`), and reports every contradiction as a sentence. An empty list means that the
history could have been produced by a single, never failing coordinator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from integration_tests.history import (
    Acknowledgement,
    BatchAnswer,
    FinalState,
    FoundBatch,
    History,
    Origin,
    UserPartition,
)
from integration_tests.metadata_log import Commit, ReadLog, read_log

SEQUENCE_MODULUS = 2**31


class Placed(NamedTuple):
    """Where a batch of a file ended up."""

    where: UserPartition
    found: FoundBatch
    origin: Origin


@dataclass(frozen=True, slots=True)
class Evidence:
    """The history beside what is left, with the look-ups all rules need."""

    history: History
    final: FinalState
    logs: Mapping[int, ReadLog]
    placed: Mapping[UserPartition, list[Placed]]
    acknowledged: Mapping[Origin, list[Acknowledgement]]
    first_invoked_s: Mapping[Origin, float]


def check(history: History, final: FinalState) -> list[str]:
    """Return every contradiction found; none means the history is good."""
    problems: list[str] = []
    evidence = _gather(history, final, problems)
    for rule in RULES:
        problems += rule(evidence)
    return list(dict.fromkeys(problems))


def _gather(history: History, final: FinalState, problems: list[str]) -> Evidence:
    by_position = {
        (key, batch.byte_offset): Origin(key, place) for key, file in history.files.items() for place, batch in enumerate(file.batches)
    }
    placed: dict[UserPartition, list[Placed]] = {}
    for where, partition in final.partitions.items():
        placed[where] = []
        for found in partition.batches:
            origin = by_position.get((found.object_key, found.byte_offset))
            if origin is None:
                problems.append(f"{where}: batch at {found.base_offset} of file {found.object_key} was never sent")
            else:
                placed[where].append(Placed(where, found, origin))
    acknowledged: dict[Origin, list[Acknowledgement]] = defaultdict(list)
    for one in history.acknowledgements():
        acknowledged[one.origin].append(one)
    first_invoked_s: dict[Origin, float] = {}
    for attempt in history.attempts:
        for place in attempt.places:
            origin = Origin(attempt.object_key, place)
            first_invoked_s[origin] = min(first_invoked_s.get(origin, attempt.invoked_s), attempt.invoked_s)
    logs = {coordinator_id: read_log(messages) for coordinator_id, messages in final.logs.items()}
    return Evidence(history, final, logs, placed, dict(acknowledged), first_invoked_s)


# ---- answers


def answers_are_stable(evidence: Evidence) -> Iterator[str]:
    """Whoever asks again for the same key and content is told exactly the same."""
    for origin, acks in evidence.acknowledged.items():
        answers = {ack.answer for ack in acks}
        if len(answers) > 1:
            yield f"{origin} got different final answers: {sorted(answers)}"


def nothing_is_refused(evidence: Evidence) -> Iterator[str]:
    """The clients send nothing that may be refused; repeated sequences are duplicates of the first, others are not."""
    for origin, acks in evidence.acknowledged.items():
        sent, answer = evidence.history.batch(origin), acks[0].answer
        if answer.error_code != 0:
            yield f"{origin} in {sent.where} was refused with {answer.error_code}"
        elif answer.is_duplicate != (sent.repeats is not None):
            yield f"{origin}: is_duplicate is {answer.is_duplicate}, but the batch repeats {sent.repeats}"
        elif sent.repeats is not None:
            first = evidence.acknowledged[sent.repeats][0].answer
            if (answer.base_offset, answer.append_time_ms) != (first.base_offset, first.append_time_ms):
                yield f"{origin} repeats {sent.repeats}, which was told {first}, but was told {answer}"


# ---- what is left


def everything_acknowledged_is_there(evidence: Evidence) -> Iterator[str]:
    """Each acknowledged batch exactly once where it was told; nothing twice; a repeated batch nowhere."""
    found: dict[Origin, list[Placed]] = defaultdict(list)
    for placed in _all_placed(evidence):
        found[placed.origin].append(placed)
    for origin, places in found.items():
        sent = evidence.history.batch(origin)
        if len(places) > 1:
            yield f"{origin} is there {len(places)} times: {[(str(p.where), p.found.base_offset) for p in places]}"
        if sent.repeats is not None:
            yield f"{origin} repeats {sent.repeats} and yet has offsets of its own"
        at = places[0]
        count = at.found.last_offset - at.found.base_offset + 1
        if (at.where, at.found.size_bytes, count) != (sent.where, sent.size_bytes, sent.record_count):
            yield f"{origin} was sent as {sent} and is there as {at.found} in {at.where}"
    for origin, acks in evidence.acknowledged.items():
        answer, sent = acks[0].answer, evidence.history.batch(origin)
        if answer.error_code == 0 and sent.repeats is None:
            offsets = [placed.found.base_offset for placed in found.get(origin, [])]
            if offsets != [answer.base_offset]:
                yield f"{origin} was acknowledged at {answer.base_offset} of {sent.where}, but is there at {offsets}"


def offsets_are_dense(evidence: Evidence) -> Iterator[str]:
    """From the log start to the watermark without hole or overlap, the watermark being what ListOffsets says."""
    for where, partition in evidence.final.partitions.items():
        ends = [partition.log_start_offset, *(found.last_offset + 1 for found in partition.batches)]
        for found, expected in zip(partition.batches, ends, strict=False):
            if found.base_offset != expected:
                yield f"{where}: a batch starts at {found.base_offset} where {expected} is due"
        if not ends[-1] == partition.high_watermark == partition.latest_offset:
            yield f"{where}: batches end at {ends[-1]}, watermark {partition.high_watermark}, ListOffsets {partition.latest_offset}"


def producers_have_no_gaps(evidence: Evidence) -> Iterator[str]:
    """The sequences of a producer in a partition follow each other in offset order, from its first one on."""
    for where, placed in evidence.placed.items():
        last: dict[int, int] = {}
        for one in placed:
            sent = evidence.history.batch(one.origin)
            if sent.producer_id < 0:
                continue
            due = last.get(sent.producer_id, 0)
            if sent.base_sequence != due:
                yield f"{where}: producer {sent.producer_id} has sequence {sent.base_sequence} where {due} is due ({one.origin})"
            last[sent.producer_id] = (sent.base_sequence + sent.record_count) % SEQUENCE_MODULUS


# ---- the log


def log_and_service_agree(evidence: Evidence) -> Iterator[str]:
    """What FindBatches tells is what the entries that count say, for every partition."""
    said: dict[UserPartition, list[tuple[int, str, int]]] = defaultdict(list)
    for commit in _all_commits(evidence):
        for outcome in commit.outcomes:
            if outcome.is_accepted:
                said[UserPartition(*outcome.where)].append((outcome.base_offset, commit.object_key, outcome.byte_offset))
    for where, partition in evidence.final.partitions.items():
        served = [(found.base_offset, found.object_key, found.byte_offset) for found in partition.batches]
        if sorted(said[where]) != served:
            only_log = sorted(set(said[where]) - set(served))
            only_served = sorted(set(served) - set(said[where]))
            yield f"{where}: only in the log {only_log[:5]}, only served {only_served[:5]} (or not in order)"


def files_are_committed_once(evidence: Evidence) -> Iterator[str]:
    """One entry that counts per file and coordinator, whose outcomes are what the clients were told."""
    commits: dict[tuple[int, str], list[Commit]] = defaultdict(list)
    for coordinator_id, log in evidence.logs.items():
        for commit in log.commits:
            commits[coordinator_id, commit.object_key].append(commit)
    for (coordinator_id, key), found in commits.items():
        if len(found) > 1:
            yield f"file {key} was committed {len(found)} times in coordinator {coordinator_id}: at {[c.offset for c in found]}"
    for origin, acks in evidence.acknowledged.items():
        coordinator_id = evidence.history.batch(origin).coordinator_id
        entries = commits.get((coordinator_id, origin.object_key), [])
        if not entries:
            yield f"{origin} was acknowledged by node {acks[0].attempt.node_id}, but no entry that counts has it"
            continue
        yield from _acknowledged_as_logged(evidence, origin, acks, coordinator_id, entries[0])


def _acknowledged_as_logged(
    evidence: Evidence, origin: Origin, acks: Iterable[Acknowledgement], coordinator_id: int, commit: Commit
) -> Iterator[str]:
    share = [
        place for place, batch in enumerate(evidence.history.files[origin.object_key].batches) if batch.coordinator_id == coordinator_id
    ]
    if len(share) != len(commit.outcomes):
        yield f"file {origin.object_key}: coordinator {coordinator_id} has {len(share)} batches of it and logged {len(commit.outcomes)}"
        return
    outcome = commit.outcomes[share.index(origin.place)]
    later = {claim.node_id for claim in evidence.logs[coordinator_id].claims if claim.epoch >= commit.claim.epoch}
    for ack in acks:
        told: BatchAnswer = ack.answer
        if (told.error_code, told.base_offset) != (outcome.error_code, outcome.base_offset):
            yield f"{origin} was told {told}, the entry at {commit.offset} says {outcome}"
        if ack.attempt.node_id not in later:
            yield f"{origin} was acknowledged by node {ack.attempt.node_id}, which led neither the entry's term nor a later one"


def replicas_are_equal(evidence: Evidence) -> Iterator[str]:
    """Replicas that have applied every entry that changes something have the same digest."""
    by_coordinator: dict[int, set[bytes]] = defaultdict(set)
    for digest in evidence.final.digests:
        if digest.offset < evidence.logs[digest.coordinator_id].last_change:
            yield f"node {digest.node_id} has applied coordinator {digest.coordinator_id} only up to {digest.offset}"
        by_coordinator[digest.coordinator_id].add(digest.digest)
    for coordinator_id, digests in by_coordinator.items():
        if len(digests) > 1:
            told = [(d.node_id, d.offset, d.digest.hex()) for d in evidence.final.digests if d.coordinator_id == coordinator_id]
            yield f"the replicas of coordinator {coordinator_id} differ: {told}"


# ---- real time


def reads_are_linearizable(evidence: Evidence) -> Iterator[str]:
    """A strict read sees all that was acknowledged before it began, nothing sent after it ended, and no less than earlier reads."""
    floors = _floors(evidence)
    boundaries = {
        where: {partition.log_start_offset, *(found.last_offset + 1 for found in partition.batches)}
        for where, partition in evidence.final.partitions.items()
    }
    sent_by: dict[UserPartition, list[tuple[int, float]]] = {
        where: [(p.found.last_offset + 1, evidence.first_invoked_s.get(p.origin, 0.0)) for p in placed]
        for where, placed in evidence.placed.items()
    }
    for read in evidence.history.reads:
        who = f"read of {read.where} at node {read.node_id}, {read.invoked_s:.3f}..{read.answered_s:.3f}, saw {read.offset}"
        floor = floors[read.where].before(read.invoked_s)
        if read.offset < floor:
            yield f"{who}, but {floor} had been told to somebody before it began"
        if read.offset not in boundaries[read.where]:
            yield f"{who}, where no batch ends"
        early = [end for end, invoked_s in sent_by[read.where] if end <= read.offset and invoked_s > read.answered_s]
        if early:
            yield f"{who}, with batches up to {early[:3]} that were sent only later"


def commits_follow_real_time(evidence: Evidence) -> Iterator[str]:
    """A batch sent first after something was told lies behind it."""
    floors = _floors(evidence)
    for placed in _all_placed(evidence):
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


def _floors(evidence: Evidence) -> dict[UserPartition, Floor]:
    told: dict[UserPartition, list[tuple[float, int]]] = {where: [] for where in evidence.final.partitions}
    for origin, acks in evidence.acknowledged.items():
        sent = evidence.history.batch(origin)
        for ack in acks:
            if ack.answer.error_code == 0:
                told[sent.where].append((ack.attempt.answered_s, ack.answer.base_offset + sent.record_count))
    for read in evidence.history.reads:
        told[read.where].append((read.answered_s, read.offset))
    return {where: Floor(pairs) for where, pairs in told.items()}


def epochs_increase(evidence: Evidence) -> Iterator[str]:
    """Claims in force of a partition have epochs one after the other and terms of their own."""
    for coordinator_id, log in evidence.logs.items():
        for before, after in pairwise(log.claims):
            if after.epoch != before.epoch + 1 or after.term == before.term:
                yield f"coordinator {coordinator_id}: claim {after} follows {before}"


def _all_placed(evidence: Evidence) -> Iterator[Placed]:
    for placed in evidence.placed.values():
        yield from placed


def _all_commits(evidence: Evidence) -> Iterator[Commit]:
    for log in evidence.logs.values():
        yield from log.commits


RULES: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    answers_are_stable,
    nothing_is_refused,
    everything_acknowledged_is_there,
    offsets_are_dense,
    producers_have_no_gaps,
    log_and_service_agree,
    files_are_committed_once,
    replicas_are_equal,
    reads_are_linearizable,
    commits_follow_real_time,
    epochs_increase,
)
