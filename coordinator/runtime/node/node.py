"""One process of the service: its replicas, its membership, and its life from first contact with Kafka to a clean stop.

The node serves from its first moment: until Kafka is reachable and a replica is loaded, requests get retriable errors.
Some findings stop it loudly (`FatalError`): an unsafe topic, a topic that was deleted or created anew under
it, data directories of another cluster, and at the start a cluster that refuses. Once it serves, a refusal is counted
and asked again: it does not make acknowledged commits any less safe.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.leadership.states import State
from coordinator.core.state.applying import TRIM_BATCHES
from coordinator.protocol.messages import DescribeNodeResponse
from coordinator.runtime.directories.reporting import DirectoryReports, log_dirs
from coordinator.runtime.failures import FatalError
from coordinator.runtime.loading.progress import LoadLog, LoadStatus
from coordinator.runtime.node.accusations import Accusations
from coordinator.runtime.node.clocks import NodeClocks
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.fitness import Fitness
from coordinator.runtime.node.kafka_brokers import KafkaBrokers
from coordinator.runtime.node.keeper import ReplicaKeeper
from coordinator.runtime.node.metadata_topic import MetadataTopic
from coordinator.runtime.node.refusals import LOADING
from coordinator.runtime.node.registration import NodeIdTaken, Registration
from coordinator.runtime.node.standing import GroupStanding
from coordinator.runtime.node.workers import Workers
from coordinator.runtime.pauses import TICK_S
from coordinator.runtime.ports import ClusterRefused, LoginRefused, TopicFacts
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.directory_worker import DirectoryWorker
from coordinator.runtime.routing.replicas import Replicas
from coordinator.runtime.routing.router import Router
from coordinator.runtime.routing.topic_changes import ChangesOfTopics
from coordinator.runtime.tasks import BackgroundTasks
from records.levels import LEVEL_LATEST

LOG = logging.getLogger("coordinator.node")

BUSY_TICK_S = 0.002
STOP_POLL_S = 0.01


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
        self.replicas = Replicas()
        self.view = ClusterView(self.replicas, config.endpoints[0].listener)
        self.topic_changes = ChangesOfTopics()
        self.router = Router(view=self.view, node_id=config.node_id, moves_window_ms=config.files.moves_window_ms)
        self._tasks = BackgroundTasks(on_fatal)
        self.context = context = NodeContext(
            node_id=config.node_id,
            replicas=self.replicas,
            view=self.view,
            router=self.router,
            peers=ports.peers,
            cluster=ports.cluster,
            rng=rng,
            clock_ms=clock_ms,
            pauses=config.pauses,
            telemetry=ports.telemetry,
            spawn=self._tasks.spawn,
        )
        self.brokers = KafkaBrokers(ports.cluster.brokers)
        self.topic = MetadataTopic(config=config, cluster=ports.cluster, rng=rng)
        self.directory = DirectoryWorker(context, node=config.registration())
        self.accusations = Accusations(context)
        self.clocks = NodeClocks(
            context, wall_ms=wall_ms, monotonic_ms=lambda: asyncio.get_running_loop().time() * 1000, skew_max_ms=config.clock_skew_max_ms
        )
        self.standing = GroupStanding(context, membership=ports.membership, config=config, started_ms=wall_ms())
        self.fitness = Fitness(context, refusals=self.standing.refusals, verdict=self.clocks.verdict)
        self.workers = Workers(context, config=config, ports=ports, topic=self.topic)
        self.keeper = ReplicaKeeper(
            context,
            config=config,
            ports=ports,
            topic=self.topic,
            standing=self.standing,
            on_loaded=self._replica_loaded,
            on_directory_changed=self._directory_changed,
            on_contradicted=self.accusations.contradicted,
            on_marked=self.workers.snapshots.marked,
            log_ahead_ms=self.clocks.log_ahead_ms,
            on_fatal=on_fatal,
        )
        directories = self.keeper.directories
        self.reports = DirectoryReports(
            context,
            incarnation_id=config.incarnation_id,
            topic_id=lambda: None if self.topic.facts is None else self.topic.facts.topic_id,
            directories=directories,
            failure_timeout_ms=config.log_dir_failure_timeout_ms,
        )
        directories.on_changed = self.reports.changed
        self.registration = Registration(
            context,
            node=config.registration(),
            session_timeout_ms=config.session_timeout_ms,
            log_dirs=lambda: log_dirs(directories.directories()),
            on_taken=lambda taken: on_fatal(FatalError(str(taken))),
        )
        self.schema_level = 1
        self.is_prepared = asyncio.Event()
        """Set once Kafka was reached, the data directories are open and the state is loaded."""
        self.loop_rounds_s: dict[str, float] = {}
        self._load_log = LoadLog(self.loading)
        self._ports = ports
        self._on_fatal = on_fatal
        self._assigned_since: dict[int, float] = {}
        self._led_directory = False
        self._is_stopping = False

    # ---- life

    def start(self) -> None:
        """Begin to bring the node up; requests may come at once."""
        self.directory.start()
        self._tasks.spawn(self._bring_up(), "bring-up")
        self._tasks.spawn(self._tick_forever(), "tick")

    async def _bring_up(self) -> None:
        try:
            facts = await self._prepare()
        except LoginRefused as refused:
            raise FatalError(str(refused)) from refused
        except ClusterRefused as refused:
            raise FatalError(
                f"{refused}. Give the principal of this node (kafka.sasl.*, kafka.ssl.*) Describe, DescribeConfigs, Read and Write on topic"
                f" {self.config.topic}, Delete to prune it behind snapshots, Create where it may create it, and Read on its group;"
                " or correct the value that was refused"
            ) from refused
        try:
            await self.registration.await_free(self.config.load_timeout_ms / 1000)
        except NodeIdTaken as taken:
            raise FatalError(str(taken)) from taken
        await self.clocks.ask()
        self.fitness.look()
        self.standing.join(self)
        self._tasks.spawn(self.clocks.keep(), "clocks")
        self._tasks.spawn(self.topic.guard(facts, use=self.keeper.grow, note_round=partial(self._note_round, "topic-guard")), "topic-guard")
        self._tasks.spawn(self.registration.keep(), "registration")
        self._tasks.spawn(self.reports.keep(), "directory-reports")
        self.workers.start()

    async def _prepare(self) -> TopicFacts:
        """Do all work of a start, up to loaded replicas. Raises `FatalError`, `ClusterRefused`."""
        facts = await self.topic.await_safe()
        self.router.use_cluster(self._ports.cluster)
        await self.keeper.open(facts)
        self.is_prepared.set()
        return facts

    async def stop(self, *, hand_over: bool = True) -> None:
        """Hand over and end: lead on until successors have claimed or the time for it is over.

        Without `hand_over` nothing is served any longer: the led replicas are not to be trusted.
        """
        self._is_stopping = True
        self.keeper.stop()
        for replica in self.replicas.followed():
            replica.stop_leading()
        self.standing.leave()
        deadline = asyncio.get_running_loop().time() + (self.config.shutdown_timeout_ms / 1000 if hand_over else 0)
        # Leadership ends inside the shards, which know no events to wait for.
        while self.replicas.led() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(STOP_POLL_S)
        await self._tasks.close()
        await self.accusations.close()
        await self.directory.close()
        await self.router.close()
        await self.keeper.close()

    @property
    def is_joined(self) -> bool:
        """Whether this node is, or wants to be, a member of the group."""
        return self.standing.is_joined

    @property
    def assignment(self) -> frozenset[int]:
        """The partitions that the group assigns to this node now."""
        return self.standing.assignment

    @property
    def withheld_reason(self) -> str | None:
        """Why this node refuses to lead partitions, all or some; None while it does not."""
        return self.standing.refusals.reason

    def loading(self) -> dict[int, LoadStatus]:
        """The progress of the replicas that are not loaded yet, by metadata partition."""
        return {one.partition: status for one in self.replicas.followed() if (status := one.load_status()) is not None}

    def describe(self) -> DescribeNodeResponse:
        """The identity and the clock of this process, for other nodes."""
        kafka_ms = self.clocks.kafka_ms()
        return DescribeNodeResponse(
            error_code=0,
            node_id=self.config.node_id,
            incarnation_id=self.config.incarnation_id,
            is_member=self.is_joined and not self.standing.refusals.is_total,
            is_store_marked=self.workers.marking.is_found,
            time_ms=self.wall_ms(),
            is_kafka_time_known=kafka_ms is not None,
            kafka_time_ms=0 if kafka_ms is None else round(kafka_ms),
        )

    # ---- the group and the level of the log

    def on_assignment(self, assignment: GroupAssignment) -> None:
        """Take the partitions that the group assigns now."""
        before, partitions = self.standing.assigned(assignment), assignment.leads
        now = asyncio.get_running_loop().time()
        self._assigned_since = {one: self._assigned_since.get(one, now) for one in partitions}
        for partition in sorted(before ^ partitions):
            if (replica := self.replicas.get(partition)) is not None:
                replica.set_assigned(partition in partitions)
        self.keeper.following.look()
        if partitions != before:
            LOG.info("assignment partitions=%s", ",".join(map(str, sorted(partitions))) or "none")

    def _replica_loaded(self, replica: Replica) -> None:
        self._tell_schema_level()
        self.workers.loaded(replica, self.keeper.directories.home(replica.partition))
        if replica.partition in self.assignment:
            replica.set_assigned(True)

    def _directory_changed(self) -> None:
        self.view.forget_owners()
        self.topic_changes.directory_changed()
        self._tell_schema_level()
        self.directory.directory_changed()
        self.reports.changed()

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
        for replica in self.replicas.followed():
            replica.use_schema_level(self.schema_level)

    # ---- time

    async def _tick_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self.workers.pace.look(began_s)
            is_busy = False
            self.keeper.deliver()
            self.keeper.following.look()
            for replica in self.replicas.followed():
                is_busy |= replica.tick()
            self._ports.membership.alive()
            leads_directory = self.replicas.is_leading(DIRECTORY_PARTITION)
            if leads_directory != self._led_directory:
                self._led_directory = leads_directory
                self.directory.directory_changed()
                self.workers.marking.wake()
            self.fitness.tick()
            self.standing.tick()
            self._watch_loading()
            self._load_log.look(loop.time())
            self._note_round("tick")
            ended_s = loop.time()
            pause_s = self._trimming_pause_s() if is_busy else self._pause_to_tick(ended_s)
            await asyncio.sleep(pause_s)
            # A tick keeps the loop itself, from all that waits for it.
            self._ports.telemetry.ticked(max(ended_s - began_s, loop.time() - ended_s - pause_s))

    def _trimming_pause_s(self) -> float:
        """Seconds between two ticks while deleted batches are counted out: those that a read waits for are, whatever commits come."""
        is_awaited = any(view.is_trimming_awaited for view in self.replicas.loaded())
        return BUSY_TICK_S if is_awaited else max(BUSY_TICK_S, TRIM_BATCHES / self.workers.pace.batches_per_s)

    def _pause_to_tick(self, now_s: float) -> float:
        """Seconds from this time until the next tick that is not urgent."""
        return TICK_S - now_s % TICK_S if self.config.pauses.are_ticks_aligned else TICK_S

    def _note_round(self, loop: str) -> None:
        self.loop_rounds_s[loop] = asyncio.get_running_loop().time()

    def _watch_loading(self) -> None:
        """A partition that does not come to leading in time is refused for a while, so that another node may lead it."""
        if self._is_stopping or not self.is_joined:
            return
        now, refusals = asyncio.get_running_loop().time(), self.standing.refusals
        for partition in list(self._assigned_since):
            shard = self.replicas.shard(partition)
            if (shard is not None and shard.phase is State.LEADING) or refusals.includes(partition):
                self._assigned_since[partition] = now
            elif now - self._assigned_since[partition] > self.config.load_timeout_ms / 1000:
                self._assigned_since[partition] = now
                self._tasks.spawn(self._refuse_for_a_while(partition), f"refuse-{partition}")

    async def _refuse_for_a_while(self, partition: int) -> None:
        timeout_s = self.config.load_timeout_ms / 1000
        reason = f"metadata partition {partition} was assigned and did not come to leading in {timeout_s:g} s (load.timeout.ms)"
        self.standing.refusals.withhold(LOADING, reason, partition)
        await asyncio.sleep(self.context.rng.uniform(0.5, 1.0) * timeout_s)
        self.standing.refusals.release(LOADING, partition)
