"""The contract of `ClassicPartition`, for the one in memory and that of a real Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from coordinator.client.model import SeededBatch
from migration.classic import ClassicPartition


class ClassicWorld(Protocol):
    """An empty partition with idempotent writers, known by numbers."""

    @property
    def partition(self) -> ClassicPartition:
        """The partition."""

    async def write(self, writer: int, count: int) -> int:
        """Write a batch and return the offset after it."""

    async def begin(self) -> None:
        """Begin a transaction with one record."""

    async def end(self) -> None:
        """End it."""


async def check_an_empty_log(world: ClassicWorld) -> None:
    """A log without records begins and ends at 0 and has no producers."""
    state = await world.partition.look()
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset, state.open_transactions) == (0, 0, 0, ())
    assert state.leader_epoch >= 0
    read = await world.partition.last_batches(state)
    assert (read.producers, read.unread) == ((), ())
    assert await world.partition.settle(state) == state


async def check_the_last_five_batches_of_each_producer(world: ClassicWorld) -> None:
    """Batches are told with sequences and offsets, the oldest first."""
    wanted: dict[int, list[tuple[int, int, int, int]]] = {0: [], 1: [], 2: []}
    sequences = dict.fromkeys(wanted, 0)
    for turn in range(7):
        for writer in wanted if turn < 3 else (0, 2):
            count = 1 + (turn + writer) % 3
            end = await world.write(writer, count)
            first = sequences[writer]
            sequences[writer] += count
            wanted[writer].append((first, first + count - 1, end - count, end - 1))
    state = await world.partition.look()
    assert state.high_watermark == state.log_end_offset == sum(sequences.values())
    read = await world.partition.last_batches(state)
    assert read.unread == ()
    assert [_plain(one.batches) for one in read.producers] == [tuple(batches[-5:]) for batches in wanted.values()]
    assert len({one.producer_id for one in read.producers}) == len(wanted)


async def check_batches_behind_the_end_are_left_out(world: ClassicWorld) -> None:
    """Batches written after the look do not count."""
    await world.write(0, 2)
    state = await world.partition.look()
    await world.write(0, 3)
    [producer] = (await world.partition.last_batches(state)).producers
    assert _plain(producer.batches) == ((0, 1, 0, 1),)
    assert (await world.partition.settle(state)).log_end_offset == 5


async def check_open_transactions_are_told(world: ClassicWorld) -> None:
    """A transaction is open from its first record to its marker, which moves the end."""
    await world.write(0, 2)
    await world.begin()
    [open_] = (await world.partition.look()).open_transactions
    assert open_.first_offset == 2
    await world.end()
    state = await world.partition.look()
    assert (state.open_transactions, state.log_end_offset) == ((), 4)
    assert [await world.partition.count_records(offset, state) for offset in (0, 2, 3, 4)] == [3, 1, 0, 0]


async def check_records_are_counted_from_inside_of_a_batch(world: ClassicWorld) -> None:
    """A batch that begins before the offset counts with what is left of it."""
    await world.write(0, 5)
    await world.write(1, 2)
    state = await world.partition.look()
    assert [await world.partition.count_records(offset, state) for offset in (0, 3, 4, 5, 6, 7)] == [7, 4, 3, 2, 1, 0]


async def check_writes_may_be_refused_twice(world: ClassicWorld) -> None:
    """A repetition changes nothing."""
    await world.write(0, 1)
    before = await world.partition.look()
    await world.partition.refuse_writes()
    await world.partition.refuse_writes()
    assert await world.partition.look() == before


CHECKS: Final[dict[str, Callable[[ClassicWorld], Awaitable[None]]]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_an_empty_log,
        check_the_last_five_batches_of_each_producer,
        check_batches_behind_the_end_are_left_out,
        check_open_transactions_are_told,
        check_records_are_counted_from_inside_of_a_batch,
        check_writes_may_be_refused_twice,
    )
}


def _plain(batches: tuple[SeededBatch, ...]) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(one[:4] for one in batches)
