"""When a Fetch that waited in vain is remembered, and what ends that: news, rights, topics. On virtual time, with real tails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coordinator.adapters.server.contract import IncomingRequest, Promise
from coordinator.client.model import PartitionId
from gateway.fetch.limits import FetchLimits, FetchStats
from gateway.fetch.migrated import MigratedReads
from gateway.fetch.reads import BatchReader
from gateway.fetch.taker import FetchTaker
from gateway.tails.finder import UNUSED_S, Tails
from gateway.tails.tail import LIVE_S, WATCH_S
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects
from tests.gateway.classic.kafka import KafkaInMemory
from tests.gateway.fetch.kio_fetch import read_answer
from tests.gateway.fetch.world import NOW_MS, TOPIC, OneSession, TopicRights, Topics, fetch_request, incoming
from tests.gateway.tails.scripted_log import ScriptedCoordinators
from tests.virtual_loop import lived
from tests.waiting import virtual_time

WAIT_MS = 500


class Remembered:
    def __init__(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> None:
        self.request, self.body, self.wait_s, self.promise = request, body, wait_s, promise
        self.repeated = 0
        self.is_forgotten = False

    def forget(self) -> None:
        assert not self.is_forgotten
        self.is_forgotten = True
        self.promise.ended()


class Memory(OneSession):
    """A session of which the test sees what is remembered."""

    remembered: list[Remembered]

    def remember(self, *what: Any) -> Any:
        self.remembered.append(Remembered(*what))
        return self.remembered[-1]


class Scene:
    def __init__(self) -> None:
        self.coordinators = ScriptedCoordinators()
        self.tails = Tails(self.coordinators, lambda _: 0)
        self.rights = TopicRights()
        self.topics = Topics(TOPIC)
        limits, self.stats = FetchLimits(), FetchStats()
        store = FakeObjectStore(FakeObjects(now_ms=lambda: NOW_MS))
        reader = BatchReader(store, limits, self.stats, now_ms=lambda: NOW_MS)
        kafka = KafkaInMemory(TOPIC.topic_id, TOPIC.partitions)
        migrated = MigratedReads(kafka.boundaries, kafka.parts)
        self.taker = FetchTaker(self.topics, self.rights, self.tails, reader, limits, self.stats, migrated)
        self.session = Memory()
        self.session.remembered = []
        self.now_s = asyncio.get_running_loop().time

    @property
    def remembered(self) -> Remembered:
        [one] = self.session.remembered
        return one

    async def fetch(self, *asked: tuple[int, int], **wanted: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        wanted = {"max_wait_ms": WAIT_MS, **wanted}
        self.taker.take(self.session, incoming(fetch_request(*asked, **wanted)), answer.set_result)
        return read_answer(wanted.get("version", 12), await answer)


Story = Callable[[Scene], Coroutine[Any, Any, None]]


def live(story: Story) -> None:
    async def run() -> None:
        scene = Scene()
        try:
            await story(scene)
        finally:
            await scene.taker.close()
            await scene.tails.close()

    lived(run())


@pytest.mark.parametrize("version", [4, 12, 16])
def test_a_fetch_that_waited_in_vain_is_remembered_with_its_answer(version: int) -> None:
    async def story(scene: Scene) -> None:
        scene.coordinators.append(PartitionId(TOPIC.topic_id, 1), 5)
        await scene.fetch((0, 0), (1, 5), version=version)
        one = scene.remembered
        assert one.wait_s == WAIT_MS / 1000
        [topic] = read_answer(version, one.body).responses
        assert [(each.high_watermark, bytes(each.records or b"")) for each in topic.partitions] == [(0, b""), (5, b"")]
        assert one.promise.holds_until_s() == pytest.approx(scene.now_s() + WATCH_S)
        assert not one.is_forgotten

    live(story)


@pytest.mark.parametrize(
    "wanted",
    [
        {"max_wait_ms": 0},
        {"min_bytes": 0},
        {"replica_id": 1},
        {"topic": "unknown"},
    ],
    ids=str,
)
def test_a_fetch_that_did_not_wait_is_not_remembered(wanted: dict[str, Any]) -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0), **wanted)
        await scene.fetch((0, 0), **wanted)
        assert scene.session.remembered == []

    live(story)


def test_a_fetch_of_which_a_part_is_refused_or_has_records_is_not_remembered() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0), (TOPIC.partitions, 0))
        scene.coordinators.append(PartitionId(TOPIC.topic_id, 1), 5)
        await scene.fetch((0, 0), (1, 0), min_bytes=1_000_000)
        assert scene.session.remembered == []

    live(story)


def test_news_of_any_partition_end_it_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0), (1, 0))
        one = scene.remembered
        await virtual_time(3)
        assert not one.is_forgotten
        scene.coordinators.append(PartitionId(TOPIC.topic_id, 1))
        await virtual_time(0.1)
        assert one.is_forgotten
        assert one.promise.holds_until_s() <= scene.now_s()

    live(story)


def test_a_moved_start_and_a_deleted_topic_end_it() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinators.append(PartitionId(TOPIC.topic_id, 0), 5)
        await scene.fetch((0, 5))
        scene.coordinators.truncate(PartitionId(TOPIC.topic_id, 0), 3)
        scene.coordinators.append(PartitionId(TOPIC.topic_id, 0), 1)
        await virtual_time(0.1)
        assert scene.session.remembered.pop().is_forgotten
        await scene.fetch((1, 0))
        scene.coordinators.delete(PartitionId(TOPIC.topic_id, 1))
        await virtual_time(0.1)
        assert scene.session.remembered.pop().is_forgotten

    live(story)


def test_it_holds_as_long_as_rights_and_topics_do() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0))
        promise = scene.remembered.promise
        scene.rights.until_s = scene.now_s() + 1.5
        assert promise.holds_until_s() == scene.rights.until_s
        scene.rights.denied = frozenset({TOPIC.name})
        assert promise.holds_until_s() <= scene.now_s()
        scene.rights.denied, scene.rights.until_s = frozenset(), 1e9
        assert promise.holds_until_s() > scene.now_s()
        scene.topics.replace(TOPIC._replace(topic_id=bytes(16)))
        assert promise.holds_until_s() <= scene.now_s()
        scene.topics.replace()
        assert promise.holds_until_s() <= scene.now_s()

    live(story)


def test_a_tail_of_which_nothing_is_heard_promises_nothing() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0))
        scene.coordinators.down = ConnectionError("no node is there")
        promise = scene.remembered.promise
        for _ in range(int(LIVE_S + 11)):
            await virtual_time(1)
            promise.holds_until_s()
        assert promise.holds_until_s() <= scene.now_s()

    live(story)


def test_a_client_that_asks_no_more_is_followed_no_more() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0))
        for _ in range(30):
            await virtual_time(WATCH_S)
            scene.remembered.promise.holds_until_s()
        assert scene.tails.followed == 1
        await virtual_time(2 * UNUSED_S + 10)
        assert (scene.tails.followed, scene.tails.waiting) == (0, 0)
        assert scene.remembered.is_forgotten

    live(story)


def test_requests_that_repeat_are_counted() -> None:
    async def story(scene: Scene) -> None:
        await scene.fetch((0, 0))
        scene.remembered.repeated = 7
        assert (scene.taker.requests, scene.tails.waiting) == (8, 1)
        scene.remembered.forget()
        assert (scene.taker.requests, scene.tails.waiting) == (8, 0)

    live(story)


def test_a_fetch_that_comes_late_waits_for_the_rest_of_its_time() -> None:
    async def story(scene: Scene) -> None:
        began_s = scene.now_s()
        request = incoming(fetch_request((0, 0), max_wait_ms=WAIT_MS))
        await virtual_time(0.4)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        scene.taker.take(scene.session, request, answer.set_result)
        await answer
        assert scene.now_s() - began_s == pytest.approx(WAIT_MS / 1000, abs=0.01)

    live(story)
