"""One process of the service: its replicas, its membership, and its life from first contact with Kafka to a clean stop.

The node serves from its first moment: until Kafka is reachable and a replica is loaded, requests get retriable errors.
What must not be served stops it loudly (`FatalError`): an unsafe topic, a topic that was deleted or created anew under
it, data directories of another cluster, and at the start a cluster that refuses. Once it serves, a refusal is counted
and asked again: it does not make what is acknowledged any less safe.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import count

from coordinator.core.commands import RegisterNode
from coordinator.core.leadership.states import State
from coordinator.core.limits import MESSAGE_BYTES_MAX, Limits, entry_bytes_max
from coordinator.core.state.damage import StateFailed
from coordinator.core.yielding import Rest, no_rest
from coordinator.protocol.messages import DescribeNodeResponse
from coordinator.runtime.abstention import UNLOADABLE, UNSUPPORTED, Abstention
from coordinator.runtime.accusations import Accusations
from coordinator.runtime.cluster_view import DIRECTORY_PARTITION, ClusterView
from coordinator.runtime.directory_worker import DirectoryWorker
from coordinator.runtime.failures import FailureLog
from coordinator.runtime.fitness import Fitness
from coordinator.runtime.loading import ReplicaUnloadable
from coordinator.runtime.node_clocks import NodeClocks
from coordinator.runtime.ports import (
    Cluster,
    ClusterRefused,
    KafkaUnavailable,
    LogBroken,
    LogEntry,
    LogListener,
    LogReader,
    Membership,
    Peers,
    StateStores,
    TermProducers,
    TopicFacts,
    TopicMissing,
)
from coordinator.runtime.registration import NodeIdTaken, Registration
from coordinator.runtime.replica import Replica, ReplicaIdentity, ReplicaPorts
from coordinator.runtime.router import Router
from coordinator.runtime.telemetry import Telemetry
from coordinator.runtime.topic_rules import ReplicaSets, Severity, TopicExpectations, check_topic, may_lead, wanted_config
from records.levels import LEVEL_LATEST
from records.model import Endpoint

LOG = logging.getLogger("coordinator.node")

TICK_S = 0.05
BUSY_TICK_S = 0.002
KAFKA_RETRY_S = (0.3, 1.0)
REVIVE_BACKOFF_S = (2.0, 300.0)
DIRECTORY_RETRY_S = 15.0
"""To look whether a data directory can be used again costs nothing, and an operator who made room on its disk waits for it."""
REVIVALS_FORGOTTEN_S = 1_200.0
"""A replica that lived for so long fails for a new reason: it does not wait because of the old one."""
MISSING_CHECKS_MAX = 3
"""So many checks in a row must miss the topic before it counts as deleted: a restarting broker may not know it yet."""
STOP_POLL_S = 0.01


class FatalError(Exception):
    """The process must stop; the text names what is wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Configuration of a node; times in milliseconds."""

    node_id: int
    rack: str
    endpoints: list[Endpoint]
    topic: str
    topic_partitions: int
    topic_auto_create: bool
    expectations: TopicExpectations
    limits: Limits
    flush_interval_ms: int
    flush_batches_max: int
    topic_check_interval_ms: int
    load_timeout_ms: int
    shutdown_timeout_ms: int
    incarnation_id: bytes
    session_timeout_ms: int = 6_000
    clock_skew_max_ms: int = 5_000
    schema_level_max: int = LEVEL_LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The outside world of a node; factories for ports that need the topic or the node first."""

    cluster: Cluster
    membership: Membership
    open_reader: Callable[[LogListener], LogReader]
    open_producers: Callable[[int], TermProducers]
    open_stores: Callable[[str], StateStores]
    peers: Peers
    writer: Executor
    telemetry: Telemetry
    rest: Rest = no_rest
    """Called by the writer between pieces of its work, so that the event loop gets the interpreter."""
    on_written: Callable[[], None] = lambda: None
    """Called when a flush is in the database and its objects are gone."""


