"""Second pass of `verify`: the state of one metadata partition, rebuilt from its entries in order and tallied.

Independent of the coordinator on purpose. Rows of deleted batches are never counted: `Deletions` says beforehand which
will be. Plain commits are collected and applied together, unless one of them contradicts the log; everything else is applied
entry by entry, in its place. What contradicts the log is left out, as replicas leave it out.
Memory is that of partitions, producers, known files and tombstones, and of a transaction that is open; batches are hashed
and dropped. With a transaction open the state is that before it, as in replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.codec import UndecodableEntry
from records.committed_files.codec import FileCommitted, FileTable, files_of, read_files, table_of
from records.committed_files.lines import FILE, VERDICT
from records.log import BrokenRule
from records.model import (
    DisklessLogInitialized,
    DisklessLogReset,
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    NoOp,
    PartitionAdopted,
    PartitionCreated,
    PartitionReleased,
    ProducersAdopted,
    ProducersExpired,
    Record,
    RecordsDeleted,
    Restored,
    SnapshotMark,
    TombstonesExpired,
    TopicDeleted,
    TransactionAborted,
)
from records.state_digest import BATCH_COLUMNS, PRODUCER_RING, Digest, hash_batches, hash_record, key_lanes
from spark_jobs.contradiction import (
    BATCH_BYTE_MAX,
    SEQUENCE_MASK,
    first_sequence_conflict,
    producer_conflict,
    stops_replicas,
)
from spark_jobs.migration import MIGRATION_STEPS, NOTHING, PENDING, MigrationStanding, MigrationStep, after_step
from spark_jobs.moves import NO_MOVE, RELEASED, StretchStanding
from spark_jobs.verify.commits import LOG_APPEND_TIME, Commits, gather
from spark_jobs.verify.contradictions import WrongEntry, check_composition, check_effects, check_file
from spark_jobs.verify.deletions import NEVER, Deletions, History, key_of, partitions_of
from spark_jobs.verify.directory import RebuiltDirectory
from spark_jobs.verify.effective import EffectiveLog, EffectiveUnit
from spark_jobs.verify.judged import LogFault, records_of
from spark_jobs.verify.tally import RowKind, TalliedFile, Tally

Int64s = npt.NDArray[np.int64]

BYTES_TOGETHER_MAX = 1 << 20
REMEMBERED_BATCHES = 5
NO_TIMESTAMP = -1


@dataclass(slots=True)
class UserPartition:
    """A user partition that exists, and its producers by id."""

    key: bytes
    lanes: tuple[int, int]
    history: History
    high_watermark: int = 0
    log_start: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_offset: int = -1
    producers: dict[int, Producer] = field(default_factory=dict)
    base: int = 0
    """B0; PENDING, or RELEASED, while the partition takes no batches."""
    newest_move: int = NO_MOVE
    prefix: int = NOTHING
    leader_epoch: int = NOTHING

    @property
    def standing(self) -> MigrationStanding:
        """The state of its migration."""
        return MigrationStanding(self.base, self.prefix, self.log_start, self.high_watermark, self.leader_epoch)

    def stand(self, standing: MigrationStanding) -> None:
        """Take what a step of its migration changed."""
        self.base, self.prefix, self.log_start, self.high_watermark, self.leader_epoch = standing


@dataclass(slots=True)
class Producer:
    """Epoch, time of the last batch, and the last five batches as (first sequence, last sequence, base offset, time)."""

    epoch: int
    last_append_ms: int
    ring: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def next_sequence(self) -> int:
        """The sequence of its next batch."""
        return (self.ring[-1][1] + 1) & SEQUENCE_MASK


@dataclass(slots=True)
class RebuiltTopic:
    """A topic with partitions here."""

    name: str
    order_offset: int
    partitions: set[int] = field(default_factory=set)


class Gone(NamedTuple):
    """A deleted topic id that is remembered; `time_ms` 0: no file came since."""

    order_offset: int
    time_ms: int


class RebuiltTombstone(NamedTuple):
    """Why an object key may not be committed (again)."""

    reason: str
    time_ms: int
    created_ms: int


class Held(NamedTuple):
    """A known file, its batches that stay, and the entry that deletes the last of its batches: NEVER when some stay."""

    file: TalliedFile
    live_batches: int
    emptied_at: int


@dataclass(slots=True)
class Rebuild:
    """State of one metadata partition up to `log.judge.next_offset`; batches are already in `tally`."""

    deletions: Deletions
    tally: Tally = field(default_factory=Tally)
    log: EffectiveLog = field(default_factory=EffectiveLog)
    batches: int = 0
    log_time_ms: int = 0
    file_id_base: int = 0
    partitions: dict[bytes, UserPartition] = field(default_factory=dict)
    topics: dict[bytes, RebuiltTopic] = field(default_factory=dict)
    gone: dict[bytes, Gone] = field(default_factory=dict)
    files: dict[str, Held] = field(default_factory=dict)
    tombstones: dict[str, RebuiltTombstone] = field(default_factory=dict)
    directory: RebuiltDirectory = field(default_factory=RebuiltDirectory)
    _waiting: list[tuple[int, bytes]] = field(default_factory=list)
    _waiting_bytes: int = 0
    _judged_at: int = 0

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next entry. Raises `LogFault`."""
        # Here values are those of the log: an empty one cannot be decoded, and means nothing.
        unit = self.log.read(offset, key, value or None)
        if unit is None:
            return
        for entry in unit.entries:
            if entry.records is None:
                self._wait(entry.offset, entry.value)
                return
        self.apply_waiting()
        self._apply_unit(unit)

    def _wait(self, offset: int, value: bytes) -> None:
        self._waiting.append((offset, value))
        self._waiting_bytes += len(value)
        if self._waiting_bytes >= BYTES_TOGETHER_MAX:
            self.apply_waiting()

    def apply_waiting(self) -> None:
        """Apply the plain commits that wait for more of them. Raises `LogFault`."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        taken, files = read_files([value for _, value in waiting])
        if len(taken) != len(waiting):
            # An entry that begins like one commit and is none is reported now, and left out.
            for at in sorted(set(range(len(waiting))).difference(taken)):
                self._tell_unlike(*waiting[at])
        if not taken:
            return
        offsets = np.array([offset for offset, _ in waiting], np.int64)[taken]
        values = [waiting[at][1] for at in taken]
        commits = gather(offsets + self.file_id_base, files)
        if self._is_lawful(files, commits):
            self._commit(offsets, files, commits, values)
            return
        for offset, record, value in zip(offsets.tolist(), files_of(files), values, strict=True):
            self._commit_one(offset, record, value)

    def _tell_unlike(self, offset: int, value: bytes) -> None:
        """Tell why an entry that begins like one commit alone is void. Avro lets more records follow."""
        try:
            records = records_of(offset, value)
        except UndecodableEntry as error:
            self.log.contradictions[offset] = f"it cannot be decoded: {error}"
            return
        wrong = check_composition(records)
        self.log.contradictions[offset] = "it is no commit" if wrong is None else wrong.message

    def _commit_one(self, offset: int, record: FileCommitted, value: bytes) -> None:
        """Commit a file with the entry that holds it, unless it contradicts the log."""
        wrong = check_file(record, self)
        if wrong is not None:
            self.log.contradictions[offset] = str(wrong)
            return
        files = table_of([record])
        offsets = np.array([offset], np.int64)
        self._commit(offsets, files, gather(offsets + self.file_id_base, files), [value])

    def finish(self) -> Tally:
        """Count everything that is not a batch, and return the tally."""
        self.apply_waiting()
        tally = self.tally
        for key, one in self.partitions.items():
            tally.add_partition(
                key,
                high_watermark=one.high_watermark,
                log_start=one.log_start,
                first_offset=one.base,
                prefix_start=one.prefix,
                leader_epoch=one.leader_epoch,
                max_timestamp_ms=one.max_timestamp_ms,
                max_timestamp_offset=one.max_timestamp_offset,
            )
            for producer_id, producer in one.producers.items():
                ring = np.array(list(producer.ring), PRODUCER_RING).tobytes()
                tally.add_producer(key, producer_id=producer_id, epoch=producer.epoch, last_append_ms=producer.last_append_ms, ring=ring)
        for held in self.files.values():
            tally.add_file(held.file, held.live_batches)
        for object_key, stone in self.tombstones.items():
            tally.add_tombstone(object_key, reason=stone.reason, time_ms=stone.time_ms, created_ms=stone.created_ms)
        for topic_id, topic in self.topics.items():
            tally.add_topic(topic_id, name=topic.name, order_offset=topic.order_offset, deleted_ms=-1)
        for topic_id, gone in self.gone.items():
            tally.add_topic(topic_id, name="", order_offset=gone.order_offset, deleted_ms=gone.time_ms)
        self.directory.tally(tally)
        epoch, term, seq = self.log.position
        tally.add_header(epoch=epoch, term=term, seq=seq, log_time_ms=self.log_time_ms)
        return tally

    # ---- entries that are not plain commits

    def _apply_unit(self, unit: EffectiveUnit) -> None:
        """Apply entries that take effect together, unless they contradict the log."""
        entries = [(entry.offset, entry.records or ()) for entry in unit.entries]
        match entries:
            case [(offset, [FileCommitted() as file])]:
                self._commit_one(offset, file, unit.entries[0].value)
                return
        if not entries:
            return
        self._judged_at = entries[0][0]
        void = check_effects(entries, self)
        if void is not None:
            of = "" if void.offset == unit.offset else f"its entry {void.offset}: "
            self.log.contradictions[unit.offset] = f"{of}{void.contradiction}"
            return
        for offset, records in entries:
            for record in records:
                self._apply(record, offset)

    def _apply(self, record: Record, offset: int) -> None:
        why = stops_replicas(record)
        if why is not None:
            raise LogFault(offset, f"replicas of this version stop here: {why}")
        match record:
            case PartitionCreated():
                self._create(record, offset)
            case TopicDeleted():
                self._delete_topic(record)
            case RecordsDeleted():
                self._delete_records(record)
            case record if isinstance(record, MIGRATION_STEPS):
                self._migrate(record, offset)
            case PartitionReleased():
                released = self.partitions[key_of(record.topic_id, record.partition)]
                released.base, released.newest_move = RELEASED, record.move_id
                self.directory.release(record, offset + self.file_id_base)
            case PartitionAdopted():
                self._adopt(record, offset)
            case ProducersAdopted():
                self._seed(self.partitions[key_of(record.topic_id, record.partition)], record)
            case ProducersExpired():
                for one in self.partitions.values():
                    one.producers = {key: kept for key, kept in one.producers.items() if kept.last_append_ms >= record.before_ms}
            case TombstonesExpired():
                self._forget(record)
            case FilesFenced():
                for object_key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self.tombstones[object_key] = RebuiltTombstone("fenced", self.log_time_ms, created_ms)
            case FilesRemoved():
                for object_key in record.object_keys:
                    self._bury(object_key, "removed")
            case FilesHandedOver():
                for object_key in record.object_keys:
                    self._bury(object_key, "handed over")
            case NoOp() | SnapshotMark() | TransactionAborted():
                pass
            case Restored():
                self.file_id_base = record.file_id_base
                self.directory.restore(record)
            case _:
                if not self.directory.apply(record, offset + self.file_id_base):
                    raise LogFault(offset, f"it holds a {type(record).__name__}, which replicas of this version cannot apply")

    def _create(self, record: PartitionCreated, offset: int) -> None:
        topic = self.topics.get(record.topic_id)
        if topic is None:
            topic = self.topics[record.topic_id] = RebuiltTopic(record.name, record.order_offset)
            self.gone.pop(record.topic_id, None)
        topic.order_offset = max(topic.order_offset, record.order_offset)
        for partition in partitions_of(record):
            if partition not in topic.partitions:
                topic.partitions.add(partition)
                key = key_of(record.topic_id, partition)
                history = self.deletions.histories.get((key, offset)) or History()
                self.partitions[key] = UserPartition(key, key_lanes(key), history, base=PENDING if record.classic_pending else 0)

    def _delete_topic(self, record: TopicDeleted) -> None:
        self.gone[record.topic_id] = Gone(record.order_offset, 0)
        self.directory.forget_stretches(record.topic_id)
        topic = self.topics.pop(record.topic_id, None)
        for partition in topic.partitions if topic is not None else ():
            del self.partitions[key_of(record.topic_id, partition)]

    def _delete_records(self, record: RecordsDeleted) -> None:
        one = self.partitions.get(key_of(record.topic_id, record.partition))
        if one is not None:
            one.log_start = max(one.log_start, record.new_log_start_offset)

    def _migrate(self, record: MigrationStep, offset: int) -> None:
        key = key_of(record.topic_id, record.partition)
        one = self.partitions[key]
        was_pending = one.base == PENDING
        one.stand(after_step(one.standing, record))
        if isinstance(record, DisklessLogReset):
            one.producers.clear()
            one.history = self.deletions.histories.get((key, offset)) or History()
        if isinstance(record, DisklessLogInitialized) and was_pending:
            self._seed(one, record)

    def _adopt(self, record: PartitionAdopted, offset: int) -> None:
        topic = self.topics.get(record.topic_id)
        if topic is None:
            topic = self.topics[record.topic_id] = RebuiltTopic(record.name, 0)
            self.gone.pop(record.topic_id, None)
        topic.partitions.add(record.partition)
        key = key_of(record.topic_id, record.partition)
        history = self.deletions.histories.get((key, offset)) or History()
        self.partitions[key] = UserPartition(
            key, key_lanes(key), history, record.base_offset, record.start_offset, newest_move=record.move_id
        )
        self.directory.adopt(record)

    def _seed(self, one: UserPartition, record: DisklessLogInitialized | ProducersAdopted) -> None:
        since_ms = max(record.time_ms, self.log_time_ms)
        for seed in record.producers:
            producer = one.producers.setdefault(seed.producer_id, Producer(seed.producer_epoch, since_ms))
            producer.ring.append((seed.base_sequence, seed.last_sequence, seed.base_offset, seed.timestamp_ms))

    def _forget(self, record: TombstonesExpired) -> None:
        before_ms = record.topics_before_ms
        kept = {key: stone for key, stone in self.tombstones.items() if not 0 <= stone.created_ms < record.keys_before_ms}
        self.tombstones = kept
        self.gone = {topic_id: gone for topic_id, gone in self.gone.items() if not 0 < gone.time_ms < before_ms}
        self.directory.forget(before_ms)

    def _bury(self, object_key: str, reason: str) -> None:
        known = self.files.pop(object_key, None)
        self.tombstones[object_key] = RebuiltTombstone(reason, self.log_time_ms, known.file.created_ms if known is not None else -1)

    # ---- what the rules of contradictions ask (`contradictions.Fold`)

    def missing(self, topic_id: bytes, partition: int) -> WrongEntry | None:
        """See `Fold`."""
        if key_of(topic_id, partition) in self.partitions:
            return None
        message = f"partition {partition} of topic {topic_id.hex()} does not exist"
        return WrongEntry(BrokenRule("unknown-partition", message), topic_id, partition)

    def standing(self, topic_id: bytes, partition: int) -> MigrationStanding:
        """See `Fold`."""
        return self.partitions[key_of(topic_id, partition)].standing

    def high_watermark(self, topic_id: bytes, partition: int) -> int:
        """See `Fold`."""
        return self.partitions[key_of(topic_id, partition)].high_watermark

    def stretch(self, topic_id: bytes, partition: int) -> StretchStanding | None:
        """See `Fold`."""
        one = self.partitions.get(key_of(topic_id, partition))
        if one is None:
            return None
        is_classic = one.base == PENDING or one.leader_epoch != NOTHING
        return StretchStanding(one.log_start, one.high_watermark, one.newest_move, one.base == RELEASED, is_classic)

    def producer(self, topic_id: bytes, partition: int, producer_id: int) -> tuple[int, int] | None:
        """See `Fold`."""
        known = self.partitions[key_of(topic_id, partition)].producers.get(producer_id)
        return None if known is None else (known.epoch, known.next_sequence)

    def known_key(self, object_key: str) -> WrongEntry | None:
        """See `Fold`."""
        held, stone = self.files.get(object_key), self.tombstones.get(object_key)
        if held is not None:
            return WrongEntry(BrokenRule("file-committed-twice", f"file {object_key} was committed by entry {held.file.file_offset}"))
        if stone is not None:
            return WrongEntry(BrokenRule("file-committed-after-fence", f"the key of file {object_key} has a tombstone ({stone.reason})"))
        return None

    def has_file(self, object_key: str) -> bool:
        """See `Fold`."""
        return object_key in self.files

    def live_batches(self, object_key: str) -> int:
        """See `Fold`: as of before the entries that are judged, which take effect together."""
        held = self.files.get(object_key)
        return 0 if held is None or held.emptied_at < self._judged_at else 1

    # ---- commits

    def _is_lawful(self, files: FileTable, commits: Commits) -> bool:
        """Whether no file of many contradicts the log; False means: look at each."""
        keys = [head.object_key for head in files.heads]
        if len(set(keys)) != len(keys) or not (self.files.keys().isdisjoint(keys) and self.tombstones.keys().isdisjoint(keys)):
            return False
        if not len(commits.number):
            return True
        if int(commits.columns["byte_offset"].max()) > BATCH_BYTE_MAX or not self.partitions.keys() >= set(commits.keys):
            return False
        owners = [self.partitions[key] for key in commits.keys]
        if any(owner.base < 0 for owner in owners):
            return False
        order = np.argsort(commits.number, kind="stable")
        number, base = commits.number[order], commits.columns["base"][order]
        due = np.concatenate((np.zeros(1, np.int64), (base + commits.columns["count"][order])[:-1]))
        is_first = np.concatenate(([True], number[1:] != number[:-1]))
        due[is_first] = np.array([owner.high_watermark for owner in owners], np.int64)[number[is_first]]
        return bool((due == base).all()) and _producers_follow(commits, owners)

    def _commit(self, offsets: Int64s, files: FileTable, commits: Commits, values: Sequence[bytes]) -> None:
        self._advance_time([head.append_time_ms for head in files.heads])
        owners = [self.partitions[key] for key in commits.keys]
        order, bounds = by_number(commits.number, len(owners))
        effective = commits.effective_time()
        for number, owner in enumerate(owners):
            _advance(owner, commits, order[bounds[number] : bounds[number + 1]], effective)
        deaths = self.take_batches(owners, order, bounds, commits.columns)
        self._remember(commits, owners)
        live = np.bincount(commits.file, weights=deaths == NEVER, minlength=len(files)).astype(np.int64)
        emptied = np.full(len(files), -1, np.int64)
        np.maximum.at(emptied, commits.file, deaths)
        self._know(offsets, files, live, emptied, values)

    def _advance_time(self, append_times_ms: Sequence[int]) -> None:
        """The log has no other clock: deletions get the time of the next file."""
        first_ms = append_times_ms[0]
        self.gone = {topic_id: gone if gone.time_ms else gone._replace(time_ms=first_ms) for topic_id, gone in self.gone.items()}
        self.directory.date(first_ms)
        self.log_time_ms = max(self.log_time_ms, *append_times_ms)

    def _know(self, offsets: Int64s, files: FileTable, live: Int64s, emptied: Int64s, values: Sequence[bytes]) -> None:
        """Remember the files with their live batches; `values` are their entries."""
        rows = zip(
            files.heads, (offsets + self.file_id_base).tolist(), _accepted(files), values, live.tolist(), emptied.tolist(), strict=True
        )
        for head, file_id, batches, value, live_batches, emptied_at in rows:
            file = TalliedFile(
                head.object_key,
                file_id,
                head.content_hash,
                head.file_size,
                head.append_time_ms,
                batches,
                head.object_format,
                head.uploader_broker_id,
                ",".join(map(str, head.owner_ids)),
                head.created_ms,
                hash_record(value),
            )
            self.files[head.object_key] = Held(file, live_batches, emptied_at)

    def take_batches(self, owners: Sequence[UserPartition], order: Int64s, bounds: Int64s, columns: Mapping[str, Int64s]) -> Int64s:
        """Count batches but those that the log deletes, all at once; returns the entry that deletes each of them, or NEVER.

        `order[bounds[n] : bounds[n + 1]]` are those of owner n.
        """
        self.batches += len(order)
        deaths = np.full(len(order), NEVER, np.int64)
        lanes = np.repeat(np.array([owner.lanes for owner in owners], np.int64).reshape(-1, 2), np.diff(bounds), axis=0)
        rows = {name: columns[name][order] for name in BATCH_COLUMNS}
        low, high = hash_batches(lanes[:, 0], lanes[:, 1], rows)
        ends = rows["base"] + rows["count"]
        for number, owner in enumerate(owners):
            part = slice(bounds[number], bounds[number + 1])
            dies = owner.history.deaths(ends[part])
            deaths[order[part]] = dies
            kept = dies == NEVER
            count = int(kept.sum())
            if not count:
                continue
            is_wanted = (RowKind.BATCH, owner.key) in self.tally.wanted
            wanted = {name: column[part][kept] for name, column in rows.items()} if is_wanted else None
            digest = Digest(int(low[part][kept].sum()), int(high[part][kept].sum()))
            self.tally.add_hashed_batches(owner.key, digest, count, wanted)
        return deaths

    def _remember(self, commits: Commits, owners: list[UserPartition]) -> None:
        idempotent = commits.idempotent
        at = idempotent.batch
        appended = commits.append_time[at]
        own_time = np.where(commits.columns["type"][at] == LOG_APPEND_TIME, appended, -1)
        columns = (
            commits.number[at],
            idempotent.producer_id,
            idempotent.producer_epoch,
            appended,
            idempotent.base_sequence,
            idempotent.last_sequence,
            commits.columns["base"][at],
            own_time,
        )
        for number, producer_id, epoch, append_ms, first, last, base, time_ms in zip(*(one.tolist() for one in columns), strict=True):
            producers = owners[number].producers
            producer = producers.get(producer_id)
            if producer is None:
                producer = producers[producer_id] = Producer(epoch, append_ms)
            elif producer.epoch != epoch:
                producer.epoch = epoch
                producer.ring.clear()
            producer.last_append_ms = append_ms
            producer.ring.append((first, last, base, time_ms))


def _accepted(files: FileTable) -> list[int]:
    """How many accepted batches each file has."""
    lines = files.lines
    counts: list[int] = np.bincount(lines[lines[:, VERDICT] == 0, FILE], minlength=len(files)).tolist()
    return counts


def by_number(numbers: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Sort places by their number, of which there are so many: the order, and where each number begins in it, and ends."""
    # Stable: the batches of a partition stay in the order of the log.
    order = np.argsort(numbers, kind="stable")
    return order, np.searchsorted(numbers[order], np.arange(count + 1))


