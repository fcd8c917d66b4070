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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.core.events import NewEntry
from coordinator.runtime.ports import (
    ClusterRefused,
    KafkaUnavailable,
    LogBroken,
    LogEntry,
    LogListener,
    PartitionFacts,
    ProduceRefused,
    Report,
    TopicFacts,
    TopicMissing,
)
from coordinator.testing.kafka_group import FakeGroup, FakeMembership
from coordinator.testing.kafka_log import FakeLog, Fate, Faults

__all__ = ["FakeCluster", "FakeGroup", "FakeKafka", "FakeLog", "FakeLogReader", "FakeMembership", "FakeNode", "FakeTermProducer",
           "FakeTermProducers", "Fate", "Faults"]  # fmt: skip

FETCH_ENTRIES_MAX = 500
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
}

OnReports = Callable[[Sequence[Report]], None]


class FakeKafka:
    """The cluster: one topic, its logs and its group. `node()` gives the ports as one process sees them."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        partitions: int = 1,
        topic: str = "__diskless_metadata",
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
        self.is_available = True
        self.refusal: str | None = None
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
        """Use up an offset without an entry, as a control record does."""
        offset = self.logs[partition].append_hole()
        self.wake()
        return offset

    def delete_records(self, partition: int, before_offset: int) -> None:
        """Kafka's DeleteRecords."""
        self.logs[partition].delete_before(before_offset)

    def set_available(self, is_available: bool) -> None:
        """Cut every client off from the brokers, or let them back; nothing sent meanwhile is lost."""
        self.is_available = is_available
        self.group.is_available = is_available
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


# ---- LogReader


@dataclass(slots=True)
class _Cursor:
    generation: int
    next_offset: int


class FakeLogReader:
    """`LogReader` over the in-memory logs."""

    def __init__(self, node: FakeNode, listener: LogListener) -> None:
        self._node = node
        self._kafka = node.kafka
        self._listener = listener
        self._cursors: dict[int, _Cursor] = {}
        self._due: set[int] = set()
        self._kafka.register(self)

    def start(self) -> None:
        """Nothing to start; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Stop reading."""
        self._cursors.clear()
        self._kafka.forget(self)
        return True

    def follow(self, partition: int, next_offset: int, generation: int) -> None:
        """(Re)start reading a partition at `next_offset`."""
        self._cursors[partition] = _Cursor(generation, next_offset)
        self._schedule(partition)

    def unfollow(self, partition: int) -> None:
        """Stop reading a partition."""
        self._cursors.pop(partition, None)

    def wake(self) -> None:
        """Look again at every followed partition that has news."""
        for partition, cursor in self._cursors.items():
            log = self._kafka.log(partition)
            if log is None or cursor.next_offset != log.end_offset:
                self._schedule(partition)

    def _schedule(self, partition: int) -> None:
        if partition not in self._due:
            self._due.add(partition)
            self._kafka.loop.call_later(self._kafka.network_delay_s(), self._fetch, partition)

    def _fetch(self, partition: int) -> None:
        self._due.discard(partition)
        cursor = self._cursors.get(partition)
        log = self._kafka.log(partition)
        if cursor is None or log is None or not self._node.is_up or not self._kafka.is_available:
            return
        where = f"offset {cursor.next_offset} is not in the log, which holds [{log.start_offset}, {log.end_offset})"
        if cursor.next_offset < log.start_offset:
            self._break(partition, cursor, LogBroken.BELOW_START, where)
            return
        if cursor.next_offset > log.end_offset:
            self._break(partition, cursor, LogBroken.PAST_END, where)
            return
        entries = log.read(cursor.next_offset, FETCH_ENTRIES_MAX)
        good = [entry for place, entry in enumerate(entries, cursor.next_offset) if entry.offset == place]
        first_bad = entries[len(good)].offset if len(good) < len(entries) else None
        cursor.next_offset += len(good)
        expected = cursor.next_offset
        if good:
            self._listener.on_entries(partition, cursor.generation, good)
        if self._cursors.get(partition) is not cursor:
            return  # the listener followed anew or stopped
        if first_bad is not None:
            self._break(partition, cursor, LogBroken.GAP, f"expected offset {expected}, read {first_bad}")
        elif good and expected < log.end_offset:
            self._schedule(partition)

    def _break(self, partition: int, cursor: _Cursor, why: LogBroken, detail: str) -> None:
        del self._cursors[partition]
        self._listener.on_log_broken(partition, cursor.generation, why, f"{self._kafka.topic}-{partition}: {detail}")


