"""One process of the simulated cluster: the product's `Node` on a loop of its own, its ports, its clock and its disk.

It can be started, stopped, killed (disk kept, lost, or that of another history) and frozen. A process that starts again
is a new member of the group and a new client of Kafka, under the same node id.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.events import NewEntry
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.topic_rules import TopicExpectations
from coordinator.core.view import ShardView
from coordinator.object_store import ObjectStore
from coordinator.runtime.directories.port import MoveRefused, OpenDirectories
from coordinator.runtime.failures import FatalError
from coordinator.runtime.files.rules import NO_FILES_DELETED, FileRules, ScanRules
from coordinator.runtime.node.clock import NS_PER_MS, SteadyClock
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.node import Node
from coordinator.runtime.ports import (
    LogBroken,
    LogEntry,
    LogListener,
    LogReader,
    Peers,
    Report,
    TermProducer,
    TermProducers,
    group_client_id,
)
from coordinator.runtime.retention.rules import RetentionRules
from coordinator.runtime.snapshots.rules import SnapshotRules
from coordinator.runtime.telemetry import NoTelemetry
from records.model import Endpoint
from simulation.disk import Disk
from simulation.fakes.kafka import FakeKafka, FakeNode
from simulation.fakes.kafka_producer import FakeTermProducers
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects
from simulation.judge import Judge
from simulation.loop import START_MS, VirtualLoop, VirtualTime, VirtualWriter
from simulation.membership import SESSION_S, SimulatedMembership
from simulation.story import Story

PORT = 9192
TERM_TIMEOUT_MS = 8_000
MENDING_S = 0.5
SPARE_PERCENT_MAX = (0, 10)
"""By node: one removes the state databases of what it follows no longer, another keeps them all."""
NO_DIRECTORY_S = 6.0
"""A process ends within this time after its last data directory has failed: it is probed, and leads on for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings that all processes share."""

    time: VirtualTime
    world: VirtualLoop
    kafka: FakeKafka
    judge: Judge
    story: Story
    seed: int
    partitions: int
    limits: Limits
    snapshots: SnapshotRules | None
    """None: no snapshots are taken."""
    objects: FakeObjects
    files: FileRules | None
    """None: no objects of files are deleted."""
    scans: ScanRules
    retention: RetentionRules
    open_store: Callable[[], ObjectStore]
    folder: Path
    """Where the disks of processes keep snapshots."""
    directories: int
    """How many data directories each process has."""
    open_peers: Callable[[SimulatedProcess], Peers]


class SimulatedProcess:
    """See the module's text. `node` and `loop` are None while it is down."""

    def __init__(self, surroundings: Surroundings, node_id: int, skew_ms: int, schema_level_max: int) -> None:
        self.node_id = node_id
        self.schema_level_max = schema_level_max
        self.node: Node | None = None
        self.loop: VirtualLoop | None = None
        self.membership: SimulatedMembership | None = None
        self.kafka_node: FakeNode | None = None
        self.listener: RelayedListener | None = None
        self.skew_ms = skew_ms
        self.disturbances = 0
        """How often it began a new life, was frozen or thawed, or had its clock changed."""
        self._around = surroundings
        self._disks = 0
        self.disk = self._new_disk()
        self._lives = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.moves_begun_s: dict[int, float] = {}
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._is_stopping

    @property
    def name(self) -> str:
        """The name of this life of the process, for Kafka."""
        return f"{self.node_id}.{self._lives}"

    def clock_ms(self) -> int:
        """This machine's wall clock."""
        return START_MS + int(self._around.time.now_s * 1000) + self.skew_ms

    def _new_disk(self) -> Disk:
        self._disks += 1
        folder = self._around.folder / f"node-{self.node_id}-{self._disks}"
        return Disk(folder, directories=self._around.directories, first_byte=self.node_id + 1)

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a request on this process's loop."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- life

    def start(self) -> None:
        """Start the process, if it is down."""
        if self.node is not None:
            return
        around = self._around
        self._lives += 1
        self.disturbances += 1
        self._is_stopping = False
        self.disk.mend()
        around.judge.supported_levels[self.node_id] = self.schema_level_max
        rng = random.Random(f"node {around.seed} {self.name}")
        loop = self.loop = around.time.new_loop(self.name)
        kafka_node = self.kafka_node = FakeNode(around.kafka, self.name)
        membership = self.membership = SimulatedMembership(
            group=around.kafka.group, node=self.name, client_id=group_client_id(self.node_id), loop=loop
        )
        kafka_node.membership = membership
        ports = NodePorts(
            cluster=kafka_node.cluster,
            membership=membership,
            open_reader=lambda listener: self._open_reader(kafka_node, listener, loop),
            open_producers=lambda _size: RelayedProducers(kafka_node.producers, loop),
            open_directories=lambda _cluster_id: OpenDirectories(self.disk.directories),
            peers=around.open_peers(self),
            writer=VirtualWriter(rng),
            background=VirtualWriter(rng),
            telemetry=ProcessTelemetry(self, around),
            snapshots=FakeDurableSnapshots(around.objects) if around.snapshots is not None else None,
            objects=None if around.files is None else around.open_store(),
        )
        # As in production: the clock of deadlines follows jumps of the wall clock slowly.
        clock_ms = SteadyClock(lambda: self.clock_ms() * NS_PER_MS, lambda: int(around.time.now_s * 1000) * NS_PER_MS)
        node = self.node = Node(config=self._config(), ports=ports, clock_ms=clock_ms, wall_ms=self.clock_ms, rng=rng, on_fatal=self._fatal)
        loop.call_soon(node.start)

    def _open_reader(self, kafka_node: FakeNode, listener: LogListener, loop: VirtualLoop) -> LogReader:
        self.listener = RelayedListener(listener, loop)
        return kafka_node.reader(self.listener)

    def _config(self) -> NodeConfig:
        around = self._around
        return NodeConfig(
            node_id=self.node_id,
            rack="",
            endpoints=[Endpoint(listener="PLAINTEXT", host=f"node-{self.node_id}", port=PORT)],
            topic=around.kafka.topic,
            topic_partitions=around.partitions,
            topic_auto_create=False,
            expectations=TopicExpectations(),
            limits=around.limits,
            flush_interval_ms=1_500,
            flush_batches_max=100,
            flush_backlog_max=1_000,
            topic_check_interval_ms=5_000,
            load_timeout_ms=12_000,
            shutdown_timeout_ms=2_000,
            incarnation_id=random.Random(f"incarnation {around.seed} {self.name}").randbytes(16),
            session_timeout_ms=int(SESSION_S * 1000),
            spare_percent_max=SPARE_PERCENT_MAX[self.node_id % len(SPARE_PERCENT_MAX)],
            schema_level_max=self.schema_level_max,
            snapshots=SnapshotRules() if around.snapshots is None else around.snapshots,
            files=NO_FILES_DELETED if around.files is None else around.files,
            orphans=around.scans,
            retention=around.retention,
        )

    def _fatal(self, error: FatalError) -> None:
        if self.disk.is_lost:
            # An operator mends the disks and starts the process again.
            self.stop_cleanly(self._start_later)
            return
        self._around.judge.broken("processes do not die", f"node {self.node_id}: {error}")

    def _start_later(self) -> None:
        self._around.world.call_later(MENDING_S, self.start)

    def kill(self, disk: str = "kept") -> None:
        """End at once; `disk` says what the next life will find: kept, lost, or forked (the state of another history)."""
        if self.node is None or self.loop is None or self.kafka_node is None:
            return
        self.kafka_node.is_held = False
        self.kafka_node.stop()
        self._around.kafka.wake()
        self.loop.is_dead = True
        self.node = self.loop = self.kafka_node = self.membership = self.listener = None
        if disk == "lost":
            self.disk = self._new_disk()
        elif disk == "forked":
            self.disk.forked.update(range(self._around.partitions))

    def stop_cleanly(self, then: Callable[[], None]) -> None:
        """Stop as on SIGTERM, and say when it is done."""
        node, loop, life = self.node, self.loop, self._lives
        if node is None or loop is None or self._is_stopping or loop.is_frozen:
            return
        self._is_stopping = True

        def ended() -> None:
            if self._lives == life:
                self.kill()
                then()

        async def stop() -> None:
            await node.stop()
            self._around.world.call_soon(ended)

        loop.call_soon(self.spawn, stop)

    def fail_directory(self, number: int, *, is_lost: bool) -> None:
        """One of the data directories fails, and what is in it is lost or not; if it was the last one the process has to end."""
        self.disk.directories[number % len(self.disk.directories)].fail(is_lost=is_lost)
        life = self._lives

        def look() -> None:
            if self.node is not None and self._lives == life and self.disk.is_lost and self.is_well:
                self._around.judge.broken("a node without a data directory ends", f"node {self.node_id} goes on")

        if self.disk.is_lost:
            self._around.world.call_later(NO_DIRECTORY_S, look)

    def move(self, partition: int) -> None:
        """Order that a replica moves into another data directory, if there is one that is online."""
        node, loop = self.node, self.loop
        if node is None or loop is None:
            return
        directories = node.keeper.directories
        here = next((one.directory_id for one in directories.places() if one.partition == partition), None)
        target = next((one for one in directories.directories() if one.offline_reason is None and one.directory_id != here), None)
        if target is None:
            return

        def order() -> None:
            with suppress(MoveRefused):
                directories.move(partition, target.path)
                self.moves_begun_s[partition] = self._around.time.now_s

        loop.call_soon(order)

    @property
    def is_well(self) -> bool:
        """Whether it runs, is not frozen, and is not about to stop."""
        return self.loop is not None and not self.loop.is_frozen and not self._is_stopping

    def freeze(self) -> None:
        """Run nothing until `thaw`; fetching takes longer still to go on."""
        self.disturbances += 1
        if self.loop is not None:
            self.loop.is_frozen = True
        if self.listener is not None:
            self.listener.is_held = True

    def thaw(self) -> None:
        """Go on."""
        self.disturbances += 1
        if self.loop is not None:
            self.loop.thaw()


