"""Nodes over Kafka in memory, on the loop of the test: what surrounds one, and what a test waits for."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from coordinator.core.commands import Answer, CommitFile, FoundOffset, ListOffsets, OffsetQuery, PlacePartitions
from coordinator.core.limits import Limits
from coordinator.protocol.codec import Message
from coordinator.runtime.clock import wall_ms
from coordinator.runtime.node import FatalError, Node, NodeConfig, NodePorts
from coordinator.runtime.ports import Peers, PeerUnavailable, StateStores
from coordinator.runtime.telemetry import NoTelemetry
from coordinator.runtime.topic_rules import TopicExpectations
from coordinator.testing.kafka import FakeKafka
from records.levels import LEVEL_LATEST
from records.model import Endpoint
from tests.core.build import TOPIC

PATIENCE_S = 20
LOOK_EVERY_S = 0.005
TIMEOUT_MS = 5_000


class NoPeers:
    """The node is alone."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        raise PeerUnavailable(f"nobody listens at {host}:{port}")


NO_PEERS = NoPeers()


class Running:
    """A node that was started; `fatal` is what stopped it."""

    def __init__(self, kafka: FakeKafka, stores: StateStores, writer: ThreadPoolExecutor, schema_level_max: int, peers: Peers) -> None:
        self.kafka = kafka
        self.fatal: list[FatalError] = []
        ports = kafka.node("1")
        self.node = Node(
            config=NodeConfig(
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
                topic_check_interval_ms=10,
                load_timeout_ms=60_000,
                shutdown_timeout_ms=0,
                incarnation_id=uuid.uuid4().bytes,
                schema_level_max=schema_level_max,
            ),
            ports=NodePorts(
                cluster=ports.cluster,
                membership=ports.membership,
                open_reader=ports.reader,
                open_producers=lambda _message_max_bytes: ports.producers,
                open_stores=lambda _cluster_id: stores,
                peers=peers,
                writer=writer,
                telemetry=NoTelemetry(),
            ),
            clock_ms=wall_ms,
            wall_ms=wall_ms,
            rng=random.Random(1),
            on_fatal=self.fatal.append,
        )
        self.node.start()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition of the node."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():  # noqa: ASYNC110 - the node knows no events
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise AssertionError(f"waited {PATIENCE_S} s for {what}; fatal: {self.fatal}") from None

    async def leads(self) -> None:
        """Wait until the node leads everything."""
        await self.until(lambda: len(self.node.view.led()) == len(self.kafka.logs), "leadership of all partitions")

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
        loop=asyncio.get_running_loop(), rng=random.Random(2), partitions=partitions, topic_exists=topic_exists, clock_ms=wall_ms
    )


@asynccontextmanager
async def running(
    kafka: FakeKafka, stores: StateStores, *, schema_level_max: int = LEVEL_LATEST, peers: Peers = NO_PEERS
) -> AsyncIterator[Running]:
    """Run a node until the end of the block."""
    with ThreadPoolExecutor(max_workers=1) as writer:
        started = Running(kafka, stores, writer, schema_level_max, peers)
        try:
            yield started
        finally:
            await started.node.stop()