# ---- TermProducers


@dataclass(slots=True)
class _Sent:
    seq: int
    key: bytes
    value: bytes
    fate: Fate


class FakeTermProducer:
    """`TermProducer`: a queue of entries that land one after the other, and reports that follow in order."""

    def __init__(self, node: FakeNode, partition: int, on_reports: OnReports) -> None:
        self._node = node
        self._kafka = node.kafka
        self._partition = partition
        self._on_reports = on_reports
        self._queue: deque[_Sent] = deque()
        self._reports: deque[Report] = deque()
        self._is_landing_due = False
        self._is_reporting_due = False
        self._no_report_before_s = 0.0
        self.is_abandoned = False
        self._kafka.register(self)

    def produce(self, entries: Sequence[NewEntry]) -> None:
        """Hand the entries of a group over. Raises `ProduceRefused`, after sending the others, as librdkafka does."""
        refusal: ProduceRefused | None = None
        for seq, key, value in entries:
            try:
                self._produce_one(seq, key, value)
            except ProduceRefused as refused:
                refusal = refusal if refusal is not None else refused
        if refusal is not None:
            raise refusal

    def _produce_one(self, seq: int, key: bytes, value: bytes) -> None:
        if self.is_abandoned or not self._node.is_up:
            raise ProduceRefused(f"the producer of partition {self._partition} was abandoned")
        limit = int(self._kafka.config["max.message.bytes"])
        if len(key) + len(value) + 72 > limit:
            raise ProduceRefused(f"entry {seq} of partition {self._partition} ({len(value)} bytes) exceeds max.message.bytes {limit}")
        faults = self._kafka.faults
        refusal = faults.refuse_produce(self._node.name, self._partition, seq)
        if refusal is not None:
            raise ProduceRefused(refusal)
        self._queue.append(_Sent(seq, key, value, faults.fate_of(self._node.name, self._partition, seq, value)))
        self.wake()

    def abandon(self) -> None:
        """End at once; a prefix of what is under way may still land. No report follows."""
        if self.is_abandoned:
            return
        self.is_abandoned = True
        self._reports.clear()
        keep = self._kafka.rng.randint(0, len(self._queue))
        while len(self._queue) > keep:
            self._queue.pop()
        if not self._queue:
            self._kafka.forget(self)

    def wake(self) -> None:
        """Go on delivering when the network allows it."""
        if self._queue and not self._is_landing_due and self._kafka.is_available and not self._node.is_held:
            self._is_landing_due = True
            self._kafka.loop.call_later(self._kafka.network_delay_s(), self._land)

    def _land(self) -> None:
        self._is_landing_due = False
        if not self._kafka.is_available or self._node.is_held or self._kafka.log(self._partition) is None:
            return
        # Several queued entries travel in one request, as with the real producer.
        for _ in range(self._kafka.rng.randint(1, len(self._queue)) if self._queue else 0):
            self._land_one(self._queue.popleft())
        if self._queue:
            self.wake()
        elif self.is_abandoned:
            self._kafka.forget(self)

    def _land_one(self, sent: _Sent) -> None:
        match sent.fate:
            case Fate.DELIVER:
                self._report(Report(sent.seq, self._append(sent), None))
            case Fate.DOUBLE:
                self._report(Report(sent.seq, self._append(sent), None))
                self._append(sent)
            case Fate.LOSE_REPORT:
                self._append(sent)
            case Fate.LATE_REPORT:
                self._no_report_before_s = self._kafka.loop.time() + self._kafka.faults.late_ms / 1000
                self._report(Report(sent.seq, self._append(sent), None))
            case Fate.FAIL_AFTER_LANDING:
                self._append(sent)
                self._report(Report(sent.seq, None, "_MSG_TIMED_OUT: injected"))
            case Fate.DROP:
                self._report(Report(sent.seq, None, "_MSG_TIMED_OUT: injected"))
            case Fate.DROP_SILENTLY:
                pass
            case Fate.LATE:
                self._kafka.loop.call_later(self._kafka.faults.late_ms / 1000, self._land_late, sent)

    def _land_late(self, sent: _Sent) -> None:
        if self._kafka.log(self._partition) is not None:
            self._report(Report(sent.seq, self._append(sent), None))

    def _append(self, sent: _Sent) -> int:
        return self._kafka.append(self._partition, sent.key, sent.value)

    def _report(self, report: Report) -> None:
        if self.is_abandoned or not self._node.is_up:
            return
        self._reports.append(report)
        if not self._is_reporting_due:
            self._is_reporting_due = True
            self._deliver_reports_later()

    def _deliver_reports_later(self) -> None:
        late_s = max(0.0, self._no_report_before_s - self._kafka.loop.time())
        self._kafka.loop.call_later(self._kafka.network_delay_s() + late_s, self._deliver_reports)

    def _deliver_reports(self) -> None:
        if self._kafka.loop.time() < self._no_report_before_s:
            self._deliver_reports_later()
            return
        self._is_reporting_due = False
        batch = list(self._reports)
        self._reports.clear()
        if batch and not self.is_abandoned and self._node.is_up:
            self._on_reports(batch)