# ---- between the world's loop and the process's


class RelayedListener:
    """Hands what the reader reads over to the process's loop, as the adapter does; holds it back while fetching hangs."""

    def __init__(self, listener: LogListener, loop: VirtualLoop) -> None:
        self.is_held = False
        self._listener = listener
        self._loop = loop
        self._held: list[Callable[[], None]] = []

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry], size_bytes: int) -> None:
        """Entries were read."""
        self._hand_over(partial(self._listener.on_entries, partition, generation, entries, size_bytes))

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None:
        """The log cannot be read on."""
        self._hand_over(partial(self._listener.on_log_broken, partition, generation, why, detail))

    def _hand_over(self, news: Callable[[], None]) -> None:
        if self.is_held:
            self._held.append(news)
        else:
            self._loop.call_soon(news)

    def release(self) -> None:
        """Fetching goes on."""
        self.is_held = False
        held, self._held = self._held, []
        for news in held:
            self._loop.call_soon(news)


class RelayedProducers:
    """Hands reports over to the process's loop; those of an abandoned producer are dropped, as the adapter does."""

    def __init__(self, producers: FakeTermProducers, loop: VirtualLoop) -> None:
        self._producers: TermProducers = producers
        self._loop = loop

    def open(self, partition: int, on_reports: Callable[[Sequence[Report]], None]) -> TermProducer:
        """Hand out a producer for one term."""
        relayed = _RelayedProducer(on_reports, self._loop)
        relayed.inner = self._producers.open(partition, relayed.on_reports)
        return relayed


