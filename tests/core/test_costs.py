"""No operation costs more because a coordinator has many partitions: one commit of one batch, and what comes with it.

Compared are two coordinators in this process that differ only in how many partitions they have. The least of many runs
counts, in seconds of this thread, so a busy machine changes nothing. A single pass over a column of the larger one, by
numpy, takes longer than all that is allowed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from coordinator.core.commands import (
    Command,
    DeletePoint,
    DeleteRecords,
    DescribeFiles,
    ListOffsets,
    OffsetQuery,
    PlacePartitions,
    TopicShare,
)
from coordinator.core.state.packing import Packer
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import batch, commit

FEW, MANY, PER_TOPIC = 200, 200_000, 100_000
RUNS, ROUNDS = 60, 4
ALLOWED_S = 25e-6
NAMES = count()

pytestmark = pytest.mark.measured


class Coordinator:
    """A leader and a follower of one metadata partition with so many user partitions, all of it written once."""

    def __init__(self, partitions: int) -> None:
        world = World()
        self.leader, self.follower = world.add_replica(), world.add_replica()
        self.leader.lead()
        self.topics = [bytes([at + 1] * 16) for at in range(-(-partitions // PER_TOPIC))]
        for at, topic_id in enumerate(self.topics):
            share = TopicShare(
                topic_id=topic_id, name=f"t{at}", first_partition=0, num_partitions=min(PER_TOPIC, partitions), order_offset=at + 1
            )
            self.leader.ask(PlacePartitions(shares=[share]))
        self.packers = {id(replica): Packer() for replica in (self.leader, self.follower)}
        self.used = partitions // 2 % PER_TOPIC
        self.write(self.leader)
        self.write(self.follower)

    def batch_commit(self) -> Command:
        """One idempotent batch of a new producer."""
        name = next(NAMES)
        return commit(f"file-{name}", [batch(self.used, 1, topic_id=self.topics[-1], sequence=0, producer_id=name)])

    def write(self, replica: HarnessReplica) -> None:
        """Pack what was applied since the last time, as before a write of the state database."""
        state = replica.view.state
        self.packers[id(replica)].pack(state.freeze(replica.shard.header("cluster", bytes(16))))
        state.written()


@pytest.fixture(scope="module")
def coordinators() -> Iterator[tuple[Coordinator, Coordinator]]:
    made = Coordinator(FEW), Coordinator(MANY)
    gc.collect()
    gc.disable()  # a collection looks at everything there is
    yield made
    gc.enable()


def decide_and_acknowledge(one: Coordinator, command: Command) -> None:
    """The leader's part, its own reading of the log included."""
    one.leader.submit(command)
    one.leader.land()
    one.leader.report()
    one.leader.read()


def reads(one: Coordinator) -> Command:
    return ListOffsets(queries=[OffsetQuery(topic_id=one.topics[-1], partition=one.used, timestamp=-1)])


def deletes(one: Coordinator) -> Command:
    return DeleteRecords(points=[DeletePoint(topic_id=one.topics[-1], partition=one.used, offset=-1)])


def describes(_: Coordinator) -> Command:
    return DescribeFiles(object_keys=["file-0", "unknown"])


def a_commit(one: Coordinator) -> Callable[[], None]:
    command = one.batch_commit()
    return lambda: decide_and_acknowledge(one, command)


def a_follower(one: Coordinator) -> Callable[[], None]:
    decide_and_acknowledge(one, one.batch_commit())
    return one.follower.read


def a_flush(one: Coordinator) -> Callable[[], None]:
    decide_and_acknowledge(one, one.batch_commit())
    return lambda: one.write(one.leader)


def a_tick(one: Coordinator) -> Callable[[], None]:
    decide_and_acknowledge(one, one.batch_commit())
    return one.leader.tick


def a_strict_read(one: Coordinator) -> Callable[[], None]:
    return lambda: decide_and_acknowledge(one, reads(one))


def a_deletion(one: Coordinator) -> Callable[[], None]:
    decide_and_acknowledge(one, one.batch_commit())

    def work() -> None:
        decide_and_acknowledge(one, deletes(one))
        one.leader.tick()

    return work


def a_description(one: Coordinator) -> Callable[[], None]:
    return lambda: decide_and_acknowledge(one, describes(one))


Work = Callable[[Coordinator], Callable[[], None]]
"""Prepares, and returns what is measured."""


def least_s(one: Coordinator, work: Work) -> float:
    """The least seconds of this thread that some work takes."""
    times_s = []
    for _ in range(RUNS):
        measured = work(one)
        began_s = time.thread_time()
        measured()
        times_s.append(time.thread_time() - began_s)
    return min(times_s)


def difference_s(few: Coordinator, many: Coordinator, work: Work) -> float:
    """By how much it takes longer with many partitions; the least of some rounds."""
    return min(least_s(many, work) - least_s(few, work) for _ in range(ROUNDS))


@pytest.mark.parametrize("work", [a_commit, a_follower, a_flush, a_tick, a_strict_read, a_deletion, a_description])
def test_it_costs_the_same_with_a_thousand_times_as_many_partitions(coordinators: tuple[Coordinator, Coordinator], work: Work) -> None:
    few, many = coordinators
    assert len(many.leader.view.state.hot.partitions) == 1000 * len(few.leader.view.state.hot.partitions)
    longer_s = difference_s(few, many, work)
    assert longer_s < ALLOWED_S, f"{longer_s * 1e6:.0f} us longer with {MANY} partitions than with {FEW}"


def test_one_pass_over_the_partitions_would_be_found(coordinators: tuple[Coordinator, Coordinator]) -> None:
    def wasteful(one: Coordinator) -> Callable[[], None]:
        table = one.leader.view.state.hot.partitions
        return lambda: max(table.high_watermark.cells)

    assert difference_s(*coordinators, wasteful) > ALLOWED_S
