"""The in-memory Kafka passes the contract of the Kafka ports, and its faults are what they are called."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from coordinator.runtime.ports import KafkaUnavailable, LogBroken, LogListener, ProduceRefused, Proof, Report
from simulation.contracts.kafka import ALL, CHECKS, PARTITIONS, Assignments, Recorder, entry, key, prove, send
from simulation.fakes.kafka import FakeKafka, FakeNode
from simulation.fakes.kafka_cluster import FakeCluster
from simulation.fakes.kafka_group import FakeMembership
from simulation.fakes.kafka_log import Fate, Faults
from simulation.fakes.kafka_producer import FURTHER_ON_MAX, FakeTermProducers
from simulation.fakes.kafka_reader import FakeLogReader
from simulation.fakes.reports import noted_in
from tests.virtual_loop import lived
from tests.waiting import until, virtual_time


class FakeWorld:
    def __init__(self, seed: int = 1, faults: Faults | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.kafka = FakeKafka(loop=self.loop, rng=random.Random(seed), partitions=PARTITIONS, faults=faults)
        self._nodes: dict[str, FakeNode] = {}
        self._silent: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def node(self, name: str) -> FakeNode:
        if name not in self._nodes:
            self._nodes[name] = self.kafka.node(name)
        return self._nodes[name]

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition, "the condition", every_s=0.001)

    async def settle(self) -> None:
        await virtual_time(1.0)  # every delay of the fakes is shorter

    def reader(self, listener: LogListener) -> FakeLogReader:
        return self.node("reader").reader(listener)

    def producers(self, node: str) -> FakeTermProducers:
        return self.node(node).producers

    def membership(self, node: str) -> FakeMembership:
        member = self.node(node).membership

        async def beat() -> None:
            while node not in self._silent:
                member.alive()
                await virtual_time(0.5)

        self._tasks.append(self.loop.create_task(beat()))
        return member

    def silence(self, node: str) -> None:
        self._silent.add(node)

    def cluster(self) -> FakeCluster:
        return self.node("admin").cluster

    async def append_control(self, partition: int) -> None:
        self.kafka.append(partition, None, None)

    async def delete_records(self, partition: int, before_offset: int) -> None:
        self.kafka.delete_records(partition, before_offset)

    async def delete_topic(self) -> None:
        self.kafka.delete_topic()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def run(scenario: Callable[[FakeWorld], Awaitable[None]], *, seed: int = 1, faults: Faults | None = None) -> FakeWorld:
    async def main() -> FakeWorld:
        world = FakeWorld(seed, faults)
        try:
            await scenario(world)
        finally:
            await world.close()
        return world

    return lived(main())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", CHECKS)
def test_contract(name: str, seed: int) -> None:
    run(CHECKS[name], seed=seed)


def only(fate: Fate, seq: int) -> Faults:
    return Faults(fate_of=lambda _node, _partition, produced, _value: fate if produced == seq else Fate.DELIVER)


@pytest.mark.parametrize(
    ("fate", "landed", "reported"),
    [
        (Fate.DELIVER, [0, 1, 2], [(0, 0), (1, 1), (2, 2)]),
        (Fate.LOSE_REPORT, [0, 1, 2], [(0, 0), (2, 2)]),
        (Fate.FAIL_AFTER_LANDING, [0, 1, 2], [(0, 0), (1, None), (2, 2)]),
        (Fate.DROP, [0, 2], [(0, 0), (1, None), (2, 1)]),
        (Fate.DROP_SILENTLY, [0, 2], [(0, 0), (2, 1)]),
        (Fate.DOUBLE, [0, 1, 1, 2], [(0, 0), (1, 1), (2, 3)]),
        (Fate.LATE, [0, 2, 1], [(0, 0), (2, 1), (1, 2)]),
    ],
)
def test_a_fate_does_what_it_says(fate: Fate, landed: list[int], reported: list[tuple[int, int | None]]) -> None:
    reports: list[Report] = []

    async def scenario(world: FakeWorld) -> None:
        send(world.producers("a").open(0, noted_in(reports)), 3)
        await world.settle()

    world = run(scenario, faults=only(fate, 1))
    assert [entry.key for entry in world.kafka.logs[0].entries()] == [key(seq) for seq in landed]
    assert [(report.seq, report.offset) for report in reports] == reported
    assert all((report.error is None) == (report.offset is not None) for report in reports)


@pytest.mark.parametrize(("fate", "told"), [(Fate.NO_OFFSET, [None]), (Fate.FURTHER_ON, range(2, 2 + FURTHER_ON_MAX))])
def test_a_report_may_not_say_where_its_entry_landed(fate: Fate, told: Sequence[int | None]) -> None:
    reports: list[Report] = []

    async def scenario(world: FakeWorld) -> None:
        send(world.producers("a").open(0, noted_in(reports)), 3)
        await world.settle()

    world = run(scenario, faults=only(fate, 1))
    assert [entry.key for entry in world.kafka.logs[0].entries()] == [key(0), key(1), key(2)]
    assert [reports[0], reports[2]] == [Report(0, 0, None), Report(2, 2, None)]
    assert (reports[1].seq, reports[1].error) == (1, None)
    assert reports[1].offset in told


def test_an_injected_refusal_sends_nothing() -> None:
    async def scenario(world: FakeWorld) -> None:
        producer = world.producers("a").open(0, list[Report]().extend)
        with pytest.raises(ProduceRefused, match="queue full"):
            producer.produce([entry(0, b"v")])
        await world.settle()

    assert run(scenario, faults=Faults(refuse_produce=lambda *_: "queue full")).kafka.logs[0].end_offset == 0


def test_a_cut_off_cluster_answers_nothing_and_loses_nothing() -> None:
    async def scenario(world: FakeWorld) -> None:
        recorder, reports = Recorder(), list[Report]()
        world.reader(recorder).follow(0, 0, 1)
        world.kafka.set_available(False)
        send(world.producers("a").open(0, noted_in(reports)), 5)
        with pytest.raises(KafkaUnavailable):
            await world.cluster().describe_topic()
        await world.settle()
        assert (recorder.entries, reports) == ([], [])
        world.kafka.set_available(True)
        await world.until(lambda: len(reports) == len(recorder.entries) == 5)

    run(scenario)


def test_a_held_node_lands_its_entries_behind_those_of_its_successor() -> None:
    async def scenario(world: FakeWorld) -> None:
        old, new = list[Report](), list[Report]()
        zombie = world.producers("a").open(0, noted_in(old))
        zombie.produce([entry(0, b"a0")])
        await world.until(lambda: len(old) == 1)
        world.node("a").hold()
        send(zombie, 3, first=1)
        world.producers("b").open(0, noted_in(new)).produce([entry(0, b"b0")])
        await world.until(lambda: len(new) == 1)
        world.node("a").release()
        await world.until(lambda: len(old) == 4)
        assert [report.offset for report in old] == [0, 2, 3, 4]

    run(scenario)


def test_a_stopped_node_hears_nothing_and_its_partitions_go_on_after_the_session() -> None:
    async def scenario(world: FakeWorld) -> None:
        first, second = Assignments(), Assignments()
        world.membership("a").join(first)
        await world.until(lambda: first.now == ALL)
        reports: list[Report] = []
        send(world.producers("a").open(0, noted_in(reports)), 50)
        stopped_at_s = world.loop.time()
        world.node("a").stop()
        world.membership("b").join(second)
        await world.until(lambda: second.now == ALL)
        assert world.loop.time() - stopped_at_s >= 6.0
        assert (first.now, reports) == (ALL, [])
        landed = [entry.key for entry in world.kafka.logs[0].entries()]
        assert landed == [key(seq) for seq in range(len(landed))]

    run(scenario)


def test_assignments_set_by_hand_stay_and_losing_all_is_heard_by_all() -> None:
    async def scenario(world: FakeWorld) -> None:
        first, second = Assignments(), Assignments()
        a, b = world.membership("a"), world.membership("b")
        a.join(first)
        b.join(second)
        await world.until(lambda: len(first.now) == len(second.now) == PARTITIONS // 2)
        world.kafka.group.assign({0: "a", 1: "b", 2: "b"})
        await world.until(lambda: (first.now, second.now) == (frozenset({0}), frozenset({1, 2})))
        assert world.kafka.group.owner(3) is None
        with pytest.raises(ValueError, match="c are not members"):
            world.kafka.group.assign({0: "c"})
        assert await prove(world, b, 2) is Proof.MEMBER
        answers: list[Proof] = []
        b.prove(2, answers.append)
        world.kafka.group.assign({0: "a", 1: "b", 2: "b"})  # a new generation overtakes the question
        await world.until(lambda: bool(answers))
        assert answers == [Proof.ASK_AGAIN]
        world.kafka.group.is_automatic = True
        world.kafka.group.lose_all()
        await world.until(lambda: first.now == second.now == frozenset())
        await world.until(lambda: first.now | second.now == ALL)

    run(scenario)


def test_a_topic_made_anew_with_a_shorter_log_is_past_the_end() -> None:
    async def scenario(world: FakeWorld) -> None:
        recorder = Recorder()
        for seq in range(5):
            world.kafka.append(0, key(seq), b"v")
        world.reader(recorder).follow(0, 0, 1)
        await world.until(lambda: len(recorder.entries) == 5)
        world.kafka.create(PARTITIONS)
        await world.until(lambda: bool(recorder.broken))
        assert recorder.broken[0][2] is LogBroken.PAST_END

    run(scenario)


def test_the_same_seed_gives_the_same_run() -> None:
    def trace(seed: int) -> list[tuple[float, str]]:
        heard: list[tuple[float, str]] = []

        async def scenario(world: FakeWorld) -> None:
            def note(reports: Sequence[Report]) -> None:
                heard.extend((world.loop.time(), str(report)) for report in reports)

            for name in ("a", "b"):
                send(world.producers(name).open(0, note), 100, text=name)
            world.node("a").producers.stop()
            await world.settle()
            heard.extend((entry.timestamp_ms, repr(entry.value)) for entry in world.kafka.logs[0].entries())

        run(scenario, seed=seed)
        return heard

    assert trace(7) == trace(7)
    assert trace(7) != trace(8)
