"""Judges a recorded history: was every acknowledged commit kept exactly once, in order, at the offsets it was told?

    violations = check(history, final)

Independent of the product's core: it compares what clients were told, what the service says in the end and what the
Kafka topic holds (read by `metadata_log`), and reports every contradiction as a sentence. An empty list means that the
history could have been produced by a single, never failing coordinator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from integration_tests.evidence import Evidence, Placed, all_commits, all_placed, gather
from integration_tests.history import (
    RETRIABLE_CODES,
    UNKNOWN_CODES,
    Acknowledgement,
    BatchAnswer,
    FinalState,
    History,
    Origin,
    Unknown,
    UserPartition,
)
from integration_tests.metadata_log import Commit, Void
from integration_tests.real_time import (
    commits_follow_real_time,
    descriptions_are_linearizable,
    finds_are_true,
    log_starts_are_linearizable,
    reads_are_linearizable,
)
from integration_tests.unusual_keys import is_plain
from records.entry_key import decode_key

SEQUENCE_MODULUS = 2**31
INVALID_REQUEST = 42
AHEAD_MS_MAX = 20_000
"""More than the limit for leaders (clock.skew.max.ms, 5 s) and what a clock gains while its process stands still."""


def check(history: History, final: FinalState) -> list[str]:
    """Return every contradiction found; none means the history is good."""
    problems: list[str] = []
    evidence = gather(history, final, problems)
    for rule in RULES:
        problems += rule(evidence)
    return list(dict.fromkeys(problems))


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


def unusual_keys_are_refused(evidence: Evidence) -> Iterator[str]:
    """A file is committed by nobody, and refused for good, whose object a store would list under another key, or not at all."""
    for attempt in evidence.history.attempts:
        if not is_plain(attempt.object_key):
            for answer in attempt.answers:
                if answer.is_final and answer.error_code != INVALID_REQUEST:
                    yield f"file {attempt.object_key!r}, whose key is not plain, was answered {answer} by node {attempt.node_id}"
    for commit in all_commits(evidence):
        if not is_plain(commit.object_key):
            yield f"file {commit.object_key!r}, whose key is not plain, was committed at {commit.offset}"


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
    for placed in all_placed(evidence):
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
    for commit in all_commits(evidence):
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
    """Replicas have applied every entry that changes something; at the same offset they have the same digest (it says where they stand)."""
    by_place: dict[tuple[int, int], set[bytes]] = defaultdict(set)
    for digest in evidence.final.digests:
        if digest.offset < evidence.logs[digest.coordinator_id].last_change:
            yield f"node {digest.node_id} has applied coordinator {digest.coordinator_id} only up to {digest.offset}"
        by_place[digest.coordinator_id, digest.offset].add(digest.digest)
    for (coordinator_id, _), digests in by_place.items():
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


def append_times_are_not_ahead(evidence: Evidence) -> Iterator[str]:
    """No leader's wrong clock gets into the log, where it would expire producers and answers early, for good."""
    for coordinator_id, log in evidence.logs.items():
        for commit in log.commits:
            ahead_ms = commit.append_time_ms - commit.logged_ms
            if ahead_ms > AHEAD_MS_MAX:
                entry = f"coordinator {coordinator_id}: the entry at {commit.offset}"
                yield f"{entry} has an append time {ahead_ms} ms ahead of its broker's clock"


def the_service_contradicts_nothing(evidence: Evidence) -> Iterator[str]:
    """Only entries that a fault forged contradict those before them, and none of those counts; every entry can be read.

    A forged entry takes the seq of an entry that its leader had under way. That one is void by its key, and those under way behind it
    were decided as if it counted: they may contradict the log as well, are void, and are acknowledged to nobody.
    """
    forgeries = {(one.coordinator_id, one.key, one.value) for one in evidence.history.forgeries}
    for coordinator_id, log in evidence.logs.items():
        if log.unreadable is not None:
            yield f"coordinator {coordinator_id}: {log.unreadable}"
        messages = evidence.final.logs[coordinator_id]
        forged = {one.offset for one in messages if (coordinator_id, one.key, one.value) in forgeries}
        taken = {decode_key(one.key) for one in messages if one.offset in forged}
        robbed = [void for void in log.voids if void.contradiction is None and void.key is not None and void.key in taken]
        for void in log.contradictions:
            follows_robbed = any(one.offset < void.offset and _is_same_term(one, void) for one in robbed)
            if void.offset not in forged and not follows_robbed:
                yield f"coordinator {coordinator_id}: the entry at {void.offset} contradicts the log before it: {void.contradiction}"
        for offset in sorted(forged - {void.offset for void in log.voids}):
            yield f"coordinator {coordinator_id}: the forged entry at {offset} does not contradict, as it was meant to"


def _is_same_term(one: Void, other: Void) -> bool:
    return one.key is not None and other.key is not None and one.key[:2] == other.key[:2]


def epochs_increase(evidence: Evidence) -> Iterator[str]:
    """Claims in force of a partition have epochs one after the other and terms of their own."""
    for coordinator_id, log in evidence.logs.items():
        for before, after in pairwise(log.claims):
            if after.epoch != before.epoch + 1 or after.term == before.term:
                yield f"coordinator {coordinator_id}: claim {after} follows {before}"


RULES: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    answers_are_stable,
    nothing_is_refused,
    unusual_keys_are_refused,
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
    append_times_are_not_ahead,
    the_service_contradicts_nothing,
    reads_are_linearizable,
    commits_follow_real_time,
    finds_are_true,
    log_starts_are_linearizable,
    descriptions_are_linearizable,
    epochs_increase,
)
