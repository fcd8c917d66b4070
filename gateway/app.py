"""Runs one gateway from its settings until SIGTERM or SIGINT.

Prints `serving node=<id> listeners=<NAME://host:port,...> http=<url>` once clients can connect.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from functools import partial

from coordinator.adapters.server.contract import ListenerSecurity, ServerLimits
from coordinator.app.process.open_files import raise_open_files
from coordinator.app.process.timers import CoalescingLoop
from coordinator.app.version import installed_version
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.records.ulid import new_ulid
from coordinator.runtime.answers.gateway_plan import CoordinatorPlace
from coordinator.security.client_security import ClientSecurity
from gateway.brokers.cluster import RealCluster
from gateway.front.apis import APIS, OWN, PARTITIONS_OF_LEADERS, RELAYED, PortApis
from gateway.front.discovery import discovery_takers
from gateway.front.relays import ListenerPorts
from gateway.front.sights import GatewaySights
from gateway.ports import Catalogue, DisklessTopic, Taker
from gateway.settings import GatewaySettings
from gateway.view.model import Address, Gateway, RelayIds

LOG = logging.getLogger("gateway.app")

DRAIN_TIMEOUT_MS = 10_000


class ListedTopics:
    """The diskless topics, listed each second. Implements `Catalogue`."""

    def __init__(self, client: DisklessClient) -> None:
        self._client = client
        self._by_name: dict[str, DisklessTopic] = {}
        self._by_id: dict[bytes, DisklessTopic] = {}

    def named(self, name: str) -> DisklessTopic | None:
        return self._by_name.get(name)

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        return self._by_id.get(topic_id)

    async def refreshed(self) -> None:
        found = await self._client.describe_topics(timeout_ms=5_000)
        topics = [
            DisklessTopic(one.name, one.topic_id, len(one.partitions), one.settings, tuple(p.coordinator_id for p in one.partitions))
            for one in found
        ]
        self._by_name = {one.name: one for one in topics}
        self._by_id = {one.topic_id: one for one in topics}

    async def follow(self) -> None:
        while True:
            try:
                await self.refreshed()
            except ServiceError as error:
                LOG.warning("topics not listed error=%r", str(error))
            await asyncio.sleep(1)


class NoShadows:
    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        return frozenset()


class GatewayProcess:
    """The parts of one gateway; `run` is its life."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()
        self._places: tuple[CoordinatorPlace, ...] = ()
        self._ports: list[ListenerPorts] = []

    async def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        settings = self._settings
        LOG.info("starting gateway=%d version=%s", settings.gateway_node_id, installed_version())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        client = DisklessClient(",".join(settings.coordinator_bootstrap_servers), client_id="diskless-gateway")
        properties = {
            "bootstrap.servers": ",".join(settings.bootstrap_servers), "client.id": "diskless-gateway", **settings.kafka
        }  # fmt: skip
        catalogue = ListedTopics(client)
        relays = RelayIds(settings.gateway_relay_brokers)
        self._cluster = RealCluster(properties, self._changed)
        self._sights = GatewaySights(
            lambda: self._cluster, lambda: (self._me,), lambda: self._places, catalogue, NoShadows(), settings.gateway_rack
        )
        takers: dict[int, Taker] = self._takers(client, catalogue)
        hidden = [key for key in PARTITIONS_OF_LEADERS if key not in takers]
        own_apis = PortApis(OWN, takers, hidden)
        relay_apis = PortApis(RELAYED, (), ())
        advertised = {one.name: one for one in settings.advertised_listeners or settings.listeners}
        addresses = {}
        security = ClientSecurity(settings.kafka)
        for listener in settings.listeners:
            base = settings.gateway_relay_port_base or listener.port + 1
            ports = ListenerPorts(
                listener.name,
                listener.host,
                relay_base=base,
                relays=relays,
                cluster=self._cluster,
                upstream_security=security,
                security=ListenerSecurity(has_login=listener.name.startswith("SASL")),
                limits=ServerLimits(),
                own=(own_apis, {**discovery_takers(self._sights, own_apis), **takers}),
                relayed=(relay_apis, discovery_takers(self._sights, relay_apis)),
            )
            bound = await ports.start(listener.port)
            told = advertised[listener.name]
            host = socket.gethostname() if told.is_wildcard else told.host
            addresses[listener.name] = Address(host, told.port or bound, base)
            self._ports.append(ports)
        self._me = Gateway(
            settings.gateway_node_id,
            settings.gateway_rack,
            new_ulid(int(time.time() * 1000), os.urandom(10)),
            addresses,
            relays,
            installed_version(),
        )
        tasks = [
            loop.create_task(self._cluster.follow()),
            loop.create_task(catalogue.follow()),
            loop.create_task(self._follow_leaders(client)),
        ]
        await self._cluster.are_known.wait()
        await self._relay()
        print(f"serving node={settings.gateway_node_id} listeners={','.join(map(str, settings.listeners))} http=off", flush=True)
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*(ports.stop(DRAIN_TIMEOUT_MS) for ports in self._ports))
        await client.close()
        LOG.info("stopped status=0")
        return 0

    def _takers(self, client: DisklessClient, catalogue: Catalogue) -> dict[int, Taker]:
        """The takers of the rooms, by API key, for the gateway's own node."""
        return {}

    def _changed(self) -> None:
        self._sights.changed()
        if self._ports:
            asyncio.get_running_loop().create_task(self._relay())

    async def _relay(self) -> None:
        for ports in self._ports:
            await ports.relay(one.broker_id for one in self._cluster.brokers)

    async def _follow_leaders(self, client: DisklessClient) -> None:
        while True:
            try:
                found = await client.admin.describe_coordinators(timeout_ms=5_000)
                places = tuple(CoordinatorPlace(coordinator_id=one.coordinator_id, node_id=one.leader_id) for one in found.coordinators)
                if places != self._places:
                    self._places = places
                    self._sights.changed()
            except ServiceError as error:
                LOG.warning("leaders of coordinators not found error=%r", str(error))
            await asyncio.sleep(2)


def run_gateway(settings: GatewaySettings) -> int:
    """Run one gateway in the foreground; logging is set up by the caller."""
    faulthandler.enable()
    raise_open_files(10_000)
    with asyncio.Runner(loop_factory=CoalescingLoop) as runner:
        return runner.run(GatewayProcess(settings).run())
