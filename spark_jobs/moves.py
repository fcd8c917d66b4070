"""Moves of user partitions: the records by which a partition leaves a coordinator and comes to another one, where its offsets go on;
and which of them contradict the log.

What one coordinator has of a partition is a stretch of it. A stretch that was released takes no batches any more, for good.
Pure, written anew and not shared with the coordinator; for the monitor's store and for `verify`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from records.log import BrokenRule
from records.model import PartitionAdopted, PartitionReleased, PlacedRange, ProducersAdopted
from spark_jobs.migration import OFFSET_LIMIT, fault_of_seeds

MoveStep: TypeAlias = PartitionReleased | PartitionAdopted | ProducersAdopted
MOVE_STEPS = (PartitionReleased, PartitionAdopted, ProducersAdopted)

NO_MOVE = -1
RELEASED = -2
"""B0 of a partition that was released, as replicas and their snapshots have it."""


class StretchStanding(NamedTuple):
    """What a coordinator has of a user partition: its log start and end, and the newest move that it took part in, or NO_MOVE."""

    start: int
    end: int
    newest_move: int
    is_released: bool
    is_classic: bool


def release_conflict(stretch: StretchStanding, step: PartitionReleased) -> BrokenRule | None:
    """Tell why the release of a partition that is here contradicts the log; None when it does not."""
    if stretch.is_released:
        return _unlawful(step, "a partition is released that was released already")
    if stretch.is_classic:
        return _unlawful(step, "a partition is released that is, or was, a classic one")
    return _order_conflict(stretch, step)


def adoption_conflict(stretch: StretchStanding | None, step: PartitionAdopted) -> BrokenRule | None:
    """Tell why an adoption contradicts the log; None when it does not. The stretch is None when nothing of the partition is here."""
    if not 0 <= step.start_offset <= step.base_offset < OFFSET_LIMIT:
        return _unlawful(step, "the log start of an adopted partition and the beginning of its stretch do not fit")
    if stretch is None:
        return None
    if not stretch.is_released:
        return _unlawful(step, "a partition is adopted that is here already")
    if stretch.start < stretch.end:
        return _unlawful(step, "a partition is adopted of which records of an earlier stretch are here", stretch.end, stretch.start)
    return _order_conflict(stretch, step)


def producers_conflict(begins: int | None, step: ProducersAdopted, named: Collection[int]) -> BrokenRule | None:
    """Tell why producers may not be adopted; None when they may. `begins`: where the partition begins, None when it is not adopted with
    them; `named` are its producers that the operation has named before.
    """
    if begins is None:
        return _unlawful(step, "producers of a partition are adopted, and it is not adopted with them")
    if any(one.producer_id in named for one in step.producers):
        return _unlawful(step, "producers of a partition are adopted, one of them twice")
    fault = fault_of_seeds(step.producers, begins)
    return None if fault is None else _unlawful(step, fault)


def together_conflict(step: MoveStep) -> BrokenRule:
    """Tell of a step of a move that is not the only record of its operation on its partition."""
    return _unlawful(step, "an entry has a step of a move and another record of its partition")


def released_conflict() -> BrokenRule:
    """Tell of a batch in a partition that was released."""
    return BrokenRule("partition-released", "a batch was committed to a partition that goes on in another coordinator")


def cut_ranges(ranges: Sequence[PlacedRange], partition: int, owner: int) -> list[PlacedRange]:
    """Give a partition of a placed topic to a coordinator: its range is cut in up to three, unless the coordinator has it."""
    cut: list[PlacedRange] = []
    for one in ranges:
        first, stop = one.first_partition, one.first_partition + one.num_partitions
        if not first <= partition < stop or one.coordinator_id == owner:
            cut.append(one)
            continue
        parts = ((first, partition, one.coordinator_id), (partition, partition + 1, owner), (partition + 1, stop, one.coordinator_id))
        for start, end, has in parts:
            if start < end:
                cut.append(replace(one, first_partition=start, num_partitions=end - start, coordinator_id=has))
    return cut


def _order_conflict(stretch: StretchStanding, step: PartitionReleased | PartitionAdopted) -> BrokenRule | None:
    if step.move_id > stretch.newest_move:
        return None
    return _unlawful(step, "a step is of a move that is over", stretch.newest_move + 1, step.move_id)


def _unlawful(step: MoveStep, message: str, expected: int | None = None, found: int | None = None) -> BrokenRule:
    return BrokenRule("move-unlawful", message, expected, found, step.topic_id)
