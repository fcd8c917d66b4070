"""What is put under faults: three brokers and three nodes, each on a host of its own where the machine allows, and a topic.

Names: brokers are `k1` to `k3`, nodes (coordinator processes) `c1` to `c3`, the clients and this process `clients`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import KafkaCluster
from cli.dev.place import HERE, Place
from cli.dev.service_process import ServiceProcess
from integration_tests.faults import disks
from integration_tests.faults.clock import ShiftedClock
from integration_tests.faults.network import Network
from integration_tests.faults.partition_moves import QUICK_RETENTION, PartitionMoves, Room
from integration_tests.faults.preload import joined
from integration_tests.faults.refusing_disk import RefusingDisk
from integration_tests.final_state import create_topic
from integration_tests.history import Forgery, UserPartition
from integration_tests.numbered_records import NumberedRecords
from integration_tests.routes import Address
from integration_tests.service import Service

BROKERS: Final = ("k1", "k2", "k3")
NODES: Final = ("c1", "c2", "c3")
CLIENTS: Final = "clients"
HOSTS: Final = (*BROKERS, *NODES, CLIENTS)
COORDINATORS: Final = 6
USER_PARTITIONS: Final = 12
START_TIMEOUT_S: Final = 90.0
KAFKA_SESSION_MS: Final = 9_000
"""Kafka's default: a dead broker is missed after this time, and until then every acks=all waits for it."""
QUICK_SESSION_MS: Final = 3_000
QUICK_REPLICATION: Final = {"replica.socket.timeout.ms": "3000", "replica.lag.time.max.ms": "6000"}
"""30 s each by default: so long a broker waits on a half-open connection to another, and acks=all with it."""
PROPERTIES: Final = {
    "diskless.metadata.topic.replication.factor": "3",
    "diskless.metadata.topic.min.insync.replicas": "2",
    **QUICK_RETENTION,
}
MOVED: Final = "moved"
"""The topic whose partitions move."""
MOVED_PARTITIONS: Final = 6
MOVED_PAUSE_S: Final = 0.1
MOVED_KEPT: Final = 20
"""So many records of a partition are left when room is made for a move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this machine allows; the texts say why something is missing."""

    network: Network | None
    clock_library: Path | None
    disk_library: Path | None
    has_mounts: bool
    missing: tuple[str, ...] = ()


class Topology:
    """A started cluster and service: a context manager. Every process ends with it."""

    def __init__(self, machine: Machine, folder: Path, *, quick_brokers: bool, broker_properties: Mapping[str, str] | None = None) -> None:
        self.network = machine.network
        self.kafka = KafkaCluster(
            3,
            folder=folder / "brokers",
            places=[self._place(name) for name in BROKERS],
            session_timeout_ms=QUICK_SESSION_MS if quick_brokers else KAFKA_SESSION_MS,
            heartbeat_interval_ms=500,
            properties={**(QUICK_REPLICATION if quick_brokers else {}), **(broker_properties or {})},
        )
        self.clocks: dict[str, ShiftedClock] = {}
        if machine.clock_library is not None:
            self.clocks = {name: ShiftedClock(machine.clock_library, folder / "clocks" / name) for name in NODES}
        self.disks: dict[str, RefusingDisk] = {}
        if machine.disk_library is not None:
            folders = {name: folder / f"node-{name[1:]}" / "data" for name in NODES}
            self.disks = {name: RefusingDisk(machine.disk_library, folder / "disks" / name, data) for name, data in folders.items()}
        self._folder = folder
        self._has_mounts = machine.has_mounts
        self._mounted: list[Path] = []
        self._store = ExitStack()
        self.forgeries: list[Forgery] = []
        """What faults wrote to the log in the name of leaders."""
        self.owners: Mapping[UserPartition, int] = {}
        self.addresses: dict[int, Address] = {}
        self.moved: NumberedRecords | None = None
        """Of the topic whose partitions move beside the clients that work on another one."""
        self.moves: PartitionMoves | None = None
        """Once there is a topic whose partitions move."""

    def _place(self, name: str) -> Place:
        return HERE if self.network is None else self.network.hosts[name].place

    def __enter__(self) -> Self:
        self.kafka.start(START_TIMEOUT_S)
        try:
            properties = {**PROPERTIES, **self._start_store()}
            self.service = Service(self.kafka.bootstrap, self._folder, partitions=COORDINATORS, properties=properties)
            for name in NODES:
                environment = joined(*(one[name].environment for one in (self.clocks, self.disks) if name in one))
                node = self.service.add(int(name[1:]), place=self._place(name), environment=environment)
                if self._has_mounts:
                    disks.mount(node.data_folder)
                    self._mounted.append(node.data_folder)
                node.start()
                host, _, port = node.address.rpartition(":")
                self.addresses[node.node_id] = Address(host, int(port))
            Topology.wait_back(self, START_TIMEOUT_S)
            self.service.wait_shared(START_TIMEOUT_S)
            self._make_topics()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if hasattr(self, "service"):
                self._end_services()
            for folder in self._mounted:
                disks.unmount(folder)
        finally:
            self._store.close()
            self.kafka.stop()

    def _start_store(self) -> Mapping[str, str]:
        """Start the object store; returns the properties that name it."""
        return {}

    def _make_topics(self) -> None:
        self.owners = create_topic(self.addresses, "orders", USER_PARTITIONS)
        create_topic(self.addresses, MOVED, MOVED_PARTITIONS)
        url = self.service.properties["object.store.url"]
        records = NumberedRecords(self.service.addresses, url, MOVED, MOVED_PARTITIONS, pause_s=MOVED_PAUSE_S)

        def room_of(partition: int) -> Room:
            return lambda client: records.delete_older(client, partition, MOVED_KEPT)

        self.moved = records
        self.moves = self._store.enter_context(PartitionMoves(self.service.addresses, MOVED, COORDINATORS, room_of))

    def _end_services(self) -> None:
        self.service.stop()

    @property
    def processes(self) -> Mapping[str, ServiceProcess]:
        """Those under faults that are started again whenever they end, by name."""
        return {f"c{number}": node for number, node in self.service.nodes.items()}

    def wait_back(self, timeout_s: float) -> None:
        """Wait until all of them serve, moves have ended, and the partitions that moved take records."""
        for node in self.service.nodes.values():
            node.wait_serving(timeout_s)
        if self.moves is not None:
            self.moves.wait()
        if self.moved is not None and self.moved.is_running:
            self.moved.wait_flowing(timeout_s=timeout_s)

    def node(self, name: str) -> CoordinatorProcess:
        """The node of this name."""
        return self.service.nodes[int(name[1:])]

    def twin(self, name: str) -> CoordinatorProcess:
        """Another process of the same node.id, with ports and a data directory of its own. Close it."""
        node = self.node(name)
        own = ("listeners", "http.listener", "data.dirs")
        return CoordinatorProcess(
            node.node_id,
            bootstrap=self.service.bootstrap,
            folder=self._folder / f"twin-{node.node_id}",
            properties={key: value for key, value in node.properties.items() if key not in own},
            place=self._place(name),
            environment=self.clocks[name].environment if name in self.clocks else None,
        )

    @staticmethod
    def broker_number(name: str) -> int:
        """The cluster's number of the broker of this name."""
        return int(name[1:])
