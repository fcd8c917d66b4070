"""FindBatches that waits, on two real nodes: woken by commits wherever it waits, also over a change of leader, and cheap while idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

import pytest

from cli.bench.counters import cpu_seconds
from cli.dev.kafka import Kafka
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import UNDISTURBED, Service
from integration_tests.wire import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    OK,
    TIMEOUT_S,
    Batch,
    Found,
    Topic,
    Wire,
    connected,
)
from records.record_batch import Record
from tests.waiting import stays, until

COORDINATORS = 2
LONG_MS = 240_000
IDLE_S = 3.0
NameFactory = Callable[[str], str]


@pytest.fixture(scope="module")
def two_nodes(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Nodes of all tests that stop none."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("polls"), partitions=COORDINATORS, properties=UNDISTURBED) as made:
        yield made.start(2)


@pytest.fixture
def mortal_nodes(kafka: Kafka, tmp_path: Path) -> Iterator[Service]:
    """Nodes of one test, which may end the first."""
    with Service(kafka.bootstrap, tmp_path, partitions=COORDINATORS, properties={"session.timeout.ms": "6000"}) as made:
        yield made.start(2)


@asynccontextmanager
async def wires(service: Service) -> AsyncIterator[tuple[Wire, Wire, Topic, int]]:
    """A connection to the first node, one to the other, and a topic's partition that the first leads."""
    async with connected(service.addresses[0]) as first, connected(service.addresses[1]) as second:
        led = {one.coordinator_id for one in await first.coordinators() if one.is_local}
        topic = await (first if 0 in led else second).new_topic(2 * COORDINATORS)
        yield first, second, topic, topic.partition_at(min(led))


async def waiting(wire: Wire, topic: Topic, partition: int, offset: int) -> asyncio.Task[list[Found]]:
    """A poll that waits at a node."""
    poll = asyncio.create_task(wire.find((topic, partition, offset), max_wait_ms=LONG_MS))
    await stays(lambda: not poll.done(), "the poll without an answer", 0.3)
    return poll


async def fresh(wire: Wire, topic: Topic, partition: int) -> None:
    """Wait until a node that does not lead has the partition and answers for it."""

    async def is_found() -> bool:
        [found] = await wire.find((topic, partition, 0))
        return found.error == OK

    await until(is_found, "an answer of the other node")


async def test_readers_are_woken_at_the_leader_and_at_the_other_node(two_nodes: Service) -> None:
    async with wires(two_nodes) as (leader, other, topic, partition):
        await fresh(other, topic, partition)
        for wire in (leader, other):
            delays_s = []
            async with connected(wire.connection.name) as polls:
                for _ in range(9):
                    [found] = await leader.find((topic, partition, 0))
                    poll = await waiting(polls, topic, partition, found.high_watermark)
                    await leader.commit(Batch(topic, partition, count=2))
                    acknowledged_s = time.monotonic()
                    async with asyncio.timeout(TIMEOUT_S):
                        [woken] = await poll
                    delays_s.append(time.monotonic() - acknowledged_s)
                    assert (woken.error, woken.ranges) == (OK, [(found.high_watermark, found.high_watermark + 1)])
            print(f"woken after the acknowledgement, ms: {[round(one * 1000, 1) for one in delays_s]}")
            assert median(delays_s) < 0.1


async def test_a_poll_outlives_the_leader_and_gets_what_the_next_one_commits(mortal_nodes: Service) -> None:
    async with wires(mortal_nodes) as (leader, other, topic, partition):
        await leader.commit(Batch(topic, partition))
        await fresh(other, topic, partition)
        poll = await waiting(other, topic, partition, 1)
        node = mortal_nodes.nodes[1]
        assert node.process is not None
        node.process.kill()
        async with connected(mortal_nodes.addresses[1]) as writer, asyncio.timeout(TIMEOUT_S):

            async def is_committed() -> bool:
                [result] = await writer.commit(Batch(topic, partition, count=3))
                return result.error == OK

            await until(is_committed, "the next leader")
            [found] = await poll
        assert (found.error, found.ranges) == (OK, [(1, 3)])


