"""Joining the links of one partition of the metadata topic to the stored chains, in the order of the log.

Steps are links and events, sorted by `at`. Files and batches that die are taken along where their order matters: before an
event about files everything of the steps before it is written. Cost grows with what a micro-batch touches; only lost entries
and the expiry of producers look at all rows of the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from records.codec import decode_entry
from records.model import (
    DisklessLogInitialized,
    DisklessLogReset,
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    PartitionAdopted,
    PartitionCreated,
    PartitionReleased,
    ProducersAdopted,
    ProducersExpired,
    Record,
    RecordsDeleted,
    SeededProducerBatch,
    TombstonesExpired,
    TopicDeleted,
    TopicDeleting,
    TopicPlaced,
)
from spark_jobs.contradiction import SEQUENCE_MASK
from spark_jobs.migration import MIGRATION_STEPS, OFFSET_LIMIT, PENDING, MigrationStep
from spark_jobs.moves import MoveStep, producers_conflict, together_conflict
from spark_jobs.scan.summary import EventRow, FindingRow, LinkRow, ProducerLinkRow, RestartRow, ScannedFileRow, operation_of
from spark_jobs.store import chain_rules
from spark_jobs.store.books import PartitionBook, PartitionName, ProducerBook
from spark_jobs.store.chain_rules import UNSEEN, PartitionState, ProducerState
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.findings import ContradictedError, Findings
from spark_jobs.store.merge_facts import merge_fact, note_happening
from spark_jobs.store.merge_files import FileMerge
from spark_jobs.store.merge_migrations import note_step
from spark_jobs.store.merge_moves import note_move_record
from spark_jobs.store.merge_orders import forget_placement, note_creation, note_placement
from spark_jobs.store.run_blocks import OFFSET_MAX, RunBlocks
from spark_jobs.store.statements import upsert

_DELETED_TOPIC = upsert("deleted_topic", "kpart,topic_id", "kpart", "topic_id", "entry_offset", "append_ms")

PARTITIONS_PER_RECORD_MAX = 200_000
"""Partitions of one record that are followed from it on; further ones are followed from their first commit on, since one entry would
cost minutes."""

Step = LinkRow | ProducerLinkRow | EventRow | RestartRow


@dataclass(slots=True, kw_only=True)
class ChainRows:
    """The rows of one partition of the metadata topic that are merged in order."""

    links: list[LinkRow] = field(default_factory=list)
    producer_links: list[ProducerLinkRow] = field(default_factory=list)
    files: list[ScannedFileRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    restarts: list[RestartRow] = field(default_factory=list)


@dataclass(slots=True)
class _MovingNow:
    """The moves of which an operation has said something: where the partitions begin that it adopted, and their producers so far."""

    operation: int
    begins: dict[PartitionName, int | None] = field(default_factory=dict)
    """None for one that it released."""
    producers: dict[PartitionName, set[int]] = field(default_factory=dict)


class ChainMerge:
    """See the module's text. `is_complete`: all entries of the log were seen, so every partition was seen being created."""

    def __init__(self, db: StoreConnection, kpart: int, rows: ChainRows, findings: Findings, now_ms: int, *, is_complete: bool) -> None:
        self._db = db
        self._now_ms = now_ms
        self._kpart = kpart
        self._findings = findings
        self._is_complete = is_complete
        self._records = [decode_entry(row.entry)[0] for row in rows.events]
        self._rows = rows
        names = {(row.topic_id, row.partition) for row in rows.links}
        for record in self._records:
            if isinstance(record, RecordsDeleted | MigrationStep | MoveStep):
                names.add((record.topic_id, record.partition))
        self._partitions = PartitionBook(db, kpart, names)
        producers = {(row.topic_id, row.partition, row.producer_id) for row in rows.producer_links}
        self._producers = ProducerBook(db, kpart, producers | self._seeded())
        self._files = FileMerge(db, kpart, rows.files, findings)
        self._blocks = RunBlocks(db, kpart)
        self._moving = _MovingNow(-1)
        self.restarted_at: int | None = None

    def _seeded(self) -> set[tuple[bytes, int, int]]:
        seeds = [record for record in self._records if isinstance(record, DisklessLogInitialized)]
        return {(record.topic_id, record.partition, one.producer_id) for record in seeds for one in record.producers}

    def run(self) -> None:
        """Take all steps and write the result."""
        rows = self._rows
        steps: list[tuple[int, Step, Record | None]] = [(row.at, row, None) for row in rows.links]
        steps += [(row.at, row, None) for row in rows.producer_links]
        steps += [(row.at, row, record) for row, record in zip(rows.events, self._records, strict=True)]
        steps += [(row.at, row, None) for row in rows.restarts]
        if rows.events or rows.restarts or len(rows.links) != len(self._partitions.states):
            steps.sort(key=lambda step: step[0])
        for _, row, record in steps:
            if isinstance(row, LinkRow):
                self._link(row)
            elif isinstance(row, ProducerLinkRow):
                self._producer(row)
            elif isinstance(row, EventRow):
                if record is not None:
                    self._event(row, record)
            else:
                self._restart(row)
        self._files.take_all()
        self._flush()
        self._partitions.write()
        self._producers.write()

    # ---- links

    def _link(self, row: LinkRow) -> None:
        name = (row.topic_id, row.partition)
        state = self._partitions.states.get(name)
        self._refuse(chain_rules.contradicts(state, row))
        for finding in chain_rules.check_link(state, row):
            self._findings.add(finding)
        if state is None:
            self._refuse(self._missing(row.topic_id, row.partition, row.offset))
            state = self._partitions.states[name] = PartitionState(row.log_start, row.base_offset, row.offset, leader_epoch=UNSEEN)
        elif not state.chained and row.log_start > state.start:
            self._die(name, state, row.log_start, row.first_append_ms)
        chain_rules.follow_link(state, row)

    def _missing(self, topic_id: bytes, partition: int, offset: int) -> FindingRow | None:
        """Why a partition does not exist; None when that is not known."""
        query = "select entry_offset from deleted_topic where kpart = ? and topic_id = ?"
        deleted = self._db.execute(query, (self._kpart, topic_id)).fetchone()
        if deleted is not None:
            message = f"the topic was deleted at offset {deleted[0]}"
            return FindingRow(self._kpart, offset, "deleted-topic", message, topic_id, partition, expected=deleted[0])
        if self._is_complete:
            return FindingRow(self._kpart, offset, "unknown-partition", "the partition was never created here", topic_id, partition)
        return None

    @staticmethod
    def _refuse(finding: FindingRow | None) -> None:
        if finding is not None:
            raise ContradictedError(finding)

    def _producer(self, row: ProducerLinkRow) -> None:
        name = (row.topic_id, row.partition, row.producer_id)
        state = self._producers.states.get(name)
        self._refuse(chain_rules.contradicts_producer(state, row))
        self._producers.states[name] = ProducerState(row.epoch, row.next_sequence, row.append_time_ms)

    # ---- events

    def _restart(self, row: RestartRow) -> None:
        self._partitions.unchain()
        self._producers.drop_all()
        self._is_complete = False
        self.restarted_at = row.offset

    def _event(self, row: EventRow, record: Record) -> None:
        note_happening(self._db, row, record)
        merge_fact(self._db, row, record)
        note_move_record(self._db, row, record, self._now_ms)
        match record:
            case TopicPlaced():
                note_placement(self._db, row, record, self._findings)
            case TopicDeleting():
                forget_placement(self._db, record)
            case PartitionCreated():
                self._create(row, record)
            case TopicDeleted():
                self._delete_topic(row, record)
            case RecordsDeleted():
                self._delete_records(row, record)
            case record if isinstance(record, MIGRATION_STEPS):
                self._migrate(row, record)
            case PartitionReleased():
                self._release(row, record)
            case PartitionAdopted():
                self._adopt(row, record)
            case ProducersAdopted():
                self._adopt_producers(row, record)
            case ProducersExpired():
                self._producers.drop_idle(record.before_ms)
            case FilesFenced() | FilesHandedOver() | FilesRemoved() | TombstonesExpired():
                self._files.take_until(row.at)
                self._flush()
                self._files.apply(record, row)
                if isinstance(record, TombstonesExpired):
                    query = "delete from deleted_topic where kpart = ? and append_ms < ?"
                    self._db.execute(query, (self._kpart, record.topics_before_ms))
            case _:
                return

    def _report(self, finding: FindingRow | None) -> None:
        if finding is not None:
            self._findings.add(finding)

    def _state_of(self, topic_id: bytes, partition: int, offset: int) -> PartitionState | None:
        """The state of a partition that an event is about; None for one that does not exist, where the event does nothing.

        One whose creation was not seen, because entries are missing, begins here.
        """
        state = self._partitions.states.get((topic_id, partition))
        if state is not None:
            return state
        missing = self._missing(topic_id, partition, offset)
        self._report(missing)
        if missing is not None:
            return None
        state = PartitionState(0, 0, offset, leader_epoch=UNSEEN, chained=False, is_changed=True)
        self._partitions.states[(topic_id, partition)] = state
        return state

    def _create(self, row: EventRow, record: PartitionCreated) -> None:
        self._db.execute("delete from deleted_topic where kpart = ? and topic_id = ?", (self._kpart, record.topic_id))
        count = record.num_partitions
        if count > PARTITIONS_PER_RECORD_MAX:
            message = f"{count} partitions are created at once, only {PARTITIONS_PER_RECORD_MAX} of them are followed from the beginning"
            self._report(FindingRow(self._kpart, row.offset, "partitions-not-followed", message, record.topic_id, found=count))
            count = PARTITIONS_PER_RECORD_MAX
            # The others exist, too, although their creation was not seen.
            self._is_complete, self.restarted_at = False, row.offset
        known = {partition for _, partition in self._partitions.read_topic(record.topic_id)}
        note_creation(self._db, row, record, known, self._findings)
        for partition in range(record.first_partition, record.first_partition + count):
            name = (record.topic_id, partition)
            if name not in self._partitions.states:
                self._partitions.states[name] = PartitionState(0, 0, row.offset, append_ms=row.append_ms, is_changed=True)
                if record.classic_pending:
                    self._partitions.states[name].base = PENDING

    def _delete_topic(self, row: EventRow, record: TopicDeleted) -> None:
        topic_id = record.topic_id
        for name in self._partitions.read_topic(topic_id):
            self._die(name, self._partitions.states[name], OFFSET_MAX, row.append_ms)
        self._partitions.drop_topic(topic_id)
        self._producers.drop_topic(topic_id)
        self._db.execute(_DELETED_TOPIC, (self._kpart, topic_id, row.offset, row.append_ms))

    def _delete_records(self, row: EventRow, record: RecordsDeleted) -> None:
        name = (record.topic_id, record.partition)
        state = self._state_of(*name, row.offset)
        if state is None:
            return
        start = state.start
        self._refuse(chain_rules.contradicts_deletion(state, self._kpart, row.offset, record))
        self._report(chain_rules.delete_records(state, self._kpart, row.offset, record))
        if state.start > start:
            self._die(name, state, state.start, row.append_ms)

    def _migrate(self, row: EventRow, record: MigrationStep) -> None:
        topic_id, partition = record.topic_id, record.partition
        state = self._state_of(topic_id, partition, row.offset)
        if state is None:
            return
        self._refuse(chain_rules.contradicts_step(state, self._kpart, row.offset, record))
        base = state.base
        chain_rules.migrate(state, record)
        note_step(self._db, row, record, base)
        if state.base != base and PENDING in (base, state.base):
            state.append_ms = row.append_ms
        if isinstance(record, DisklessLogReset):
            self._producers.drop_partition(topic_id, partition)
        if isinstance(record, DisklessLogInitialized) and base == PENDING:
            self._seed((topic_id, partition), record.producers, max(record.time_ms, row.append_ms))

    def _moving_in(self, row: EventRow) -> _MovingNow:
        """What the operation of an event has said of moves before it."""
        if self._moving.operation != operation_of(row.at):
            self._moving = _MovingNow(operation_of(row.at))
        return self._moving

    def _begin_step(self, row: EventRow, record: PartitionReleased | PartitionAdopted) -> PartitionName:
        """A step of a move is the only one of its operation on a partition. Returns the partition's name."""
        name, moving = (record.topic_id, record.partition), self._moving_in(row)
        if name in moving.begins:
            self._refuse(FindingRow.of(self._kpart, row.offset, together_conflict(record), partition=record.partition))
        moving.begins[name] = record.base_offset if isinstance(record, PartitionAdopted) else None
        return name

    def _release(self, row: EventRow, record: PartitionReleased) -> None:
        """A partition takes no batches here any more."""
        name = self._begin_step(row, record)
        state = self._partitions.states.get(name)
        if state is None:
            self._refuse(self._missing(*name, row.offset))
            state = self._partitions.states[name] = PartitionState(0, 0, row.offset, leader_epoch=UNSEEN, chained=False)
        self._refuse(chain_rules.contradicts_release(state, self._kpart, row.offset, record))
        chain_rules.release(state, record)

    def _adopt(self, row: EventRow, record: PartitionAdopted) -> None:
        """A partition goes on here, from where it ended in another coordinator; what was here of it before is deleted."""
        name = self._begin_step(row, record)
        state = self._partitions.states.get(name)
        self._refuse(chain_rules.contradicts_adoption(state, self._kpart, row.offset, record))
        if state is not None:
            self._die(name, state, OFFSET_MAX, row.append_ms)
        self._db.execute("delete from deleted_topic where kpart = ? and topic_id = ?", (self._kpart, record.topic_id))
        self._producers.drop_partition(*name)
        self._partitions.states[name] = chain_rules.adopt(state, record, row.offset, row.append_ms)

    def _adopt_producers(self, row: EventRow, record: ProducersAdopted) -> None:
        """Producers are known by the last batches that they wrote in earlier stretches."""
        name, moving = (record.topic_id, record.partition), self._moving_in(row)
        named = moving.producers.setdefault(name, set())
        # Where the beginning of the log was not seen, the adoption may be in an entry before it.
        begins = moving.begins.get(name, None if self._is_complete else OFFSET_LIMIT)
        conflict = producers_conflict(begins, record, named)
        if conflict is not None:
            self._refuse(FindingRow.of(self._kpart, row.offset, conflict, partition=record.partition))
        named.update(one.producer_id for one in record.producers)
        self._seed(name, record.producers, max(record.time_ms, row.append_ms))

    def _seed(self, where: tuple[bytes, int], producers: Sequence[SeededProducerBatch], time_ms: int) -> None:
        """Producers are known by the last batches that they wrote elsewhere."""
        for one in producers:
            following = (one.last_sequence + 1) & SEQUENCE_MASK
            self._producers.states[(*where, one.producer_id)] = ProducerState(one.producer_epoch, following, time_ms)

    # ---- files

    def _die(self, name: PartitionName, state: PartitionState, end: int, append_ms: int) -> None:
        """Batches of a partition that end before an offset are deleted."""
        if state.frames:
            self._blocks.add(*name, state)
            self._blocks.write()
        self._blocks.trim(*name, state, end, append_ms)

    def _flush(self) -> None:
        """Write what is still in memory of files; those that deaths concern must have been taken."""
        for name, state in self._partitions.states.items():
            if state.frames:
                self._blocks.add(*name, state)
        self._blocks.write()
        losses, self._blocks.losses = self._blocks.losses, []
        if losses:
            self._files.lose(losses)


def group_rows(kparts: Sequence[int]) -> dict[int, ChainRows]:
    """An empty collection for each partition of the metadata topic."""
    return {kpart: ChainRows() for kpart in kparts}
