"""One broker in a container by testcontainers, for those who ask for it: DISKLESS_KAFKA=testcontainers.

Settings are the same as those of a broker started here, handed over as the image's environment variables; the image is
Apache Kafka's own, or the one named in DISKLESS_KAFKA_IMAGE that takes the same variables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException

from cli.dev.kafka.node import KafkaStartError
from cli.dev.kafka.properties import HOST, NodeAddress, server_properties
from cli.dev.ports import PortLease, lease_ports

DEFAULT_IMAGE = "apache/kafka:4.3.1"
INNER_CONTROLLER_PORT = 29093
DATA_FOLDER = "/tmp/kafka-data"  # inside the container


def image_environment(port: int) -> dict[str, str]:
    """Return the image's variables for a broker whose clients, outside, connect to `port`."""
    node = NodeAddress(node_id=1, client_port=port, controller_port=INNER_CONTROLLER_PORT)
    properties: dict[str, str] = {}
    for key, value in server_properties(node, cluster=[node], data_folder=DATA_FOLDER).items():
        properties["KAFKA_" + key.upper().replace(".", "_")] = value
    # Within the container every interface must listen, or the published port leads nowhere.
    properties["KAFKA_LISTENERS"] = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://{HOST}:{INNER_CONTROLLER_PORT}"
    return properties


class ContainerKafka:
    """A Kafka of one node in a container, on a fixed port of loopback."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._image = environment.get("DISKLESS_KAFKA_IMAGE") or DEFAULT_IMAGE
        self._lease: PortLease | None = None
        self._container: DockerContainer | None = None
        self.source = f"testcontainers, {self._image}"

    @property
    def bootstrap(self) -> str:
        if self._lease is None:
            raise RuntimeError("the container is not started")
        return f"{HOST}:{self._lease.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the container and wait for the broker. Raises `KafkaStartError`; nothing is left then."""
        if self._lease is not None:
            raise RuntimeError("the container is started already")
        deadline = time.monotonic() + timeout_s
        (self._lease,) = lease_ports(1)
        try:
            self._container = self._create(self._lease.port)
            self._container.start()
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

    def _create(self, port: int) -> DockerContainer:
        container = DockerContainer(self._image)
        # The engine takes (address, port), testcontainers' type only a port, which would be open to the whole network.
        container.ports[f"{port}/tcp"] = (HOST, port)  # type: ignore[assignment]
        for key, value in image_environment(port).items():
            container = container.with_env(key, value)
        return container

    def _wait(self, deadline: float) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            try:
                admin.list_topics(timeout=2)
                return
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise KafkaStartError(f"the broker in {self._image} does not answer: {error}") from error

    def stop(self, *, clean: bool = False) -> None:
        """Remove the container. Calling it again does nothing."""
        try:
            if self._container is not None:
                self._container.stop()
        finally:
            self._container = None
            if self._lease is not None:
                self._lease.close()
                self._lease = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