async def test_a_node_that_stops_answers_its_polls(mortal_nodes: Service) -> None:
    async with wires(mortal_nodes) as (leader, _, topic, partition):
        poll = await waiting(leader, topic, partition, 0)
        stopped = asyncio.create_task(asyncio.to_thread(mortal_nodes.nodes[1].terminate))
        async with asyncio.timeout(TIMEOUT_S):
            [found] = await poll
        assert found.error in (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
        assert await stopped == 0


async def idle_cost_s(pid: int) -> float:
    """The CPU seconds of a process in `IDLE_S`: the least of three times, since a node writes and looks around now and then."""
    costs_s = []
    for _ in range(3):
        before_s = cpu_seconds(pid)
        await asyncio.sleep(IDLE_S)
        costs_s.append(cpu_seconds(pid) - before_s)
    return min(costs_s)


@asynccontextmanager
async def a_thousand(service: Service, topic: Topic, partition: int) -> AsyncIterator[list[asyncio.Task[list[Found]]]]:
    """A thousand polls at the first node that wait, each on a connection of its own."""
    async with AsyncExitStack() as stack:
        many = [await stack.enter_async_context(connected(service.addresses[0])) for _ in range(1_000)]
        polls = [asyncio.create_task(wire.find((topic, partition, 0), max_wait_ms=LONG_MS)) for wire in many]
        await stays(lambda: not any(poll.done() for poll in polls), "the polls without an answer", 3.0)
        yield polls


async def test_a_thousand_polls_wake_together(two_nodes: Service) -> None:
    async with wires(two_nodes) as (leader, _, topic, partition), a_thousand(two_nodes, topic, partition) as polls:
        began_s, cpu_before_s = time.monotonic(), cpu_seconds(two_nodes.nodes[1].pid)
        await leader.commit(Batch(topic, partition))
        async with asyncio.timeout(TIMEOUT_S):
            answers = await asyncio.gather(*polls)
        waking_s = cpu_seconds(two_nodes.nodes[1].pid) - cpu_before_s
        print(f"all woken in {(time.monotonic() - began_s) * 1000:.0f} ms with {waking_s * 1000:.0f} ms of cpu")
        assert [found.ranges for [found] in answers] == [[(0, 0)]] * 1_000


@pytest.mark.measured
async def test_a_thousand_polls_cost_nothing_while_idle(two_nodes: Service) -> None:
    pid = two_nodes.nodes[1].pid
    async with wires(two_nodes) as (leader, _, topic, partition):
        without_s = await idle_cost_s(pid)
        async with a_thousand(two_nodes, topic, partition) as polls:
            with_s = await idle_cost_s(pid)
            await leader.commit(Batch(topic, partition))
            await asyncio.gather(*polls)
    print(f"cpu of a core while idle: {without_s / IDLE_S:.2%} without, {with_s / IDLE_S:.2%} with 1000 polls")
    assert with_s - without_s < 0.05 * IDLE_S


async def test_a_reader_of_the_client_follows_without_asking(two_nodes: Service, unique_name: NameFactory) -> None:
    (two_nodes.folder / "objects").mkdir(exist_ok=True)
    store = open_store(two_nodes.properties["object.store.url"])
    async with DisklessClient(two_nodes.addresses, object_store=store) as client:
        topic = await client.admin.create_topic(unique_name("followed"), 2 * COORDINATORS)
        following = client.read(topic.name, follow=True)
        for number in range(5):
            record = asyncio.ensure_future(anext(following))
            await stays(lambda: not record.done(), "the reader at the ends", 0.2)  # noqa: B023 - it is called within the loop
            await client.write({(topic.name, number % 4): [Record(value=b"%d" % number)]})
            written_s = time.monotonic()
            async with asyncio.timeout(TIMEOUT_S):
                assert (await record).value == b"%d" % number
            print(f"read {(time.monotonic() - written_s) * 1000:.1f} ms after the write")
        await following.aclose()