class FakeTermProducers:
    """`TermProducers`: every producer is ready at once."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._opened: list[FakeTermProducer] = []

    @property
    def is_spare_ready(self) -> bool:
        """Always: nothing has to be fetched."""
        return True

    def start(self) -> None:
        """Nothing to start; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Abandon every producer."""
        self.stop()
        return True

    def open(self, partition: int, on_reports: OnReports) -> FakeTermProducer:
        """Hand out a producer for one term."""
        self._opened = [producer for producer in self._opened if not producer.is_abandoned]
        producer = FakeTermProducer(self._node, partition, on_reports)
        self._opened.append(producer)
        return producer

    def stop(self) -> None:
        """Abandon every producer at once."""
        for producer in self._opened:
            producer.abandon()


# ---- Cluster


class FakeCluster:
    """`Cluster` over the in-memory topic."""

    def __init__(self, node: FakeNode) -> None:
        self._kafka = node.kafka

    def start(self) -> None:
        """Nothing to start; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Nothing to end."""
        return True

    async def describe_topic(self) -> TopicFacts:
        """Describe the topic. Raises `TopicMissing`, `KafkaUnavailable`."""
        topic_id = await self.topic_id()
        kafka = self._kafka
        return TopicFacts(
            cluster_id=kafka.cluster_id,
            topic=kafka.topic,
            topic_id=topic_id,
            partitions=tuple(
                PartitionFacts(
                    partition=number, leader=kafka.in_sync[0] if kafka.in_sync else None, replicas=kafka.replicas, in_sync=kafka.in_sync
                )
                for number in range(len(kafka.logs))
            ),
            config=dict(kafka.config),
        )

    async def create_topic(self, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create the topic; one that exists already is left as it is. Raises `KafkaUnavailable`, `ClusterRefused`."""
        await self._reach()
        kafka = self._kafka
        if kafka.topic_id is not None:
            return
        if not 1 <= replication_factor <= 3:
            raise ClusterRefused(f"could not create the topic {kafka.topic}: replication factor {replication_factor}, 3 brokers")
        kafka.replicas = kafka.in_sync = tuple(range(1, replication_factor + 1))
        kafka.config = {**TOPIC_CONFIG, **config}
        kafka.create(partitions)

    async def topic_id(self) -> bytes:
        """Return the topic id. Raises `TopicMissing`, `KafkaUnavailable`."""
        await self._reach()
        if self._kafka.topic_id is None:
            raise TopicMissing(f"could not read the topic id {self._kafka.topic}: UNKNOWN_TOPIC_OR_PART")
        return self._kafka.topic_id

    async def log_range(self, partition: int) -> tuple[int, int]:
        """Return (log start offset, log end offset). Raises `TopicMissing`, `KafkaUnavailable`."""
        log = await self._log(partition)
        return log.start_offset, log.end_offset

    async def read_entry(self, partition: int, offset: int) -> LogEntry | None:
        """Read one entry; None when that offset is not in the log."""
        log = await self._log(partition)
        if not log.start_offset <= offset < log.end_offset:
            return None
        found = log.read(offset, 1)
        return found[0] if found and found[0].offset == offset else None

    async def group_members(self) -> frozenset[str]:
        """Return the client ids of the members of the group. Raises `KafkaUnavailable`."""
        await self._reach()
        return self._kafka.group.client_ids()

    async def _log(self, partition: int) -> FakeLog:
        await self._reach()
        log = self._kafka.log(partition)
        if log is None:
            raise TopicMissing(f"{self._kafka.topic}-{partition} does not exist")
        return log

    async def _reach(self) -> None:
        await asyncio.sleep(self._kafka.network_delay_s())
        if not self._kafka.is_available:
            raise KafkaUnavailable(f"no broker answered about {self._kafka.topic}")
        if self._kafka.refusal is not None:
            raise ClusterRefused(f"could not ask about {self._kafka.topic}: {self._kafka.refusal}")
