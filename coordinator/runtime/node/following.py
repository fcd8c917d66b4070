"""Which coordinators this node follows, and when it begins and ends to.

A node follows the directory, what the group lets it lead or tells it to follow, and what it leads until it has read the claim of
another one. Of partitions that moved to these it follows the coordinators that have their older batches, too: it knows by them which files
were committed there, and serves readers. It begins at once with what it may lead, and with the others a few at a time, so that commits do
not wait for replicas that warm up.
A replica that no assignment wants any longer is let go of. Its state database stays on disk as a *spare*, with which the node begins where
it ended, after the same proof as at a start. Spares take a share of each disk at most; the one let go of first is removed first.
A replica that has failed stays, because the node refuses to lead for its sake, and so does one that is being made anew or moved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.leadership.states import State
from coordinator.core.state.damage import StateFailed
from coordinator.runtime.directories.keeper import DirectoryKeeper
from coordinator.runtime.node.repairs import ReplicaRepairs
from coordinator.runtime.node.standing import GroupStanding
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.node")

WARM_UPS_BUSY, WARM_UPS_IDLE = 2, 8
"""Replicas that warm up at a time on a node that leads something, and on one that does not."""

SPARES_LOOK_S = 1.0
TERMS = frozenset({State.FENCING, State.LEADING, State.RESIGNING})
"""States of a replica that leads, or whose claim is on its way."""


class Following:
    """See the module's text; one per node. `look` is called with each assignment and at each tick."""

    def __init__(
        self,
        context: NodeContext,
        *,
        standing: GroupStanding,
        directories: DirectoryKeeper,
        repairs: ReplicaRepairs,
        begin: Callable[[int], None],
        spare_percent_max: int,
    ) -> None:
        """`begin` makes the replica of a partition and loads it in a task of its own."""
        self._replicas = context.replicas
        self._view = context.view
        self._standing = standing
        self._directories = directories
        self._repairs = repairs
        self._begin = begin
        self._spare_percent_max = spare_percent_max
        self._leaving: set[int] = set()
        """Partitions whose replica is being closed, or whose spare is being removed: nothing may open the database."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._spares_due_s = 0.0
        self.has_warmed_up = False
        """Whether everything that this node was to follow was warm at one time since the process started."""

    def stop(self) -> None:
        """Begin with no replica and let go of none from now on: the process ends."""
        self._is_stopping = True

    async def close(self) -> None:
        """Wait until every replica that was let go of is closed."""
        await asyncio.gather(*self._tasks)

    def look(self) -> None:
        """Begin with the replicas that are wanted, as many as may warm up, and let go of those that are not."""
        if self._is_stopping or not self._standing.is_told:
            return
        told = self._standing.wanted | {DIRECTORY_PARTITION}
        wanted = told | self._view.earlier_coordinators(told)
        for replica in self._replicas.followed():
            if replica.partition not in wanted and self._may_go(replica):
                self._let_go(replica)
        self._look_at_spares()
        missing = [one for one in wanted if self._replicas.exists(one) and not self._replicas.follows(one) and one not in self._leaving]
        urgent = self._standing.assignment
        self.has_warmed_up |= not missing and not self.warming()
        room = self._room() if missing else 0
        for partition in sorted(missing, key=lambda one: (one not in urgent, one)):
            if partition in urgent:
                self._begin(partition)
            elif room > 0:
                self._begin(partition)
                room -= 1

    def warming(self) -> list[int]:
        """The replicas that are loaded or read on until they are warm."""
        return [one.partition for one in self._replicas.followed() if not one.is_warm and one.failure is None]

    def _room(self) -> int:
        """How many more replicas may warm up now; one that waits for Kafka takes no room."""
        at_a_time = WARM_UPS_BUSY if self._replicas.led() else WARM_UPS_IDLE
        return at_a_time - sum(not self._repairs.is_waiting(one) for one in self.warming())

    def _may_go(self, replica: Replica) -> bool:
        partition, view = replica.partition, replica.view
        if replica.failure is not None or self._repairs.is_under_way(partition) or self._directories.move_step(partition) is not None:
            return False
        return view is None or view.phase not in TERMS

    def _let_go(self, replica: Replica) -> None:
        partition = replica.partition
        LOG.info("replica is let go partition=%d", partition)
        self._replicas.unfollow(partition)
        self._leaving.add(partition)
        self._run(self._leave(replica), f"let-go-{partition}")

    def _run(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run a task that the end of the node waits for instead of cancelling it: databases are to be closed."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _leave(self, replica: Replica) -> None:
        partition = replica.partition
        try:
            if self._directories.is_homeless(partition):
                await replica.abandon()
            else:
                await replica.close()
            self._directories.retire(partition)
        except Exception:
            LOG.exception("replica was not closed cleanly partition=%d", partition)
        finally:
            self._leaving.discard(partition)

    def _look_at_spares(self) -> None:
        """Remove the spares that take too much room, from time to time."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._spares_due_s:
            return
        self._spares_due_s = now_s + SPARES_LOOK_S
        for partition in self._directories.spares_beyond(self._spare_percent_max):
            if partition not in self._leaving:
                self._leaving.add(partition)
                self._run(self._remove_spare(partition), f"spare-{partition}")

    async def _remove_spare(self, partition: int) -> None:
        try:
            await self._directories.remove_spare(partition)
        except StateFailed as failed:
            LOG.warning("a spare state database stays partition=%d reason=%r", partition, str(failed))
        finally:
            self._leaving.discard(partition)
