"""Runs one gateway from its settings until SIGTERM or SIGINT.

    status = run_gateway(settings)

Prints `serving gateway=<id> listeners=<NAME://host:port,...> http=<url>` to standard output once clients are served. The status is 0 after
a clean stop and 1 when something stopped it; the reason is then the last line on standard error.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from coordinator.adapters.metrics.http import HttpServer
from coordinator.adapters.metrics.registry import Metrics, Sample
from coordinator.app.addresses import cannot_listen
from coordinator.app.process.allocator import keep_freed_memory
from coordinator.app.process.compiled import warn_of_interpreted_loops
from coordinator.app.process.open_files import connections_that_fit, raise_open_files
from coordinator.app.process.timers import CoalescingLoop
from coordinator.app.security.http import HttpSecurity
from coordinator.app.version import installed_version
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.records.ulid import new_ulid
from coordinator.config.show import render
from coordinator.runtime.answers.gateway_plan import CoordinatorPlace
from coordinator.runtime.failures import FatalError
from coordinator.runtime.tasks import BackgroundTasks
from coordinator.security.client_security import ClientSecurity, SecurityUnsupported
from gateway.access.access import GatewayAccess
from gateway.brokers.cluster import RealCluster
from gateway.brokers.connection import BrokerLink, FindPlace
from gateway.brokers.own import OwnConnection
from gateway.front.apis import OWN, PARTITIONS_OF_LEADERS, RELAYED, PortApis
from gateway.front.discovery import discovery_takers
from gateway.front.hiding import HidingTaker
from gateway.front.relays import ListenerPorts, PortParts
from gateway.front.sights import GatewaySights
from gateway.front.stale import LOOKED_AT, StaleTaker
from gateway.kafka_apis import KafkaApi
from gateway.metrics import PREFIX, TABLE, server_samples
from gateway.ports import Taker
from gateway.rooms import Rooms
from gateway.settings import GATEWAY, GatewaySettings
from gateway.topics.catalogue import TopicCatalogue
from gateway.view.members import GatewayGroup
from gateway.view.model import Address, Gateway, RelayIds

LOG = logging.getLogger("gateway.app")

DRAIN_TIMEOUT_MS: Final = 10_000
LOOK_AT_LEADERS_S: Final = 2.0
ASK_TIMEOUT_MS: Final = 5_000
RETRY_S: Final = 0.5


class GatewayMain:
    """The parts of one gateway; `run` is its life."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._fatal: FatalError | None = None
        self._stop = asyncio.Event()
        self._is_serving = False
        self._is_leaving = False
        self._places: tuple[CoordinatorPlace, ...] = ()
        self._leaders: dict[int, int] = {}
        self._stale: Counter[int] = Counter()
        self._metrics = Metrics(TABLE, PREFIX)
        self._background = BackgroundTasks(self._die)
        self._membership = BackgroundTasks(self._die)
        """Membership of the group, which ends before the rest."""
        self._ports: list[ListenerPorts] = []
        self._me = _describe_me(settings)
        client_id = f"diskless-gateway-{settings.gateway_node_id}"
        properties = {"bootstrap.servers": ",".join(settings.bootstrap_servers), "client.id": client_id, **settings.kafka}
        self._cluster = RealCluster(properties, self._brokers_changed)
        self._client = DisklessClient(
            ",".join(settings.coordinator_bootstrap_servers), client_id=client_id, security=_coordinator_security(settings)
        )
        self._catalogue = TopicCatalogue(self._client.admin)
        self._access = GatewayAccess(
            settings, self._catalogue, connections_max=connections_that_fit(settings.connections_max, len(settings.listeners))
        )
        self._security = self._access.cluster
        self._own = OwnConnection(self._connect, self._cluster.any_place)
        self._rooms = Rooms(
            settings,
            self._client,
            self._catalogue,
            self._access.rights,
            self._own,
            self._connect,
            leader_of=lambda coordinator_id: self._leaders.get(coordinator_id),
            series=self._metrics.series,
        )
        self._group = GatewayGroup(
            self._me,
            group_id=settings.diskless_gateway_group_id,
            session_timeout_ms=settings.gateway_session_timeout_ms,
            heartbeat_interval_ms=settings.gateway_heartbeat_interval_ms,
            connect=self._connect,
            any_place=self._cluster.any_place,
            changed=lambda: self._sights.changed(),
        )
        self._sights = GatewaySights(
            self._cluster,
            gateways=self._gateways_to_show,
            coordinators=lambda: self._places,
            catalogue=self._catalogue,
            shadows=self._rooms.topics.shadows,
        )
        self._ports = self._make_ports()

    # ---- life

    async def run(self) -> int:
        """Serve until a signal or a fatal error; returns the exit status."""
        settings = self._settings
        LOG.info("starting gateway=%d version=%s rack=%s", settings.gateway_node_id, installed_version(), settings.gateway_rack or "-")
        faulthandler.enable()
        warn_of_interpreted_loops()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        # The addresses come first: whoever has these in the group is a former self then. Connections are refused meanwhile: clients go
        # to another gateway at once, and some take a connection that ends before an answer for a lasting fault.
        for listener, ports in zip(settings.listeners, self._ports, strict=True):
            try:
                await ports.start(listener.port)
            except OSError as error:
                raise FatalError(cannot_listen("listeners", str(listener), error)) from error
        http_security = HttpSecurity(settings)
        http, http_address = await self._serve_http(http_security)
        for name, work in {
            "http security": http_security.follow(),
            "access": self._access.keep_current(),
            "brokers": self._cluster.follow(),
            "catalogue": self._catalogue.follow(),
            "leaders": self._follow_leaders(),
            "serving": self._serve(http_address),
        }.items():
            self._background.spawn(work, name)
        await self._stop.wait()
        await self._end(http)
        LOG.info("stopped status=%d", 0 if self._fatal is None else 1)
        if self._fatal is not None:
            LOG.critical("ended: %s", self._fatal)
        return 0 if self._fatal is None else 1

    async def _serve(self, http_address: str) -> None:
        """Serve as soon as it is certain that this may be a gateway, and known who the others are. Raises `FatalError`."""
        await self._cluster.are_known.wait()
        await self._access.check(f"diskless-gateway-{self._me.node_id}")
        while not await self._rooms.check_store(ASK_TIMEOUT_MS):
            LOG.warning("the coordinator service does not say yet whether the object store is its own")
        await self._until_listed()
        self._refuse_id_of_broker()
        await self._group.refuse_double()
        self._membership.spawn(self._group.run(), "group")
        await self._group.has_joined.wait()
        await self._relay()
        for listener, ports in zip(self._settings.listeners, self._ports, strict=True):
            try:
                await ports.serve()
            except OSError as error:
                raise FatalError(cannot_listen("listeners", str(listener), error)) from error
        self._is_serving = True
        listeners = ",".join(f"{name}://{one.host}:{one.port}" for name, one in self._me.listeners.items())
        print(f"serving gateway={self._me.node_id} listeners={listeners} http={http_address}", flush=True)

    async def _until_listed(self) -> None:
        """Wait for a first listing of topics: before it every diskless topic would seem to be classic."""
        while True:
            try:
                return await self._catalogue.refreshed()
            except ServiceError as error:
                LOG.warning("topics not listed yet error=%r", str(error))
            await asyncio.sleep(RETRY_S)

    async def _end(self, http: HttpServer | None) -> None:
        """Tell the others, serve on until clients can know of them, answer what was read, and close."""
        if self._fatal is not None:
            LOG.critical("stopping: %s", self._fatal)
        else:
            LOG.info("stopping on a signal")
        was_serving, self._is_serving = self._is_serving, False
        has_others = len(self._group.gateways) > 1
        await self._membership.close()
        await self._group.leave()
        if was_serving and has_others and self._fatal is None:
            self._is_leaving = True
            for ports in self._ports:
                ports.lead_no_more()
            self._sights.changed()
            await asyncio.sleep(self._settings.gateway_drain_ms / 1000)
        await asyncio.gather(*(ports.stop(DRAIN_TIMEOUT_MS) for ports in self._ports))
        if not await self._rooms.drain(0.0):
            LOG.warning("files have no outcome yet: what they hold was promised to nobody")
        await self._background.close()
        if http is not None:
            await http.stop()
        await self._rooms.close()
        self._own.close()
        await self._client.close()

    def _die(self, error: FatalError) -> None:
        """Stop for an error of the background; the first one counts."""
        self._fatal = self._fatal or error
        self._stop.set()

    # ---- parts

    def _connect(self, find: FindPlace) -> BrokerLink:
        """Make a connection with the gateway's own login."""
        return BrokerLink(find, self._security, f"diskless-gateway-{self._settings.gateway_node_id}", logs_in=True)

    def _make_ports(self) -> list[ListenerPorts]:
        own, relayed = self._access.rated(self._rooms.own), dict(self._rooms.relayed)
        for takers in (own, relayed):
            takers[KafkaApi.DESCRIBE_CONFIGS] = HidingTaker(takers[KafkaApi.DESCRIBE_CONFIGS])
        stale: dict[int, Taker] = {api: StaleTaker(api, self._catalogue, self._refused) for api in LOOKED_AT}
        own_apis = PortApis(OWN, own, [key for key in PARTITIONS_OF_LEADERS if key not in own])
        relay_apis = PortApis(RELAYED, relayed, ())
        own_takers = {**discovery_takers(self._sights, self._rooms.topics.creation, own_apis), **own}
        relay_takers = {**discovery_takers(self._sights, self._rooms.topics.creation, relay_apis), **stale, **relayed}
        own_parts = PortParts(own_apis, own_takers, self._rooms.memory, (KafkaApi.PRODUCE,))
        relay_parts = PortParts(relay_apis, relay_takers, self._rooms.relay_memory)
        return [
            ListenerPorts(
                listener.name,
                listener.host,
                relay_base=self._settings.relay_base(listener.port),
                relays=self._me.relays,
                cluster=self._cluster,
                upstream_security=self._security,
                security=self._access.security_of(listener.name),
                limits=self._access.limits,
                addresses=self._access.addresses,
                door=self._access,
                own=own_parts,
                relayed=relay_parts,
            )
            for listener in self._settings.listeners
        ]

    def _gateways_to_show(self) -> Sequence[Gateway]:
        """Return the gateways that clients are told of: all but this one once it is about to stop."""
        return [one for one in self._group.gateways if not self._is_leaving or one.node_id != self._me.node_id]

    def _refused(self, api: KafkaApi) -> None:
        self._stale[api] += 1

    def _refuse_id_of_broker(self) -> None:
        if any(one.broker_id == self._me.node_id for one in self._cluster.brokers):
            raise FatalError(f"gateway.node.id={self._me.node_id} is that of a broker; give the gateway an id that no broker has")

    def _brokers_changed(self) -> None:
        self._sights.changed()
        if self._is_serving:
            self._background.spawn(self._relay(), "relay")

    async def _relay(self) -> None:
        """Open the relay ports of new brokers. Raises `FatalError`."""
        self._refuse_id_of_broker()
        for ports in self._ports:
            try:
                await ports.relay(one.broker_id for one in self._cluster.brokers)
            except OSError as error:
                raise FatalError(cannot_listen("gateway.relay.port.base", f"a relay port of {ports.name}", error)) from error

    async def _follow_leaders(self) -> None:
        """Ask again and again where the coordinators are led: gateways that share coordinators follow from it."""
        while True:
            try:
                found = await self._client.admin.describe_coordinators(timeout_ms=ASK_TIMEOUT_MS)
            except ServiceError as error:
                LOG.warning("leaders of coordinators not found error=%r", str(error))
            else:
                places = tuple(CoordinatorPlace(coordinator_id=one.coordinator_id, node_id=one.leader_id) for one in found.coordinators)
                if places != self._places:
                    self._places = places
                    self._leaders = {one.coordinator_id: one.node_id for one in places}
                    self._sights.changed()
            await asyncio.sleep(LOOK_AT_LEADERS_S)

    async def _serve_http(self, security: HttpSecurity) -> tuple[HttpServer | None, str]:
        address, tokens = self._settings.http_listener, security.tokens
        self._metrics.read_from(self._samples)
        if address is None:
            return None, "off"
        server = HttpServer(
            address,
            ready=self._readiness,
            metrics=self._metrics,
            tls=security.context,
            admit=None if tokens is None else tokens.admit,
            is_ready_open=self._settings.http_ready_open,
            settings=[asdict(one) for one in render(self._settings, GATEWAY)],
        )
        try:
            started = await server.start()
        except OSError as error:
            raise FatalError(cannot_listen("http.listener", str(address), error)) from error
        [(_, advertised), *_] = self._me.listeners.items()
        self._group.announce(str(replace(started, host=advertised.host) if started.is_wildcard else started))
        return server, str(started)

    def _readiness(self) -> tuple[bool, Mapping[str, object]]:
        detail = {
            "serving": self._is_serving,
            "member": self._group.is_member,
            "gateways": [one.node_id for one in self._group.gateways],
            "brokers": [one.broker_id for one in self._cluster.brokers],
            "coordinators": len(self._places),
        }
        return self._is_serving and self._group.is_member, detail

    def _samples(self) -> Iterable[Sample]:
        yield Sample("info", (self._me.node_id, self._me.rack, self._me.version), 1)
        yield Sample("ready", (), self._readiness()[0])
        yield Sample("member", (), self._group.is_member)
        yield Sample("diskless_topics", (), len(self._catalogue))
        if self._catalogue.listed_s is not None:
            yield Sample("catalogue_age_seconds", (), asyncio.get_running_loop().time() - self._catalogue.listed_s)
        yield Sample("coordinators_led", (), sum(one.node_id >= 0 for one in self._places))
        for listener, expires_s in self._access.expiries_s():
            yield Sample("certificate_seconds_left", (listener,), expires_s - time.time())
        yield Sample("gateways", (), len(self._group.gateways))
        yield Sample("brokers", (), len(self._cluster.brokers))
        yield Sample("topic_lookups_total", (), self._rooms.topics.shadows.lookups)
        yield Sample("group_generations_total", (), self._group.generations)
        yield Sample("rights_questions_total", (), self._access.rights.questions)
        yield from (Sample("throttled_total", (rate,), count) for rate, count in self._access.throttled.items())
        yield from self._rooms.samples()
        for key in LOOKED_AT:
            yield Sample("stale_requests_total", (KafkaApi(key).text,), self._stale[key])
        for ports in self._ports:
            yield Sample("brokers_relayed", (ports.name,), len(ports.relayed_brokers))
            yield from server_samples(ports.name, ports.servers)


