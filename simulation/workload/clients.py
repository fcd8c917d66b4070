"""The clients of a run beside committers: strict readers, finders, describers, pruners and admins.

They behave as clients of the real service do: they ask some node, follow nothing but error codes, and send the same
request again, elsewhere, until its outcome is known. What they are told is judged where it leaves the node; what they
must be told in the end (an idempotent batch is never refused) is judged here.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from coordinator.core.commands import DeletePoint, FetchPoint, OffsetQuery, WantedTopic
from coordinator.operations.files import DESCRIBE_FILES
from coordinator.operations.moves import MOVE_PARTITIONS
from coordinator.operations.partitions import DELETE_RECORDS
from coordinator.operations.topics import CREATE_PARTITIONS, DELETE_TOPICS
from coordinator.protocol.messages import MovePartitionsPartition, MovePartitionsRequest
from coordinator.runtime.answers.serving import ask, serve
from coordinator.runtime.node.node import Node
from simulation.fold import Where
from simulation.judge import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NOT_DECIDED,
    Judge,
    JudgedTopic,
)
from simulation.loop import VirtualLoop
from simulation.network import Network, Unanswered
from simulation.story import Story
from simulation.workload.uploads import Uploads

T = TypeVar("T")

TIMEOUT_MS = 2_500
GIVE_UP_S = 3.0
RETRY_S = (0.01, 0.25)
THINK_S = (0.05, 0.45)
TOPICS_MAX = 6
RECENT_FILES = 10
AGE_MS_MAX = 5_000
PRUNE_S = (0.3, 2.0)
PRUNE_STEPS_MAX = 12
CLIENT = -1


@dataclass(slots=True, kw_only=True)
class Clients:
    """The state that all clients share; `is_closing` asks them to begin nothing new, `busy` counts what is not finished."""

    judge: Judge
    story: Story
    network: Network
    loop: VirtualLoop
    nodes: int
    partitions: int
    uploads: Uploads | None = None
    """None: files have no objects."""
    busy: int = 0
    is_closing: bool = False
    leaders: dict[Where, int] = field(default_factory=dict)

    async def ask(self, node_id: int, work: Callable[[Node], Awaitable[T]]) -> T | None:
        """Ask a node; None when no answer came."""
        try:
            return await self.network.call(self.loop, CLIENT, node_id, work, GIVE_UP_S)
        except Unanswered:
            return None

    def node_for(self, where: Where, rng: random.Random) -> int:
        """The node that answered last for a partition, now and then another one."""
        known = self.leaders.get(where)
        return rng.randrange(self.nodes) if known is None or rng.random() < 0.1 else known

    def targets(self) -> list[Where]:
        """The partitions of all topics that are there, in the order of creation."""
        live = [topic for topic in self.judge.topics.values() if topic.is_created and not topic.is_going]
        return [(topic.topic_id, partition) for topic in live for partition in range(topic.num_partitions)]

    def is_going(self, where: Where) -> bool:
        """Whether a client asked for the deletion of a partition's topic."""
        return self.judge.topics[where[0]].is_going


class Asker(ABC):
    """Asks again and again, with pauses."""

    pause_s = THINK_S

    def __init__(self, clients: Clients, rng: random.Random) -> None:
        self._clients = clients
        self._rng = rng

    async def run(self) -> None:
        """Ask until the clients close."""
        while not self._clients.is_closing:
            await asyncio.sleep(self._rng.uniform(*self.pause_s))
            await self._turn()

    @abstractmethod
    async def _turn(self) -> None:
        """Ask once, if there is anything to ask for."""


class ReadingClient(Asker):
    """Asks for the ends of partitions and for offsets by time, at whatever node."""

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        targets = clients.targets()
        if targets:
            asked = rng.sample(targets, min(len(targets), 2))
            ago_ms = rng.randint(0, AGE_MS_MAX)
            what = rng.choice([LATEST, LATEST, EARLIEST, MAX_TIMESTAMP, 0, max(0, clients.judge.log_time_ms(asked[0]) - ago_ms)])
            queries = [OffsetQuery(topic_id=where[0], partition=where[1], timestamp=what) for where in asked]
            node_id = rng.randrange(clients.nodes) if rng.random() < 0.4 else clients.node_for(asked[0], rng)
            await clients.ask(node_id, self._work(queries, node_id))

    def _work(self, queries: list[OffsetQuery], node_id: int) -> Callable[[Node], Awaitable[None]]:
        judge = self._clients.judge

        async def work(node: Node) -> None:
            floors = judge.floors([(query.topic_id, query.partition) for query in queries])
            found = await node.router.list_offsets(queries, TIMEOUT_MS)
            judge.read_answered(node_id, queries, floors, found)

        return work


