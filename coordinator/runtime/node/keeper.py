"""The replicas of a node: made and loaded. `following` says when, and lets go of them; `repairs` makes those anew that failed.

Each partition is loaded by itself: one whose broker does not answer is tried again for as long as it takes, while the others serve.
One that this version cannot lead (its log lost entries, a newer version wrote it) stays as it is; `LeadRefusals` hears of it. So it does
of one that is behind the start of its log while no snapshot is good, which is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.events import Contradicted
from coordinator.core.limits import MESSAGE_BYTES_MAX, entry_bytes_max
from coordinator.core.state.damage import DirectoryFailed, StateBusy, StateFailed
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.runtime.directories.keeper import DirectoryKeeper
from coordinator.runtime.failures import FailureLog, FatalError
from coordinator.runtime.loading.opening import BehindLogStart, ReplicaUnloadable, StateLoader
from coordinator.runtime.loading.restored import RestoreUnfinished
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.following import Following
from coordinator.runtime.node.metadata_topic import MetadataTopic
from coordinator.runtime.node.refusals import UNLOADABLE, UNSUPPORTED
from coordinator.runtime.node.repairs import ReplicaRepairs
from coordinator.runtime.node.standing import GroupStanding
from coordinator.runtime.pauses import doubled
from coordinator.runtime.ports import (
    ClusterRefused,
    KafkaUnavailable,
    LogBroken,
    LogEntry,
    LogReader,
    PeerAddress,
    SnapshotStoreFailed,
    TermProducers,
    TopicFacts,
    TopicMissing,
)
from coordinator.runtime.replica.hooks import ReplicaHooks
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.replica.state_writer import Marked
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts, ReplicaRules
from coordinator.runtime.routing.context import NodeContext
from records.model import LeadershipClaimed

LOG = logging.getLogger("coordinator.node")


class ReplicaKeeper:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        config: NodeConfig,
        ports: NodePorts,
        topic: MetadataTopic,
        standing: GroupStanding,
        on_loaded: Callable[[Replica], None],
        on_directory_changed: Callable[[], None],
        on_contradicted: Callable[[int, Contradicted, LeadershipClaimed | None], None],
        on_marked: Callable[[int, Marked], None],
        log_ahead_ms: Callable[[int], int],
        on_fatal: Callable[[FatalError], None],
    ) -> None:
        """`on_loaded` is called for each replica that is loaded; the other functions are as in `ReplicaHooks` and `ReplicaPorts`."""
        self.failures: dict[int, FailureLog] = {}
        """The failures of each metadata partition since the process started."""
        self.directories = DirectoryKeeper(
            context,
            open_directories=ports.open_directories,
            writer=ports.writer,
            on_failed=self._homes_lost,
            on_move=lambda move: self._spawn(self._repairs.move(move), f"move-{move.partition}"),
            on_fatal=on_fatal,
        )
        self._repairs = ReplicaRepairs(
            context,
            config=config,
            ports=ports,
            topic=topic,
            refusals=standing.refusals,
            directories=self.directories,
            make=self._new_replica,
            load=self._load,
        )
        self.following = Following(
            context,
            standing=standing,
            directories=self.directories,
            repairs=self._repairs,
            begin=self._begin,
            spare_percent_max=config.spare_percent_max,
        )
        self._hooks = ReplicaHooks(
            on_directory_changed=on_directory_changed,
            on_state_changed=standing.tell,
            on_failed=self._replica_failed,
            on_directory_failed=self._repairs.begin,
            on_contradicted=on_contradicted,
            on_marked=on_marked,
        )
        self._context = context
        self._config = config
        self._ports = ports
        self._topic = topic
        self._replicas = context.replicas
        self._standing = standing
        self._refusals = standing.refusals
        self._spawn = context.spawn
        self._on_loaded = on_loaded
        self._log_ahead_ms = log_ahead_ms
        self._reader: LogReader | None = None
        self._producers: TermProducers | None = None
        self._generations = count(1)
        self._is_open = False
        self._without_snapshot: Counter[int] = Counter()
        """Attempts to load a partition that failed for want of a snapshot, since it was loaded last."""

    async def open(self, facts: TopicFacts) -> None:
        """Make and load the replicas of the directory and of what is on disk; those that Kafka gave no answer for are loaded later.

        Not so the directory, without which nothing can be answered. Raises `FatalError`, `ClusterRefused`.
        """
        try:
            await self.directories.open(facts.cluster_id, facts.topic_id)
        except StateFailed as failed:
            raise FatalError(str(failed)) from failed
        if len(facts.partitions) > OWNERS_MAX:
            LOG.warning(
                "files may have batches of %d of the %d coordinators; uploaders must make several", OWNERS_MAX, len(facts.partitions)
            )
        self._producers = self._ports.open_producers(_message_bytes_max(facts))
        self._reader = self._ports.open_reader(self)
        self._replicas.count = len(facts.partitions)
        # What is on disk may be what the group wants this node to follow, which it only knows of replicas that are loaded.
        for partition in sorted({DIRECTORY_PARTITION, *filter(self._replicas.exists, self.directories.found())}):
            self._replicas.follow(self._new_replica(partition, facts))
        replicas = self._replicas.followed()
        try:
            tried = await asyncio.gather(*map(self._load_first, replicas))
            self._is_open = True
            loaded = {replica.partition: is_done for replica, is_done in zip(replicas, tried, strict=True)}
            for partition, is_done in loaded.items():
                if not is_done and partition != DIRECTORY_PARTITION:
                    self._spawn(self._load_later(self._replicas[partition]), f"load-{partition}")
            while not loaded[DIRECTORY_PARTITION]:
                await self._pause_before_loading(self._replicas[DIRECTORY_PARTITION])
                loaded[DIRECTORY_PARTITION] = await self._load_first(self._replicas[DIRECTORY_PARTITION])
        except StateFailed as failed:
            raise FatalError(str(failed)) from failed
        for partition, is_done in loaded.items():
            if is_done:
                self._repairs.begin_if_due(partition)

    async def grow(self, facts: TopicFacts) -> None:
        """Know of every partition of the topic. New ones take new placements only, nothing moves."""
        before, self._replicas.count = self._replicas.count, max(self._replicas.count, len(facts.partitions))
        if self._replicas.count == before:
            return
        for replica in self._replicas.followed():
            replica.grow(self._replicas.count)
        LOG.info("metadata topic has grown partitions=%d", len(facts.partitions))
        self._standing.grown()

    def _begin(self, partition: int) -> None:
        """Make a replica and load it while the others serve."""
        facts = self._topic.facts
        assert facts is not None, "replicas are followed after the topic is known"
        replica = self._replicas.follow(self._new_replica(partition, facts))
        self._spawn(self._load_later(replica, is_tried=False), f"load-{partition}")

    def stop(self) -> None:
        """Make no replica anew and let go of none from now on: the process ends."""
        self._repairs.stop()
        self.following.stop()

    async def close(self) -> None:
        """Close every replica."""
        await self.following.close()
        for replica in self._replicas.followed():
            await (replica.abandon() if self.directories.is_homeless(replica.partition) else replica.close())

    def deliver(self) -> None:
        """Take what the reader has read, of all replicas; called at every tick."""
        if self._reader is not None:
            self._reader.deliver()

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry], size_bytes: int) -> None:
        """Entries of the log, for one replica, which may have been let go of since they were read."""
        if (replica := self._replicas.get(partition)) is not None:
            replica.on_entries(generation, entries, size_bytes)

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None:
        """The log of one replica cannot be read on."""
        if (replica := self._replicas.get(partition)) is not None:
            replica.on_log_broken(generation, why, detail)

    def _rest(self) -> None:
        """Pause in long work of another thread, unless this node leads nothing: then no commit waits for the interpreter."""
        if self._replicas.led():
            self._ports.rest()

    def _peer_addresses(self, partition: int) -> tuple[list[PeerAddress], bool]:
        """The other nodes, of the settings and the directory; and whether a partition is to wait for no more of them."""
        view = self._context.view
        reached = ((one.node_id, view.node_endpoint(one.endpoints)) for one in self._context.other_nodes() if one.endpoints)
        known = [PeerAddress(node_id, endpoint.host, endpoint.port) for node_id, endpoint in reached]
        return [*self._config.snapshot_peers, *known], view.directory is not None or partition == DIRECTORY_PARTITION

    def _new_replica(self, partition: int, facts: TopicFacts) -> Replica:
        config = self._config
        identity = ReplicaIdentity(
            cluster_id=facts.cluster_id,
            topic_id=facts.topic_id,
            partition=partition,
            partition_count=len(facts.partitions),
            node_id=config.node_id,
            rack=config.rack,
            endpoints=config.endpoints,
        )
        rules = ReplicaRules(
            limits=replace(config.limits, entry_bytes_max=entry_bytes_max(_message_bytes_max(facts))),
            flush_interval_ms=config.flush_interval_ms,
            flush_batches_max=config.flush_batches_max,
            flush_backlog_max=config.flush_backlog_max,
            read_lag_max_s=config.files.read_lag_max_s,
            pauses=config.pauses,
        )
        ports, failures = self._ports_of(partition), self.failures.setdefault(partition, FailureLog())
        return Replica(
            identity=identity,
            rules=rules,
            ports=ports,
            hooks=self._hooks,
            loader=StateLoader(identity, ports, failures),
            failures=failures,
            next_generation=self._generations.__next__,
        )

    def _ports_of(self, partition: int) -> ReplicaPorts:
        if self._reader is None or self._producers is None:
            raise AssertionError("replicas need a reader and producers")
        ports, home = self._ports, self.directories.home(partition)
        return ReplicaPorts(
            topic=self._config.topic,
            loop=asyncio.get_running_loop(),
            clock_ms=self._context.clock_ms,
            log_ahead_ms=self._log_ahead_ms,
            rng=self._context.rng,
            reader=self._reader,
            producers=self._producers,
            membership=ports.membership,
            cluster=ports.cluster,
            stores=home.stores,
            snapshots=ports.snapshots,
            local_snapshots=home.snapshots(partition),
            peers=ports.peers,
            peer_addresses=partial(self._peer_addresses, partition),
            writer=ports.writer,
            rest=self._rest,
            on_writing=ports.on_writing,
            on_written=ports.on_written,
            telemetry=ports.telemetry,
        )

    async def _try_to_load(self, replica: Replica) -> bool:
        """Load a replica, or find that it cannot be; False when Kafka gave no answer, or another connection has locked its database.

        Raises `StateFailed` when its directory cannot be used, `ClusterRefused` at a start.
        """
        try:
            await replica.load()
        # A broker may hear of a new topic later than the one that described it.
        except (KafkaUnavailable, TopicMissing, SnapshotStoreFailed, RestoreUnfinished) as unavailable:
            if isinstance(unavailable, ClusterRefused) and not self._is_open:
                raise
            LOG.warning("replica cannot be loaded yet partition=%d error=%r", replica.partition, str(unavailable))
            self._without_snapshot[replica.partition] += isinstance(unavailable, SnapshotStoreFailed)
            return False
        except StateBusy:
            return False  # the replica has told the log
        except ReplicaUnloadable as unloadable:
            LOG.error("replica failed partition=%d reason=%r", replica.partition, str(unloadable))
            replica.unloadable, replica.is_behind_log_start = str(unloadable), isinstance(unloadable, BehindLogStart)
            replica.failures.failed(replica.unloadable)
            self._refusals.withhold(UNLOADABLE, replica.unloadable, replica.partition)
        else:
            del self._without_snapshot[replica.partition]
            self._refusals.release(UNLOADABLE, replica.partition)
            replica.grow(self._replicas.count)  # the topic may have grown meanwhile
            self._on_loaded(replica)
            self._spawn(self.directories.loaded(replica.partition), f"one-home-{replica.partition}")
        return True

    async def _load(self, replica: Replica) -> None:
        """Load a replica as soon as Kafka answers. Raises as `_try_to_load`."""
        if not await self._try_to_load(replica):
            await self._load_again(replica)

    async def _load_again(self, replica: Replica) -> None:
        """Load a replica for which Kafka gave no answer, or whose database is locked. Raises as `_try_to_load`."""
        is_done = False
        while not is_done:
            with self._repairs.waiting(replica.partition):
                await self._pause_before_loading(replica)
            is_done = await self._try_to_load(replica)

    async def _pause_before_loading(self, replica: Replica) -> None:
        """Let go of what a failed attempt to load has opened, and wait a while: longer and longer for a snapshot that cannot be had."""
        await replica.close()
        pauses, failures = self._config.pauses, self._without_snapshot[replica.partition]
        wait_s = self._context.rng.uniform(*pauses.kafka_retry_s)
        await asyncio.sleep(doubled(wait_s, failures, pauses.snapshot_retry_s) if failures else wait_s)
        replica.reopen()

    async def _load_first(self, replica: Replica) -> bool:
        """Load a replica at the start, in another directory if its home has failed; trouble that no probe confirms is tried again there.

        Such trouble ends, because the directory keeper counts it. Raises as `_try_to_load`.
        """
        while True:
            try:
                return await self._try_to_load(replica)
            except DirectoryFailed as failed:
                LOG.error("replica has no usable state database partition=%d reason=%r", replica.partition, str(failed))
                if not await self.directories.has_failed(replica.partition, failed):
                    await self._pause_before_loading(replica)
                    continue
                if not self.directories.has_online:
                    raise
                await replica.abandon()
                replica = self._repairs.at_another_home(replica)

    async def _load_later(self, replica: Replica, *, is_tried: bool = True) -> None:
        """Load a replica while the others serve; one whose directory cannot be used is tried again, too."""
        if self._replicas.get(replica.partition) is not replica:
            return  # let go of before its loading began
        with self._repairs.loading(replica.partition):
            await (self._load_again if is_tried else self._load)(replica)

    def _replica_failed(self, partition: int, reason: str) -> None:
        shard = self._replicas[partition].view
        if shard is not None and shard.is_unsupported:
            # The entry would stop a replica that is built anew; the database is right as far as it goes.
            self._refusals.withhold(UNSUPPORTED, f"metadata partition {partition}: {reason}", partition)
        else:
            self._repairs.begin(partition)

    def _homes_lost(self, partitions: list[int], reason: str) -> None:
        """The data directory of these replicas has failed."""
        LOG.error("replicas have lost their data directory partitions=%s reason=%r", ",".join(map(str, partitions)) or "none", reason)
        if self._is_open:
            for partition in filter(self._replicas.follows, partitions):
                self._repairs.begin(partition)


def _message_bytes_max(facts: TopicFacts) -> int:
    return int(facts.config.get("max.message.bytes", MESSAGE_BYTES_MAX))