def _coordinator_security(settings: GatewaySettings) -> ClientSecurity:
    try:
        return ClientSecurity(settings.coordinator_client)
    except (SecurityUnsupported, OSError) as error:
        raise FatalError(f"coordinator.client.*: {error}") from error


def _describe_me(settings: GatewaySettings) -> Gateway:
    """Return what this gateway tells the others."""
    told = settings.effective_advertised_listeners()
    addresses = {one.name: Address(one.host, one.port, settings.relay_base(one.port)) for one in told}
    incarnation = new_ulid(int(time.time() * 1000), os.urandom(10))
    relays = RelayIds(settings.gateway_relay_brokers)
    store = str(settings.object_store_url)
    return Gateway(settings.gateway_node_id, settings.gateway_rack, incarnation, addresses, relays, installed_version(), store)


async def _run(settings: GatewaySettings) -> int:
    try:
        return await GatewayMain(settings).run()
    except FatalError as error:
        LOG.critical("cannot start: %s", error)
        return 1


def run_gateway(settings: GatewaySettings) -> int:
    """Run one gateway in the foreground; logging is set up by the caller."""
    raise_open_files(settings.connections_max)
    keep_freed_memory()
    with asyncio.Runner(loop_factory=CoalescingLoop) as runner:
        return runner.run(_run(settings))