def _advance(owner: UserPartition, commits: Commits, at: Int64s, effective: Int64s) -> None:
    """Move a partition's high watermark past its batches, which follow it."""
    end = commits.columns["base"][at] + commits.columns["count"][at]
    owner.high_watermark = int(end[-1])
    times = effective[at]
    newest = int(times.argmax())
    if times[newest] > owner.max_timestamp_ms:
        owner.max_timestamp_ms, owner.max_timestamp_offset = int(times[newest]), int(end[newest]) - 1


def _producers_follow(commits: Commits, owners: Sequence[UserPartition]) -> bool:
    """Whether every idempotent batch is what its producer must send next."""
    one = commits.idempotent
    if not len(one.batch):
        return True
    number = commits.number[one.batch]
    order = np.lexsort((one.producer_id, number))
    number, producer_id, epoch = number[order], one.producer_id[order], one.producer_epoch[order]
    first, last = one.base_sequence[order], one.last_sequence[order]
    is_same = (number[1:] == number[:-1]) & (producer_id[1:] == producer_id[:-1])
    follows = (epoch[1:] == epoch[:-1]) & (first[1:] == (last[:-1] + 1) & SEQUENCE_MASK) | (epoch[1:] > epoch[:-1]) & (first[1:] == 0)
    if (is_same & ~follows).any():
        return False
    starts = np.concatenate(([0], np.flatnonzero(~is_same) + 1))
    base = commits.columns["base"][one.batch][order]
    for owner, its_id, its_epoch, sequence, offset in zip(
        *(column[starts].tolist() for column in (number, producer_id, epoch, first, base)), strict=True
    ):
        known = owners[owner].producers.get(its_id)
        if known is None:
            conflict = first_sequence_conflict(its_id, offset, sequence)
        else:
            conflict = producer_conflict(its_id, known.epoch, known.next_sequence, its_epoch, sequence)
        if conflict is not None:
            return False
    return True
