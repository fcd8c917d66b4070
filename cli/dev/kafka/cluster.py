"""One Kafka cluster of this process: 1 or 3 combined nodes whose brokers can be killed, paused and restarted one by one.

Ports stay the same over `stop` and `start` where they can. Invariants: when `start` returned, every node is in service
and every partition has its full ISR; when `stop` returned, no process of the cluster is left.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from cli.dev.kafka.node import KafkaNode, KafkaStartError
from cli.dev.kafka.prepare import find_runtime
from cli.dev.kafka.properties import ExtraListener, NodeAddress, Profile, server_properties
from cli.dev.kafka.runtime import BrokerRuntime
from cli.dev.kafka.storage import META_FILE, format_folder, random_kafka_uuid, read_meta
from cli.dev.place import HERE, Place
from cli.dev.ports import PortLease, lease_port, lease_ports
from cli.dev.process import reap_leftovers

__all__ = ["KafkaCluster", "KafkaStartError"]

ASK_EVERY_S = 0.05
CLEAN_STOP_TIMEOUT_S = 30.0


class KafkaCluster:
    """A Kafka whose nodes are numbered from 1. Use it as a context manager, or pair `start` with `stop`."""

    def __init__(
        self,
        nodes: int = 1,
        folder: Path | None = None,
        *,
        profile: Profile | str = Profile.TEST,
        ports: Sequence[int] = (),
        listeners: Sequence[ExtraListener] = (),
        session_timeout_ms: int = 2000,
        heartbeat_interval_ms: int = 500,
        properties: Mapping[str, str] | None = None,
        places: Sequence[Place] = (),
        runtime: BrokerRuntime | None = None,
    ) -> None:
        """Describe a cluster; nothing happens before `start`.

        Without `folder` the data goes to a temporary one, deleted by `stop`. `ports` are the nodes' ports for clients,
        chosen when empty. The two times are those of a broker's registration: a killed broker is missed, and its
        restart delayed, by `session_timeout_ms` (Kafka's own default is 9000). `properties` win over all others.
        `places`, one per node, say where the nodes run; this process must reach all of them. Empty: here, on loopback.
        """
        if nodes not in (1, 3):
            raise ValueError(f"a cluster has 1 or 3 nodes, not {nodes}: 2 have no quorum without both, more do not fit a small machine")
        if ports and len(ports) != nodes:
            raise ValueError(f"{nodes} ports are needed, {len(ports)} given")
        if places and len(places) != nodes:
            raise ValueError(f"{nodes} places are needed, {len(places)} given")
        for listener in listeners:
            if listener.advertised_ports and len(listener.advertised_ports) != nodes:
                raise ValueError(f"listener {listener.name}: {nodes} advertised ports are needed, {len(listener.advertised_ports)} given")
        self.node_count = nodes
        self._profile = Profile(profile)
        self._ports = tuple(ports)
        self._listeners = tuple(listeners)
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._extra = dict(properties or {})
        self._places = tuple(places) or (HERE,) * nodes
        self._runtime = runtime
        self._folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._former_ports: list[int] = []
        self._leases: list[PortLease] = []
        self._nodes: list[KafkaNode] = []

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self, timeout_s: float = 120.0) -> None:
        """Start every node and wait until the cluster is whole. Raises `KafkaStartError` with the end of a log; nothing is left then."""
        if self._nodes:
            raise RuntimeError("the cluster is started already")
        reap_leftovers()
        runtime = self._runtime = self._runtime or find_runtime()
        deadline = time.monotonic() + timeout_s
        try:
            self._build(runtime)
            for node in self._nodes:
                self._start_node(node)
            for node in self._nodes:
                node.wait_until_open(deadline - time.monotonic())
            self.wait_until_whole(deadline - time.monotonic())
        except BaseException:
            self.stop()
            raise

    def stop(self, *, clean: bool = False) -> None:
        """End every node at once: by SIGKILL (0.05 s), or cleanly (1 node 0.5 s, 3 nodes 5 s). Calling it again does nothing.

        Raises `TimeoutError` when a clean stop does not end; nothing is left running then either.
        """
        try:
            if clean:
                # All before waiting for any: the last one of a quorum waits for ever for the others.
                for node in self._nodes:
                    node.request_stop()
                for node in self._nodes:
                    node.wait_until_gone(CLEAN_STOP_TIMEOUT_S)
        finally:
            for node in self._nodes:
                node.kill()
            self._nodes.clear()
            self._former_ports = [lease.port for lease in self._leases]
            for lease in self._leases:
                lease.close()
            self._leases.clear()
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # -- addresses ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`host:port` of every node, separated by commas, for `bootstrap.servers`."""
        return ",".join(f"{node.address.host}:{node.address.client_port}" for node in self._started())

    @property
    def source(self) -> str:
        """Where the broker's program came from, for people."""
        return "not started" if self._runtime is None else f"{self._runtime.origin}, Java {self._runtime.java.version}"

    @property
    def folder(self) -> Path:
        """The folder with one sub-folder per node."""
        return self.node(1).folder.parent

    def node(self, number: int) -> KafkaNode:
        """Return one node: its pid, log and folders. Nodes are numbered from 1."""
        if not 1 <= number <= self.node_count:
            raise ValueError(f"there is no node {number}: nodes are numbered from 1 to {self.node_count}")
        return self._started()[number - 1]

    def listener_port(self, name: str, number: int = 1) -> int:
        """Return the real port (not the advertised one) of an extra listener on a node."""
        names = [listener.name for listener in self._listeners]
        return self.node(number).address.extra_ports[names.index(name)]

    # -- faults ------------------------------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """SIGKILL a node; returns when it is gone."""
        self.node(number).kill()

    def pause(self, number: int) -> None:
        """SIGSTOP a node: connections stay, answers stop."""
        self.node(number).pause()

    def resume(self, number: int) -> None:
        """SIGCONT a paused node."""
        self.node(number).resume()

    def terminate(self, number: int, timeout_s: float = CLEAN_STOP_TIMEOUT_S) -> None:
        """SIGTERM a node; returns after its clean end. Raises `TimeoutError` (without a quorum of the others it hangs)."""
        self.node(number).terminate(timeout_s)

    def restart(self, number: int, timeout_s: float = 120.0) -> None:
        """Start a killed or terminated node (a running one is terminated first); returns when it is in service again.

        After a kill this takes `session_timeout_ms` and about 1 s. Partitions may still be catching up: `wait_until_whole`.
        """
        node = self.node(number)
        if node.pid is not None:
            node.terminate(CLEAN_STOP_TIMEOUT_S)
        deadline = time.monotonic() + timeout_s
        self._start_node(node)
        node.wait_until_open(timeout_s)
        self._wait(f"node {number} to be a member", lambda found: number in found.brokers, deadline)

    def wait_until_whole(self, timeout_s: float = 120.0) -> None:
        """Wait until every node is a member and every partition has a leader and a full ISR. Raises `KafkaStartError`."""
        self._wait("all nodes and every ISR", self._is_whole, time.monotonic() + timeout_s)

    def _is_whole(self, found: ClusterMetadata) -> bool:
        partitions = [partition for topic in found.topics.values() for partition in topic.partitions.values()]
        return len(found.brokers) == self.node_count and all(
            partition.leader != -1 and sorted(partition.isrs) == sorted(partition.replicas) for partition in partitions
        )

    # -- within ------------------------------------------------------------------------------------------------------

    def _started(self) -> list[KafkaNode]:
        if not self._nodes:
            raise RuntimeError("the cluster is not started")
        return self._nodes

    def _build(self, runtime: BrokerRuntime) -> None:
        folder = self._folder
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="diskless-kafka-")
            folder = Path(self._temporary.name)
        self._leases.extend(lease_port(port) for port in self._ports)
        per_node = 1 + len(self._listeners) + (0 if self._ports else 1)
        self._leases.extend(lease_ports(per_node * self.node_count, self._former_ports[len(self._ports) :]))
        ports = [lease.port for lease in self._leases]
        client, controller = ports[: self.node_count], ports[self.node_count : 2 * self.node_count]
        extra, width = ports[2 * self.node_count :], len(self._listeners)
        for index in range(self.node_count):
            address = NodeAddress(
                node_id=index + 1,
                client_port=client[index],
                controller_port=controller[index],
                extra_ports=tuple(extra[index * width : (index + 1) * width]),
                host=self._places[index].host,
            )
            place = self._places[index]
            node = KafkaNode(address, folder=folder / f"node-{index + 1}", runtime=runtime, profile=self._profile, place=place)
            self._nodes.append(node)
        cluster_id = self._cluster_id(folder)
        for node in self._nodes:
            format_folder(node.data_folder, cluster_id=cluster_id, node_id=node.address.node_id, checkpoint=runtime.checkpoint)

    def _cluster_id(self, folder: Path) -> str:
        for meta in sorted(folder.glob(f"node-*/data/{META_FILE}")):
            return read_meta(meta)["cluster.id"]
        return random_kafka_uuid()

    def _start_node(self, node: KafkaNode) -> None:
        addresses = [one.address for one in self._nodes]
        node.start(
            server_properties(
                node.address,
                cluster=addresses,
                data_folder=node.data_folder,
                listeners=self._listeners,
                profile=self._profile,
                session_timeout_ms=self._session_timeout_ms,
                heartbeat_interval_ms=self._heartbeat_interval_ms,
                extra=self._extra,
            )
        )

    def _wait(self, what: str, condition: Callable[[ClusterMetadata], bool], deadline: float) -> None:
        """Ask for the cluster's metadata until it fulfils a condition."""
        refused = "no answer yet"
        # A client's own complaints about a node that is down are expected here, and part of the message at the end.
        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 3000, "log_level": 0, "reconnect.backoff.max.ms": 200}
        )
        while True:
            try:
                found = admin.list_topics(timeout=2)
                if condition(found):
                    return
                refused = f"brokers {sorted(found.brokers)}, topics {sorted(found.topics)}"
            except KafkaException as error:
                refused = str(error)
            if time.monotonic() > deadline:
                tails = "".join(f"\nnode {node.address.node_id} (pid {node.pid}){node.log_tail()}" for node in self._nodes)
                raise KafkaStartError(f"waited in vain for {what}; last seen: {refused}{tails}")
            time.sleep(ASK_EVERY_S)
