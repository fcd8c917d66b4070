"""Runs one coordinator process from its settings until SIGTERM or SIGINT.

    status = run_coordinator(settings)

Prints two lines to standard output: `serving node=<id> listeners=<NAME://host:port,...> http=<url>` once Kafka was reached and the state is
loaded, and `ready` with the same words once /ready says so. The status is 0
after a clean stop and 1 when something stopped it; the reason is then the last line on standard error.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial

from coordinator.adapters.kafka.acls import KafkaAcls
from coordinator.adapters.kafka.agreed_secret import AgreedSecret
from coordinator.adapters.kafka.classic_starts import KafkaClassicLogs
from coordinator.adapters.kafka.producing.librdkafka import is_usable
from coordinator.adapters.kafka.settings import KafkaPropertyRefused, prove_user_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.adapters.metrics.http import HttpServer
from coordinator.adapters.metrics.registry import Metrics, Sample
from coordinator.adapters.peers import PooledPeers
from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond
from coordinator.adapters.server.limits import limits_of
from coordinator.adapters.server.listeners import ListenersSecurity
from coordinator.adapters.server.server import Server
from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.adapters.sqlite.directory import SqliteDirectory
from coordinator.app.addresses import cannot_listen
from coordinator.app.kafka_clients import KafkaClients, connection_arguments
from coordinator.app.node_config import node_config
from coordinator.app.node_objects import open_objects
from coordinator.app.process.compiled import warn_of_interpreted_loops
from coordinator.app.process.garbage import GarbageCollection, settle_garbage_collector
from coordinator.app.process.interpreter import SwitchInterval
from coordinator.app.readiness import readiness
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.app.requests.quotas import quota_gate
from coordinator.app.security.authorization import KafkaRules, rules_of, rules_of_kafka
from coordinator.app.security.http import HttpSecurity
from coordinator.app.security.internal_secret import SecretSource, secret_source
from coordinator.app.security.nodes import security_to_nodes
from coordinator.app.snapshot_store import durable_snapshots
from coordinator.app.store_folder import StoreFolderError, prepare_store_folder
from coordinator.app.telemetry import (
    MetricsTelemetry,
    acl_samples,
    certificate_samples,
    kafka_samples,
    node_samples,
    quota_samples,
    request_samples,
    server_samples,
)
from coordinator.app.version import installed_version
from coordinator.client.routing.addresses import parse_servers
from coordinator.client.routing.identify import ServerKind, complaint_as_broker, identify_all
from coordinator.config.directories import DirectoryError, OpenedDirectories, open_directories
from coordinator.config.settings import Settings
from coordinator.config.show import render
from coordinator.object_store import ObjectStore
from coordinator.operations.table import ApiTable
from coordinator.runtime.directories.port import OpenDirectories
from coordinator.runtime.failures import FatalError
from coordinator.runtime.node.clock import SteadyClock, wall_ms
from coordinator.runtime.node.config import NodePorts
from coordinator.runtime.node.node import Node
from coordinator.runtime.pauses import TICK_S
from coordinator.runtime.ports import Peers
from coordinator.security.scram import NoUsers
from records.model import Endpoint

LOG = logging.getLogger("coordinator.app")

DRAIN_TIMEOUT_MS = 1_000
WRITER_REST_S = 0.001


class Process:
    """The parts of one process; `run` is its life."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._fatal: FatalError | None = None
        self._stop = asyncio.Event()
        self._clock_ms = SteadyClock()
        self._stats = KafkaStats()
        self._metrics = Metrics()
        self._interval = SwitchInterval(settings.state_flush_max_batches)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state-writer")
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshots")
        self._logins = ThreadPoolExecutor(max_workers=2, thread_name_prefix="logins")
        self._directories: OpenedDirectories | None = None
        self._servers: list[Server] = []
        self._loop = asyncio.get_running_loop()
        self._is_kafka_reached = asyncio.Event()

    async def run(self) -> int:
        """Serve until a signal or a fatal error; returns the exit status."""
        settings = self._settings
        LOG.info("starting node=%d version=%s schema_level_max=%d", settings.node_id, installed_version(), settings.schema_level_max)
        self._prepare()
        objects = open_objects(settings)
        http_security = HttpSecurity(settings)
        look_at_files = self._handle_signals()
        # Listening comes first: the port the system chose is part of what the node tells others, and a process that cannot listen
        # must not join the group.
        source = secret_source(settings, self._agreed_secret)
        security = ListenersSecurity(settings, nodes=NoUsers() if source is None else source.nodes, executor=self._logins)
        endpoints = await self._listen(security)
        peers = PooledPeers(
            client_id=f"diskless-node-{settings.node_id}",
            security=security_to_nodes(settings, None if source is None else source.nodes),
            can_log_in=None if source is None else source.nodes.is_known,
        )
        kafka = KafkaClients(settings, self._stats, on_load=self._interval.load_changed)
        kafka.start()
        node = self._make_node(endpoints, kafka, peers, objects)
        dispatcher = self._dispatch(node)
        self._metrics.read_from(partial(certificate_samples, security))
        kafka_rules = self._kafka_rules(dispatcher)
        http, http_address = await self._serve_http(node, http_security)
        node.start()
        announced = ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints)
        background = [
            self._announce(node, kafka_rules, f"node={settings.node_id} listeners={announced} http={http_address}"),
            self._look_at_kafka_addresses(),
            http_security.follow(),
            *([] if source is None else [self._follow(source)]),
            security.keep_current(look_at_files),
            *([] if kafka_rules is None else [kafka_rules.run()]),
        ]
        tasks = [self._loop.create_task(work) for work in background]
        settle_garbage_collector()
        status = await self._until_the_end(tasks)
        # After most fatal errors (the topic is another one, or loses entries) no moment longer is led.
        await node.stop(hand_over=self._fatal is None or self._fatal.may_hand_over)
        for server in self._servers:
            await server.stop(DRAIN_TIMEOUT_MS)
        await dispatcher.close()
        if http is not None:
            await http.stop()
        await peers.close()
        await kafka.close()
        self._free()
        LOG.info("stopped status=%d", status)
        if self._fatal is not None:
            # Once more, because what was logged while stopping hides the reason from whoever looks at the end of a log.
            LOG.critical("ended: %s", self._fatal)
        return status

    def _prepare(self) -> None:
        """Do what needs no other part of the process. Raises `FatalError`."""
        warn_of_interpreted_loops()
        if self._settings.producer_report_signals_enabled:
            # Early: a leadership that begins before the proof is there keeps its callbacks for life.
            threading.Thread(target=is_usable, name="kafka-client-proof", daemon=True).start()
        try:
            prepare_store_folder(self._settings.object_store_url)
        except StoreFolderError as error:
            raise FatalError(str(error)) from error

    def _handle_signals(self) -> asyncio.Event:
        """Stop on SIGTERM and SIGINT; returns what SIGHUP sets, to have files of certificates read again."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        look_at_files = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGHUP, look_at_files.set)
        return look_at_files

    def _make_node(self, endpoints: list[Endpoint], kafka: KafkaClients, peers: Peers, objects: ObjectStore | None) -> Node:
        settings = self._settings
        ports = NodePorts(
            cluster=kafka.cluster,
            membership=kafka.membership,
            open_reader=kafka.open_reader,
            open_producers=kafka.open_producers,
            open_directories=self._open_directories,
            peers=peers,
            classic_logs=KafkaClassicLogs(**connection_arguments(settings)),
            snapshots=durable_snapshots(settings, objects),
            objects=objects,
            writer=self._writer,
            background=self._background,
            rest=partial(time.sleep, WRITER_REST_S),
            on_writing=self._interval.writing,
            on_written=GarbageCollection().flushed,
            telemetry=MetricsTelemetry(self._metrics),
        )
        return Node(
            config=node_config(settings, endpoints),
            ports=ports,
            clock_ms=self._clock_ms,
            wall_ms=wall_ms,
            rng=random.Random(),
            on_fatal=self._on_fatal,
        )

    def _dispatch(self, node: Node) -> Dispatcher:
        """Have the listeners pass requests on to a node."""
        settings = self._settings
        dispatcher = Dispatcher(
            node,
            self._metrics,
            rules_of(settings),
            node_principals=settings.internal_principals,
            node_listener=settings.inter_node_listener(),
        )
        gate = quota_gate(settings, dispatcher)
        for server in self._servers:
            server.handler = gate or dispatcher
        self._metrics.read_from(partial(quota_samples, gate))
        self._metrics.read_from(partial(request_samples, dispatcher.answered))
        return dispatcher

    def _free(self) -> None:
        """End the threads and let go of the data directories."""
        self._background.shutdown(cancel_futures=True)
        self._logins.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown()
        if self._directories is not None:
            self._directories.unlock()

    async def _follow(self, source: SecretSource) -> None:
        """Follow the nodes' secret once Kafka was reached: before that the node says itself why Kafka is not."""
        await self._is_kafka_reached.wait()
        await source.follow()

    def _agreed_secret(self) -> AgreedSecret:
        settings = self._settings
        return AgreedSecret(group_id=settings.group_id, topic=settings.metadata_topic, **connection_arguments(self._settings))

    def _kafka_rules(self, dispatcher: Dispatcher) -> KafkaRules | None:
        """Return the rules of authorizer=kafka, which this process follows; None with another authorizer."""
        settings = self._settings
        if settings.authorizer != "kafka":
            return None
        rules = KafkaRules(
            read=KafkaAcls(**connection_arguments(self._settings)).read,
            changed=lambda bindings: dispatcher.replace_rules(rules_of_kafka(settings, bindings)),
            interval_ms=settings.authorizer_cache_ms,
        )
        self._metrics.read_from(partial(acl_samples, rules))
        return rules

    async def _announce(self, node: Node, kafka_rules: KafkaRules | None, which: str) -> None:
        """Say `serving` once Kafka was reached, the state is loaded from the folders, and it is known who may do what; then `ready`."""
        await node.is_prepared.wait()
        if kafka_rules is not None:
            await kafka_rules.are_known.wait()
        print(f"serving {which}", flush=True)
        while not readiness(node)[0]:  # noqa: ASYNC110 - what makes a node ready comes from many places
            await asyncio.sleep(TICK_S)
        print(f"ready {which}", flush=True)

    async def _look_at_kafka_addresses(self) -> None:
        """Say at once what is wrong with `bootstrap.servers`: librdkafka only says that it is not connected."""
        if "SSL" in self._settings.kafka.get("security.protocol", "").upper():
            return
        found = await identify_all(parse_servers(self._settings.bootstrap_servers))
        complaints = [text for text in map(complaint_as_broker, found) if text is not None]
        if found and all(one.kind is ServerKind.NODE for one in found):
            self._on_fatal(FatalError(f"bootstrap.servers: {'; '.join(complaints)}"))
        for text in complaints:
            LOG.warning("bootstrap.servers: %s", text)

    async def _until_the_end(self, background: Sequence[asyncio.Task[None]]) -> int:
        """Wait for a signal or a fatal error, then end what runs in the background; returns the exit status."""
        await self._stop.wait()
        fatal = self._fatal
        if fatal is None:
            LOG.info("stopping on a signal")
        else:
            LOG.critical("stopping: %s", fatal)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        return 0 if fatal is None else 1

    def _on_fatal(self, error: FatalError) -> None:
        if self._fatal is None:
            self._fatal = error
        self._stop.set()

    # ---- parts

    def _open_directories(self, cluster_id: str) -> OpenDirectories:
        settings = self._settings
        # The writer's thread opens them.
        self._loop.call_soon_threadsafe(self._is_kafka_reached.set)
        try:
            opened = self._directories = open_directories(settings.data_dirs, cluster_id=cluster_id, node_id=settings.node_id)
        except DirectoryError as error:
            raise FatalError(str(error)) from error
        percent = settings.state_evidence_max_percent
        online = []
        for one in opened.online:
            directory = SqliteDirectory(one.path, one.directory_id, open_snapshots=SnapshotFolder, evidence_percent=percent)
            online.append(directory)
        return OpenDirectories(online, opened.offline)

    async def _listen(self, security: ListenersSecurity) -> list[Endpoint]:
        """Open the listeners; returns what to advertise, in the order of the setting, the listener of nodes first."""
        settings = self._settings
        limits = replace(
            limits_of(settings, _connections_max(settings)),
            login_failure_delay_ms=settings.connection_failed_authentication_delay_ms,
            session_ms_max=settings.connections_max_reauth_ms,
        )
        table = ApiTable(wire_kip_keys_enabled=settings.wire_kip_keys_enabled)
        ports: dict[str, int] = {}
        for listener in settings.listeners:
            server = Server(NoNodeYet(), table, listener=listener.name, limits=limits, security=security.of(listener.name))
            try:
                ports[listener.name] = await server.start(listener.host, listener.port)
            except OSError as error:
                raise FatalError(cannot_listen("listeners", str(listener), error)) from error
            self._servers.append(server)
        among_nodes = settings.inter_node_listener()
        advertised = sorted(settings.effective_advertised_listeners(), key=lambda one: one.name != among_nodes)
        return [Endpoint(listener=a.name, host=a.host, port=a.port or ports[a.name]) for a in advertised]

    async def _serve_http(self, node: Node, security: HttpSecurity) -> tuple[HttpServer | None, str]:
        self._metrics.read_from(partial(node_samples, node, self._clock_ms))
        self._metrics.read_from(lambda: [Sample("ready", (), readiness(node)[0])])
        self._metrics.read_from(partial(server_samples, self._servers))
        self._metrics.read_from(partial(kafka_samples, self._stats))
        if self._settings.http_listener is None:
            return None, "off"
        tokens = security.tokens
        server = HttpServer(
            self._settings.http_listener,
            ready=partial(readiness, node),
            metrics=self._metrics,
            tls=security.context,
            admit=None if tokens is None else tokens.admit,
            is_ready_open=self._settings.http_ready_open,
            settings=[asdict(one) for one in render(self._settings)],
        )
        try:
            return server, str(await server.start())
        except OSError as error:
            raise FatalError(cannot_listen("http.listener", str(self._settings.http_listener), error)) from error


