"""The committed state of one replica: tables that entries change and reads look at, restored from a database and written to it.

`freeze` hands over the changes since the last write.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.core.directory.content import content_of, restore_content
from coordinator.core.directory.directory import UNDATED
from coordinator.core.moves import NO_MOVE
from coordinator.core.state.applying import Applying
from coordinator.core.state.frozen import PartitionRow, ProducerRow, freeze_partitions, freeze_producers
from coordinator.core.state.packing import Freeze, Packer, TopicRow, unpack_ring
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.state.unwritten import Generation
from coordinator.core.tables.cells import RING_WIDTH
from coordinator.core.tables.in_memory import BrokenInvariant, DeletedTopic, Topic
from coordinator.core.tables.stored_rows import ColdStore, FileTotals, Header
from coordinator.kafka.batches import split_partition_key


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
class ShardState(Applying):
    """State of one metadata partition up to and including `applied_offset`."""

    sealed: deque[Sealed] = field(default_factory=deque)
    """The generations of `frozen` that no writer has taken yet: each ends at a mark."""
    prepared_for: bytes = b""
    """The hash of the entry that begins a restored log, while the state before that entry is that of the old log's snapshot."""

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
        # A partition that came back has its row beside the dead one of an earlier stretch, which has the same key and is forgotten.
        for row in sorted(stored.partitions, key=lambda one: not one.is_dead):
            state._restore_partition(row)
        hot.partitions.collect_free(state.dead)
        for producer in stored.producers:
            state._restore_producer(producer)
        hot.producers.restored()
        if stored.directory is not None:
            hot.snapshots, hot.restoration, hot.stretches = restore_content(hot.directory, stored.directory)
            hot.newest_move = max((one.newest_move for one in hot.stretches.values()), default=NO_MOVE)
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
            directory=content_of(hot.directory, hot.snapshots, hot.restoration, hot.stretches) if touched.content else None,
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
