"""Gateways in front of a Kafka of their own, with a node of the service.

    with World(folder, runtime, brokers=3) as world:
        world.start(1001, 1002)

Brokers advertise themselves as `localhost` to gateways, which clients know by 127.0.0.1: so the host of a broker can be told in an answer.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime, ExtraListener, KafkaCluster
from integration_tests.kafka_scripts import java_program
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until

BEHIND: Final = "BEHIND"
BROKERS_HOST: Final = "localhost"
TOOL_TIMEOUT_S: Final = 90.0


class World:
    """See the module's text."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, *, brokers: int = 1, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are those of brokers."""
        self.folder = folder
        self.kafka = KafkaCluster(
            brokers,
            folder / "kafka",
            runtime=runtime,
            listeners=[ExtraListener(name=BEHIND, advertised_host=BROKERS_HOST)],
            properties=properties,
        )
        self.gateways: dict[int, GatewayProcess] = {}

    def __enter__(self) -> Self:
        self.kafka.start()
        try:
            # The service goes on while a broker is gone.
            replicated = {"diskless.metadata.topic.replication.factor": str(self.kafka.node_count)}
            self.service = Service(self.kafka.bootstrap, self.folder / "nodes", partitions=2, properties={**UNDISTURBED, **replicated})
            self.service.start(1)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for gateway in self.gateways.values():
            gateway.close()
        if hasattr(self, "service"):
            self.service.stop()
        self.kafka.stop()

    # ---- gateways

    def make(self, node_id: int, **properties: str) -> GatewayProcess:
        """Make a gateway without starting it; other keyword names are properties, with underscores for dots."""
        made = GatewayProcess(
            node_id,
            bootstrap=",".join(f"127.0.0.1:{self.kafka.listener_port(BEHIND, one)}" for one in self.broker_ids),
            coordinators=self.service.addresses[0],
            folder=self.folder / f"gateway-{node_id}-{len(self.gateways)}",
            properties={
                "object.store.url": self.service.properties["object.store.url"],
                "metadata.topic": self.service.topic,
                **{key.replace("_", "."): value for key, value in properties.items()},
            },
        )
        self.gateways[node_id + 10_000 * (node_id in self.gateways)] = made
        return made

    def start(self, *node_ids: int, **properties: str) -> list[GatewayProcess]:
        """Start gateways, and wait until they all know each other."""
        made = [self.make(node_id, **properties) for node_id in node_ids]
        for one in made:
            one.start()
        for one in made:
            one.wait_ready()
        live = [one for one in self.gateways.values() if one.process is not None and one.process.is_running()]
        wait_until(lambda: all(self.known(one) == sorted(each.node_id for each in live) for one in live), "gateways to know each other")
        return made

    @staticmethod
    def known(gateway: GatewayProcess) -> list[int]:
        """Return the gateways that a gateway knows of."""
        found = gateway.readiness()[1].get("gateways", [])
        assert isinstance(found, list)
        return found

    # ---- brokers

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers."""
        return range(1, self.kafka.node_count + 1)

    @property
    def broker_ports(self) -> frozenset[int]:
        """Every port that a broker listens at."""
        addresses = [self.kafka.node(one).address for one in self.broker_ids]
        return frozenset(port for one in addresses for port in (one.client_port, one.controller_port, *one.extra_ports))

    # ---- clients

    def create(self, gateway: GatewayProcess, name: str, partitions: int, *, is_diskless: bool) -> None:
        """Create a topic through a gateway."""
        config = {"diskless.enable": "true"} if is_diskless else {}
        topic = NewTopic(name, partitions, replication_factor=self.kafka.node_count, config=config)
        admin = self.admin(gateway)  # kept until the answer is there
        admin.create_topics([topic])[name].result(30)

    @staticmethod
    def admin(gateway: GatewayProcess, **properties: str) -> AdminClient:
        """Return a client of librdkafka's that knows one gateway."""
        return AdminClient({"bootstrap.servers": gateway.address, **{key.replace("_", "."): value for key, value in properties.items()}})


def tool(
    name: str, *arguments: str, told: bytes = b"", timeout_s: float = TOOL_TIMEOUT_S, expect: int | None = 0, with_errors: bool = False
) -> str:
    """Run one of Kafka's own tools, by the name of its class; returns what it printed, what it said of errors too if wanted."""
    done = subprocess.run([*java_program(name), *arguments], input=told, capture_output=True, timeout=timeout_s, check=False)
    output = (done.stdout + done.stderr).decode(errors="replace")
    assert expect is None or done.returncode == expect, output
    return output if with_errors else done.stdout.decode(errors="replace")


def records_of(text: str) -> list[str]:
    """Return the lines that a console consumer printed."""
    return [line for line in text.splitlines() if line]
