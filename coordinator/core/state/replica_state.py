"""The committed state of one replica: hot tables, rows not yet written, and the database behind them.

`apply_entry` is the only way in: leader, follower, restart and simulation all go through it, entry by entry in log
order. Reads never see an entry that was not applied. `freeze` hands over what changed since the last write.
Trimming (counting deleted batches out of their files) is housekeeping on the side: it is bounded per step and never
changes an answer, because deleted batches are invisible from the moment their entry was applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.core.directory.content import content_of, restore_directory
from coordinator.core.directory.directory import UNDATED
from coordinator.core.files.block import AppliedBlock, BlockFile, CommitBlock
from coordinator.core.files.block_apply import apply_block
from coordinator.core.files.read_block import AppliedRead, ReadBlock, apply_read
from coordinator.core.state.frozen import PartitionRow, ProducerRow, freeze_partitions, freeze_producers
from coordinator.core.state.packing import Freeze, Packer, TopicRow, unpack_ring
from coordinator.core.state.unwritten import FileBlock, Generation, TailRun, with_losses
from coordinator.core.tables.in_memory import BrokenInvariant, DeletedTopic, HotState, Topic
from coordinator.core.tables.stored_rows import ColdStore, FileName, FileRow, Header, Rows, RunRow, Tombstone, WrittenRun, unpack
from coordinator.core.tables.tables import RememberedBatch
from coordinator.kafka.batches import partition_key
from records.model import (
    FileCommitted,
    FileHandedOver,
    FilesFenced,
    FilesRemoved,
    Record,
    RecordsDeleted,
    TombstonesExpired,
)

OFFSET_END = (1 << 63) - 1
"""Behind every offset."""

TRIM_PARTITION_COST = 10
"""The cost of looking at a partition, in batches counted out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The tables as a state database holds them, proven (`core.state.proof`).

    `keys` are the hashes of all known object keys and tombstones; `packer` has the sums to go on from.
    """

    header: Header
    partitions: list[PartitionRow]
    producers: list[ProducerRow]
    topics: list[TopicRow]
    directory: str | None
    keys: set[int]
    packer: Packer


@dataclass(slots=True)
class ShardState:
    """State of one metadata partition up to and including `applied_offset`."""

    cold: ColdStore
    hot: HotState = field(default_factory=HotState)
    active: Generation = field(default_factory=Generation)
    frozen: Generation | None = None
    applied_offset: int = -1
    known_keys: set[int] = field(default_factory=set)
    has_forgotten_keys: bool = False
    """Whether some of `known_keys` may have neither a file nor a tombstone any more."""
    trimming: dict[int, int] = field(default_factory=dict)
    dead: dict[int, bytes] = field(default_factory=dict)

    @staticmethod
    def restore(stored: Stored, cold: ColdStore) -> ShardState:
        """The state as a database holds it."""
        state = ShardState(cold=cold, applied_offset=stored.header.applied_offset)
        hot = state.hot
        hot.log_time_ms = stored.header.log_time_ms
        for topic in stored.topics:
            if topic.deleted_ms >= 0:
                hot.deleted_topics[topic.topic_id] = DeletedTopic(topic.order_offset, topic.deleted_ms)
                if topic.deleted_ms == UNDATED:
                    hot.undated.add(topic.topic_id)
            else:
                hot.topics[topic.topic_id] = Topic(topic.topic_id, topic.name, topic.order_offset)
        for row in stored.partitions:
            state._restore_partition(row)
        hot.partitions.collect_free()
        for producer in stored.producers:
            state._restore_producer(producer)
        hot.producers.collect_free()
        if stored.directory is not None:
            restore_directory(hot.directory, stored.directory)
        state.known_keys = stored.keys
        return state

    def _restore_partition(self, stored: PartitionRow) -> None:
        table = self.hot.partitions
        row = table.add(stored.key, row=stored.row)
        table.high_watermark.cells[row] = stored.high_watermark
        table.log_start.cells[row] = stored.log_start
        table.first_offset.cells[row] = stored.first_offset
        table.max_timestamp.cells[row] = stored.max_timestamp
        table.max_timestamp_offset.cells[row] = stored.max_timestamp_offset
        if stored.is_dead:
            table.forget(stored.key)
            self.dead[row] = stored.key
            self.trimming[row] = stored.trimmed_to
            return
        topic_id, partition = stored.key[:16], int.from_bytes(stored.key[16:], "big")
        self.hot.topics[topic_id].partitions.add(partition)
        if stored.trimmed_to < stored.log_start:
            self.trimming[row] = stored.trimmed_to

    def _restore_producer(self, stored: ProducerRow) -> None:
        table = self.hot.producers
        row = table.add(stored.partition_row, stored.producer_id, row=stored.row)
        for first, last, base, time in unpack_ring(stored.ring):
            table.remember(row, stored.epoch, RememberedBatch(first, last, base, time), stored.last_append_ms)

    # ---- applying

    def apply_entry(self, records: Sequence[Record], offset: int, encoded: bytes) -> bool:
        """Apply the records of the entry at `offset`, the successor of the applied offset; returns whether the directory changed.

        Raises `BrokenInvariant` when they do not fit.
        """
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        has_directory_changed = False
        for record in records:
            if isinstance(record, FileCommitted):
                has_directory_changed |= self._apply_file(record, offset, encoded)
            elif isinstance(record, TombstonesExpired):
                has_directory_changed |= self._apply_expiry(record, offset)
            elif not self._apply_keys(record):
                has_directory_changed |= self._apply_hot(record, offset)
        self.applied_offset = offset
        return has_directory_changed

    def apply_block(self, block: CommitBlock | ReadBlock, offsets: Sequence[int]) -> None:
        """Apply the files of a block, whose entries stand at these offsets."""
        if offsets[0] <= self.applied_offset:
            raise BrokenInvariant(f"entry {offsets[0]} comes again after {self.applied_offset}")
        rows = apply_read(self.hot, block) if isinstance(block, ReadBlock) else apply_block(self.hot, block)
        batches = block.batches_of_file
        files = [BlockFile(block, at, offset, batches[at]) for at, offset in enumerate(offsets)]
        self.active.add_block(AppliedRead(block, rows, files) if isinstance(block, ReadBlock) else AppliedBlock(block, rows, files))
        self.known_keys.update(map(hash, block.object_keys()))
        self.applied_offset = offsets[-1]

    def are_new_files(self, block: CommitBlock | ReadBlock) -> bool:
        """Whether no key of a block's files is known, nor twice among them. False means: look at each."""
        hashes = set(map(hash, block.object_keys()))
        return len(hashes) == len(block.batches_of_file) and self.known_keys.isdisjoint(hashes)

    def skip_entry(self, offset: int) -> None:
        """Pass over a void entry."""
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        self.applied_offset = offset

    def _apply_file(self, record: FileCommitted, offset: int, encoded: bytes) -> bool:
        index = self.hot.partitions.index
        try:
            rows = [index[partition_key(record.topic_ids[t], p)] for t, p in zip(record.run_topic, record.run_partition, strict=True)]
        except KeyError as missing:
            raise BrokenInvariant(f"entry {offset} commits {record.object_key} to unknown partition {missing}") from None
        has_directory_changed = self.hot.apply(record, offset)
        self.active.add(FileBlock(offset, record, rows, encoded, len(record.byte_size)))
        self.known_keys.add(hash(record.object_key))
        return has_directory_changed

    def _apply_expiry(self, record: TombstonesExpired, offset: int) -> bool:
        self.active.expire_tombstones(record.before_ms)
        self.has_forgotten_keys = True
        # Deleted topics leave the same trace as keys: an id that may not come back.
        return self.hot.apply(record, offset)

    def _apply_keys(self, record: Record) -> bool:
        """Apply a record that only concerns object keys; returns whether it was one."""
        now_ms = self.hot.log_time_ms
        match record:
            case FilesFenced():
                for key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self._bury(Tombstone(key, "fenced", now_ms, created_ms))
            case FilesRemoved():
                for key in record.object_keys:
                    self._bury(Tombstone(key, "removed", now_ms, self._forget_file(key)))
            case FileHandedOver():
                created_ms = self._forget_file(record.object_key)
                self._bury(Tombstone(record.object_key, "handed over", now_ms, created_ms))
            case _:
                return False
        return True

    def _bury(self, stone: Tombstone) -> None:
        self.active.tombstones[stone.object_key] = stone
        self.known_keys.add(hash(stone.object_key))

    def _forget_file(self, object_key: str) -> int:
        """Drop a file from the known ones; returns its creation time."""
        row = self.find_file(object_key)
        if row is None:
            return -1
        self.active.files.pop(object_key, None)
        self.active.files_removed[object_key] = row
        return row.created_ms

    def _apply_hot(self, record: Record, offset: int) -> bool:
        hot = self.hot
        forgotten_before = len(hot.touched.partitions_forgotten)
        if isinstance(record, RecordsDeleted):
            row = hot.partitions.index.get(partition_key(record.topic_id, record.partition))
            if row is not None and record.new_log_start_offset > hot.partitions.log_start.cells[row]:
                self.trimming.setdefault(row, hot.partitions.log_start.cells[row])
        has_directory_changed = hot.apply(record, offset)
        for row in hot.touched.partitions_forgotten[forgotten_before:]:
            self.dead[row] = hot.partitions.keys[row]
            self.trimming.setdefault(row, hot.partitions.log_start.cells[row])
        return has_directory_changed

    # ---- reading

    def _generations(self) -> tuple[Generation, ...]:
        return (self.active,) if self.frozen is None else (self.frozen, self.active)

    def may_know(self, object_key: str) -> bool:
        """Whether there may be a file or a tombstone of this key; False is certain."""
        return hash(object_key) in self.known_keys

    def find_file(self, object_key: str) -> FileRow | None:
        """A known file, with its live batches as of now."""
        if not self.may_know(object_key):
            return None
        for generation in reversed(self._generations()):
            if object_key in generation.files_removed:
                return None
            block = generation.files.get(object_key)
            if block is not None:
                return with_losses(block.file_row(), *self._later_than(generation))
        row = self.cold.file_by_key(object_key)
        if row is None:
            self._check_absent(object_key)
            return None
        if row.object_key != object_key:
            raise BrokenInvariant(f"the state has file {row.object_key!r:.100} under the key {object_key}")
        return with_losses(row, self.frozen, self.active)

    def _check_absent(self, object_key: str) -> None:
        """A key that was committed and is not found is lost: without this check it would be committed again, and its data twice."""
        if self.has_forgotten_keys or any(object_key in generation.tombstones for generation in self._generations()):
            return
        if self.cold.tombstone(object_key) is None:
            raise BrokenInvariant(f"the state has neither a file nor a tombstone of the known key {object_key}")

    def _later_than(self, generation: Generation) -> tuple[Generation, ...]:
        return (self.active,) if generation is self.frozen else ()

    def find_tombstone(self, object_key: str) -> Tombstone | None:
        """The tombstone of a key, if it has one."""
        if not self.may_know(object_key):
            return None
        for generation in reversed(self._generations()):
            stone = generation.tombstones.get(object_key)
            if stone is not None:
                return None if _is_expired(stone, *self._later_than(generation)) else stone
        stone = self.cold.tombstone(object_key)
        return None if stone is None or _is_expired(stone, *self._generations()) else stone

    def file_name(self, file_id: int) -> FileName | None:
        """A known file by the offset of its entry."""
        for generation in self._generations():
            block = generation.files_by_id.get(file_id)
            if block is not None:
                return block.file_name()
        return self.cold.file_name(file_id)

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Known files in key order after a key ('' = from the start)."""
        hidden = {key for generation in self._generations() for key in generation.files_removed}
        rows = {row.object_key: with_losses(row, *self._generations()) for row in self.cold.files_after(object_key, limit + len(hidden))}
        for generation in self._generations():
            for key, block in generation.files.items():
                if key > object_key:
                    rows[key] = with_losses(block.file_row(), *self._later_than(generation))
        return [rows[key] for key in sorted(rows) if key not in hidden][:limit]

    def rows_from(self, partition_row: int, offset: int) -> Iterator[Rows]:
        """The batches of a partition that end at or after an offset, run by run."""
        for run in self.runs_from(partition_row, offset):
            yield run.rows()

    def runs_from(self, partition_row: int, offset: int) -> Iterator[WrittenRun | TailRun]:
        """The runs of a partition that end at or after an offset."""
        return self._runs(partition_row, offset, self.cold.run_covering)

    def runs_reaching(self, partition_row: int, offset: int, timestamp_ms: int) -> Iterator[WrittenRun | TailRun]:
        """Like `runs_from`, without the written runs whose batches are all older than a time."""
        return self._runs(partition_row, offset, lambda row, at: self.cold.run_reaching(row, at, timestamp_ms))

    def rows_of_greatest(self, partition_row: int, offset: int) -> Iterator[Rows]:
        """Runs in offset order, the first batch with the greatest effective timestamp from an offset on among them."""
        run = self.cold.max_run(partition_row, offset)
        while run is not None:
            yield unpack(run)
            # The greatest of a run that is cut by the offset may lie before it: then one of the later runs has it.
            run = self.cold.max_run(partition_row, run.last + 1) if run.base < offset else None
        for generation in self._generations():
            for tail_run in generation.runs_from(partition_row, offset):
                yield tail_run.rows()

    def _runs(self, partition_row: int, offset: int, next_run: Callable[[int, int], RunRow | None]) -> Iterator[WrittenRun | TailRun]:
        """Written runs first, up to where the unwritten ones begin: a run being written is in both places."""
        unwritten = [(generation, generation.first_base(partition_row)) for generation in self._generations()]
        written_end = next((base for _, base in unwritten if base is not None), OFFSET_END)
        at = offset
        while at < written_end:
            run = next_run(partition_row, at)
            if run is None:
                break
            if run.partition_row != partition_row or not max(run.base, at) <= run.last:
                raise BrokenInvariant(f"run {run.base} to {run.last} of row {run.partition_row} was given for {at} of row {partition_row}")
            if run.base >= written_end:
                break
            # Short runs are joined as they are written, so one run can hold old batches and those of the frozen generation.
            yield WrittenRun(run, written_end)
            at = run.last + 1
        for generation, base in unwritten:
            if base is not None:
                yield from generation.runs_from(partition_row, offset)

    # ---- housekeeping

    def trim_step(self, rows_max: int = 20_000) -> bool:
        """Count some deleted batches out of their files; returns whether there is more to do."""
        budget = rows_max
        while self.trimming and budget > 0:
            budget -= self._trim_partition(next(iter(self.trimming)), budget) + TRIM_PARTITION_COST
        return bool(self.trimming)

    def _trim_partition(self, row: int, budget: int) -> int:
        table = self.hot.partitions
        is_dead = row in self.dead
        target = table.high_watermark.cells[row] if is_dead else table.log_start.cells[row]
        start = self.trimming[row]
        done = 0
        # A deleted topic may have very many partitions without a batch.
        for rows in self.rows_from(row, start) if start < target else ():
            last = rows["base"] + rows["count"] - 1
            if not len(rows) or int(rows["base"][0]) > start:
                raise BrokenInvariant(f"no batch holds offset {start} of row {row}, which is to be counted out of its file")
            gone = rows[(last >= start) & (last < target)]
            self._lose(row, gone)
            done += len(gone) + 1
            start = min(int(last[-1]) + 1, target)
            if start >= target or done >= budget:
                break
        else:
            if start < target:
                raise BrokenInvariant(f"the batches of row {row} end at {start}, before {target}, up to which they were deleted")
        self.active.trimmed[row] = start
        if start < target:
            self.trimming[row] = start
        else:
            del self.trimming[row]
            if is_dead:
                self.active.purged.append(row)
        return done

    def _lose(self, row: int, gone: Rows) -> None:
        if not len(gone):
            return
        self.active.trimmed_rows.append((row, gone))
        files, counts = np.unique(gone["file"], return_counts=True)
        for file_id, count in zip(files.tolist(), counts.tolist(), strict=True):
            self.active.lose(file_id, count)

    # ---- writing

    @property
    def unwritten_batches(self) -> int:
        return self.active.batches

    def has_unwritten(self) -> bool:
        """Whether a freeze would hold anything besides a newer applied offset."""
        touched = self.hot.touched
        changed = touched.partitions or touched.producers or touched.topics or touched.directory or touched.producers_dropped
        keys = self.active.tombstones or self.active.tombstones_expired_before_ms
        return bool(self.active.batches or changed or self.active.trimmed or keys or touched.partitions_forgotten)

    def freeze(self, header: Header, *, results_before_ms: int = 0) -> Freeze:
        """Hand over everything applied since the last freeze; one at a time, until `written`.

        Results of commits before `results_before_ms` are kept no longer: a repetition is answered 92 in any case.
        """
        if self.frozen is not None:
            raise BrokenInvariant("the state is frozen already")
        self.frozen, self.active = self.active, Generation()
        hot, touched = self.hot, self.hot.take_touched()
        # How far a partition is trimmed is stored with it.
        live = touched.partitions.union(row for row in self.frozen.trimmed if row not in self.dead)
        dead = {*touched.partitions_forgotten, *(row for row in self.frozen.trimmed if row in self.dead)}
        return Freeze(
            header=header,
            generation=self.frozen,
            partitions=freeze_partitions(hot.partitions, live, sorted(dead), self.trimming),
            producers=freeze_producers(hot.producers, touched.producers),
            producers_dropped=touched.producers_dropped,
            topics=[row for row in map(self._topic_row, sorted(touched.topics)) if row is not None],
            topics_forgotten=[topic_id for topic_id in sorted(touched.topics) if self._topic_row(topic_id) is None],
            directory=content_of(hot.directory) if touched.directory else None,
            results_before_ms=results_before_ms,
        )

    def written(self) -> None:
        """The frozen generation is in the database."""
        if self.frozen is None:
            raise BrokenInvariant("nothing is frozen")
        for row in self.frozen.purged:
            del self.dead[row]
            self.hot.partitions.release(row)
        self.frozen = None
        self.cold.written()

    def _topic_row(self, topic_id: bytes) -> TopicRow | None:
        """None for one that is not even remembered as deleted."""
        topic = self.hot.topics.get(topic_id)
        if topic is not None:
            return TopicRow(topic_id, topic.name, topic.order_offset, -1)
        deleted = self.hot.deleted_topics.get(topic_id)
        return None if deleted is None else TopicRow(topic_id, "", deleted.order_offset, deleted.time_ms)


def _is_expired(stone: Tombstone, *later: Generation) -> bool:
    """Whether a tombstone was expired by what came after it; keys without a creation time never expire."""
    return any(0 <= stone.created_ms < generation.tombstones_expired_before_ms for generation in later)