class _RelayedProducer:
    def __init__(self, on_reports: Callable[[Sequence[Report]], None], loop: VirtualLoop) -> None:
        self.inner: TermProducer | None = None
        self._is_abandoned = False
        self._on_reports = on_reports
        self._loop = loop

    def on_reports(self, reports: Sequence[Report]) -> None:
        self._loop.call_soon(self._tell, reports)

    def _tell(self, reports: Sequence[Report]) -> None:
        if not self._is_abandoned:
            self._on_reports(reports)

    def produce(self, entries: Sequence[NewEntry]) -> None:
        if self.inner is not None:
            self.inner.produce(entries)

    def abandon(self) -> None:
        self._is_abandoned = True
        if self.inner is not None:
            self.inner.abandon()


class ProcessTelemetry(NoTelemetry):
    """Tells the judge and the story what the runtime measures."""

    def __init__(self, process: SimulatedProcess, around: Surroundings) -> None:
        self._process = process
        self._around = around

    def state_changed(self, partition: int, before: State, after: State) -> None:
        """Note it; a replica that failed is judged."""
        self._around.story.tell(f"node {self._process.node_id} partition {partition}: {before.value} -> {after.value}")
        node = self._process.node
        if node is None:
            return
        shard = node.replicas.shard(partition)
        if after is State.FAILED:
            self._around.judge.replica_failed(self._process.node_id, partition, "" if shard is None else shard.failure or "")
        elif before is State.LEADING and (after is not State.RESIGNING or self._is_given_up(shard)):
            self._around.judge.stopped_leading(self._process.node_id, partition, shard)

    def _is_given_up(self, shard: ShardView | None) -> bool:
        """Whether a leader does not lead on until another one claims, though its process goes on."""
        return shard is not None and not shard.is_leading and not self._process.is_stopping

    def loaded(self, partition: int, seconds: float) -> None:
        """Note it."""
        self._around.story.mention(f"node {self._process.node_id} partition {partition}: loaded")
        self._judge_move(partition)

    def _judge_move(self, partition: int) -> None:
        """A replica is opened in the directory to which it moves only when partition 0 has that, or after long waiting."""
        process, node = self._process, self._process.node
        if node is None or node.keeper.directories.move_step(partition) != "load":
            return
        place = next(one for one in node.keeper.directories.places() if one.partition == partition)
        waited_s = self._around.time.now_s - process.moves_begun_s[partition]
        recorded = self._around.judge.folds[DIRECTORY_PARTITION].replica_dirs.get((process.node_id, partition))
        is_switched = place.directory_id == place.moving_to
        if is_switched and recorded != place.directory_id and waited_s * 1000 < node.config.log_dir_failure_timeout_ms:
            text = f"node {process.node_id} has opened partition {partition} in another directory after {waited_s:.2f} s"
            self._around.judge.broken("partition 0 knows where a replica is before it moves", text)

    def flushed(self, partition: int, seconds: float, batches: int) -> None:
        """Have the digest compared with those of other replicas at the same offset."""
        node = self._process.node
        # One that was let go of is closed behind its last write.
        if node is not None and (replica := node.replicas.get(partition)) is not None:
            self._around.judge.flushed(self._process.node_id, partition, replica.writer.written_offset, replica.writer.digest.to_bytes())
            self._around.judge.look(self._process.node_id, partition, replica.view)
