"""Classic partitions that become diskless: their state, what the records of their migration change, and which contradict the log.

Pure, written anew and not shared with the coordinator; for the monitor's store and for `verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from records.log import BrokenRule
from records.model import DisklessLogInitialized, DisklessLogRepaired, DisklessLogReset, PrefixStartReported, SeededProducerBatch

MigrationStep: TypeAlias = DisklessLogInitialized | DisklessLogReset | DisklessLogRepaired | PrefixStartReported
MIGRATION_STEPS = (DisklessLogInitialized, DisklessLogReset, DisklessLogRepaired, PrefixStartReported)

PENDING = -1
"""B0 of a classic partition that takes no batches yet."""
NOTHING = -1
OFFSET_LIMIT = 1 << 62
"""Offsets of a user partition are below."""
_SEQUENCE_LIMIT = 1 << 31
_EPOCH_LIMIT = 1 << 15
_BATCHES_PER_PRODUCER = 5


class MigrationStanding(NamedTuple):
    """A user partition: B0, the start of the classic part, start and end of the diskless part, the highest leader epoch.

    The epoch is -1 for a partition that was born diskless.
    """

    base: int
    prefix: int
    start: int
    end: int
    epoch: int


BORN = MigrationStanding(0, NOTHING, 0, 0, NOTHING)
"""A partition that was created diskless, and has no batches."""
AWAITED = MigrationStanding(PENDING, NOTHING, 0, 0, NOTHING)
"""A classic partition that was created, and is not initialised."""


def step_conflict(standing: MigrationStanding, step: MigrationStep) -> BrokenRule | None:
    """Tell why a step of a migration contradicts the log; None when it does not."""
    if step.leader_epoch < max(standing.epoch, 0):
        message = "a step of a migration is of a leader that was replaced"
        return BrokenRule("migration-fenced", message, standing.epoch, step.leader_epoch, step.topic_id)
    if standing.base != PENDING and standing.epoch == NOTHING:
        return _unlawful(step, "a partition is migrated that was born diskless")
    match step:
        case DisklessLogInitialized():
            return _init_conflict(standing, step)
        case DisklessLogReset():
            return _reset_conflict(standing, step)
        case DisklessLogRepaired():
            if standing.base == PENDING:
                return _unlawful(step, "the start of a diskless log is lowered that was never set")
            if max(standing.prefix, 0) <= step.base_offset <= standing.base:
                return None
            message = "the start of a diskless log is lowered to an offset outside of the classic log"
            return _moved(step, message, standing.base, step.base_offset)
        case PrefixStartReported():
            if standing.base == PENDING or not 0 <= step.prefix_start_offset <= standing.base:
                return _unlawful(step, "the classic part of a partition is said to begin outside of it")
            return None


def pending_conflict() -> BrokenRule:
    """Tell of a batch in a partition that takes none yet."""
    return BrokenRule("migration-unlawful", "a batch was committed to a classic partition whose diskless log has not begun")


def _init_conflict(standing: MigrationStanding, step: DisklessLogInitialized) -> BrokenRule | None:
    if not 0 <= step.prefix_start_offset <= step.base_offset < OFFSET_LIMIT:
        return _unlawful(step, "the start of a diskless log and that of its classic part do not fit")
    if standing.base != PENDING:
        if standing.base == step.base_offset:
            return None
        return _moved(step, "the partition's diskless log began elsewhere", standing.base, step.base_offset)
    fault = fault_of_seeds(step.producers, step.base_offset)
    return None if fault is None else _unlawful(step, fault)


def fault_of_seeds(producers: Sequence[SeededProducerBatch], begins: int) -> str | None:
    """Tell why batches cannot be those that producers wrote before an offset at which a diskless log begins or goes on; None: they can."""
    runs = [list(group) for _, group in groupby(producers, lambda one: one.producer_id)]
    if len(runs) != len({run[0].producer_id for run in runs}):
        return "a producer is twice among those that a diskless log begins with"
    for run in runs:
        offsets = [one.base_offset for one in run]
        lawful = (
            len(run) <= _BATCHES_PER_PRODUCER
            and len({one.producer_epoch for one in run}) == 1
            and 0 <= run[0].producer_epoch < _EPOCH_LIMIT
            and run[0].producer_id >= 0
            and offsets == sorted(set(offsets))
            and offsets[0] >= 0
            and offsets[-1] < begins
            and all(0 <= one.base_sequence < _SEQUENCE_LIMIT and 0 <= one.last_sequence < _SEQUENCE_LIMIT for one in run)
            and all(one.timestamp_ms >= -1 for one in run)
        )
        if not lawful:
            return f"the batches of producer {run[0].producer_id} cannot be those before a diskless log"
    return None


def _reset_conflict(standing: MigrationStanding, step: DisklessLogReset) -> BrokenRule | None:
    if standing.base == PENDING:
        return None
    if step.leader_epoch == standing.epoch:
        message = "the start of a diskless log is unset by the leader that set it"
        return BrokenRule("migration-fenced", message, standing.epoch, step.leader_epoch, step.topic_id)
    if standing.end > standing.base:
        return _moved(step, "the start of the diskless log is unset though there are batches after it", standing.base, standing.end)
    return None


def _unlawful(step: MigrationStep, message: str) -> BrokenRule:
    return BrokenRule("migration-unlawful", message, None, None, step.topic_id)


def _moved(step: MigrationStep, message: str, expected: int, found: int) -> BrokenRule:
    return BrokenRule("diskless-base-moved", message, expected, found, step.topic_id)


def after_step(standing: MigrationStanding, step: MigrationStep) -> MigrationStanding:
    """The state of a partition after a step that does not contradict the log."""
    base, prefix, start, end, _ = standing
    match step:
        case DisklessLogInitialized():
            if base == PENDING:
                base = start = end = step.base_offset
                prefix = step.prefix_start_offset
        case DisklessLogReset():
            if base != PENDING:
                base, prefix, start, end = AWAITED[:4]
        case DisklessLogRepaired():
            if end == base:
                start = end = step.base_offset
            base = step.base_offset
        case PrefixStartReported():
            prefix = max(prefix, step.prefix_start_offset)
    return MigrationStanding(base, prefix, start, end, step.leader_epoch)