class FindingClient(Asker):
    """Fetches batches from some known offset on, at whatever node: may be stale, must not be wrong."""

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        targets = clients.targets()
        if targets:
            where = rng.choice(targets)
            known = clients.judge.promises.high_watermark.get(where, 0)
            offset = known if rng.random() < 0.5 else rng.randint(0, known)
            points = [FetchPoint(topic_id=where[0], partition=where[1], offset=offset, max_bytes=1000)]
            if rng.random() < 0.3:
                topic_id, partition = rng.choice(targets)
                points.append(FetchPoint(topic_id=topic_id, partition=partition, offset=0, max_bytes=1000))
            node_id = rng.randrange(clients.nodes)
            await clients.ask(node_id, self._work(points, node_id))

    def _work(self, points: list[FetchPoint], node_id: int) -> Callable[[Node], Awaitable[None]]:
        judge = self._clients.judge

        async def work(node: Node) -> None:
            floors = judge.floors([(point.topic_id, point.partition) for point in points])
            found = await node.router.find_batches(points, 1000, 0, TIMEOUT_MS)
            judge.find_answered(node_id, points, floors, found)

        return work


class DescribingClient(Asker):
    """Asks whether files have live batches, at whatever node: known ones, and now and then one that was never committed."""

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        known = list(clients.judge.promises.files)
        if known:
            keys = [rng.choice(known[-RECENT_FILES:]), rng.choice(known), "f0-unknown"]
            node_id = rng.randrange(clients.nodes)
            await clients.ask(node_id, describing(clients.judge, keys, node_id))


class DeletingClient(Asker):
    """Deletes records of many partitions at a time, step by step: more than an entry holds where entries are small."""

    pause_s = PRUNE_S

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        targets = clients.targets()
        if targets:
            points = [point for where in rng.sample(targets, rng.randint(1, len(targets))) for point in self._steps(where)]
            if rng.random() < 0.2:
                rng.shuffle(points)
            node_id = clients.node_for(targets[0], rng)
            await clients.ask(node_id, deleting(clients.judge, points, node_id))

    def _steps(self, where: Where) -> list[DeletePoint]:
        judge = self._clients.judge
        start, end = judge.promises.log_start.get(where, 0), judge.promises.high_watermark.get(where, 0)
        offsets = range(start + 1, min(end, start + PRUNE_STEPS_MAX) + 1)
        return [DeletePoint(topic_id=where[0], partition=where[1], offset=offset) for offset in offsets]


class MovingOperator(Asker):
    """Moves partitions to other coordinators, now and then back: an order that was given is carried out, whoever fails meanwhile."""

    pause_s = PRUNE_S

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        targets = clients.targets()
        if targets:
            parts = tuple(
                MovePartitionsPartition(topic_id=topic_id, partition_index=partition, to_coordinator_id=rng.randrange(clients.partitions))
                for topic_id, partition in rng.sample(targets, rng.randint(1, min(len(targets), 2)))
            )
            request = MovePartitionsRequest(partitions=parts, only_check=False, timeout_ms=TIMEOUT_MS)

            async def work(node: Node) -> None:
                await serve(node, MOVE_PARTITIONS, 0, request)

            await clients.ask(rng.randrange(clients.nodes), work)


def deleting(judge: Judge, points: list[DeletePoint], node_id: int) -> Callable[[Node], Awaitable[None]]:
    """The request to delete records."""
    if judge.retention is not None:
        judge.retention.asked(points)

    async def work(node: Node) -> None:
        judge.delete_records_answered(node_id, points, await ask(node, DELETE_RECORDS, points, TIMEOUT_MS))

    return work


def describing(judge: Judge, keys: list[str], node_id: int) -> Callable[[Node], Awaitable[None]]:
    """The request whether files have live batches."""

    async def work(node: Node) -> None:
        floors, led = judge.file_floors(keys), node.replicas.led()
        judge.described(node_id, keys, led, floors, await ask(node, DESCRIBE_FILES, keys, TIMEOUT_MS))

    return work


