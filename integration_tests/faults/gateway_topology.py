"""The topology with gateways: three of them in two zones before the brokers and nodes, and an S3 that fails as it is told.

Names: gateways are `g1` to `g3`, their zones `za` and `zb`, the store `s3`; `java-1` is the first member of Java's group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.gateway import GatewayProcess
from cli.dev.service_process import ServiceProcess
from coordinator.client import DisklessClient
from integration_tests.faults.client_checker import Offsets
from integration_tests.faults.client_history import ClientHistory
from integration_tests.faults.client_load import LIBRARIES, ClientProgram
from integration_tests.faults.partition_moves import PartitionMoves, Room
from integration_tests.faults.topology import COORDINATORS, MOVED_PARTITIONS, START_TIMEOUT_S, Machine, Topology
from integration_tests.gateway.failing_s3 import FailingS3
from integration_tests.gateway.stored import stored_records
from integration_tests.numbered_records import delete_before, until_offset
from integration_tests.s3 import RealS3, find_gateway
from records.record_batch import StoredRecord

GATEWAY_ZONES: Final[Mapping[str, str]] = {"g1": "za", "g2": "za", "g3": "zb"}
TOPIC: Final = "orders"
TOPIC_PARTITIONS: Final = MOVED_PARTITIONS
STORE_PATH: Final = "service"
GROUP_SESSIONS: Final = {
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
"""Members of groups that are missed as quickly as a classic member with `session.timeout.ms=10000`."""
COMMITTED_S: Final = 60.0
"""Longer than a member of a group stands still, with what it takes it to hear of that."""


class GatewayTopology(Topology):
    """See the module's text. The store fails for gateways and nodes alike."""

    def __init__(self, machine: Machine, folder: Path, *, quick_brokers: bool) -> None:
        super().__init__(machine, folder, quick_brokers=quick_brokers, broker_properties=GROUP_SESSIONS)
        self.s3 = RealS3(find_gateway(), folder / "store")
        self.store = FailingS3(self.s3)
        self.gateways: dict[str, GatewayProcess] = {}
        self.members: Mapping[str, ClientProgram] = {}
        """The clients that faults hit, by name, once there are any."""
        self.history = ClientHistory()
        """Of the clients, once there are any."""
        self._read: list[StoredRecord] = []
        self._read_to: dict[int, int] = {}
        """From where on records are still to be read, by partition: those before were, and may have been deleted."""

    def _start_store(self) -> dict[str, str]:
        self._store.enter_context(self.s3)
        self._store.enter_context(self.store)
        return {
            "object.store.url": self.s3.url(STORE_PATH),
            **{
                f"object.store.option.{name.replace('_', '.')}": value
                for name, value in {**self.s3.options(), "endpoint": self.store.endpoint}.items()
            },
        }

    def _make_topics(self) -> None:
        """Start the gateways, and make the topic through one of them."""
        given = {name: value for name, value in self.service.properties.items() if name.startswith("object.store.")}
        for name, zone in GATEWAY_ZONES.items():
            number = int(name[1:])
            self.gateways[name] = GatewayProcess(
                1000 + number,
                bootstrap=self.kafka.bootstrap,
                coordinators=",".join(self.service.addresses),
                folder=self._folder / f"gateway-{number}",
                properties={**given, "metadata.topic": self.service.topic, "gateway.rack": zone},
            )
            self.gateways[name].start()
        self.wait_back(START_TIMEOUT_S)
        topic = NewTopic(TOPIC, TOPIC_PARTITIONS, replication_factor=3, config={"diskless.enable": "true"})
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # kept until the answer is there
        admin.create_topics([topic])[TOPIC].result(START_TIMEOUT_S)
        self.moves = self._store.enter_context(PartitionMoves(self.service.addresses, TOPIC, COORDINATORS, self._room_of))

    def _room_of(self, partition: int) -> Room:
        """Deletes records that every group has committed for so long that no member which stood still goes on before them.

        They are read first, for the checker.
        """
        until = min(Offsets.of(self.history, group).known(partition, time.time() - COMMITTED_S) for group in LIBRARIES)

        async def delete(_: DisklessClient) -> int:
            start = self._read_to.get(partition, 0)
            async with DisklessClient(self.service.addresses, object_store=self.s3.open(STORE_PATH)) as client:
                if until > start:
                    async with aclosing(client.read(TOPIC, partition, offset=start)) as records:
                        self._read += [one async for one in until_offset(records, until)]
                    self._read_to[partition] = until  # also when it is not known whether they were deleted
                await delete_before(client, TOPIC, partition, max(start, until))
            return max(start, until)

        return delete

    @property
    def bootstrap(self) -> str:
        """Where clients connect to."""
        return ",".join(one.address for one in self.gateways.values())

    @property
    def processes(self) -> Mapping[str, ServiceProcess]:
        return {**super().processes, **self.gateways}

    def wait_back(self, timeout_s: float) -> None:
        super().wait_back(timeout_s)
        for one in self.gateways.values():
            one.wait_ready(timeout_s)

    def stored_records(self) -> list[StoredRecord]:
        """Everything that was in the topic, by a client that knows nothing of gateways; the store is asked directly, which is quicker."""
        return [*self._read, *stored_records(self.service, TOPIC, self.s3.open(STORE_PATH), self._read_to)]

    def _end_services(self) -> None:
        for one in self.gateways.values():
            one.close()
        super()._end_services()
