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
from math import inf
from typing import NamedTuple

from integration_tests.history import (
    RETRIABLE_CODES,
    UNKNOWN_CODES,
    Acknowledgement,
    BatchAnswer,
    Deletion,
    FinalPartition,
    FinalState,
    FoundBatch,
    History,
    Origin,
    StartRead,
    Unknown,
    UserPartition,
)
from integration_tests.metadata_log import Commit, ReadLog, read_log

SEQUENCE_MODULUS = 2**31
OFFSET_OUT_OF_RANGE = 1
RESOURCE_NOT_FOUND = 91


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
    batches: Mapping[UserPartition, list[FoundBatch]]
    """All batches there ever were, by offset: what is served, and before it what was deleted, as the log has it."""
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
    logs = {coordinator_id: read_log(messages) for coordinator_id, messages in final.logs.items()}
    batches = {
        where: [*_deleted(logs[partition.coordinator_id], where, partition), *partition.batches]
        for where, partition in final.partitions.items()
    }
    placed: dict[UserPartition, list[Placed]] = {}
    for where, ever in batches.items():
        placed[where] = []
        for found in ever:
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
    return Evidence(history, final, logs, batches, placed, dict(acknowledged), first_invoked_s)


def _deleted(log: ReadLog, where: UserPartition, partition: FinalPartition) -> list[FoundBatch]:
    """The batches that lie wholly before the log start, by offset."""
    return sorted(
        (
            FoundBatch(commit.object_key, one.byte_offset, one.size_bytes, one.base_offset, one.base_offset + one.record_count - 1)
            for commit in log.commits
            for one in commit.outcomes
            if one.is_accepted and one.where == where and one.base_offset + one.record_count <= partition.log_start_offset
        ),
        key=lambda found: found.base_offset,
    )


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


def existing_partitions_are_known(evidence: Evidence) -> Iterator[str]:
    """Nobody is told that a partition is unknown between the acknowledgement of its creation and the sending of its deletion."""
    history = evidence.history
    lives = {life.topic_id: life for life in history.topics}
    told = list(history.unknowns)
    told += [
        Unknown("DeleteRecords", one.where, one.node_id, one.invoked_s, one.answered_s, one.error_code)
        for one in history.deletions
        if one.error_code is not None
    ]
    for attempt in history.attempts:
        for place, answer in zip(attempt.places, attempt.answers, strict=False):
            where = history.batch(Origin(attempt.object_key, place)).where
            told.append(Unknown("CommitFile", where, attempt.node_id, attempt.invoked_s, attempt.answered_s, answer.error_code))
    for one in told:
        life = lives.get(one.where.topic_id)
        if one.error_code in UNKNOWN_CODES and life is not None and life.spans(one.invoked_s, one.answered_s):
            when = f"{one.invoked_s:.3f}..{one.answered_s:.3f}"
            yield f"node {one.node_id} answered {one.operation} of {one.where} with {one.error_code} at {when}, but the partition exists"


def deletions_are_accepted(evidence: Evidence) -> Iterator[str]:
    """Records are only deleted up to offsets that had been told, which nothing but a passing error may refuse."""
    for one in evidence.history.deletions:
        if one.error_code not in {None, 0} | RETRIABLE_CODES | UNKNOWN_CODES:
            yield f"deletion in {one.where} up to {one.offset} at node {one.node_id} was refused with {one.error_code}"


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
    """From 0 to the watermark without hole or overlap, the watermark being what ListOffsets says; only what was deleted is gone."""
    for where, partition in evidence.final.partitions.items():
        ends = [0, *(found.last_offset + 1 for found in evidence.batches[where])]
        for found, expected in zip(evidence.batches[where], ends, strict=False):
            if found.base_offset != expected:
                yield f"{where}: a batch starts at {found.base_offset} where {expected} is due"
        if partition.batches and partition.batches[0].last_offset < partition.log_start_offset:
            yield f"{where}: {partition.batches[0]} is served, but the log starts at {partition.log_start_offset}"
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
    said: dict[UserPartition, list[tuple[int, int, str, int]]] = defaultdict(list)
    starts = {where: partition.log_start_offset for where, partition in evidence.final.partitions.items()}
    for commit in _all_commits(evidence):
        for outcome in commit.outcomes:
            where = UserPartition(*outcome.where)
            last_offset = outcome.base_offset + outcome.record_count - 1
            if outcome.is_accepted and last_offset >= starts.get(where, 0):
                said[where].append((outcome.base_offset, last_offset, commit.object_key, outcome.byte_offset))
    for where, partition in evidence.final.partitions.items():
        served = [(found.base_offset, found.last_offset, found.object_key, found.byte_offset) for found in partition.batches]
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


def nodes_answer_alike(evidence: Evidence) -> Iterator[str]:
    """Every node, leader or standby, serves the same batches in the end."""
    for node_id, partitions in evidence.final.copies.items():
        for where, batches in partitions.items():
            if batches != evidence.final.partitions[where].batches:
                count = len(evidence.final.partitions[where].batches)
                yield f"node {node_id} serves {len(batches)} batches of {where}, not the {count} that its leader serves, or others"


def append_times_never_go_back(evidence: Evidence) -> Iterator[str]:
    """In the order of the log, whatever the clocks of the leaders did."""
    for coordinator_id, log in evidence.logs.items():
        for before, after in pairwise(log.commits):
            if after.append_time_ms < before.append_time_ms:
                times = f"{after.append_time_ms} after {before.append_time_ms}"
                yield f"coordinator {coordinator_id}: the entry at {after.offset} has append time {times}"


def the_service_contradicts_nothing(evidence: Evidence) -> Iterator[str]:
    """Only entries that a fault forged contradict those before them, and none of those counts; every entry can be read."""
    forgeries = {(one.coordinator_id, one.key, one.value) for one in evidence.history.forgeries}
    for coordinator_id, log in evidence.logs.items():
        if log.unreadable is not None:
            yield f"coordinator {coordinator_id}: {log.unreadable}"
        messages = evidence.final.logs[coordinator_id]
        forged = {one.offset for one in messages if (coordinator_id, one.key, one.value) in forgeries}
        for void in log.contradictions:
            if void.offset not in forged:
                yield f"coordinator {coordinator_id}: the entry at {void.offset} contradicts the log before it: {void.contradiction}"
        for offset in sorted(forged - {void.offset for void in log.voids}):
            yield f"coordinator {coordinator_id}: the forged entry at {offset} does not contradict, as it was meant to"


# ---- real time


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
    for placed in _all_placed(evidence):
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
    existing_partitions_are_known,
    deletions_are_accepted,
    everything_acknowledged_is_there,
    offsets_are_dense,
    producers_have_no_gaps,
    log_and_service_agree,
    files_are_committed_once,
    replicas_are_equal,
    nodes_answer_alike,
    append_times_never_go_back,
    the_service_contradicts_nothing,
    reads_are_linearizable,
    commits_follow_real_time,
    finds_are_true,
    log_starts_are_linearizable,
    descriptions_are_linearizable,
    epochs_increase,
)
