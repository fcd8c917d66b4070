"""Replicas that are made anew: in their data directory after a failure, in another one when it has failed, or because they move.

A failed replica is rebuilt from a snapshot or the log, and its database is kept as evidence. One that failed because the log lost entries
or could not be read gets all that was applied into its database and is loaded again: the proof against the log decides, as after a restart
of the process. A database that was full or locked is loaded again as it is. A replica that is behind the start of its log while no
snapshot is good is loaded again and again, more and more slowly: one may come back.
One task at a time makes the replica of a partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from coordinator.core.state.damage import StateFailed
from coordinator.runtime.directories.keeper import DirectoryKeeper
from coordinator.runtime.directories.moving import ReplicaMove
from coordinator.runtime.failures import FatalError
from coordinator.runtime.node.config import NodeConfig, NodePorts
from coordinator.runtime.node.metadata_topic import MetadataTopic
from coordinator.runtime.node.refusals import DIRECTORY, LeadRefusals
from coordinator.runtime.pauses import doubled
from coordinator.runtime.ports import TopicFacts
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.node")

RESIGN_POLL_S = 0.01
DIRECTORY_RETRY_S = 15.0
"""To look whether a data directory can be used again costs nothing, and an operator who made room on its disk waits for it."""
REVIVALS_FORGOTTEN_S = 1_200.0
"""A replica that lived for so long fails for a new reason: it does not wait because of the old one."""


class ReplicaRepairs:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        config: NodeConfig,
        ports: NodePorts,
        topic: MetadataTopic,
        refusals: LeadRefusals,
        directories: DirectoryKeeper,
        make: Callable[[int, TopicFacts], Replica],
        load: Callable[[Replica], Awaitable[None]],
    ) -> None:
        """`make` makes a replica in the data directory that is its home; `load` loads it as soon as Kafka answers."""
        self._config = config
        self._ports = ports
        self._replicas = context.replicas
        self._topic = topic
        self._refusals = refusals
        self._directories = directories
        self._make = make
        self._load = load
        self._spawn = context.spawn
        self._under_way: set[int] = set()
        self._waiting: set[int] = set()
        self._revivals: dict[int, tuple[int, float]] = {}
        self._is_stopping = False

    def stop(self) -> None:
        """Make no replica anew from now on: the process ends."""
        self._is_stopping = True

    @contextmanager
    def loading(self, partition: int) -> Iterator[None]:
        """The block loads the replica of a partition, which is not made anew meanwhile, but if need be afterwards."""
        self._under_way.add(partition)
        try:
            yield
        except StateFailed as failed:
            self._unusable(self._replicas[partition], failed)
        finally:
            self._under_way.discard(partition)
        self.begin_if_due(partition)

    @contextmanager
    def waiting(self, partition: int) -> Iterator[None]:
        """The block waits before it tries again to load the replica of a partition."""
        self._waiting.add(partition)
        try:
            yield
        finally:
            self._waiting.discard(partition)

    def is_under_way(self, partition: int) -> bool:
        """Whether the replica of a partition is being loaded or made anew."""
        return partition in self._under_way

    def is_waiting(self, partition: int) -> bool:
        """Whether the loading of a replica waits for something outside this node."""
        return partition in self._waiting

    def begin_if_due(self, partition: int) -> None:
        """Make a replica anew whose loading had trouble, whose directory has failed meanwhile, or which no snapshot could be found for."""
        if self._replicas[partition].trouble is not None or self._is_unfinished(partition):
            self.begin(partition)

    def _is_unfinished(self, partition: int) -> bool:
        return self._directories.is_homeless(partition) or self._replicas[partition].is_behind_log_start

    def begin(self, partition: int) -> None:
        """Make a replica anew, unless that is under way."""
        if partition not in self._under_way and not self._is_stopping:
            self._under_way.add(partition)
            self._spawn(self._rebuild(partition), f"rebuild-{partition}")

    async def _rebuild(self, partition: int) -> None:
        """Make a replica anew until it is loaded, or cannot be whatever comes, and has a home that is online.

        In the same directory each time after a longer wait: from the log, keeping the old database as evidence, or by loading it again.
        """
        is_done = False
        while not is_done:
            former = self._replicas[partition]
            is_homeless = await self._is_homeless(former)
            if is_homeless:
                await self.resign(former)
            else:
                if former.trouble is not None:
                    former.invalidate(str(former.trouble))
                await self._topic.is_there()
                await asyncio.sleep(self._pause_before_revival(partition))
            facts = self._topic.facts
            if facts is None:
                break
            try:
                if is_homeless or self._directories.is_homeless(partition):
                    await former.abandon()
                    replica = self.at_another_home(former)
                else:
                    await former.close(keep_evidence=not former.is_state_sound)
                    replica = self._replicas.follow(self._make(partition, facts))
                await self._load(replica)
            except StateFailed as failed:
                self._unusable(self._replicas[partition], failed)
            else:
                is_done = not self._is_unfinished(partition)
        self._under_way.discard(partition)
        self._refusals.release(DIRECTORY, partition)

    async def move(self, move: ReplicaMove) -> None:
        """Move a replica into another data directory; whatever fails leaves it in one of the two."""
        started = asyncio.get_running_loop().time()
        try:
            await move.copy(self._replicas[move.partition], self._ports.background, self._ports.rest)
            move.begin("assign")
            await move.wait_recorded(self._config.log_dir_failure_timeout_ms / 1000)
            closed = asyncio.get_running_loop().time()
            if await self._switch(move):
                now = asyncio.get_running_loop().time()
                LOG.info(
                    "replica moved partition=%d path=%s seconds=%.3f closed_seconds=%.3f",
                    move.partition, move.target.path, now - started, now - closed,
                )  # fmt: skip
        except StateFailed as failed:
            LOG.error("replica is not moved partition=%d path=%s reason=%r", move.partition, move.target.path, str(failed))
        finally:
            self._directories.moved(move)
        await move.tidy(self._ports.writer)

    async def _switch(self, move: ReplicaMove) -> bool:
        """Close a replica and open it in the other directory; False when it is being made anew, or a directory has failed meanwhile."""
        partition, facts = move.partition, self._topic.facts
        if partition in self._under_way or self._is_stopping or facts is None or not self._directories.may_switch(move):
            LOG.warning("replica is not moved, it is being made anew partition=%d", partition)
            return False
        is_adopted = False
        with self.loading(partition):
            move.begin("close")
            await self._replicas[partition].close()
            move.begin("adopt")
            is_adopted = await move.adopt(self._ports.writer)
            if is_adopted:
                self._directories.switched(move)
            replica = self._replicas.follow(self._make(partition, facts))
            move.begin("load")
            await self._load(replica)
        return is_adopted

    async def _is_homeless(self, replica: Replica) -> bool:
        """Whether the directory of a replica has failed, which its trouble may be the first sign of."""
        if replica.trouble is None:
            return self._directories.is_homeless(replica.partition)
        return await self._directories.has_failed(replica.partition, replica.trouble)

    async def resign(self, replica: Replica) -> None:
        """Lead on without a database until another node has claimed, and not for long."""
        if replica.view is None or not replica.view.is_leading:
            return
        replica.writer.suspend()
        partition = replica.partition
        self._refusals.withhold(DIRECTORY, f"the data directory of metadata partition {partition} has failed", partition)
        replica.stop_leading()
        deadline = asyncio.get_running_loop().time() + self._config.shutdown_timeout_ms / 1000
        # Leadership ends inside the shard, which knows no events to wait for.
        while self._leads(replica) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(RESIGN_POLL_S)

    @staticmethod
    def _leads(replica: Replica) -> bool:
        return replica.view is not None and replica.view.is_leading

    def at_another_home(self, former: Replica) -> Replica:
        """Put a replica in the place of one whose directory has failed. Raises `FatalError` when there is no other directory."""
        facts = self._topic.facts
        assert facts is not None, "a replica was made of the topic's facts"
        if not self._directories.has_online:
            raise FatalError(str(former.trouble or former.failures.last_reason))
        self._directories.leave(former.partition)
        replica = self._replicas.follow(self._make(former.partition, facts))
        return replica

    def _pause_before_revival(self, partition: int) -> float:
        tries, then_s = self._revivals.get(partition, (0, 0.0))
        now_s = asyncio.get_running_loop().time()
        tries = tries if now_s - then_s < REVIVALS_FORGOTTEN_S else 0
        self._revivals[partition] = (tries + 1, now_s)
        first_s, longest_s = self._config.pauses.revive_s
        if self._replicas[partition].trouble is not None and self._replicas[partition].unloadable is not None:
            longest_s = DIRECTORY_RETRY_S
        return doubled(first_s, tries, longest_s)

    def _unusable(self, replica: Replica, failed: StateFailed) -> None:
        LOG.error("replica has no usable state database partition=%d reason=%r", replica.partition, str(failed))
        replica.failures.failed(str(failed))
        replica.unloadable = str(failed)
        replica.trouble = failed
