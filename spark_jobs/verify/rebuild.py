"""Second pass of `verify`: the state of one metadata partition, rebuilt from its entries in order and tallied.

Independent of the coordinator on purpose. Rows of deleted batches are never counted: `Deletions` says beforehand which
will be. Plain commits are collected and applied together; everything else is applied entry by entry, in its place.
Memory is that of partitions, producers, known files and tombstones, and of a transaction that is open; batches are hashed
and dropped. With a transaction open the state is that before it, as in replicas.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.bulk_decode import decode_file_entries
from records.bulk_files import FileColumns, files_of, merge_files
from records.model import (
    FileCommitted,
    FileHandedOver,
    FilesFenced,
    FilesRemoved,
    NoOp,
    PartitionCreated,
    ProducersExpired,
    Record,
    RecordsDeleted,
    SnapshotCommitted,
    SnapshotMark,
    TombstonesExpired,
    TopicDeleted,
    TransactionAborted,
)
from records.state_digest import PRODUCER_RING, Digest, hash_batches, key_lanes
from spark_jobs.verify.commits import LOG_APPEND_TIME, Commits, gather
from spark_jobs.verify.deletions import Deletions, key_of, partitions_of
from spark_jobs.verify.directory import Directory
from spark_jobs.verify.effective import EffectiveLog
from spark_jobs.verify.judged import LogFault, records_of
from spark_jobs.verify.tally import Kind, KnownFile, Tally

Int64s = npt.NDArray[np.int64]

BYTES_TOGETHER_MAX = 1 << 20
REMEMBERED_BATCHES = 5
NO_TIMESTAMP = -1


@dataclass(slots=True)
class UserPartition:
    """A user partition that exists, and its producers by id."""

    key: bytes
    lanes: tuple[int, int]
    final_log_start: int
    high_watermark: int = 0
    log_start: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_offset: int = -1
    producers: dict[int, Producer] = field(default_factory=dict)


@dataclass(slots=True)
class Producer:
    """Epoch, time of the last batch, and the last five batches as (first sequence, last sequence, base offset, time)."""

    epoch: int
    last_append_ms: int
    ring: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


@dataclass(slots=True)
class Topic:
    """A topic with partitions here."""

    name: str
    order_offset: int
    partitions: set[int] = field(default_factory=set)


class Gone(NamedTuple):
    """A deleted topic id that is remembered; `time_ms` 0: no file came since."""

    order_offset: int
    time_ms: int


class Tombstone(NamedTuple):
    """Why an object key may not be committed (again)."""

    reason: str
    time_ms: int
    created_ms: int


@dataclass(slots=True)
class Rebuild:
    """State of one metadata partition up to `log.judge.next_offset`; batches are already in `tally`."""

    deletions: Deletions
    tally: Tally = field(default_factory=Tally)
    log: EffectiveLog = field(default_factory=EffectiveLog)
    batches: int = 0
    log_time_ms: int = 0
    partitions: dict[bytes, UserPartition] = field(default_factory=dict)
    topics: dict[bytes, Topic] = field(default_factory=dict)
    gone: dict[bytes, Gone] = field(default_factory=dict)
    files: dict[str, tuple[KnownFile, int]] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    directory: Directory = field(default_factory=Directory)
    _waiting: list[tuple[int, bytes]] = field(default_factory=list)
    _waiting_bytes: int = 0

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next entry. Raises `LogFault`."""
        # Here values are those of the log: an empty one cannot be decoded, and stands for nothing.
        for entry in self.log.read(offset, key, value or None):
            if entry.records is None:
                self._wait(entry.offset, entry.value)
                continue
            self.apply_waiting()
            for record in entry.records:
                self._apply(record, entry.offset)

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
        ends = np.cumsum(np.array([len(value) for _, value in waiting], np.int64))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        taken, files = decode_file_entries(np.frombuffer(b"".join(value for _, value in waiting), np.uint8), starts, ends)
        slow = [(at, _single_commit(*waiting[at])) for at in np.flatnonzero(~taken).tolist()]
        if slow:
            files = merge_files(files, files_of(slow))
        self._commit(np.array([offset for offset, _ in waiting], np.int64)[files.message], files)

    def finish(self) -> Tally:
        """Count everything that is not a batch, and return the tally."""
        self.apply_waiting()
        tally = self.tally
        for key, one in self.partitions.items():
            tally.add_partition(
                key,
                high_watermark=one.high_watermark,
                log_start=one.log_start,
                first_offset=0,
                max_timestamp_ms=one.max_timestamp_ms,
                max_timestamp_offset=one.max_timestamp_offset,
            )
            for producer_id, producer in one.producers.items():
                ring = np.array(list(producer.ring), PRODUCER_RING).tobytes()
                tally.add_producer(key, producer_id=producer_id, epoch=producer.epoch, last_append_ms=producer.last_append_ms, ring=ring)
        for file, live_batches in self.files.values():
            tally.add_file(file, live_batches)
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

    def _apply(self, record: Record, offset: int) -> None:
        match record:
            case FileCommitted():
                self._commit(np.array([offset], np.int64), files_of([(0, record)]))
            case PartitionCreated():
                self._create(record, partitions_of(record, offset))
            case TopicDeleted():
                self._delete_topic(record)
            case RecordsDeleted():
                self._delete_records(record, offset)
            case ProducersExpired():
                for one in self.partitions.values():
                    one.producers = {key: kept for key, kept in one.producers.items() if kept.last_append_ms >= record.before_ms}
            case TombstonesExpired():
                self._forget(record.before_ms)
            case FilesFenced():
                for object_key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self.tombstones[object_key] = Tombstone("fenced", self.log_time_ms, created_ms)
            case FilesRemoved():
                for object_key in record.object_keys:
                    self._bury(object_key, "removed")
            case FileHandedOver():
                self._bury(record.object_key, "handed over")
            case NoOp() | SnapshotMark() | SnapshotCommitted() | TransactionAborted():
                pass
            case _:
                if not self.directory.apply(record, offset):
                    raise LogFault(offset, f"it holds a {type(record).__name__}, which replicas of this version cannot apply")

    def _create(self, record: PartitionCreated, partitions: range) -> None:
        topic = self.topics.get(record.topic_id)
        if topic is None:
            topic = self.topics[record.topic_id] = Topic(record.name, record.order_offset)
            self.gone.pop(record.topic_id, None)
        topic.order_offset = max(topic.order_offset, record.order_offset)
        for partition in partitions:
            if partition not in topic.partitions:
                topic.partitions.add(partition)
                key = key_of(record.topic_id, partition)
                self.partitions[key] = UserPartition(key, key_lanes(key), self.deletions.log_starts.get(key, 0))

    def _delete_topic(self, record: TopicDeleted) -> None:
        self.gone[record.topic_id] = Gone(record.order_offset, 0)
        topic = self.topics.pop(record.topic_id, None)
        for partition in topic.partitions if topic is not None else ():
            del self.partitions[key_of(record.topic_id, partition)]

    def _delete_records(self, record: RecordsDeleted, offset: int) -> None:
        one = self.partitions.get(key_of(record.topic_id, record.partition))
        if one is None:
            return
        if record.new_log_start_offset > one.high_watermark:
            raise LogFault(offset, f"records are deleted up to {record.new_log_start_offset}, past the high watermark {one.high_watermark}")
        one.log_start = max(one.log_start, record.new_log_start_offset)

    def _forget(self, before_ms: int) -> None:
        self.tombstones = {key: stone for key, stone in self.tombstones.items() if not 0 <= stone.created_ms < before_ms}
        self.gone = {topic_id: gone for topic_id, gone in self.gone.items() if not 0 < gone.time_ms < before_ms}
        self.directory.forget(before_ms)

    def _bury(self, object_key: str, reason: str) -> None:
        known = self.files.pop(object_key, None)
        self.tombstones[object_key] = Tombstone(reason, self.log_time_ms, known[0].created_ms if known is not None else -1)

    # ---- commits

    def _commit(self, offsets: Int64s, files: FileColumns) -> None:
        commits = gather(offsets, files)
        self.batches += len(commits.number)
        self._advance_time(files.append_time_ms)
        survives = np.zeros(len(commits.number), bool)
        # Stable: the batches of a partition stay in the order of the log.
        order = np.argsort(commits.number, kind="stable")
        bounds = np.searchsorted(commits.number[order], np.arange(len(commits.keys) + 1))
        owners = [self._owner(commits, number) for number in range(len(commits.keys))]
        effective = commits.effective_time()
        for number, owner in enumerate(owners):
            self._take(owner, commits, order[bounds[number] : bounds[number + 1]], effective, survives)
        self._count_batches(commits, owners, order, bounds, survives)
        self._remember(commits, owners)
        live = np.bincount(commits.file, weights=survives, minlength=len(files)).astype(np.int64)
        self._know(offsets, files, live)

    def _owner(self, commits: Commits, number: int) -> UserPartition:
        key = commits.keys[number]
        owner = self.partitions.get(key)
        if owner is None:
            offset = int(commits.columns["file"][(commits.number == number).argmax()])
            partition = int.from_bytes(key[16:], "big", signed=True)
            raise LogFault(offset, f"it commits to partition {partition} of topic {key[:16].hex()}, which does not exist")
        return owner

    def _advance_time(self, append_times_ms: Int64s) -> None:
        """The log has no other clock: deletions get the time of the first file behind them."""
        first_ms = int(append_times_ms[0])
        self.gone = {topic_id: gone if gone.time_ms else gone._replace(time_ms=first_ms) for topic_id, gone in self.gone.items()}
        self.directory.date(first_ms)
        self.log_time_ms = max(self.log_time_ms, int(append_times_ms.max()))

    def _know(self, offsets: Int64s, files: FileColumns, live: Int64s) -> None:
        """Remember the files with their live batches."""
        stops = files.owners_of_file.cumsum().tolist()
        owner_ids = list(map(str, files.owner_ids.tolist()))
        rows = zip(
            files.object_keys(),
            offsets.tolist(),
            files.hash_list(),
            files.file_size.tolist(),
            files.append_time_ms.tolist(),
            files.numbers.batches_of_file.tolist(),
            files.object_format.tolist(),
            files.uploader_broker_id.tolist(),
            [",".join(owner_ids[start:stop]) for start, stop in zip([0, *stops[:-1]], stops, strict=True)],
            files.created_ms.tolist(),
            strict=True,
        )
        for row, live_batches in zip(rows, live.tolist(), strict=True):
            self.files[row[0]] = (KnownFile(*row), live_batches)

    def _take(self, owner: UserPartition, commits: Commits, at: Int64s, effective: Int64s, survives: npt.NDArray[np.bool_]) -> None:
        """Move a partition's high watermark past its batches, which must follow it without a gap."""
        base, count = commits.columns["base"][at], commits.columns["count"][at]
        end = base + count
        follows = np.concatenate(([owner.high_watermark], end[:-1])) == base
        if not follows.all():
            wrong = int(follows.argmin())
            due = owner.high_watermark if wrong == 0 else int(end[wrong - 1])
            raise LogFault(int(commits.columns["file"][at][wrong]), f"it assigns offset {base[wrong]} where the high watermark is {due}")
        owner.high_watermark = int(end[-1])
        times = effective[at]
        newest = int(times.argmax())
        if times[newest] > owner.max_timestamp_ms:
            owner.max_timestamp_ms, owner.max_timestamp_offset = int(times[newest]), int(end[newest]) - 1
        deleted_at = self.deletions.deleted_at.get(owner.key[:16], -1)
        survives[at] = (end > owner.final_log_start) & (commits.columns["file"][at] > deleted_at)

    def _count_batches(
        self, commits: Commits, owners: list[UserPartition], order: Int64s, bounds: Int64s, survives: npt.NDArray[np.bool_]
    ) -> None:
        """Hash all surviving batches at once and add them up by partition."""
        lanes = np.array([owner.lanes for owner in owners], np.int64)[commits.number[order]] if owners else np.zeros((0, 2), np.int64)
        rows = {name: column[order] for name, column in commits.columns.items()}
        low, high = hash_batches(lanes[:, 0], lanes[:, 1], rows)
        kept = survives[order]
        low[~kept] = 0
        high[~kept] = 0
        for number, owner in enumerate(owners):
            part = slice(bounds[number], bounds[number + 1])
            count = int(kept[part].sum())
            if not count:
                continue
            is_wanted = (Kind.BATCH, owner.key) in self.tally.wanted
            wanted = {name: column[part][kept[part]] for name, column in rows.items()} if is_wanted else None
            self.tally.add_hashed_batches(owner.key, Digest(int(low[part].sum()), int(high[part].sum())), count, wanted)

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


def _single_commit(offset: int, value: bytes) -> FileCommitted:
    """The commit of an entry that begins like one alone. Avro lets more records follow, but nobody writes them so."""
    match records_of(offset, value):
        case [FileCommitted() as record]:
            return record
    raise LogFault(offset, "it holds more records than its beginning says, which no coordinator writes and this job does not read")
