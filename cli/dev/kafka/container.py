"""Kafka in containers by testcontainers, for those who ask for it: DISKLESS_KAFKA=testcontainers.

Settings are the same as those of brokers started here, handed over as the image's environment variables; the image is
Apache Kafka's own, or the one named in DISKLESS_KAFKA_IMAGE that takes the same variables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.network import Network

from cli.dev.kafka.node import KafkaStartError
from cli.dev.kafka.properties import CLIENT_LISTENER, CONTROLLER_LISTENER, HOST, NodeAddress, server_properties
from cli.dev.kafka.storage import random_kafka_uuid
from cli.dev.ports import PortLease, lease_ports

DEFAULT_IMAGE = "apache/kafka:4.3.1"
BROKER_LISTENER = "BROKERS"
BROKER_PORT, CONTROLLER_PORT = 29092, 29093  # among the containers, by their names
DATA_FOLDER = "/tmp/kafka-data"  # inside the container


def container_name(node_id: int) -> str:
    """Return the name by which the other containers of a cluster reach a node."""
    return f"kafka-{node_id}"


def image_environment(port: int, *, node_id: int, nodes: int, cluster_id: str, session_timeout_ms: int) -> dict[str, str]:
    """Return the image's variables for a node whose clients, outside, connect to `port`."""
    cluster = [
        NodeAddress(node_id=one, client_port=port, controller_port=CONTROLLER_PORT, host=container_name(one)) for one in range(1, nodes + 1)
    ]
    bound = {CLIENT_LISTENER: port, BROKER_LISTENER: BROKER_PORT, CONTROLLER_LISTENER: CONTROLLER_PORT}
    extra = {
        # Within the container every interface must listen, or the published port leads nowhere.
        "listeners": ",".join(f"{name}://0.0.0.0:{inner}" for name, inner in bound.items()),
        "advertised.listeners": f"{CLIENT_LISTENER}://{HOST}:{port},{BROKER_LISTENER}://{container_name(node_id)}:{BROKER_PORT}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in bound),
        "inter.broker.listener.name": BROKER_LISTENER,
    }
    properties = server_properties(
        cluster[node_id - 1], cluster=cluster, data_folder=DATA_FOLDER, session_timeout_ms=session_timeout_ms, extra=extra
    )
    return {"CLUSTER_ID": cluster_id} | {"KAFKA_" + key.upper().replace(".", "_"): value for key, value in properties.items()}


class ContainerKafka:
    """A Kafka whose nodes, numbered from 1, are containers of a network of their own, each on a fixed port of loopback."""

    def __init__(self, environment: Mapping[str, str], nodes: int = 1, *, session_timeout_ms: int = 2000) -> None:
        self._image = environment.get("DISKLESS_KAFKA_IMAGE") or DEFAULT_IMAGE
        self._nodes = nodes
        self._session_timeout_ms = session_timeout_ms
        self._leases: list[PortLease] = []
        self._network: Network | None = None
        self.containers: list[DockerContainer] = []
        self.source = f"testcontainers, {self._image}"

    @property
    def bootstrap(self) -> str:
        if not self._leases:
            raise RuntimeError("the containers are not started")
        return ",".join(f"{HOST}:{lease.port}" for lease in self._leases)

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the containers and wait for all brokers. Raises `KafkaStartError`; nothing is left then."""
        if self._leases:
            raise RuntimeError("the containers are started already")
        deadline = time.monotonic() + timeout_s
        self._leases = lease_ports(self._nodes)
        try:
            self._network = Network().create()
            cluster_id = random_kafka_uuid()
            for node_id, lease in enumerate(self._leases, 1):
                self.containers.append(self._create(node_id, lease.port, cluster_id, self._network))
                self.containers[-1].start()
            self._wait(deadline)
        except (DockerException, ContainerStartException) as error:
            self.stop()
            raise KafkaStartError(
                f"DISKLESS_KAFKA=testcontainers: no container with {self._image} could be started ({error}). "
                "Start a container engine, or unset the variable to have a broker without one."
            ) from error
        except BaseException:
            self.stop()
            raise

    def _create(self, node_id: int, port: int, cluster_id: str, network: Network) -> DockerContainer:
        container = DockerContainer(self._image).with_network(network).with_network_aliases(container_name(node_id))
        # The engine takes (address, port), testcontainers' type only a port, which would be open to the whole network.
        container.ports[f"{port}/tcp"] = (HOST, port)  # type: ignore[assignment]
        variables = image_environment(
            port, node_id=node_id, nodes=self._nodes, cluster_id=cluster_id, session_timeout_ms=self._session_timeout_ms
        )
        for key, value in variables.items():
            container = container.with_env(key, value)
        return container

    def _wait(self, deadline: float) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            missing: KafkaException | str
            try:
                found = len(admin.list_topics(timeout=2).brokers)
                if found == self._nodes:
                    return
                missing = f"{found} of {self._nodes} brokers are there"
            except KafkaException as error:
                missing = error
            if time.monotonic() > deadline:
                raise KafkaStartError(f"the brokers in {self._image} do not answer: {missing}")

    def stop(self, *, clean: bool = False) -> None:
        """Remove the containers and their network. Calling it again does nothing."""
        with ExitStack() as everything:
            for lease in self._leases:
                everything.callback(lease.close)
            if self._network is not None:
                everything.callback(self._network.remove)
            for container in self.containers:
                everything.callback(container.stop)
            self._leases, self._network, self.containers = [], None, []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