class Node:
    """See the module's text."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        ports: NodePorts,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        rng: random.Random,
        on_fatal: Callable[[FatalError], None],
    ) -> None:
        """`wall_ms` is the machine's clock, jumps and all; `clock_ms` follows it smoothly."""
        self.config = config
        self.wall_ms = wall_ms
        self.replicas: dict[int, Replica] = {}
        self.view = ClusterView(self.replicas)
        self.router = Router(replicas=self.replicas, view=self.view, node_id=config.node_id)
        registration = RegisterNode(
            node_id=config.node_id,
            rack=config.rack,
            endpoints=config.endpoints,
            schema_level_max=config.schema_level_max,
            incarnation_id=config.incarnation_id,
        )
        self.directory = DirectoryWorker(
            replicas=self.replicas,
            view=self.view,
            router=self.router,
            peers=ports.peers,
            cluster=ports.cluster,
            rng=rng,
            clock_ms=clock_ms,
            node=registration,
        )
        self.registration = Registration(
            node=registration,
            replicas=self.replicas,
            view=self.view,
            router=self.router,
            peers=ports.peers,
            cluster=ports.cluster,
            rng=rng,
            session_timeout_ms=config.session_timeout_ms,
            on_taken=lambda taken: on_fatal(FatalError(str(taken))),
        )
        self.accusations = Accusations(node_id=config.node_id, replicas=self.replicas, peers=ports.peers)
        self.clocks = NodeClocks(
            node_id=config.node_id,
            replicas=self.replicas,
            view=self.view,
            peers=ports.peers,
            wall_ms=wall_ms,
            monotonic_ms=lambda: asyncio.get_running_loop().time() * 1000,
            skew_max_ms=config.clock_skew_max_ms,
            rng=rng,
        )
        self.schema_level = 1
        self.facts: TopicFacts | None = None
        self.assignment: frozenset[int] = frozenset()
        self.abstention = Abstention(
            node_id=config.node_id,
            membership=ports.membership,
            cluster=ports.cluster,
            listener=self,
            rng=rng,
            spawn=self._spawn,
        )
        self.fitness = Fitness(abstention=self.abstention, replicas=self.replicas, verdict=self.clocks.verdict, rng=rng)
        self._is_up = False
        self.is_prepared = asyncio.Event()
        """Set once Kafka was reached, the data directories are open and the state is loaded."""
        self.loop_rounds_s: dict[str, float] = {}
        self.failed_checks: Counter[str] = Counter()
        self.failures: dict[int, FailureLog] = {}
        self._ports = ports
        self._clock_ms = clock_ms
        self._rng = rng
        self._on_fatal = on_fatal
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: LogReader | None = None
        self._producers: TermProducers | None = None
        self._stores: StateStores | None = None
        self._assigned_since: dict[int, float] = {}
        self._revivals: dict[int, tuple[int, float]] = {}
        self._generations = count(1)
        self._led_directory = False
        self._is_stopping = False

    # ---- life

    def start(self) -> None:
        """Begin to bring the node up; requests may come at once."""
        self.directory.start()
        self._spawn(self._bring_up(), "bring-up")
        self._spawn(self._tick_forever(), "tick")

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, FatalError):
            self._on_fatal(error)
        else:
            LOG.error("background task failed task=%s", task.get_name(), exc_info=error)
            self._on_fatal(FatalError(f"background task {task.get_name()} failed: {error!r}"))

    async def _bring_up(self) -> None:
        try:
            facts = await self._prepare()
        except ClusterRefused as refused:
            raise FatalError(
                f"{refused}. Give the principal of this node (kafka.sasl.*, kafka.ssl.*) Describe, DescribeConfigs, Read and Write on topic"
                f" {self.config.topic}, Create where it may create it, and Read on its group; or correct the value that was refused"
            ) from refused
        try:
            await self.registration.await_free(self.config.load_timeout_ms / 1000)
        except NodeIdTaken as taken:
            raise FatalError(str(taken)) from taken
        await self.clocks.ask()
        self._is_up = True
        self.fitness.look()
        self.abstention.join()
        self._spawn(self.clocks.keep(), "clocks")
        self._spawn(self._guard_topic(facts), "topic-guard")
        self._spawn(self.registration.keep(), "registration")

    async def _prepare(self) -> TopicFacts:
        """Everything up to loaded replicas. Raises `FatalError`, `ClusterRefused`."""
        facts = await self._await_topic()
        self._check(facts)
        self.facts = facts
        self.router.use_cluster(self._ports.cluster)
        loop = asyncio.get_running_loop()
        self._stores = await loop.run_in_executor(self._ports.writer, self._ports.open_stores, facts.cluster_id)
        self._producers = self._ports.open_producers(_message_bytes_max(facts))
        self._reader = self._ports.open_reader(self)
        for partition in range(len(facts.partitions)):
            self.replicas[partition] = self._new_replica(partition, facts)
        try:
            await asyncio.gather(*(self._load(replica) for replica in list(self.replicas.values())))
        except StateFailed as failed:
            raise FatalError(str(failed)) from failed
        self.is_prepared.set()
        return facts

    async def _await_topic(self) -> TopicFacts:
        """Wait for Kafka, and for the topic, which is created when allowed. Raises `FatalError`, `ClusterRefused`."""
        while True:
            try:
                return await self._ports.cluster.describe_topic()
            except TopicMissing:
                await self._create_topic()
            except ClusterRefused:
                raise
            except KafkaUnavailable as unavailable:
                LOG.warning("waiting for Kafka error=%r", str(unavailable))
            await asyncio.sleep(self._rng.uniform(*KAFKA_RETRY_S))

    async def _create_topic(self) -> None:
        config = self.config
        if not config.topic_auto_create:
            raise FatalError(
                f"topic {config.topic} does not exist and diskless.metadata.topic.auto.create is false: run `diskless init`, or allow it"
            )
        try:
            await self._ports.cluster.create_topic(
                partitions=config.topic_partitions,
                replication_factor=config.expectations.replication_factor,
                config=wanted_config(config.expectations),
            )
            LOG.info("metadata topic created topic=%s partitions=%d", config.topic, config.topic_partitions)
        except ClusterRefused:
            raise
        except KafkaUnavailable as unavailable:
            LOG.warning("metadata topic cannot be created yet error=%r", str(unavailable))

    def _check(self, facts: TopicFacts) -> None:
        """Refuse to lead on a topic that would lose acknowledged data silently. Raises `FatalError`."""
        replica_sets = [ReplicaSets(partition=p.partition, replicas=p.replicas, in_sync=p.in_sync) for p in facts.partitions]
        findings = check_topic(topic=facts.topic, config=facts.config, partitions=replica_sets, expectations=self.config.expectations)
        for finding in findings:
            if finding.severity is Severity.WARN:
                LOG.warning(
                    "metadata topic key=%s value=%s reason=%r remedy=%r", finding.key, finding.value, finding.reason, finding.remedy
                )
        if not may_lead(findings):
            refused = [f for f in findings if f.severity is Severity.REFUSE]
            lines = "; ".join(f"{f.key}={f.value}: {f.reason}. Fix: {f.remedy}" for f in refused)
            raise FatalError(f"topic {facts.topic} is not safe to lead on: {lines}")

    def _new_replica(self, partition: int, facts: TopicFacts) -> Replica:
        if self._reader is None or self._producers is None or self._stores is None:
            raise AssertionError("replicas need a reader, producers and stores")
        config, ports = self.config, self._ports
        return Replica(
            identity=ReplicaIdentity(
                cluster_id=facts.cluster_id,
                topic_id=facts.topic_id,
                partition=partition,
                partition_count=len(facts.partitions),
                node_id=config.node_id,
                rack=config.rack,
                endpoints=config.endpoints,
            ),
            ports=ReplicaPorts(
                reader=self._reader,
                producers=self._producers,
                membership=ports.membership,
                cluster=ports.cluster,
                stores=self._stores,
                writer=ports.writer,
                rest=ports.rest,
                on_written=ports.on_written,
                telemetry=ports.telemetry,
            ),
            limits=replace(config.limits, entry_bytes_max=entry_bytes_max(_message_bytes_max(facts))),
            loop=asyncio.get_running_loop(),
            clock_ms=self._clock_ms,
            rng=self._rng,
            flush_batches_max=config.flush_batches_max,
            flush_interval_ms=config.flush_interval_ms,
            next_generation=self._generations.__next__,
            on_directory_changed=self._directory_changed,
            on_failed=self._replica_failed,
            on_contradicted=self.accusations.contradicted,
            failures=self.failures.setdefault(partition, FailureLog()),
            log_ahead_ms=self.clocks.log_ahead_ms,
        )

    async def _load(self, replica: Replica) -> None:
        """Load a replica as soon as Kafka answers. Raises `StateFailed` when its directory cannot be used, `ClusterRefused` at a start."""
        while True:
            try:
                await replica.load()
                break
            # A broker may hear of a new topic later than the one that described it.
            except (KafkaUnavailable, TopicMissing) as unavailable:
                if isinstance(unavailable, ClusterRefused) and not self._is_up:
                    raise
                LOG.warning("replica cannot be loaded yet partition=%d error=%r", replica.partition, str(unavailable))
            except ReplicaUnloadable as unloadable:
                LOG.error("replica failed partition=%d reason=%r", replica.partition, str(unloadable))
                replica.unloadable = str(unloadable)
                replica.failures.failed(replica.unloadable)
                self.abstention.withhold(UNLOADABLE, replica.unloadable, replica.partition)
                return
            await replica.close()
            await asyncio.sleep(self._rng.uniform(*KAFKA_RETRY_S))
            replica.reopen()
        self._tell_schema_level()
        if replica.partition in self.assignment:
            replica.set_assigned(True)

    async def stop(self, *, hand_over: bool = True) -> None:
        """Hand over and end: lead on until successors have claimed or the time for it is over.

        Without `hand_over` nothing is served any longer: what is led is not to be trusted.
        """
        self._is_stopping = True
        for replica in self.replicas.values():
            replica.stop_leading()
        self.abstention.stop()
        deadline = asyncio.get_running_loop().time() + (self.config.shutdown_timeout_ms / 1000 if hand_over else 0)
        # Leadership ends inside the shards, which know no events to wait for.
        while self.view.led() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(STOP_POLL_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.accusations.close()
        await self.directory.close()
        await self.router.close()
        for replica in self.replicas.values():
            await replica.close()

    @property
    def is_joined(self) -> bool:
        """Whether this node is, or wants to be, a member of the group."""
        return self.abstention.is_joined

    @property
    def withheld_reason(self) -> str | None:
        """Why this node stays out of leadership; None while it does not."""
        return self.abstention.withheld_reason

    def describe(self) -> DescribeNodeResponse:
        """Which process this is and what its clock shows, for other nodes."""
        kafka_ms = self.clocks.kafka_ms()
        return DescribeNodeResponse(
            error_code=0,
            node_id=self.config.node_id,
            incarnation_id=self.config.incarnation_id,
            is_member=self.is_joined,
            time_ms=self.wall_ms(),
            is_kafka_time_known=kafka_ms is not None,
            kafka_time_ms=0 if kafka_ms is None else round(kafka_ms),
        )

    # ---- the log and the group

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry]) -> None:
        """Entries of the log, for one replica."""
        self.replicas[partition].on_entries(generation, entries)

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None:
        """The log of one replica cannot be read on."""
        self.replicas[partition].on_log_broken(generation, why, detail)

    def on_assignment(self, partitions: frozenset[int]) -> None:
        """Take the partitions that the group assigns now."""
        before, self.assignment = self.assignment, partitions
        self.abstention.assigned(partitions)
        now = asyncio.get_running_loop().time()
        for partition, replica in self.replicas.items():
            is_assigned = partition in partitions
            if is_assigned and partition not in before:
                self._assigned_since[partition] = now
            if not is_assigned:
                self._assigned_since.pop(partition, None)
            if is_assigned != (partition in before):
                replica.set_assigned(is_assigned)
        if partitions != before:
            LOG.info("assignment partitions=%s", ",".join(map(str, sorted(partitions))) or "none")

    def _directory_changed(self) -> None:
        self.view.forget_owners()
        self._tell_schema_level()
        self.directory.directory_changed()

    def _tell_schema_level(self) -> None:
        """Have every replica write at the level that replica 0 has applied from the log.

        It does not go back while replica 0 is built anew: what was in force stays in force.
        """
        directory = self.view.directory
        if directory is not None and directory.schema_level > self.schema_level:
            if directory.schema_level > LEVEL_LATEST:  # in a database that a newer version has written
                message = f"schema level {directory.schema_level} is in force and this version has levels up to {LEVEL_LATEST}"
                self._on_fatal(FatalError(f"{message}: run the version that the other nodes run"))
                return
            self.schema_level = directory.schema_level
            LOG.info("schema level in force level=%d", self.schema_level)
        for replica in self.replicas.values():
            replica.use_schema_level(self.schema_level)

    # ---- time

    async def _tick_forever(self) -> None:
        while True:
            is_busy = False
            for replica in list(self.replicas.values()):
                is_busy |= replica.tick()
            self._ports.membership.alive()
            leads_directory = self.view.is_leading(DIRECTORY_PARTITION)
            if leads_directory != self._led_directory:
                self._led_directory = leads_directory
                self.directory.directory_changed()
            self.fitness.look()
            self._watch_loading()
            self._note_round("tick")
            await asyncio.sleep(BUSY_TICK_S if is_busy else TICK_S)

    def _note_round(self, loop: str) -> None:
        self.loop_rounds_s[loop] = asyncio.get_running_loop().time()

    def _watch_loading(self) -> None:
        """A member that cannot bring a partition to leading leaves, so that another may lead; it comes back later."""
        if self._is_stopping or not self.is_joined:
            return
        now = asyncio.get_running_loop().time()
        for partition in list(self._assigned_since):
            shard = self.view.shard(partition)
            if (shard is not None and shard.phase is State.LEADING) or self.abstention.is_withheld(partition):
                self._assigned_since[partition] = now
            elif now - self._assigned_since[partition] > self.config.load_timeout_ms / 1000:
                LOG.error("assigned partition does not come to leading; leaving the group for a while partition=%d", partition)
                self._assigned_since.clear()
                away_s = self._rng.uniform(0.5, 1.0) * self.config.load_timeout_ms / 1000
                self._spawn(self.abstention.leave_for("loading", away_s), "rejoin")
                return

    # ---- what can go wrong

    def _replica_failed(self, partition: int, reason: str) -> None:
        shard = self.replicas[partition].view
        if shard is not None and shard.is_unsupported:
            # The entry would stop a replica that is built anew; the database is right as far as it goes.
            self.abstention.withhold(UNSUPPORTED, f"metadata partition {partition}: {reason}", partition)
        elif not self._is_stopping:
            self._spawn(self._revive(partition), f"revive-{partition}")

    async def _revive(self, partition: int) -> None:
        """Rebuild a failed replica from the log, keeping the old database as evidence; each time after a longer wait.

        While the data directory cannot be used the replica stays failed and says why: the disk may be mended under the process.
        """
        while True:
            await self._check_topic_id()
            tries, then_s = self._revivals.get(partition, (0, 0.0))
            now_s = asyncio.get_running_loop().time()
            tries = tries if now_s - then_s < REVIVALS_FORGOTTEN_S else 0
            self._revivals[partition] = (tries + 1, now_s)
            longest_s = DIRECTORY_RETRY_S if self.replicas[partition].unloadable is not None else REVIVE_BACKOFF_S[1]
            await asyncio.sleep(min(REVIVE_BACKOFF_S[0] * 2**tries, longest_s))
            facts = self.facts
            if facts is None:
                return
            try:
                await self.replicas[partition].close(keep_evidence=True)
                replica = self.replicas[partition] = self._new_replica(partition, facts)
                await self._load(replica)
            except StateFailed as failed:
                self._unusable(self.replicas[partition], failed)
            else:
                return

    def _unusable(self, replica: Replica, failed: StateFailed) -> None:
        LOG.error("replica has no usable state database partition=%d reason=%r", replica.partition, str(failed))
        replica.failures.failed(str(failed))
        replica.unloadable = str(failed)

    async def _check_topic_id(self) -> bool:
        """Whether the topic is there, as far as one can know; raises `FatalError` when it is another one."""
        try:
            topic_id = await self._ports.cluster.topic_id()
        except KafkaUnavailable as unavailable:
            self._note_failed_check(unavailable)
            return True
        except TopicMissing:
            return False
        self._check_same_topic(topic_id)
        return True

    def _check_same_topic(self, topic_id: bytes) -> None:
        """Raise `FatalError` when the topic is another one."""
        if self.facts is not None and topic_id != self.facts.topic_id:
            raise FatalError(
                f"topic {self.config.topic} was deleted and created anew while the service was running: its state belongs to the old topic."
                " Start again with empty data directories to serve the new one, or restore the old one"
            )

    def _note_failed_check(self, error: KafkaUnavailable | TopicMissing) -> None:
        reason = "refused" if isinstance(error, ClusterRefused) else "missing" if isinstance(error, TopicMissing) else "unavailable"
        self.failed_checks[reason] += 1
        LOG.warning("metadata topic cannot be checked reason=%s error=%r", reason, str(error))

    async def _guard_topic(self, facts: TopicFacts) -> None:
        """Look at the topic every few seconds: its id, its settings, its replicas."""
        self._note_round("topic-guard")
        missing = 0
        while True:
            await asyncio.sleep(self.config.topic_check_interval_ms / 1000)
            missing = 0 if await self._check_topic_id() else missing + 1
            if missing >= MISSING_CHECKS_MAX:
                raise FatalError(f"topic {facts.topic} was deleted under the running service: its acknowledged entries are gone")
            if missing:
                continue
            try:
                now = await self._ports.cluster.describe_topic()
                self._check_same_topic(now.topic_id)  # it may have been created anew since the check above
                self.facts = now
                self._check(now)
                if len(now.partitions) > len(self.replicas):
                    await self._grow(now)
            except (KafkaUnavailable, TopicMissing) as unavailable:
                self._note_failed_check(unavailable)
                continue
            self._note_round("topic-guard")

    async def _grow(self, facts: TopicFacts) -> None:
        """The topic has more partitions: they take new placements only, nothing moves."""
        for partition in range(len(self.replicas), len(facts.partitions)):
            replica = self.replicas[partition] = self._new_replica(partition, facts)
            try:
                await self._load(replica)
            except StateFailed as failed:
                self._unusable(replica, failed)
                self._spawn(self._revive(partition), f"revive-{partition}")
        for replica in self.replicas.values():
            replica.grow(len(facts.partitions))
        LOG.info("metadata topic has grown partitions=%d", len(facts.partitions))


def _message_bytes_max(facts: TopicFacts) -> int:
    return int(facts.config.get("max.message.bytes", MESSAGE_BYTES_MAX))
