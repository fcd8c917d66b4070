"""Everything about gateways in one run: they, their clients, their faults, and what must be so in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import count

from coordinator.object_store import Deleted
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects
from simulation.gateways.clients import FollowingClient, GatewayClients, ProducingClient
from simulation.gateways.faults import STALLED_S, GatewayFaults
from simulation.gateways.gateway import GatewaySurroundings, SimulatedGateway
from simulation.gateways.links import LinkFaults
from simulation.gateways.pool import NodeServers
from simulation.loop import VirtualLoop, VirtualTime
from simulation.network import Network
from simulation.objects import JudgedObjects
from simulation.produced import Diligence, JudgedRecords
from simulation.scenario import Scenario, SimulatedGateways
from simulation.story import Story
from simulation.workload.clients import Clients

START_S = 0.5
LATE_S = (0.5, 6.0)


class GatewayStore(FakeObjectStore):
    """The store as a gateway sees it: it deletes what it has fenced itself."""

    judged: JudgedObjects | None = None

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        """See `ObjectStore`."""
        if self.judged is not None:
            for key in keys:
                self.judged.given_up(key)
        return await super().delete_many(keys)


class GatewayWorld:
    """See the module's text."""

    def __init__(
        self,
        scenario: Scenario,
        life: SimulatedGateways,
        *,
        time: VirtualTime,
        world: VirtualLoop,
        network: Network,
        clients: Clients,
        objects: FakeObjects,
        records: JudgedRecords,
        story: Story,
        rng_of: Callable[[str], random.Random],
    ) -> None:
        self._world = world
        self._objects = objects
        self._judged = clients.judge.objects
        self._store_rng = rng_of("gateways store")
        numbers: Iterator[int] = count(1)
        around = GatewaySurroundings(
            time=time,
            world=world,
            network=network,
            servers=NodeServers(rng_of("gateways reads")),
            numbers=numbers,
            open_store=self._open_store,
            story=story,
            seed=scenario.seed,
            nodes=scenario.nodes,
            life=life,
        )
        self._gateways = {number: SimulatedGateway(around, number) for number in range(life.gateways)}
        self._clients = GatewayClients(clients, self._gateways, LinkFaults(life), objects, records)
        self.faults = GatewayFaults(clients=self._clients, network=network, world=world, rng=rng_of("gateways faults"))
        kinds = list(Diligence)
        self._producers = [
            ProducingClient(n, kinds[(n + life.first_kind) % len(kinds)], self._clients, rng_of(f"producer {n}"))
            for n in range(life.producers)
        ]
        self._consumers = [FollowingClient(n, self._clients, rng_of(f"consumer {n}")) for n in range(life.consumers)]

    def _open_store(self) -> FakeObjectStore:
        rng = self._store_rng
        store = GatewayStore(
            self._objects,
            fault_of=self.faults.store_fault,
            later=lambda work: self._world.call_later(rng.uniform(*LATE_S), work),
            stalled_s=STALLED_S,
        )
        store.judged = self._judged
        return store

    def start(self) -> list[Coroutine[object, object, None]]:
        """Start the gateways; returns the work of their clients."""
        for gateway in self._gateways.values():
            self._world.call_later(START_S, gateway.start)
        return [*[producer.run() for producer in self._producers], *[consumer.run() for consumer in self._consumers]]

    def left(self) -> list[str]:
        """What has not come to an end; see `GatewayClients.left`."""
        clients = [*[producer.waiting() for producer in self._producers], *[consumer.behind() for consumer in self._consumers]]
        return self._clients.left([text for texts in clients for text in texts])
