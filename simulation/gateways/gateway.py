"""A simulated gateway: the product's Produce, catalogue and tails on a loop of its own. It can be started, stopped, killed and frozen.

A gateway that starts again has nothing of its former life but its number.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass

from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.client.service import Service
from coordinator.kafka.acls import AclOperation
from coordinator.object_store import ObjectStore
from gateway.kafka_apis import KafkaApi
from gateway.ports import Session
from gateway.produce.buffer import BufferLimits
from gateway.produce.stats import ProduceStats
from gateway.produce.taker import CommittedFile, ProduceHooks, ProduceTaker
from gateway.tails.finder import Tails
from gateway.topics.catalogue import TopicCatalogue
from simulation.gateways.pool import NodeServers, SimulatedPool, addresses
from simulation.loop import START_MS, VirtualLoop, VirtualTime
from simulation.network import Network
from simulation.produced import GATEWAY_PREFIX
from simulation.scenario import SimulatedGateways
from simulation.story import Story

SENDER = 1_000
"""The number of the first gateway in the network; those of nodes are lower."""
DRAIN_S = 5.0
RIGHTS_S = (0.001, 0.05)
RIGHTS_ASKED = 0.1
"""The chance that rights have to be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySurroundings:
    """What all gateways of a run share."""

    time: VirtualTime
    world: VirtualLoop
    network: Network
    servers: NodeServers
    numbers: Iterator[int]
    open_store: Callable[[], ObjectStore]
    story: Story
    seed: int
    nodes: int
    life: SimulatedGateways


class SimulatedGateway:
    """See the module's text. `alive` is None while it is down."""

    def __init__(self, around: GatewaySurroundings, number: int) -> None:
        self.number = number
        self.alive: GatewayLife | None = None
        self._around = around
        self._lives = 0

    @property
    def sender_id(self) -> int:
        """Its number in the network."""
        return SENDER + self.number

    def start(self) -> None:
        """Start it, if it is down."""
        if self.alive is None:
            self._lives += 1
            self.alive = GatewayLife(self._around, self.sender_id, f"gateway-{self.number}.{self._lives}")

    def kill(self) -> None:
        """End at once."""
        if self.alive is not None:
            self.alive.end()
            self.alive = None

    def stop(self, then: Callable[[], object]) -> None:
        """Take nothing more, write what is buffered, end, and say when it is done."""
        life = self.alive
        if life is None or life.is_stopping or life.loop.is_frozen:
            return
        life.is_stopping = True

        def ended() -> None:
            if self.alive is life:
                self.kill()
                then()

        async def drain() -> None:
            await life.taker.drain(DRAIN_S)
            self._around.world.call_soon(ended)

        life.spawn(drain())

    def freeze(self) -> None:
        """Run nothing until `thaw`."""
        if self.alive is not None:
            self.alive.loop.is_frozen = True

    def thaw(self) -> None:
        """Go on."""
        if self.alive is not None:
            self.alive.loop.thaw()


class GatewayLife:
    """One life of a gateway."""

    def __init__(self, around: GatewaySurroundings, sender_id: int, name: str) -> None:
        life, time = around.life, around.time
        self.name = name
        self.is_stopping = False
        self.loop = time.new_loop(name)
        self.on_ended: list[Callable[[], object]] = []
        """Called when it ends."""
        self.on_resumed: list[Callable[[], None]] = []
        """Called when connections may be read again."""
        rng = random.Random(f"{name} {around.seed}")
        pool = SimulatedPool(network=around.network, servers=around.servers, loop=self.loop, sender_id=sender_id, numbers=around.numbers)
        client = DisklessClient(Service(addresses(around.nodes), rng=rng, pool=pool))
        self.catalogue = TopicCatalogue(client.admin)
        self.tails = Tails(client, self._coordinator_of)
        self.memory = RequestMemory(life.memory_bytes, waiting_keys=(KafkaApi.PRODUCE,), changed=self._changed)
        self.taker = ProduceTaker(
            self.catalogue,
            SlowRights(rng),
            client,
            around.open_store(),
            memory=self.memory,
            stats=ProduceStats(),
            limits=BufferLimits(buffer_bytes=life.buffer_bytes, buffer_ms=life.buffer_ms, file_gap_ms=life.file_gap_ms),
            hooks=ProduceHooks(committed=self._committed),
            wal_prefix=GATEWAY_PREFIX,
            now_ms=lambda: START_MS + int(time.now_s * 1000),
            rng=rng,
        )
        self._tasks = {self.loop.create_task(self.catalogue.follow())}
        around.story.tell(f"{name} starts")

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run some work on this gateway's loop."""
        task: asyncio.Task[None] = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def spawn_soon(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Make and run some work, on this gateway's loop."""
        self.spawn(work())

    def end(self) -> None:
        """Run nothing more."""
        self.loop.is_dead = True
        told, self.on_ended = self.on_ended, []
        for tell in told:
            tell()

    def _changed(self, is_paused: bool) -> None:
        if not is_paused:
            told, self.on_resumed = self.on_resumed, []
            for tell in told:
                self.loop.call_soon(tell)

    def _committed(self, file: CommittedFile) -> None:
        self.tails.committed(file.object_key, file.rows, file.base_offsets)

    def _coordinator_of(self, partition: PartitionId) -> int:
        """Group by coordinators, not by their leaders: who leads them changes all the time."""
        topic = self.catalogue.identified(partition.topic_id)
        return topic.coordinators[partition.partition] if topic is not None and partition.partition < len(topic.coordinators) else -1


class SlowRights:
    """Implements `Rights`: everything is allowed, but now and then that is not known at once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        """See `Rights`."""
        return None if self._rng.random() < RIGHTS_ASKED else frozenset()

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        """See `Rights`."""
        await asyncio.sleep(self._rng.uniform(*RIGHTS_S))
        return frozenset()
