"""Moving a replica into another data directory while it goes on: copied, assigned, and opened there.

The copy is made of one write of the state database, pinned and read beside further ones. Once partition 0 knows the new directory, or
does not answer for long, the replica is closed and opened in it: what the copy lacks is read from the log. Until then, and after any
failure, the database in the former directory is the replica's; a process that ends in between finds one of the two, or both, of which
it uses the one that is further on.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from coordinator.core.state.damage import StateFailed
from coordinator.core.yielding import Rest
from coordinator.runtime.directories.port import StateDirectory
from coordinator.runtime.ports import LocalSnapshots
from coordinator.runtime.replica.replica import Replica

LOG = logging.getLogger("coordinator.directories")

STEPS = ("copy", "assign", "close", "adopt", "load")


class ReplicaMove:
    """The move of one replica."""

    def __init__(self, *, partition: int, source: StateDirectory, target: StateDirectory, on_step: Callable[[], None]) -> None:
        self.partition = partition
        self.source = source
        self.target = target
        self.step = STEPS[0]
        self.copied_offset = -1
        """How far the copy goes; -1 before it is written."""
        self._on_step = on_step
        self._recorded = asyncio.Event()

    def begin(self, step: str) -> None:
        """A step begins."""
        assert step in STEPS, step
        self.step = step
        self._on_step()

    def recorded(self) -> None:
        """Partition 0 knows the new directory."""
        self._recorded.set()

    async def copy(self, replica: Replica, background: Executor, rest: Rest) -> None:
        """Copy the state database, and the snapshots. Raises `StateFailed`; then the copy is not there."""
        pinned = await replica.pin()

        def build() -> None:
            try:
                self.target.build_copy(pinned.head, pinned.tables(rest), rest)
            finally:
                pinned.close()
            _copy_snapshots(self.source.snapshots(self.partition), self.target.snapshots(self.partition))

        await asyncio.get_running_loop().run_in_executor(background, build)
        self.copied_offset = pinned.header.applied_offset

    async def wait_recorded(self, timeout_s: float) -> None:
        """Wait until the assignment is recorded, and not for longer than a time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._recorded.wait()
        except TimeoutError:
            LOG.warning("the move of a replica is not recorded yet partition=%d path=%s", self.partition, self.target.path)

    async def adopt(self, writer: Executor) -> bool:
        """Give the copy its name, once the replica is closed; returns whether that succeeded."""
        try:
            await asyncio.get_running_loop().run_in_executor(writer, partial(self.target.adopt_copy, self.partition))
        except StateFailed as failed:
            LOG.error("the copy of a replica is of no use partition=%d path=%s reason=%r", self.partition, self.target.path, str(failed))
            return False
        return True

    async def tidy(self, writer: Executor) -> None:
        """Remove a copy that was not adopted."""
        try:
            await asyncio.get_running_loop().run_in_executor(writer, partial(self.target.remove_copy, self.partition))
        except StateFailed as failed:
            LOG.warning("an unused copy is left partition=%d path=%s reason=%r", self.partition, self.target.path, str(failed))


def _copy_snapshots(source: LocalSnapshots, target: LocalSnapshots) -> None:
    """Copy what snapshots there are; without them they are fetched again."""
    try:
        for snapshot_id in source.ids():
            shutil.copyfile(source.path(snapshot_id), target.part(snapshot_id))
            target.adopt(snapshot_id)
    except (OSError, StateFailed) as error:
        LOG.warning("a snapshot was not copied into another data directory error=%r", str(error))
