"""The rules of a run: every promise must hold, whatever went wrong.

The judge sees every entry as it lands in a log, every request as it reaches a node and every answer as it leaves one.
It folds the logs by the rules every replica must follow, written anew here (`LogFold`), and compares: it trusts no
state of the product. The first broken rule ends the run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator.core.commands import (
    CommitFile,
    CommitResult,
    DeletedTo,
    DeletePoint,
    DescribedFile,
    FetchPoint,
    FoundBatches,
    FoundOffset,
    OffsetQuery,
)
from coordinator.core.files.answers import result_of
from coordinator.core.view import ShardView
from coordinator.kafka.batches import split_partition_key
from records.codec import HEADER_SIZE_BYTES
from records.committed_files.codec import CommittedBatch, table_of
from records.history import schema_of_header
from simulation.compare import differences
from simulation.fold import FoldedPartition, LogFold, Where
from simulation.loop import START_MS
from simulation.objects import JudgedObjects
from simulation.produced import JudgedRecords
from simulation.retention import JudgedRetention
from simulation.scenario import Scenario
from simulation.story import Story, Violation

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
NOT_LEADER = 6
NOT_DECIDED = frozenset({3, 6, 7, 14, 15, 16, 74, 100})
NOT_THERE = frozenset({3, 100})
DUPLICATE_RESOURCE = 92
OUT_OF_RANGE = 1
INVALID_REQUEST = 42
NOT_FOUND = 91
CONTRADICTION = "contradict"
"""In the reason why a replica failed that read a forged entry, or was accused of one in its term."""
LOG_AHEAD_MS_MAX = 20_000
"""The limit for leaders (clock.skew.max.ms), and what a clock gains while its process is frozen."""
STORM_WINDOW_S = 3.0
STORM_TURNS_MAX = 6


@dataclass(slots=True)
class JudgedTopic:
    """A topic as the clients know it. `is_going` from the moment a client asks for its deletion."""

    topic_id: bytes
    name: str
    num_partitions: int
    is_created: bool = False
    is_going: bool = False
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Floor:
    """The promises in force when a read arrived."""

    high_watermark: int
    log_start: int
    exists: bool
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class FileFloor:
    """The knowledge of a file when a question about it arrived: who acknowledged it, its batches, whether all of them were deleted."""

    owners: frozenset[int]
    batches: int
    is_gone: bool


@dataclass(slots=True)
class Promises:
    """The greatest offsets that a client was told, and the owners that acknowledged their shares of files."""

    high_watermark: dict[Where, int] = field(default_factory=dict)
    log_start: dict[Where, int] = field(default_factory=dict)
    files: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


class Judge:
    """See the module's text."""

    def __init__(
        self,
        *,
        story: Story,
        now_s: Callable[[], float],
        scenario: Scenario,
        stop: Callable[[], None],
        producers_kept_ms: int = 0,
        fences_kept_ms: int = 0,
    ) -> None:
        partitions, life = scenario.partitions, scenario.files
        self.violation: Violation | None = None
        self.folds = [
            LogFold(partition, producers_kept_ms=producers_kept_ms, fences_kept_ms=fences_kept_ms) for partition in range(partitions)
        ]
        self.objects = None if life is None else JudgedObjects(scenario, life, self.folds, now_s, self.broken)
        kept = scenario.retention
        self.retention = None if kept is None else JudgedRetention(scenario, kept, self.folds, now_s, self.broken)
        self.records: JudgedRecords | None = None
        self.topics: dict[bytes, JudgedTopic] = {}
        self.promises = Promises()
        self.answers = 0
        self.looks = 0
        self.ghosts_until_s = 0.0
        self.microseconds_until_s = 0.0
        """Until when clients give their batches times in microseconds, which lie tens of thousands of years ahead."""
        self.supported_levels: dict[int, int] = {}
        """The schema level that the version of each node supports."""
        self.may_terms_end = False
        """Whether something has happened that may end a term without a claim of another process."""
        self._story = story
        self._now_s = now_s
        self._stop = stop
        self._turns: list[deque[float]] = [deque() for _ in range(partitions)]
        self._digests: dict[tuple[int, int], tuple[bytes, int]] = {}

    def broken(self, rule: str, text: str) -> None:
        """Note the first broken rule and end the run."""
        if self.violation is None and not self._story.is_over:
            self.violation = Violation(rule, text)
            self._story.tell(f"VIOLATION {rule}: {text}")
            self._stop()

    # ---- the log

    def landed(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """An entry was appended to a log."""
        self._story.trace(b"%d %d %s %s" % (partition, offset, key or b"", value or b""))
        fold = self.folds[partition]
        before = fold.leader
        try:
            what = fold.take(offset, key, value)
        except Violation as violation:
            self.broken(violation.rule, violation.text)
            return
        if self.objects is not None:
            self.objects.landed(partition)
        if self.records is not None:
            self.records.landed(partition)
        if self.retention is not None:
            self.retention.landed(partition)
        ahead_ms = fold.log_time_ms - START_MS - self._now_s() * 1000
        if ahead_ms > LOG_AHEAD_MS_MAX:
            text = f"the log of partition {partition} is {ahead_ms / 1000:.0f} s ahead of its broker at {offset}"
            self.broken("the log's time does not run ahead of Kafka's clock", text)
            return
        if what is not None and offset not in fold.forged:
            self._check_level(partition, offset, value or b"")
        if what is None:
            if self._story.is_detailed:
                self._story.mention(f"log {partition}: void entry at {offset}")
        elif what.startswith("claim"):
            self._story.tell(f"log {partition}: {what} at {offset}")
            if fold.leader != before:
                self._turn(partition)
        elif self._story.is_detailed:
            self._story.mention(f"log {partition}: {what} at {offset}")

    def _check_level(self, partition: int, offset: int, value: bytes) -> None:
        """No process writes records that another may not be able to read."""
        in_force, level = self.folds[0].schema_level, schema_of_header(value[:HEADER_SIZE_BYTES]).level
        if level > in_force:
            text = f"the entry at {offset} of partition {partition} is of schema level {level}, {in_force} is in force"
            self.broken("entries are of the level in force", text)
        behind = {node_id: supported for node_id, supported in self.supported_levels.items() if supported < in_force}
        if behind:
            self.broken("no version is left behind", f"schema level {in_force} is in force, nodes support {behind}")

    def _turn(self, partition: int) -> None:
        now_s, turns = self._now_s(), self._turns[partition]
        turns.append(now_s)
        while turns[0] < now_s - STORM_WINDOW_S:
            turns.popleft()
        if len(turns) > STORM_TURNS_MAX and now_s > self.ghosts_until_s + STORM_WINDOW_S:
            self.broken("claims settle", f"leadership of partition {partition} changed hands {len(turns)} times in {STORM_WINDOW_S} s")

    # ---- commits

    def commit_answered(self, node_id: int, command: CommitFile, result: CommitResult) -> None:
        """A node answered a CommitFile."""
        self._story.trace(b"commit %d %s %s" % (node_id, command.object_key.encode(), repr(result.base_offsets).encode()))
        if self._story.is_detailed:
            self._story.mention(f"node {node_id} answers {command.object_key}: errors {result.errors} at {result.base_offsets}")
        wheres = [split_partition_key(key) for key in command.batches["topic_partition"].tolist()]
        shares: dict[int, list[int]] = {}
        for place, where in enumerate(wheres):
            if result.errors[place] == NOT_LEADER and self._has_taken(where, command, place):
                text = f"node {node_id} has {command.object_key} batch {place} sent in another file, although it was taken"
                self.broken("no batch is sent in another file that was taken", text)
            owner = self._holder_of(where, command, place)
            if owner is not None:
                shares.setdefault(owner, []).append(place)
            elif result.errors[place] not in NOT_DECIDED:
                self.broken("acknowledged is logged", f"{command.object_key} was answered {result.errors[place]} for an unplaced partition")
        for owner, places in shares.items():
            if not NOT_DECIDED.intersection([result.errors[place] for place in places]):
                self._check_share(node_id, owner, command, result, places, wheres)

    def _has_taken(self, where: Where, command: CommitFile, place: int) -> bool:
        """Whether a batch of a file is live in some coordinator."""
        for fold in self.folds:
            part, batch = fold.partitions.get(where), _logged(fold, where, command, place)
            if part is not None and batch is not None and batch.is_accepted and batch.last_offset >= part.log_start:
                return True
        return False

    def _holder_of(self, where: Where, command: CommitFile, place: int) -> int | None:
        """The coordinator that answers for a batch: one that had its partition before, if the file has the batch there, else the owner."""
        for earlier, _ in self.folds[0].moved.get(where, ()):
            if _logged(self.folds[earlier], where, command, place) is not None:
                return earlier
        return self.folds[0].owner_of(where)

    def stretches_of(self, where: Where) -> list[FoldedPartition]:
        """The parts of a partition in the coordinators that have one, the oldest first."""
        owner = self.folds[0].owner_of(where)
        ids = [*(earlier for earlier, _ in self.folds[0].moved.get(where, ())), *([] if owner is None else [owner])]
        return [part for one in ids if (part := self.folds[one].partitions.get(where)) is not None]

    def _check_share(
        self, node_id: int, owner: int, command: CommitFile, result: CommitResult, places: list[int], wheres: list[Where]
    ) -> None:
        self.answers += 1
        record = self.folds[owner].committed.get(command.object_key)
        errors = [result.errors[place] for place in places]
        who = f"node {node_id} answered {command.object_key}"
        if self.objects is not None and set(errors) == {INVALID_REQUEST}:
            self.objects.refused(who, command.object_key)
            return
        if DUPLICATE_RESOURCE in errors:
            is_retry = record is not None and record.file_size == command.file_size and record.owner_ids == list(command.owner_ids)
            if is_retry and self.objects is not None and not self.folds[owner].has_live_batches(command.object_key):
                # The file may have ended; that is not said to an honest commit.
                self.objects.refused(who, command.object_key)
            elif is_retry:
                self.broken("a retry is answered as the first time", f"{who} with 92 though the content is the same")
            return
        if record is None:
            self.broken("acknowledged is logged", f"{who} with {errors}, but no entry of partition {owner} that counts has it")
            return
        if record.file_size != command.file_size:
            self.broken("one content per key", f"{who} with {errors} though other content was committed under the key")
            return
        self.promises.files[command.object_key].add(owner)
        first = result_of(table_of([record]), 0, None)
        logged_at = {(batch.topic_id, batch.partition, batch.byte_offset): at for at, batch in enumerate(record.batches)}
        for place in places:
            at = logged_at[(*wheres[place], int(command.batches["byte_offset"][place]))]
            told = (
                result.errors[place],
                result.base_offsets[place],
                result.append_times[place],
                result.log_starts[place],
                result.duplicates[place],
            )
            logged = (first.errors[at], first.base_offsets[at], first.append_times[at], first.log_starts[at], first.duplicates[at])
            if told != logged:
                self.broken("acknowledged as logged", f"{who}, batch {place}: told {told}, the log says {logged}")
            if told[0] == 0:
                batch = command.batches[place]
                self._promise(wheres[place], told[1] + int(batch["last_offset"]) - int(batch["base_offset"]) + 1)

    def _promise(self, where: Where, high_watermark: int) -> None:
        known = self.promises.high_watermark
        known[where] = max(known.get(where, 0), high_watermark)

    # ---- reads

    def floors(self, wheres: Sequence[Where]) -> list[Floor]:
        """Return the present promises; the answer to a strict read that arrives now may not say less."""
        floors = []
        for where in wheres:
            topic = self.topics.get(where[0])
            exists = topic is not None and topic.is_created and where[1] < topic.num_partitions
            floors.append(
                Floor(
                    self.promises.high_watermark.get(where, 0),
                    self.promises.log_start.get(where, 0),
                    exists,
                    topic is not None and topic.is_deleted,
                )
            )
        return floors

    def read_answered(self, node_id: int, queries: Sequence[OffsetQuery], floors: Sequence[Floor], found: Sequence[FoundOffset]) -> None:
        """A node answered ListOffsets."""
        for query, floor, one in zip(queries, floors, found, strict=True):
            where = (query.topic_id, query.partition)
            who = f"node {node_id} answered a read of {name(where)} with {one.offset}"
            self._story.trace(b"read %d %d %d" % (node_id, one.offset, int(one.outcome.error)))
            if one.outcome.error:
                self._check_missing(node_id, where, floor, int(one.outcome.error))
                continue
            if floor.is_deleted:
                self.broken("deleted stays deleted", f"{who}, but the topic was deleted before")
            limits = self.folds_of(where)
            if query.timestamp == LATEST:
                if one.offset < floor.high_watermark:
                    self.broken("strict reads are linearizable", f"{who}, but {floor.high_watermark} had been promised before it began")
                elif limits is not None and one.offset > limits.high_watermark:
                    self.broken("strict reads are linearizable", f"{who}, but the log only reaches {limits.high_watermark}")
                self._promise(where, one.offset)
            elif query.timestamp != EARLIEST:
                self._check_by_time(who, query, floor, one)
            elif one.offset < floor.log_start:
                self.broken("strict reads are linearizable", f"{who} as log start, but {floor.log_start} had been promised")

    def _check_by_time(self, who: str, query: OffsetQuery, floor: Floor, one: FoundOffset) -> None:
        """Check an answer by time: it is the first fitting batch of those that were there all the while, or one that came or went."""
        limits = self.folds_of((query.topic_id, query.partition))
        owner = self.folds[0].owner_of((query.topic_id, query.partition))
        if limits is None or owner is None:
            return
        times = [one for part in self.stretches_of((query.topic_id, query.partition)) for one in part.times]
        sure = [batch for batch in times if limits.log_start <= batch.last_offset < floor.high_watermark]
        given = next((batch for batch in times if batch.base_offset <= one.offset <= batch.last_offset), None)
        is_greatest = query.timestamp == MAX_TIMESTAMP
        if given is not None and (given.time_ms != one.timestamp or (is_greatest and one.offset != given.last_offset)):
            self.broken("reads by time are right", f"{who} at {one.timestamp}, the log has {given}")
        if given is not None and given.last_offset < floor.log_start:
            self.broken("reads by time are right", f"{who}: {given} had been deleted before it began")
        if is_greatest:
            better = [batch for batch in sure if given is None or (-batch.time_ms, batch.base_offset) < (-given.time_ms, given.base_offset)]
        else:
            better = [
                batch for batch in sure if batch.time_ms >= query.timestamp and (given is None or batch.base_offset < given.base_offset)
            ]
        if (
            better
            or (one.offset >= 0) != (given is not None)
            or (given is not None and not is_greatest and given.time_ms < query.timestamp)
        ):
            self.broken("reads by time are right", f"{who}, asked for {query.timestamp}: {given}, but there is {better[:1]}")

    def _check_missing(self, node_id: int, where: Where, floor: Floor, error: int) -> None:
        topic = self.topics.get(where[0])
        if error in NOT_THERE and floor.exists and topic is not None and not topic.is_going:
            self.broken(
                "acknowledged topics are there", f"node {node_id} answered {error} for {name(where)}, which was acknowledged before"
            )

    def file_floors(self, keys: Sequence[str]) -> list[FileFloor]:
        """Return the present promises about files; the answer to a question that arrives now may not say less."""
        return [FileFloor(frozenset(self.promises.files.get(key, ())), self._count_batches(key), self._is_gone(key)) for key in keys]

    def _count_batches(self, key: str) -> int:
        return sum(len(list(fold.batches_of(key))) for fold in self.folds)

    def _is_gone(self, key: str) -> bool:
        """Whether a client was told that every batch of a file is deleted."""
        log_start = self.promises.log_start
        return all(
            self.topics[where[0]].is_deleted or last_offset < log_start.get(where, 0)
            for fold in self.folds
            for where, last_offset in fold.batches_of(key)
        )

    def described(
        self, node_id: int, keys: Sequence[str], led: Sequence[int], floors: Sequence[FileFloor], answers: Sequence[DescribedFile]
    ) -> None:
        """A node answered DescribeFiles for the coordinators that it led when it was asked."""
        for key, floor, one in zip(keys, floors, answers, strict=True):
            error = int(one.outcome.error)
            if any(key in fold.files and any(self.folds[0].moved.get(where) for where, _ in fold.batches_of(key)) for fold in self.folds):
                continue  # deletions reach the parts of partitions that moved later
            self._story.trace(b"described %d %d %d" % (node_id, error, one.has_live_batches))
            who = f"node {node_id}, which leads {list(led)}, described {key} with {error}, live: {one.has_live_batches}"
            # Files that were let go are not known any more.
            asked = {owner for owner in floor.owners.intersection(led) if key in self.folds[owner].files}
            if error == NOT_FOUND and asked:
                self.broken("strict reads are linearizable", f"{who}, though coordinators {sorted(asked)} had acknowledged it")
            elif error == 0:
                is_live = any(self.folds[owner].has_live_batches(key) for owner in asked)
                if is_live and not one.has_live_batches:
                    self.broken("strict reads are linearizable", f"{who}, though it has live batches")
                elif floor.is_gone and floor.batches == self._count_batches(key) and one.has_live_batches:
                    self.broken("strict reads are linearizable", f"{who}, though all of it had been deleted")

    def folds_of(self, where: Where) -> PartitionLimits | None:
        """The offsets of a user partition by its owner's log, None when that has no such partition."""
        owner = self.folds[0].owner_of(where)
        limits = None if owner is None else self.folds[owner].partitions.get(where)
        return None if limits is None else PartitionLimits(limits.high_watermark, limits.log_start)

    def log_time_ms(self, where: Where) -> int:
        """The time of the log of a partition's owner."""
        owner = self.folds[0].owner_of(where)
        return 0 if owner is None else self.folds[owner].log_time_ms

    def find_answered(self, node_id: int, points: Sequence[FetchPoint], floors: Sequence[Floor], found: Sequence[FoundBatches]) -> None:
        """A node answered FindBatches."""
        for point, floor, one in zip(points, floors, found, strict=True):
            where = (point.topic_id, point.partition)
            error = int(one.outcome.error)
            self._story.trace(b"find %d %d %d" % (node_id, error, one.high_watermark))
            limits = self.folds_of(where)
            if error in NOT_THERE:
                self._check_missing(node_id, where, floor, error)
            elif error == OUT_OF_RANGE and limits is not None and limits.log_start <= point.offset <= floor.high_watermark:
                self.broken(
                    "no consumer is reset",
                    f"node {node_id}: offset {point.offset} of {name(where)} out of range, {floor.high_watermark} is known",
                )
            elif error == 0 and limits is not None:
                self._check_found(node_id, point, limits, one)

    def _check_found(self, node_id: int, point: FetchPoint, limits: PartitionLimits, one: FoundBatches) -> None:
        where = (point.topic_id, point.partition)
        who = f"node {node_id}, batches of {name(where)}"
        if one.high_watermark > limits.high_watermark:
            self.broken("found is logged", f"{who}: high watermark {one.high_watermark}, the log reaches {limits.high_watermark}")
        known = {base: batch for part in self.stretches_of(where) for base, batch in part.batches.items()}
        due = point.offset
        if self.objects is not None:
            self.objects.found(batch.object_key for batch in one.batches)
        for batch in one.batches:
            if not batch.base_offset <= due <= batch.last_offset or (due != point.offset and batch.base_offset != due):
                self.broken("found is logged", f"{who}: {batch} was found where {due} is due")
            due = batch.last_offset + 1
            logged = known.get(batch.base_offset)
            if logged != (batch.object_key, batch.byte_offset, batch.last_offset):
                self.broken("found is logged", f"{who}: {batch} was found, the log has {logged}")

    def delete_records_answered(self, node_id: int, points: Sequence[DeletePoint], answers: Sequence[DeletedTo]) -> None:
        """A node answered DeleteRecords."""
        for point, answer in zip(points, answers, strict=True):
            if answer.outcome.error:
                continue
            where = (point.topic_id, point.partition)
            limits = self.folds_of(where)
            if limits is not None and limits.log_start < answer.low_watermark:
                self.broken(
                    "acknowledged is logged", f"node {node_id}: log start {answer.low_watermark} of {name(where)} is not in the log"
                )
            known = self.promises.log_start
            known[where] = max(known.get(where, 0), answer.low_watermark)

    # ---- replicas

    def look(self, node_id: int, partition: int, shard: ShardView | None) -> None:
        """Compare a replica with the log, if it has applied everything in it that counts."""
        fold = self.folds[partition]
        if shard is None or shard.state.applied_offset < fold.last_counted:
            return
        self.looks += 1
        told = differences(fold, shard.state)
        if told:
            self.broken("replicas say what the log says", f"node {node_id} partition {partition}: {told}")

    def stopped_leading(self, node_id: int, partition: int, shard: ShardView | None) -> None:
        """A leader ended its term."""
        is_overtaken = shard is None or shard.fence.epoch < self.folds[partition].in_force.epoch
        if not is_overtaken and not self.may_terms_end:
            self.broken("leaders lead on", f"node {node_id} gave partition {partition} up though nobody had claimed it and Kafka was well")

    def answered_late(self, node_id: int, after_s: float) -> None:
        """A node that was well let a client's request wait for longer than its timeout."""
        self.broken("requests are answered in time", f"node {node_id} has not answered a request after {after_s} s")

    def flushed(self, node_id: int, partition: int, offset: int, digest: bytes) -> None:
        """A replica wrote its state of an offset, with this digest."""
        if offset in self.folds[partition].inside:
            text = f"node {node_id} wrote its state of partition {partition} at {offset}, inside a transaction"
            self.broken("databases stop before an open transaction", text)
        if not self.folds[partition].has_deleted:
            # Batches deleted from partitions leave the digest with housekeeping, at its own pace: compared in the end only.
            known, other = self._digests.setdefault((partition, offset), (digest, node_id))
            if known != digest:
                self.broken("equal digests", f"partition {partition} at {offset}: nodes {other} and {node_id} differ")

    def replica_failed(self, node_id: int, partition: int, reason: str) -> None:
        """A replica stopped itself."""
        if "injected" not in reason and not (self.folds[partition].forged and CONTRADICTION in reason):
            self.broken("replicas do not break", f"node {node_id}, partition {partition}: {reason}")


def _logged(fold: LogFold, where: Where, command: CommitFile, place: int) -> CommittedBatch | None:
    """A batch of a file as a coordinator has logged it."""
    record, asked = fold.committed.get(command.object_key), (*where, int(command.batches["byte_offset"][place]))
    batches = () if record is None else record.batches
    return next((one for one in batches if (one.topic_id, one.partition, one.byte_offset) == asked), None)


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """Where a user partition begins and ends by the log."""

    high_watermark: int
    log_start: int


def name(where: Where) -> str:
    """A user partition for people."""
    return f"{where[0].hex()[:6]}-{where[1]}"
