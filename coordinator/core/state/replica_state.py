"""The committed state of one replica: hot tables, rows not yet written, and the database behind them.

`apply_files` and `apply_entry` are the only ways in: leader, follower, restart and simulation all go through them, in log
order. Reads never see an entry that was not applied. `freeze` hands over the changes since the last write.
Trimming (counting deleted batches out of their files) is housekeeping on the side: it is bounded per step and never
changes an answer, because deleted batches are invisible from the moment their entry was applied.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.core.directory.content import content_of, restore_content
from coordinator.core.directory.directory import UNDATED
from coordinator.core.files.apply import ApplyResult, apply
from coordinator.core.files.logged import AppliedFiles, LoggedFiles
from coordinator.core.state.frozen import PartitionRow, ProducerRow, freeze_partitions, freeze_producers
from coordinator.core.state.packing import Freeze, Packer, TopicRow, unpack_ring
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.state.trimming import TakenOut
from coordinator.core.state.unwritten import Generation, UnwrittenRun, with_losses
from coordinator.core.tables.cells import RING_WIDTH
from coordinator.core.tables.in_memory import BrokenInvariant, DeletedTopic, HotState, Topic
from coordinator.core.tables.stored_rows import (
    NO_FILES,
    ColdStore,
    EmptyFilesPage,
    FileName,
    FileRow,
    FileTotals,
    Header,
    Rows,
    RunRow,
    Tombstone,
    WrittenRun,
    unpack,
)
from coordinator.kafka.batches import split_partition_key
from records.model import (
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    Record,
    RecordsDeleted,
    TombstonesExpired,
)

OFFSET_END = (1 << 63) - 1
"""An offset behind every other."""

TRIM_BATCHES = 1_000
"""Deleted batches that one step counts out of their files, which takes less than a millisecond."""
TRIM_PARTITION_COST = 10
"""The cost of looking at a partition, in batches counted out."""
EMPTY_FILES_KEPT_MAX = 4096
"""Empty files that are kept, about two megabytes: more than a leader reads before it ends the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The tables as a state database holds them, proven (`core.state.proof`).

    `keys` are the hashes of all known object keys, `tombstone_ages` has those of tombstones; `packer` has the sums to go on from.
    """

    header: Header
    partitions: list[PartitionRow]
    producers: list[ProducerRow]
    topics: list[TopicRow]
    directory: str | None
    keys: set[int]
    tombstone_ages: TombstoneAges[int]
    file_totals: FileTotals
    packer: Packer


class Sealed(NamedTuple):
    """A generation that ends at a mark, frozen when the mark was applied; `last_entry` is the key and the value of the mark's entry.

    While batches are being trimmed the digest depends on how far that is: then replicas cannot be compared by it.
    """

    mark_id: int
    freeze: Freeze
    last_entry: tuple[bytes, bytes]
    is_trimming: bool


@dataclass(slots=True)
class ShardState:
    """State of one metadata partition up to and including `applied_offset`."""

    cold: ColdStore
    hot: HotState = field(default_factory=HotState)
    active: Generation = field(default_factory=Generation)
    frozen: list[Generation] = field(default_factory=list)
    """Generations that are being written or sealed, the oldest first."""
    sealed: deque[Sealed] = field(default_factory=deque)
    """The generations of `frozen` that no writer has taken yet: each ends at a mark."""
    applied_offset: int = -1
    prepared_for: bytes = b""
    """The hash of the entry that begins a restored log, while the state before that entry is that of the old log's snapshot."""
    known_keys: set[int] = field(default_factory=set)
    """The hashes of the keys of files and tombstones."""
    tombstone_ages: TombstoneAges[int] = field(default_factory=TombstoneAges)
    loaded_files: FileTotals = NO_FILES
    """The number of files that were stored when the state was loaded."""
    trimming: OrderedDict[int, int] = field(default_factory=OrderedDict)
    """The offset up to which the deleted batches of a partition are counted out of their files, by its row."""
    dead: dict[int, bytes] = field(default_factory=dict)
    _empty_kept: dict[str, FileRow] = field(default_factory=dict)
    """Empty files that were read a moment ago. Until they end nothing changes in them, and they are read in order to be ended."""

    @staticmethod
    def restore(stored: Stored, cold: ColdStore) -> ShardState:
        """The state as a database holds it."""
        state = ShardState(cold=cold, applied_offset=stored.header.applied_offset)
        if state.applied_offset < 0:
            state.prepared_for = stored.header.last_entry_hash
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
        hot.partitions.collect_free(state.dead)
        for producer in stored.producers:
            state._restore_producer(producer)
        hot.producers.restored()
        if stored.directory is not None:
            hot.snapshots, hot.restoration = restore_content(hot.directory, stored.directory)
        state.known_keys = stored.keys
        state.tombstone_ages = stored.tombstone_ages
        state.loaded_files = stored.file_totals
        return state

    def _restore_partition(self, stored: PartitionRow) -> None:
        table = self.hot.partitions
        row = table.add(stored.key, row=stored.row)
        table.high_watermark.cells[row] = stored.high_watermark
        table.log_start.cells[row] = stored.log_start
        table.first_offset.cells[row] = stored.first_offset
        table.prefix_start.cells[row] = stored.prefix_start
        table.leader_epoch.cells[row] = stored.leader_epoch
        table.max_timestamp.cells[row] = stored.max_timestamp
        table.max_timestamp_offset.cells[row] = stored.max_timestamp_offset
        if stored.is_dead:
            topic_id, partition = split_partition_key(stored.key)
            table.forget(topic_id, [partition])
            self.dead[row] = stored.key
            self.trimming[row] = stored.trimmed_to
            return
        topic_id, partition = split_partition_key(stored.key)
        self.hot.topics[topic_id].partitions.add(partition)
        if stored.trimmed_to < stored.log_start:
            self.trimming[row] = stored.trimmed_to

    def _restore_producer(self, stored: ProducerRow) -> None:
        ring = np.array(unpack_ring(stored.ring), np.int64).reshape(-1, RING_WIDTH)
        self.hot.producers.restore(stored.row, stored.partition_row, stored.producer_id, stored.epoch, stored.last_append_ms, ring)

    # ---- applying

    def apply_entry(self, records: Sequence[Record], offset: int) -> bool:
        """Apply the records, which are no files, of the entry at `offset`; returns whether the directory changed.

        Raises `BrokenInvariant` when they do not fit.
        """
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        has_directory_changed = False
        for record in records:
            if isinstance(record, TombstonesExpired):
                has_directory_changed |= self._apply_expiry(record, offset)
            elif not self._apply_keys(record):
                has_directory_changed |= self._apply_hot(record, offset)
        self.applied_offset = offset
        return has_directory_changed

    def apply_files(self, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
        """Apply the files `[first, stop)`, whose `offsets` are set, up to the first that the log before it rules out.

        The caller has seen that their keys are new.
        """
        if files.offsets[first] <= self.applied_offset:
            raise BrokenInvariant(f"entry {files.offsets[first]} comes again after {self.applied_offset}")
        np.add(files.offsets[first:stop], self.hot.file_id_base, out=files.file_ids[first:stop])
        result = apply(self.hot, files, first, stop)
        end = result.stop
        if end > first:
            applied = AppliedFiles(files, first, end, files.accepted[first:end].tolist())
            self.active.add(applied)
            self.known_keys.update(map(hash, applied.object_keys()))
            self.applied_offset = int(files.offsets[end - 1])
        return result

    def first_doubtful(self, files: LoggedFiles, first: int, stop: int) -> int:
        """The first file whose key may be known, or may be that of an earlier one; `stop` when all are new for certain."""
        hashes = [hash(head.object_key) for head in files.table.heads[first:stop]]
        if len(set(hashes)) == len(hashes) and self.known_keys.isdisjoint(hashes):
            return stop
        seen: set[int] = set()
        for file, hashed in enumerate(hashes, first):
            if hashed in self.known_keys or hashed in seen:
                return file
            seen.add(hashed)
        return stop

    def skip_entry(self, offset: int) -> None:
        """Pass over a void entry."""
        if offset <= self.applied_offset:
            raise BrokenInvariant(f"entry {offset} comes again after {self.applied_offset}")
        self.applied_offset = offset

    def _apply_expiry(self, record: TombstonesExpired, offset: int) -> bool:
        self.active.expire_tombstones(record.keys_before_ms)
        self.known_keys.difference_update(self.tombstone_ages.take_before(record.keys_before_ms))
        # Deleted topics leave the same trace as keys: an id that may not come back.
        return self.hot.apply(record, offset)

    def _apply_keys(self, record: Record) -> bool:
        """Apply a record that only concerns object keys; returns whether it was one."""
        match record:
            case FilesFenced():
                for key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self._bury_again(key, "fenced", created_ms)
            case FilesRemoved():
                self._end_files(record.object_keys, "removed")
            case FilesHandedOver():
                self._end_files(record.object_keys, "handed over")
            case _:
                return False
        return True

    def _end_files(self, object_keys: Sequence[str], reason: str) -> None:
        """Forget files, which leave tombstones; a key that is no file's gets one without a time."""
        files = self.find_files(object_keys)
        for key in object_keys:
            row = files.pop(key, None)
            if row is None:
                self._bury_again(key, reason, -1)
            else:
                self.active.remove_file(row)
                self._empty_kept.pop(key, None)
                self._bury(key, reason, row.created_ms)

    def _bury_again(self, object_key: str, reason: str, created_ms: int) -> None:
        """Take a tombstone, perhaps in the place of an earlier one."""
        earlier = self.find_tombstone(object_key)
        if earlier is not None:
            self.tombstone_ages.discard(earlier.created_ms, hash(object_key))
        self._bury(object_key, reason, created_ms)

    def _bury(self, object_key: str, reason: str, created_ms: int) -> None:
        """Take the tombstone of a key that has none; no file of it is known any more."""
        hashed = hash(object_key)
        self.active.tombstones[object_key] = Tombstone(object_key, reason, self.hot.log_time_ms, created_ms)
        self.tombstone_ages.add(created_ms, hashed)
        self.known_keys.add(hashed)

    def _apply_hot(self, record: Record, offset: int) -> bool:
        hot = self.hot
        forgotten_before = len(hot.touched.partitions_forgotten)
        if isinstance(record, RecordsDeleted):
            row = hot.partitions.find(record.topic_id, record.partition)
            if row is not None and record.new_log_start_offset > hot.partitions.log_start.cells[row]:
                self.trimming.setdefault(row, hot.partitions.log_start.cells[row])
        has_directory_changed = hot.apply(record, offset)
        if gone := hot.touched.partitions_forgotten[forgotten_before:]:
            self._bury_partitions(gone)
        return has_directory_changed

    def _bury_partitions(self, rows: list[int]) -> None:
        """The batches of forgotten partitions are to be counted out, from where that is for those of which some are already."""
        table = self.hot.partitions
        self.dead.update(zip(rows, map(table.keys.__getitem__, rows), strict=True))
        starts = dict(zip(rows, table.log_start.array[rows].tolist(), strict=True))
        for row in starts.keys() & self.trimming.keys():
            del starts[row]
        self.trimming.update(starts)

    # ---- reading

    def _generations(self) -> tuple[Generation, ...]:
        return (*self.frozen, self.active)

    def may_know(self, object_key: str) -> bool:
        """Whether there may be a file or a tombstone of this key; False is certain."""
        return hash(object_key) in self.known_keys

    def may_know_any(self, object_keys: Iterable[str]) -> bool:
        """`may_know` of any of these keys."""
        return not self.known_keys.isdisjoint(map(hash, object_keys))

    def find_file(self, object_key: str) -> FileRow | None:
        """A known file, with its live batches as of now."""
        if not self.may_know(object_key):
            return None
        is_certain, file = self._find_unwritten(object_key)
        if is_certain:
            return file
        row = self.cold.file_by_key(object_key)
        if row is None:
            self._check_absent(object_key)
            return None
        if row.object_key != object_key:
            raise BrokenInvariant(f"the state has file {row.object_key!r:.100} under the key {object_key}")
        return with_losses(row, *self._generations())

    def find_files(self, object_keys: Iterable[str]) -> dict[str, FileRow]:
        """The known files among some keys, with their live batches as of now: much cheaper than one by one."""
        found: dict[str, FileRow] = {}
        left: list[str] = []
        for key in filter(self.may_know, object_keys):
            kept = self._empty_kept.get(key)
            is_certain, file = (True, kept) if kept is not None else self._find_unwritten(key)
            if file is not None:
                found[key] = file
            elif not is_certain:
                left.append(key)
        if left:
            generations = self._generations()
            found.update((row.object_key, with_losses(row, *generations)) for row in self.cold.files_by_key(left))
        for key in left:
            if key not in found:
                self._check_absent(key)
        return found

    def _find_unwritten(self, object_key: str) -> tuple[bool, FileRow | None]:
        """A file of the unwritten generations; with False the database has to be looked at."""
        for generation in reversed(self._generations()):
            if object_key in generation.files_removed:
                return True, None
            file = generation.file(object_key)
            if file is not None:
                return True, with_losses(file, *self._later_than(generation))
        return False, None

    def _check_absent(self, object_key: str) -> None:
        """A key that was committed and is not found is lost: without this check it would be committed again, and its data twice."""
        if any(object_key in generation.tombstones for generation in self._generations()):
            return
        if self.cold.tombstone(object_key) is None:
            raise BrokenInvariant(f"the state has neither a file nor a tombstone of the known key {object_key}")

    def _later_than(self, generation: Generation) -> tuple[Generation, ...]:
        generations = self._generations()
        place = next(number for number, one in enumerate(generations) if one is generation)
        return generations[place + 1 :]

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
            name = generation.file_name(file_id)
            if name is not None:
                return name
        return self.cold.file_name(file_id)

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Known files in key order after a key ('' = from the start)."""
        hidden = {key for generation in self._generations() for key in generation.files_removed}
        rows = {row.object_key: with_losses(row, *self._generations()) for row in self.cold.files_after(object_key, limit + len(hidden))}
        for generation in self._generations():
            for file in generation.files():
                if file.object_key > object_key:
                    rows[file.object_key] = with_losses(file, *self._later_than(generation))
        return [rows[key] for key in sorted(rows) if key not in hidden][:limit]

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> EmptyFilesPage:
        """Files without live batches, as far as that is written, whose `emptied_ms` is below a time; at most so many.

        They are ordered by `emptied_ms` and file id, and begin behind that pair (-1, -1: the first). Files whose end is not written yet
        are left out, so that a page may have fewer rows than there are, or none, without being the last one.
        """
        page = self.cold.empty_files(before_ms, after, limit)
        generations = self._generations()
        found = [
            with_losses(row, *generations)
            for row in page
            if not any(row.object_key in generation.files_removed for generation in generations)
        ]
        if len(self._empty_kept) + len(found) > EMPTY_FILES_KEPT_MAX:
            self._empty_kept.clear()
        self._empty_kept.update((row.object_key, row) for row in found if not row.live_batches)
        return EmptyFilesPage(found, (page[-1].emptied_ms, page[-1].file_id) if len(page) == limit else None)

    def file_totals(self) -> FileTotals:
        """The number of files in the state database."""
        return self.loaded_files.plus(self.cold.file_changes())

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Tombstones in key order after a key ('' = from the start)."""
        unwritten: dict[str, Tombstone | None] = {}
        for generation in self._generations():
            for key, stone in generation.tombstones.items():
                if key > object_key:
                    unwritten[key] = None if _is_expired(stone, *self._later_than(generation)) else stone
        found = [stone for stone in unwritten.values() if stone is not None]
        after, is_end = object_key, False
        wanted = len(found) + limit
        while len(found) < wanted and not is_end:
            page = self.cold.tombstones_after(after, limit)
            found += [one for one in page if one.object_key not in unwritten and not _is_expired(one, *self._generations())]
            is_end = len(page) < limit
            after = page[-1].object_key if page else after
        return sorted(found, key=lambda stone: stone.object_key)[:limit]

    def rows_from(self, partition_row: int, offset: int) -> Iterator[Rows]:
        """The batches of a partition that end at or after an offset, run by run."""
        for run in self.runs_from(partition_row, offset):
            yield run.rows()

    def runs_from(self, partition_row: int, offset: int) -> Iterator[WrittenRun | UnwrittenRun]:
        """The runs of a partition that end at or after an offset."""
        return self._runs(partition_row, offset, self.cold.run_covering)

    def runs_reaching(self, partition_row: int, offset: int, timestamp_ms: int) -> Iterator[WrittenRun | UnwrittenRun]:
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
            for unwritten in generation.runs_from(partition_row, offset):
                yield unwritten.rows()

    def _runs(self, partition_row: int, offset: int, next_run: Callable[[int, int], RunRow | None]) -> Iterator[WrittenRun | UnwrittenRun]:
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

    def trim_step(self, rows_max: int = TRIM_BATCHES) -> bool:
        """Count some deleted batches out of their files; returns whether there is more to do.

        Partitions take turns, a run or a few at a time. A file has batches of many partitions that were written together: when they go
        together, too, the count of the file is written once and not once for each of its partitions.
        """
        budget = rows_max
        taken = TakenOut(self.active)
        try:
            while self.trimming and budget > 0:
                budget -= self._trim_partition(next(iter(self.trimming)), budget, taken) + TRIM_PARTITION_COST
        finally:
            taken.count()
        return bool(self.trimming)

    def _trim_partition(self, row: int, budget: int, taken: TakenOut) -> int:
        """Trim a partition as far as the budget reaches; returns the cost."""
        table = self.hot.partitions
        is_dead = row in self.dead
        target = table.high_watermark.cells[row] if is_dead else table.log_start.cells[row]
        start, cost = self.trimming[row], 0
        # A deleted topic may have very many partitions without a batch.
        if start < target:
            key = self.dead[row] if is_dead else table.keys[row]
            start, cost = taken.take(self.runs_from(row, start), row, key, start, target, budget)
        self.active.trimmed[row] = start
        if start < target:
            self.trimming[row] = start
            self.trimming.move_to_end(row)
        else:
            del self.trimming[row]
            if is_dead:
                self.active.purged.append(row)
        return cost

    # ---- writing

    @property
    def unwritten_batches(self) -> int:
        return self.active.batches

    @property
    def backlog_batches(self) -> int:
        """The number of batches and files that were applied and are not in the database, those included that are being written."""
        return self.active.batches + sum(generation.batches for generation in self.frozen)

    def has_unwritten(self) -> bool:
        """Whether a freeze would hold anything besides a newer applied offset."""
        if self.sealed:
            return True
        touched = self.hot.touched
        changed = self.hot.has_changed_rows() or touched.topics or touched.content or touched.producers_dropped
        keys = self.active.tombstones or self.active.tombstones_expired_before_ms
        return bool(self.active.batches or changed or self.active.trimmed or keys or touched.partitions_forgotten)

    def freeze(self, header: Header, *, results_before_ms: int = 0, written_ms: int = -1) -> Freeze:
        """Hand over everything applied since the last freeze; one at a time, until `written`.

        Results of commits before `results_before_ms` are kept no longer: a repetition is answered 92 in any case.
        """
        if self.frozen:
            raise BrokenInvariant("the state is frozen already")
        return self._freeze(header, results_before_ms, written_ms)

    def seal(self, mark_id: int, header: Header, last_entry: tuple[bytes, bytes]) -> None:
        """Freeze everything applied since the last freeze for a writer that takes it later, so that its write ends here."""
        self.sealed.append(Sealed(mark_id, self._freeze(header, 0, -1), last_entry, bool(self.trimming)))

    def take_sealed(self) -> Sealed | None:
        """Hand over the oldest sealed generation, until `written`; None when there is none, or another is being written."""
        return self.sealed.popleft() if self.sealed and len(self.sealed) == len(self.frozen) else None

    def _freeze(self, header: Header, results_before_ms: int, written_ms: int) -> Freeze:
        frozen, self.active = self.active, Generation()
        self.frozen.append(frozen)
        hot, touched = self.hot, self.hot.take_touched()
        # How far a partition is trimmed is stored with it.
        live, trimmed = hot.partitions.rows.take_changed(), [row for row in frozen.trimmed if row not in self.dead]
        if trimmed:
            live = np.union1d(live, np.array(trimmed, np.int64))
        dead = {*touched.partitions_forgotten, *(row for row in frozen.trimmed if row in self.dead)}
        return Freeze(
            header=header,
            generation=frozen,
            partitions=freeze_partitions(hot.partitions, live, sorted(dead), self.trimming),
            producers=freeze_producers(hot.producers, hot.producers.rows.take_changed()),
            producers_dropped=touched.producers_dropped,
            topics=[row for row in map(self._topic_row, sorted(touched.topics)) if row is not None],
            topics_forgotten=[topic_id for topic_id in sorted(touched.topics) if self._topic_row(topic_id) is None],
            directory=content_of(hot.directory, hot.snapshots, hot.restoration) if touched.content else None,
            results_before_ms=results_before_ms,
            written_ms=written_ms,
        )

    def written(self) -> None:
        """The oldest frozen generation, which was handed over, is in the database."""
        if len(self.frozen) == len(self.sealed):
            raise BrokenInvariant("nothing is being written")
        for row in self.frozen.pop(0).purged:
            del self.dead[row]
            self.hot.partitions.release(row)
        self.cold.written()

    def _topic_row(self, topic_id: bytes) -> TopicRow | None:
        """The row of a topic; None for one that is not even remembered as deleted."""
        topic = self.hot.topics.get(topic_id)
        if topic is not None:
            return TopicRow(topic_id, topic.name, topic.order_offset, -1)
        deleted = self.hot.deleted_topics.get(topic_id)
        return None if deleted is None else TopicRow(topic_id, "", deleted.order_offset, deleted.time_ms)


def _is_expired(stone: Tombstone, *later: Generation) -> bool:
    """Whether a tombstone was expired by a later generation; keys without a creation time never expire."""
    return any(0 <= stone.created_ms < generation.tombstones_expired_before_ms for generation in later)
