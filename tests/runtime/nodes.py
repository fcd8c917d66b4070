"""Nodes over Kafka in memory, on the loop of the test: what surrounds one, and what a test waits for."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.commands import Answer, CommitFile, FoundOffset, ListOffsets, OffsetQuery, PlacePartitions
from coordinator.core.limits import Limits
from coordinator.core.topic_rules import TopicExpectations
from coordinator.core.yielding import Rest, no_rest
from coordinator.object_store import ObjectStore
from coordinator.protocol.codec import Message
from coordinator.runtime.directories.port import OpenDirectories
from coordinator.runtime.failures import FatalError
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.node import Node
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import ClassicLogs, DurableSnapshots, Peers, PeerUnavailable, StateStores
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.replicas import Replicas
from coordinator.runtime.telemetry import NoTelemetry, Telemetry
from records.model import Endpoint
from simulation.fakes.directories import FakeDirectory
from simulation.fakes.kafka import FakeKafka
from tests.core.build import TOPIC
from tests.patient_loop import loop_ms
from tests.waiting import until

PATIENCE_S = 60
TIMEOUT_MS = 60_000


class NoPeers:
    """The node is alone."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        raise PeerUnavailable(f"nobody listens at {host}:{port}")


NO_PEERS = NoPeers()
NO_TELEMETRY = NoTelemetry()


def replicas_of(made: Iterable[Any]) -> Replicas:
    """The replicas of a node that has no process, from what stands in for each."""
    replicas = Replicas()
    for replica in made:
        replicas.follow(replica)
    return replicas


def context_of(**parts: Any) -> NodeContext:
    """What the parts of a node work with, for one that has no process; what is not given must not be asked for."""
    nothing = dict.fromkeys(field.name for field in fields(NodeContext))
    return NodeContext(**nothing | {"node_id": 1, "peers": NO_PEERS, "rng": random.Random(1), "pauses": Pauses()} | parts)


def node_config(kafka: FakeKafka, **changes: Any) -> NodeConfig:
    """The settings of a node, with some changed."""
    config = NodeConfig(
        node_id=1,
        rack="",
        endpoints=[Endpoint(listener="PLAINTEXT", host="one", port=9192)],
        topic=kafka.topic,
        topic_partitions=2,
        topic_auto_create=True,
        expectations=TopicExpectations(),
        limits=Limits(),
        flush_interval_ms=10,
        flush_batches_max=1000,
        flush_backlog_max=1_000_000,
        topic_check_interval_ms=10,
        load_timeout_ms=60_000,
        shutdown_timeout_ms=0,
        incarnation_id=uuid.uuid4().bytes,
    )
    return replace(config, **changes)


class Heard:
    """Another member, which only hears what it is assigned."""

    def __init__(self) -> None:
        self.assignments: list[frozenset[int]] = []

    def on_assignment(self, assignment: GroupAssignment) -> None:
        """What the group assigns to it now."""
        self.assignments.append(assignment.leads)


class Running:
    """A node that was started; `fatal` is what stopped it."""

    def __init__(
        self, kafka: FakeKafka, *, config: NodeConfig, ports: NodePorts, clock_ms: Callable[[], int], wall_ms: Callable[[], int]
    ) -> None:
        self.kafka = kafka
        self.ports = ports
        self.fatal: list[FatalError] = []
        self.node = Node(config=config, ports=ports, clock_ms=clock_ms, wall_ms=wall_ms, rng=random.Random(1), on_fatal=self.fatal.append)
        self.node.start()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition of the node."""
        try:
            await until(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; fatal: {self.fatal}") from None

    async def leads(self) -> None:
        """Wait until the node leads everything."""
        await self.until(lambda: len(self.node.replicas.led()) == len(self.kafka.logs), "leadership of all partitions")

    async def ask(self, partition: int, command: CommitFile | PlacePartitions | ListOffsets) -> Answer:
        """Ask a replica."""
        return await self.node.replicas[partition].ask(command, TIMEOUT_MS)

    async def high_watermark(self, partition: int) -> int:
        """What the replica's leader says of the first user partition of `TOPIC`."""
        answer = await self.ask(partition, ListOffsets(queries=[OffsetQuery(topic_id=TOPIC, partition=0, timestamp=-1)]))
        assert isinstance(answer, list)
        [found] = answer
        assert isinstance(found, FoundOffset)
        return found.offset


def in_memory(*, partitions: int = 2, topic_exists: bool = True) -> FakeKafka:
    """A Kafka on the running loop."""
    return FakeKafka(
        loop=asyncio.get_running_loop(), rng=random.Random(2), partitions=partitions, topic_exists=topic_exists, clock_ms=loop_ms
    )


@asynccontextmanager
async def running(
    kafka: FakeKafka,
    stores: StateStores,
    *,
    name: str = "1",
    peers: Peers = NO_PEERS,
    durable: DurableSnapshots | None = None,
    objects: ObjectStore | None = None,
    classic_logs: ClassicLogs | None = None,
    telemetry: Telemetry = NO_TELEMETRY,
    rest: Rest = no_rest,
    on_writing: Callable[[int, int], None] = lambda partition, batches: None,
    on_written: Callable[[], None] = lambda: None,
    clock_ms: Callable[[], int] = loop_ms,
    wall_clock_ms: Callable[[], int] = loop_ms,
    open_directories: Callable[[str], OpenDirectories] | None = None,
    **config: Any,
) -> AsyncIterator[Running]:
    """Run a node until the end of the block; `name` is that of its process, `config` are fields of `NodeConfig`.

    `open_directories` takes the place of one directory with the stores.
    """
    node = kafka.node(name)
    with (
        ThreadPoolExecutor(max_workers=1) as writer,
        ThreadPoolExecutor(max_workers=1) as background,
        TemporaryDirectory(prefix="diskless-snapshots-") as folder,
    ):
        ports = NodePorts(
            cluster=node.cluster,
            membership=node.membership,
            open_reader=node.reader,
            open_producers=lambda _message_max_bytes: node.producers,
            open_directories=open_directories or (lambda _cluster_id: OpenDirectories([FakeDirectory(stores, Path(folder))])),
            peers=peers,
            writer=writer,
            background=background,
            snapshots=durable,
            objects=objects,
            classic_logs=classic_logs,
            telemetry=telemetry,
            rest=rest,
            on_writing=on_writing,
            on_written=on_written,
        )
        started = Running(kafka, config=node_config(kafka, **config), ports=ports, clock_ms=clock_ms, wall_ms=wall_clock_ms)
        try:
            yield started
        finally:
            await started.node.stop(hand_over=False)
