"""The rules of chains, in the one place where links are joined: what is known of a user partition or a producer, and a link.

Pure. What contradicts the log is void for every replica, so a chain does not follow it (`spark_jobs.contradiction` has the rules);
what is odd and applied nevertheless is followed, so that one fault is one finding and not an endless row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from records.model import DisklessLogInitialized, DisklessLogReset, PartitionAdopted, PartitionReleased, RecordsDeleted
from spark_jobs.contradiction import deletion_conflict, first_sequence_conflict, offset_conflict, producer_conflict
from spark_jobs.migration import AWAITED, NOTHING, PENDING, MigrationStanding, MigrationStep, after_step, pending_conflict, step_conflict
from spark_jobs.moves import NO_MOVE, StretchStanding, adoption_conflict, release_conflict, released_conflict
from spark_jobs.scan.summary import FindingRow, LinkRow, ProducerLinkRow

UNSEEN = -2
"""The leader epoch of a partition of whose migration some steps may be missing."""


@dataclass(slots=True)
class PartitionState:
    """A user partition. `chained` False: entries were lost, the next link may begin anywhere. `frames` are not written yet."""

    start: int
    next: int
    since: int
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    append_ms: int = 0
    base: int | None = None
    """B0 of a partition that is migrated, PENDING before it is set; None for one that was born diskless."""
    prefix: int = NOTHING
    leader_epoch: int = NOTHING
    stretch_base: int = 0
    """Where its stretch here begins, of a partition that came by a move."""
    newest_move: int = NO_MOVE
    released_to: int | None = None
    """The coordinator in which it goes on, so that it takes no batches here."""
    moved_ms: int = 0
    """When the partition left its coordinator in the newest move."""
    said_start: int | None = None
    """The log start that its newest file says, if that is another one."""
    chained: bool = True
    block_offset: int | None = None
    block_bytes: int = 0
    frames: list[LinkRow] = field(default_factory=list)
    is_changed: bool = False


@dataclass(slots=True)
class ProducerState:
    """A producer in one user partition."""

    epoch: int
    next_sequence: int
    append_time_ms: int
    is_changed: bool = True


def contradicts(state: PartitionState | None, row: LinkRow) -> FindingRow | None:
    """Return how the first file of a link contradicts the log; None: it does not, or the partition is new."""
    if state is None:
        conflict = None
    elif state.released_to is not None:
        conflict = released_conflict()
    elif not state.chained:
        conflict = None
    elif state.base == PENDING:
        conflict = pending_conflict()
    else:
        conflict = offset_conflict(state.next, row.base_offset, row.first_end)
    return None if conflict is None else FindingRow.of(row.kpart, row.offset, conflict, topic_id=row.topic_id, partition=row.partition)


def check_link(state: PartitionState | None, row: LinkRow) -> list[FindingRow]:
    """Return what is odd about a link that follows on a state; None: the partition is new."""
    if state is not None and row.log_start in (state.start, state.said_start):
        return []
    if row.log_start > row.base_offset:
        message = "the log start of the partition is past its high watermark"
        return [_finding(row, "log-start-above-high-watermark", message, row.base_offset, row.log_start)]
    if state is None or not state.chained:
        return []
    if row.log_start < state.start:
        message = "the log start of the partition went back"
        return [_finding(row, "log-start-backwards", message, state.start, row.log_start)]
    message = "the log start of the partition went ahead, and no entry has deleted records up to there"
    return [_finding(row, "log-start-unfounded", message, state.start, row.log_start)]


def _finding(row: LinkRow, rule: str, message: str, expected: int, found: int) -> FindingRow:
    return FindingRow(row.kpart, row.offset, rule, message, row.topic_id, row.partition, expected=expected, found=found)


def follow_link(state: PartitionState, row: LinkRow) -> None:
    """Let a state follow a link. As for replicas, the log start is what deletions say; a file tells it only where some may be missing."""
    if not state.chained:
        state.start = row.log_start
    state.said_start = None if row.log_start == state.start else row.log_start
    state.next, state.append_ms = row.next_offset, row.append_ms
    state.batches += row.batches
    state.records += row.records
    state.size_bytes += row.size_bytes
    state.chained = state.is_changed = True
    state.frames.append(row)


def contradicts_producer(state: ProducerState | None, row: ProducerLinkRow) -> FindingRow | None:
    """Return how the first batch of a link contradicts the log; None: it does not. The state of a producer that is not known is None."""
    if state is None:
        conflict = first_sequence_conflict(row.producer_id, row.base_offset, row.base_sequence)
    else:
        conflict = producer_conflict(row.producer_id, state.epoch, state.next_sequence, row.epoch, row.base_sequence)
    if conflict is None:
        return None
    return FindingRow.of(row.kpart, row.offset, conflict, topic_id=row.topic_id, partition=row.partition, producer_id=row.producer_id)


def contradicts_deletion(state: PartitionState, kpart: int, offset: int, record: RecordsDeleted) -> FindingRow | None:
    """Return how a deletion contradicts the log; None: it does not."""
    conflict = deletion_conflict(record, state.next) if state.chained else None
    return None if conflict is None else FindingRow.of(kpart, offset, conflict, partition=record.partition)


def delete_records(state: PartitionState, kpart: int, offset: int, record: RecordsDeleted) -> FindingRow | None:
    """Move the log start; returns what is odd about it."""
    target, finding = record.new_log_start_offset, None
    name = (record.topic_id, record.partition)
    if target < state.start and state.chained:
        message = "the log start moves backwards"
        finding = FindingRow(kpart, offset, "log-start-backwards", message, *name, expected=state.start, found=target)
    if target > state.start:
        state.start, state.said_start = target, None
    state.is_changed = True
    return finding


def contradicts_release(state: PartitionState, kpart: int, offset: int, step: PartitionReleased) -> FindingRow | None:
    """Return how a release contradicts the log; None: it does not."""
    conflict = release_conflict(_stretch_of(state), step)
    return None if conflict is None else FindingRow.of(kpart, offset, conflict, partition=step.partition)


def contradicts_adoption(state: PartitionState | None, kpart: int, offset: int, step: PartitionAdopted) -> FindingRow | None:
    """Return how an adoption contradicts the log; None: it does not. Of a partition whose entries were lost nothing is known."""
    conflict = adoption_conflict(None if state is None or not state.chained else _stretch_of(state), step)
    return None if conflict is None else FindingRow.of(kpart, offset, conflict, partition=step.partition)


def _stretch_of(state: PartitionState) -> StretchStanding:
    is_classic = state.base is not None or state.leader_epoch >= 0
    return StretchStanding(state.start, state.next, state.newest_move, state.released_to is not None, is_classic)


def release(state: PartitionState, step: PartitionReleased) -> None:
    """Let a partition take no more batches."""
    state.newest_move, state.released_to, state.moved_ms = step.move_id, step.to_coordinator, step.time_ms
    state.is_changed = True


def adopt(state: PartitionState | None, step: PartitionAdopted, offset: int, append_ms: int) -> PartitionState:
    """Return the state with which a stretch begins; what was committed to an earlier one here counts on."""
    counts = (0, 0, 0) if state is None else (state.batches, state.records, state.size_bytes)
    return PartitionState(
        step.start_offset,
        step.base_offset,
        offset,
        *counts,
        append_ms,
        stretch_base=step.base_offset,
        newest_move=step.move_id,
        moved_ms=max((one.time_ms for one in step.earlier), default=append_ms),
        is_changed=True,
    )


def standing_of(state: PartitionState) -> MigrationStanding:
    """The state of a partition's migration."""
    base = 0 if state.base is None else state.base
    return MigrationStanding(base, state.prefix, state.start, state.next, state.leader_epoch)


def contradicts_step(state: PartitionState, kpart: int, offset: int, step: MigrationStep) -> FindingRow | None:
    """Return how a step of a migration contradicts the log; None: it does not, or nothing is known of the migration."""
    if not state.chained or state.leader_epoch == UNSEEN:
        return None
    conflict = step_conflict(standing_of(state), step)
    return None if conflict is None else FindingRow.of(kpart, offset, conflict, partition=step.partition)


def migrate(state: PartitionState, step: MigrationStep) -> None:
    """Take a step of a migration. Of one whose steps were not all seen, an initialisation tells B0, and a reset all."""
    state.is_changed, state.said_start = True, None
    if state.leader_epoch != UNSEEN:
        state.base, state.prefix, state.start, state.next, state.leader_epoch = after_step(standing_of(state), step)
    elif isinstance(step, DisklessLogInitialized):
        state.base, state.prefix, state.leader_epoch = step.base_offset, NOTHING, step.leader_epoch
    elif isinstance(step, DisklessLogReset):
        state.base, state.prefix, state.start, state.next, _ = AWAITED
        state.leader_epoch, state.chained = step.leader_epoch, True