class NoNodeYet(Handler):
    """Handles requests while the listeners open: nothing can be asked before the node exists."""

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """Give no answer, which ends the connection."""
        respond(None)


def _connections_max(settings: Settings) -> int:
    """How many connections each listener takes."""
    if sys.platform == "win32":
        return settings.connections_max
    from coordinator.app.process.open_files import connections_that_fit

    return connections_that_fit(settings.connections_max, len(settings.listeners))


async def _run(settings: Settings) -> int:
    try:
        prove_user_properties(settings.kafka)
        return await Process(settings).run()
    except (FatalError, KafkaPropertyRefused) as error:
        LOG.critical("cannot start: %s", error)
        return 1


def run_coordinator(settings: Settings) -> int:
    """Run one process in the foreground; logging is set up by the caller."""
    # An assertion or a crash of a native library names the calls it happened in, on standard error.
    faulthandler.enable()
    if sys.platform == "win32":
        return asyncio.run(_run(settings))
    from coordinator.app.process.open_files import raise_open_files
    from coordinator.app.process.time_slice import ask_for_short_slices
    from coordinator.app.process.timers import CoalescingLoop

    raise_open_files(settings.connections_max)
    ask_for_short_slices()
    with asyncio.Runner(loop_factory=CoalescingLoop) as runner:
        return runner.run(_run(settings))
