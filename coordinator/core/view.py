"""How others read a shard: at any time, and without changing it.

A view shows the applied state. Commits that were answered a moment ago are missing until the shard is settled. Readers that must see
every answered commit settle the shard first (`runtime.replica.Replica.look`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from coordinator.core.commands import CommitFile, CommitResult, FetchPoint, FoundBatches, FoundOffset, LogFacts, OffsetQuery
from coordinator.core.committed import AppliedCounts, CommitCounts
from coordinator.core.directory.content import Restoration
from coordinator.core.directory.directory import Directory
from coordinator.core.leadership.states import State
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.moves import Stretch
from coordinator.core.reads.former_commits import answer_committed_before, knows_release
from coordinator.core.reads.queries import FetchBudget, find_batches, list_released, past_the_end
from coordinator.core.reads.retention import Bound, Known, LookedAt, look_at, look_at_released
from coordinator.core.shard import Shard
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.cells import FIRST_OFFSET, HIGH_WATERMARK
from coordinator.core.tables.diskless_log import facts_of
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.stored_rows import EmptyFilesPage, FileRow, Tombstone
from coordinator.core.tables.tables import Int64s, MigrationCounts
from coordinator.kafka.batches import split_partition_key
from coordinator.kafka.topic_configs import Retention
from records.log import Fence
from records.model import LeadershipClaimed, SnapshotCommitted


class FileCounts(NamedTuple):
    """Files with and without live batches, the sizes of their objects, and the keys that are out."""

    live: int
    empty: int
    bytes_live: int
    bytes_empty: int
    tombstones: int


class ShardView:
    """The questions that others may ask of one shard. Shows the applied state; changes and settles nothing."""

    __slots__ = ("_shard",)

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    # ---- leadership

    @property
    def phase(self) -> State:
        return self._shard.phase

    @property
    def is_leading(self) -> bool:
        """Whether this replica serves writes and strict reads."""
        return self._shard.is_leading

    def leads_term(self, epoch: int, term_id: int) -> bool:
        """Whether this replica leads, in this very term."""
        return self._shard.leads_term(epoch, term_id)

    @property
    def failure(self) -> str | None:
        """Why this replica has failed."""
        return self._shard.failure

    @property
    def is_unsupported(self) -> bool:
        """Whether it failed because a newer version wrote the log: only a newer version can go on."""
        return self._shard.is_unsupported

    @property
    def fence(self) -> Fence:
        """The term in force and the last entry of it that counted."""
        return self._shard.committed.fence

    @property
    def written_fence(self) -> Fence:
        """The fence at the applied offset: that before a transaction that has not ended."""
        return self._shard.committed.written_fence

    @property
    def claim(self) -> LeadershipClaimed | None:
        """The claim in force."""
        return self._shard.committed.claim

    @property
    def known_claim(self) -> LeadershipClaimed | None:
        """The newest claim in force that was seen; one that ended our own term is known before it is read again."""
        shard = self._shard
        return shard.committed.claim if shard.successor is None else shard.successor

    @property
    def schema_level(self) -> int:
        """The level at which a leader writes entries."""
        return self._shard.leader.schema_level

    @property
    def log_ahead_ms(self) -> int:
        """How much earlier than this process's clock times are written into the log."""
        return self._shard.leader.log_ahead_ms

    def log_clock_ms(self, now_ms: int) -> int:
        """The time that an entry would get which a leader appends now, when its process's clock shows `now_ms`."""
        return max(now_ms - self.log_ahead_ms, self._shard.committed.state.hot.log_time_ms)

    @property
    def is_settled(self) -> bool:
        """Whether everything that was answered is applied."""
        return self._shard.is_settled

    # ---- figures

    @property
    def applied_offset(self) -> int:
        return self._shard.committed.state.applied_offset

    @property
    def next_offset(self) -> int:
        """Everything before it was read and is applied, void, or of a transaction that has not ended."""
        return self._shard.follower.next_offset

    @property
    def last_entry(self) -> tuple[bytes, bytes]:
        """Key and value of the entry at the applied offset, once everything is settled; empty when another process applied it."""
        return self._shard.committed.last_entry

    @property
    def queue_bytes(self) -> int:
        """The size of the requests that no group has taken."""
        return self._shard.leader.queue.size_bytes

    @property
    def queued(self) -> int:
        """How many requests no group has taken."""
        return len(self._shard.leader.queue)

    @property
    def void_entries(self) -> Mapping[str, int]:
        """How many entries that were read were void, by reason."""
        return self._shard.follower.void_entries

    @property
    def term_ends(self) -> Mapping[str, int]:
        """How many own terms ended, by cause."""
        return self._shard.leader.term_ends

    @property
    def commit_counts(self) -> CommitCounts:
        return self._shard.committed.counts

    @property
    def applied_counts(self) -> AppliedCounts:
        return self._shard.committed.applied

    @property
    def contradiction(self) -> ContradictoryEntry | None:
        """The newest entry that was found to contradict the state."""
        return self._shard.follower.contradiction

    def oldest_unacknowledged_ms(self, now_ms: int) -> int:
        """Age of the oldest entry under way."""
        term = self._shard.leader.term
        return 0 if term is None else term.oldest_age_ms(now_ms)

    # ---- the state

    @property
    def state(self) -> ShardState:
        """The committed state, for audits that compare all of it: it must not be changed."""
        return self._shard.committed.state

    @property
    def overlay(self) -> HotState | None:
        """The leader's tables with the entries in flight, for audits; None while this replica does not lead."""
        return self._shard.leader.overlay

    @property
    def directory(self) -> Directory:
        """The directory of topics and nodes; empty but in partition 0."""
        return self._shard.committed.state.hot.directory

    @property
    def snapshots(self) -> tuple[SnapshotCommitted, ...]:
        """The newest committed snapshots, the oldest first."""
        return self._shard.committed.state.hot.snapshots

    @property
    def restoration(self) -> Restoration | None:
        """The restore that the log began with."""
        return self._shard.committed.state.hot.restoration

    @property
    def is_restore_open(self) -> bool:
        """Whether the log was restored and no operator has called that finished, as partition 0 records it."""
        return self.restoration is not None and not self.restoration.is_finished

    @property
    def may_restore_be_open(self) -> bool:
        """Whether a restore is open, or may be because this replica, which was just loaded, has not read how its log begins."""
        return self.next_offset == 0 or self.is_restore_open

    @property
    def live_partitions(self) -> int:
        """How many user partitions there are here."""
        return len(self._shard.committed.state.hot.partitions)

    @property
    def remembered_producers(self) -> int:
        """How many idempotent producers are remembered, for each user partition that they wrote to."""
        return len(self._shard.committed.state.hot.producers)

    def migration_counts(self) -> MigrationCounts:
        """How many user partitions are to be migrated, and how many were."""
        return self._shard.committed.state.hot.partitions.migration_counts()

    def classic_prefixes(self) -> list[tuple[bytes, int, LogFacts]]:
        """Topic id, index and facts of the migrated partitions of which Kafka has records before B0, as far as is known here."""
        table = self._shard.committed.state.hot.partitions
        return [(*split_partition_key(table.keys[row]), facts_of(table, row)) for row in table.rows_with_prefix()]

    @property
    def is_trimming(self) -> bool:
        """Whether deleted batches are still to be subtracted from their files."""
        return bool(self._shard.committed.state.trimming)

    @property
    def is_trimming_awaited(self) -> bool:
        """Whether a read waits for that."""
        return self._shard.leader.is_trimming_awaited

    @property
    def unwritten_batches(self) -> int:
        """How many batches were applied since the last freeze."""
        return self._shard.committed.state.unwritten_batches

    @property
    def backlog_batches(self) -> int:
        """How many batches and files were applied and are not in the database."""
        return self._shard.committed.state.backlog_batches

    def has_unwritten(self) -> bool:
        """Whether a freeze would hold anything besides a newer applied offset."""
        return self._shard.committed.state.has_unwritten()

    def has_sealed(self) -> bool:
        """Whether a state that ends at a mark waits to be written."""
        return bool(self._shard.committed.state.sealed)

    def has_partition(self, topic_id: bytes, partition: int) -> bool:
        return self._shard.committed.state.hot.partitions.find(topic_id, partition) is not None

    def producers(self, topic_id: bytes, partition: int) -> list[tuple[int, int, int, int]]:
        """Id, epoch, last sequence number and time of the last append of each producer that a partition remembers, by id."""
        hot = self._shard.committed.state.hot
        row = hot.partitions.find(topic_id, partition)
        if row is None:
            return []
        table = hot.producers
        found = []
        for one in table.of_partitions(np.array([row])).tolist():
            newest = next(table.remembered(one), None)
            sequence = -1 if newest is None else newest.last_sequence
            found.append((table.producer.cells[one], table.epoch.cells[one], sequence, table.last_append.cells[one]))
        return sorted(found)

    def topic_ids(self) -> list[bytes]:
        """The topics that have partitions here."""
        return list(self._shard.committed.state.hot.topics)

    def partitions_of(self, topic_id: bytes) -> list[int]:
        """The partitions of a topic that are here, none of an unknown one."""
        topic = self._shard.committed.state.hot.topics.get(topic_id)
        return [] if topic is None else list(topic.partitions)

    def bounds(self, topic_id: bytes, partition: int) -> tuple[int, int] | None:
        """Log start and high watermark of a user partition, None when it does not exist."""
        table = self._shard.committed.state.hot.partitions
        row = table.find(topic_id, partition)
        return None if row is None else (table.log_start.cells[row], table.high_watermark.cells[row])

    @property
    def stretches(self) -> Mapping[bytes, Stretch]:
        """The partitions that came here, or went, by a move, by key."""
        return self._shard.committed.state.hot.stretches

    @property
    def newest_move(self) -> int:
        """The newest move of which this coordinator has taken a step, NO_MOVE before the first one."""
        return self._shard.committed.state.hot.newest_move

    # ---- what long polls watch

    def rows_of(self, points: Sequence[FetchPoint]) -> list[int] | None:
        """The rows of user partitions, which name them until `count_forgotten` changes; None when one is not here."""
        find = self._shard.committed.state.hot.partitions.find
        rows = [find(point.topic_id, point.partition) for point in points]
        return None if None in rows else cast(list[int], rows)

    def marks_of(self, rows: Int64s) -> Int64s:
        """High watermark, log start and B0 of rows, a line for each: an answer of FindBatches holds until one of the three changes."""
        marks: Int64s = self._shard.committed.state.hot.partitions.rows.array[rows, HIGH_WATERMARK : FIRST_OFFSET + 1]
        return marks

    def count_forgotten(self) -> int:
        """How many user partitions were deleted with their topics, or began anew by a move, since the state was loaded."""
        return self._shard.committed.state.hot.partitions.forgotten

    def watched(self, points: Sequence[FetchPoint]) -> tuple[Int64s, Int64s, int] | None:
        """The rows of user partitions with their marks and `count_forgotten`, all of one moment; None when one partition is not here."""
        rows = self.rows_of(points)
        if rows is None:
            return None
        numbers = np.array(rows, np.int64)
        return numbers, self.marks_of(numbers), self.count_forgotten()

    # ---- reads that look into the database, and raise `BrokenInvariant` or `StateFailed` for what cannot be

    def find_batches(self, point: FetchPoint, budget: FetchBudget) -> FoundBatches | None:
        """Answer one FindBatches element; None: the offset lies past the high watermark, which only a barrier can judge."""
        return find_batches(self._shard.committed.state, point, budget, self._shard.partition)

    def past_the_end(self, point: FetchPoint, *, is_certain: bool) -> FoundBatches:
        """The answer for an offset past the high watermark: only a leader after a barrier may reset a consumer."""
        return past_the_end(self._shard.committed.state, point, is_certain=is_certain)

    def list_released(self, query: OffsetQuery, start_offset: int) -> FoundOffset:
        """Look a time up in the stretch of a partition that has gone on elsewhere, where it starts at an offset."""
        return list_released(self._shard.committed.state, query, start_offset)

    def knows_release(self, key: bytes) -> bool:
        """Whether a partition has gone on elsewhere, as far as this replica has read."""
        return knows_release(self._shard.committed.state, key)

    def answer_committed_before(
        self, command: CommitFile, key: bytes, places: Sequence[int], *, is_known_elsewhere: bool
    ) -> CommitResult | None:
        """Answer batches of a partition that was released here; see `reads.former_commits.answer_committed_before`."""
        state = self._shard.committed.state
        return answer_committed_before(state, command, key, places, is_known_elsewhere=is_known_elsewhere)

    def knows_file(self, object_key: str) -> bool:
        """Whether a file is known here, and has not ended."""
        return self._shard.committed.state.find_file(object_key) is not None

    def has_heard_of(self, object_key: str) -> bool:
        """Whether a file is or was known here, or was fenced, as far as that is remembered."""
        state = self._shard.committed.state
        return state.find_file(object_key) is not None or state.find_tombstone(object_key) is not None

    def may_have_heard_of_any(self, object_keys: Iterable[str]) -> bool:
        """`has_heard_of` any of these files; False is certain, and costs next to nothing."""
        return self._shard.committed.state.may_know_any(object_keys)

    def past_retention(self, topic_id: bytes, partition: int, retention: Retention, bound: Bound, known: Known | None) -> LookedAt | None:
        """Look which batches of a partition are past its retention; see `reads.retention.look_at`."""
        return look_at(self._shard.committed.state, topic_id, partition, retention, bound, known)

    def past_retention_released(self, topic_id: bytes, partition: int, retention: Retention, bound: Bound) -> LookedAt | None:
        """Look which batches of a stretch that ended in a move are past their time; see `reads.retention.look_at_released`."""
        return look_at_released(self._shard.committed.state, topic_id, partition, retention, bound)

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Known files in key order after a key ('' = from the start)."""
        return self._shard.committed.state.files_after(object_key, limit)

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> EmptyFilesPage:
        """Files without live batches that became empty before a log time, by (`emptied_ms`, file id) after that pair; (-1, -1): the first.

        Those that became empty since the state was last written may be left out, and so are those whose end is applied.
        """
        return self._shard.committed.state.empty_files(before_ms, after, limit)

    def file_counts(self) -> FileCounts:
        """How many files and tombstones there are: files as of the last write of the state database. Cheap."""
        state = self._shard.committed.state
        return FileCounts(*state.file_totals(), tombstones=len(state.tombstone_ages))

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Keys that may never be committed (again), in key order after a key ('' = from the start)."""
        return self._shard.committed.state.tombstones_after(object_key, limit)

    def file(self, object_key: str) -> FileRow | Tombstone | None:
        """A file by its key, or the tombstone that it left; None for an unknown key."""
        state = self._shard.committed.state
        return state.find_file(object_key) or state.find_tombstone(object_key)