class Admin:
    """Creates, grows and deletes topics, and deletes records; repeats each until it is done."""

    def __init__(self, number: int, clients: Clients, rng: random.Random, *, reuses_names: bool = False) -> None:
        self._number = number
        self._clients = clients
        self._rng = rng
        self._reuses_names = reuses_names
        self._topics: list[JudgedTopic] = []

    async def run(self) -> None:
        """Change topics until the clients close."""
        rng, clients = self._rng, self._clients
        while not clients.is_closing:
            clients.busy += 1
            mine = [topic for topic in self._topics if not topic.is_going]
            kind = rng.random()
            if not mine or (kind < 0.25 and len(mine) < TOPICS_MAX):
                await self._create()
            elif kind < 0.45:
                await self._grow(rng.choice(mine))
            elif kind < 0.7 and len(mine) > 1:
                # A topic that was just created may not be known everywhere yet.
                await self._delete(rng.choice([*mine, mine[-1], mine[-1]]))
            elif kind < 0.85:
                await self._delete_records(rng.choice(mine))
            clients.busy -= 1
            await asyncio.sleep(rng.uniform(0.1, 2.5))

    async def _create(self) -> None:
        topic = JudgedTopic(self._rng.randbytes(16), self._name(), self._rng.randint(1, 3))
        self._topics.append(topic)
        self._clients.judge.topics[topic.topic_id] = topic
        await self._place(topic, topic.num_partitions)
        self._clients.story.tell(f"topic {topic.topic_id.hex()[:6]} is created with {topic.num_partitions} partitions")
        topic.is_created = True

    def _name(self) -> str:
        """A new name, or that of a topic that was deleted."""
        names = {topic.name: topic.is_deleted for topic in self._topics}
        free = [name for name, is_free in names.items() if is_free] if self._reuses_names else []
        return self._rng.choice(free) if free else f"topic-{self._number}-{len(self._topics)}"

    async def _grow(self, topic: JudgedTopic) -> None:
        count = topic.num_partitions + self._rng.randint(0, 2)
        await self._place(topic, count)
        topic.num_partitions = max(topic.num_partitions, count)

    async def _place(self, topic: JudgedTopic, count: int) -> None:
        wanted = [WantedTopic(topic_id=topic.topic_id, name=topic.name, num_partitions=count)]

        async def work(node: Node) -> int:
            [outcome] = await ask(node, CREATE_PARTITIONS, wanted, TIMEOUT_MS)
            return int(outcome.error)

        error = await self._until_done(work)
        if error:
            self._clients.judge.broken("topics are created", f"{topic.name} was refused with {error}")

    async def _delete(self, topic: JudgedTopic) -> None:
        topic.is_going = True
        self._clients.story.tell(f"topic {topic.topic_id.hex()[:6]} is to be deleted")

        async def work(node: Node) -> int:
            [outcome] = await ask(node, DELETE_TOPICS, [topic.topic_id], TIMEOUT_MS)
            return int(outcome.error)

        error = await self._until_done(work, final=frozenset({100}))
        if error:
            self._clients.judge.broken("acknowledged topics are there", f"deleting {topic.name} was answered {error}")
        topic.is_deleted = True
        self._clients.story.tell(f"topic {topic.topic_id.hex()[:6]} is deleted")

    async def _delete_records(self, topic: JudgedTopic) -> None:
        where = (topic.topic_id, self._rng.randrange(topic.num_partitions))
        known = self._clients.judge.promises.high_watermark.get(where, 0)
        points = [DeletePoint(topic_id=where[0], partition=where[1], offset=self._rng.choice([-1, self._rng.randint(0, known)]))]
        judge = self._clients.judge
        node_id = self._clients.node_for(where, self._rng)
        await self._clients.ask(node_id, deleting(judge, points, node_id))
        # Batches deleted a moment ago are not subtracted from their files yet.
        keys = list(judge.promises.files)[-RECENT_FILES:]
        if keys:
            await self._clients.ask(node_id, describing(judge, keys, node_id))

    async def _until_done(self, work: Callable[[Node], Awaitable[int]], final: frozenset[int] = frozenset()) -> int:
        """Ask one node after the other until one has a final answer."""
        rng = self._rng
        node_id = rng.randrange(self._clients.nodes)
        while True:
            error = await self._clients.ask(node_id, work)
            if error is not None and (error not in NOT_DECIDED or error in final):
                return error
            await asyncio.sleep(rng.uniform(*RETRY_S))
            if rng.random() < 0.7:
                node_id = rng.randrange(self._clients.nodes)
