"""An in-memory Kafka with several nodes, implementing the Kafka ports of the runtime for tests and the simulator.

It keeps the promises the runtime relies on and breaks those Kafka does not make: reports come in order or fail,
readers see entries in order and without a hole, but entries may be lost, doubled or late, reports may never come, the
entries of an abandoned or dead producer may land later, a standby may see an entry before its leader has the report,
and a member's assignment may vanish though nobody else has it.

Everything happens through `loop.call_soon` and `loop.call_later`, and chance comes from the given `random.Random`
only, so a run under a virtual-time loop repeats exactly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from coordinator.kafka.names import METADATA_TOPIC
from coordinator.runtime.ports import KafkaBroker, LogListener
from simulation.fakes.kafka_cluster import TOPIC_CONFIG, FakeCluster
from simulation.fakes.kafka_group import FakeGroup, FakeMembership
from simulation.fakes.kafka_log import FakeLog, Faults
from simulation.fakes.kafka_producer import FakeTermProducer, FakeTermProducers
from simulation.fakes.kafka_reader import FakeLogReader


class FakeKafka:
    """The cluster: one topic, its logs and its group. `node()` gives the ports as one process sees them."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        partitions: int = 1,
        topic: str = METADATA_TOPIC,
        faults: Faults | None = None,
        clock_ms: Callable[[], int] | None = None,
        topic_exists: bool = True,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.topic = topic
        self.cluster_id = "fake-cluster"
        self.faults = faults if faults is not None else Faults()
        self.clock_ms = clock_ms if clock_ms is not None else lambda: int(loop.time() * 1000)
        self.config: dict[str, str] = dict(TOPIC_CONFIG)
        self.replicas: tuple[int, ...] = (1, 2, 3)
        self.in_sync: tuple[int, ...] = (1, 2, 3)
        self.brokers: tuple[KafkaBroker, ...] = tuple(
            KafkaBroker(broker_id, f"rack-{broker_id}", f"kafka-{broker_id}", 9092) for broker_id in self.replicas
        )
        self.is_available = True
        self.unanswered: set[int] = set()
        """Partitions whose broker gives no answer about their logs; `set_unanswered` changes it."""
        self.refusal: str | None = None
        self.before: dict[str, Callable[[int], Awaitable[None]]] = {}
        """By the name of a question of `FakeCluster`: awaited with its partition (-1: none) first. It may wait, or raise as brokers do."""
        self.on_producer: Callable[[str, int], None] = lambda what, partition: None
        """Called with "open" before a producer is made and with "abandoned" after its end. It may raise what the system does."""
        self.topic_id: bytes | None = None
        self.logs: list[FakeLog] = []
        self.group = FakeGroup(loop=loop, rng=rng, faults=self.faults, partitions=partitions)
        self._readers: list[FakeLogReader] = []
        self._channels: list[FakeTermProducer] = []
        if topic_exists:
            self.create(partitions)

    def node(self, name: str) -> FakeNode:
        """Make the ports of one process; a restarted process gets a new node, under the same name if wished."""
        return FakeNode(self, name)

    # ---- the topic, for tests

    def create(self, partitions: int) -> None:
        """Create the topic (or replace it, with a new id and empty logs)."""
        self.topic_id = self.rng.randbytes(16)
        self.logs = [FakeLog() for _ in range(partitions)]
        self.group.partition_count = partitions
        self.wake()

    def grow(self, partitions: int) -> None:
        """Kafka's CreatePartitions: the topic has so many from now on."""
        self.logs += [FakeLog() for _ in range(partitions - len(self.logs))]
        self.group.grow(partitions)

    def delete_topic(self) -> None:
        """Delete the topic; readers and producers see nothing of it, as with the real ones."""
        self.topic_id = None
        self.logs = []

    def append(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> int:
        """Append an entry as some client would (a stray message, a foreign claim); return its offset."""
        offset = self.logs[partition].append(key, value, self.clock_ms() if timestamp_ms is None else timestamp_ms)
        self.wake()
        return offset

    def append_hole(self, partition: int) -> int:
        """Use up an offset without an entry, as when a broker lost it."""
        offset = self.logs[partition].append_hole()
        self.wake()
        return offset

    def delete_records(self, partition: int, before_offset: int) -> None:
        """Kafka's DeleteRecords."""
        self.logs[partition].delete_before(before_offset)

    def cut(self, partition: int, end_offset: int) -> None:
        """Lose the tail of a log, as in an election of a leader that had not got it; what comes next gets the same offsets."""
        self.logs[partition].cut(end_offset)
        self.wake()

    def set_available(self, is_available: bool) -> None:
        """Cut every client off from the brokers, or let them back; nothing sent meanwhile is lost."""
        self.is_available = is_available
        self.group.is_available = is_available
        self.wake()

    def set_unanswered(self, *partitions: int) -> None:
        """Let the broker of these partitions hang, and of these only."""
        self.unanswered = set(partitions)
        self.wake()

    # ---- for the ports

    def wake(self) -> None:
        """Let readers and producers look again."""
        for reader in self._readers:
            reader.wake()
        for channel in self._channels:
            channel.wake()

    def log(self, partition: int) -> FakeLog | None:
        """Return a partition's log, None when the topic or the partition does not exist."""
        return self.logs[partition] if 0 <= partition < len(self.logs) else None

    def network_delay_s(self) -> float:
        """Draw the delay of one message."""
        return self.rng.uniform(*self.faults.network_ms) / 1000

    def register(self, item: FakeLogReader | FakeTermProducer) -> None:
        """Have an item woken."""
        if isinstance(item, FakeLogReader):
            self._readers.append(item)
        else:
            self._channels.append(item)

    def forget(self, item: FakeLogReader | FakeTermProducer) -> None:
        """Have an item woken no more."""
        if isinstance(item, FakeLogReader) and item in self._readers:
            self._readers.remove(item)
        elif isinstance(item, FakeTermProducer) and item in self._channels:
            self._channels.remove(item)


class FakeNode:
    """The ports of one process. `stop` is a kill; `hold` keeps what it produces in the network (a zombie)."""

    def __init__(self, kafka: FakeKafka, name: str) -> None:
        self.kafka = kafka
        self.name = name
        self.is_up = True
        self.is_held = False
        self.membership = FakeMembership(group=kafka.group, node=name)
        self.producers = FakeTermProducers(self)
        self.cluster = FakeCluster(self)
        self._readers: list[FakeLogReader] = []

    def reader(self, listener: LogListener) -> FakeLogReader:
        """Make the node's log reader."""
        reader = FakeLogReader(self, listener)
        self._readers.append(reader)
        return reader

    def hold(self) -> None:
        """Keep produced entries in the network until `release`."""
        self.is_held = True

    def release(self) -> None:
        """Let held entries go on."""
        self.is_held = False
        self.kafka.wake()

    def stop(self) -> None:
        """Kill the process: nothing reaches it any more; a prefix of what it had under way may still land."""
        self.is_up = False
        self.membership.stop()
        self.producers.stop()
        for reader in self._readers:
            self.kafka.forget(reader)
