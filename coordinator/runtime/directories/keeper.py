"""The data directories of a running node: which are online, which replica lives where, and which directory has failed.

A directory fails when a probe of it fails, every second or after a replica had trouble there: it is lost, read-only, full or broken.
Trouble with one file alone is none of the directory, unless it comes back although the file was made anew. A directory that hangs has
not failed. One that failed stays offline until the process starts again; its replicas get a home in another one, and without another
one the process ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from coordinator.config.directories import OfflineDirectory
from coordinator.config.disk import megabytes
from coordinator.core.state.damage import DirectoryFailed, DiskFull, StateBusy, StateFailed
from coordinator.kafka.directory_ids import LOST
from coordinator.runtime.directories.homes import Homes
from coordinator.runtime.directories.moving import ReplicaMove
from coordinator.runtime.directories.port import (
    DirectoryStatus,
    DirectoryUse,
    MoveRefused,
    OpenDirectories,
    ReplicaPlace,
    StateDirectory,
)
from coordinator.runtime.failures import FatalError
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.threads import in_thread

LOG = logging.getLogger("coordinator.directories")

CONFIRM_BYTES = 8 << 20
"""After trouble so much has to be free besides what did not fit: the pages of a database, their write-ahead log and its index."""
DOUBTS_MAX = 3
DOUBTS_FORGOTTEN_S = 120.0
"""Trouble of one replica that probes do not confirm: so much of it in such a time still counts as a failure of the directory."""


class DirectoryKeeper:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        open_directories: Callable[[str], OpenDirectories],
        writer: Executor,
        on_failed: Callable[[list[int], str], None],
        on_move: Callable[[ReplicaMove], None],
        on_fatal: Callable[[FatalError], None],
    ) -> None:
        """`on_failed` gets the replicas that have lost their home, with the reason: they are to be rebuilt in another one.

        `on_move` performs a move and calls `moved` in the end.
        """
        self.on_changed: Callable[[], None] = lambda: None
        """Called when a directory went offline, a replica got another home, or a move has got on."""
        self._replicas = context.replicas
        self._open_directories = open_directories
        self._writer = writer
        self._pauses = context.pauses
        self._spawn = context.spawn
        self._on_failed = on_failed
        self._on_move = on_move
        self._on_fatal = on_fatal
        self._moves: dict[int, ReplicaMove] = {}
        self._homes = Homes(())
        self._all: list[StateDirectory] = []
        self._uses: dict[bytes, DirectoryUse] = {}
        self._reasons: dict[bytes, str] = {}
        self._found_offline: list[OfflineDirectory] = []
        self._doubts: dict[int, list[float]] = {}

    # ---- what others may ask

    def directories(self) -> list[DirectoryStatus]:
        """All data directories, online or not."""
        found = []
        for one in self._all:
            use = self._uses.get(one.directory_id)
            sizes = (-1, -1) if use is None else (use.total_bytes, use.free_bytes)
            found.append(DirectoryStatus(one.directory_id, one.path, self._reasons.get(one.directory_id), *sizes))
        return found + [DirectoryStatus(LOST, str(one.path), f"{one.reason}; {one.remedy}", -1, -1) for one in self._found_offline]

    def places(self) -> list[ReplicaPlace]:
        """Where each replica is that has a home."""
        return [place for one in self._replicas.followed() if (place := self._place(one.partition)) is not None]

    def _place(self, partition: int) -> ReplicaPlace | None:
        home = self._homes.known(partition)
        if home is None:
            return None
        view, size_bytes = self._replicas[partition].view, self._size_of(home, partition)
        applied_offset = -1 if view is None else view.applied_offset
        move = self._moves.get(partition)
        moving = (None, -1) if move is None else (move.target.directory_id, move.copied_offset)
        return ReplicaPlace(partition, home.directory_id, size_bytes, applied_offset, *moving)

    def move_step(self, partition: int) -> str | None:
        """The step of a replica's move that is under way; None while it does not move."""
        move = self._moves.get(partition)
        return None if move is None else move.step

    # ---- what others order

    def move(self, partition: int, path: str) -> None:
        """Begin to move a replica into another data directory. Raises `MoveRefused`."""
        target = next((one for one in self._all if one.path == path), None)
        refusal = self._why_not(partition, target)
        source = self._homes.known(partition)
        if refusal is not None or target is None or source is None:
            raise MoveRefused(f"coordinator {partition} is not moved to {path}: {refusal}")
        move = self._moves[partition] = ReplicaMove(partition=partition, source=source, target=target, on_step=lambda: self.on_changed())
        LOG.info("replica moves partition=%d from=%s to=%s", partition, source.path, path)
        self._on_move(move)
        self.on_changed()

    def _why_not(self, partition: int, target: StateDirectory | None) -> str | None:
        """Why a replica cannot be moved, and the remedy; None when it can."""
        replica, source = self._replicas.get(partition), self._homes.known(partition)
        online = ", ".join(one.path for one in self._homes.online)
        if target is None:
            return f"that is no directory of data.dirs; those that are online: {online}"
        if target not in self._homes.online:
            return f"it is offline ({self._reasons.get(target.directory_id)}); those that are online: {online}"
        if replica is None or source is None or replica.view is None or replica.failure is not None:
            return "its replica is not loaded; wait until /ready lists it neither as loading nor as failed"
        if replica.writer.written_offset < 0:
            return "nothing of it is written yet; try again in some seconds"
        if partition in self._moves:
            return f"it is being moved to {self._moves[partition].target.path}; wait for the end of that"
        if source is target:
            return "it is there"
        size_bytes = self._size_of(source, partition)
        room = self._uses.get(target.directory_id)
        if room is not None and room.free_bytes < size_bytes + CONFIRM_BYTES:
            free = f"{megabytes(room.free_bytes)} are free"
            return f"{free}, its database and some room take {megabytes(size_bytes + CONFIRM_BYTES)}; make room there"
        return None

    def _size_of(self, directory: StateDirectory, partition: int) -> int:
        use = self._uses.get(directory.directory_id)
        return -1 if use is None else use.size_bytes.get(partition, -1)

    def assignment_recorded(self, partition: int, directory_id: bytes) -> None:
        """Partition 0 knows that the replica of a partition is in a directory."""
        move = self._moves.get(partition)
        if move is not None and move.target.directory_id == directory_id:
            move.recorded()

    def may_switch(self, move: ReplicaMove) -> bool:
        """Whether both directories of a move are still in use."""
        return move.source in self._homes.online and move.target in self._homes.online

    def switched(self, move: ReplicaMove) -> None:
        """The replica of a move is at home in the other directory from now on, and is to be opened there."""
        self._homes.move(move.partition, move.target)

    def moved(self, move: ReplicaMove) -> None:
        """A move has come to its end, successful or not."""
        self._moves.pop(move.partition, None)
        self.on_changed()

    def must_stop(self, reason: str) -> None:
        """The node cannot go on with its directories as they are: end the process."""
        self._on_fatal(FatalError(reason, may_hand_over=True))

    # ---- homes

    async def open(self, cluster_id: str, topic_id: bytes) -> None:
        """Open the data directories and find the databases in them. Raises `FatalError`."""
        opened = await in_thread(self._writer, partial(self._open_directories, cluster_id))
        self._found_offline = list(opened.offline)
        self._all = list(opened.online)
        for one in opened.offline:
            LOG.error("data directory is offline path=%s reason=%r remedy=%r", one.path, one.reason, one.remedy)
        self._homes = Homes(self._all)
        for directory in self._all:
            try:
                async with asyncio.timeout(self._pauses.directory_patience_s):
                    self._uses[directory.directory_id] = await directory.probe()
            except DirectoryFailed as failed:
                self.take_offline(directory, str(failed))
            except TimeoutError:
                LOG.warning("data directory is slow path=%s", directory.path)
        for directory, failure in await self._find_homes(cluster_id, topic_id):
            self.take_offline(directory, str(failure))
        if not self._homes.online:
            raise FatalError(self._nothing_left())
        for directory in self._homes.online:
            self._spawn(self._watch(directory), f"directory-{directory.path}")

    async def _find_homes(self, cluster_id: str, topic_id: bytes) -> list[tuple[StateDirectory, DirectoryFailed]]:
        """Look for the databases of a log, again while another connection has locked one of several. Raises `StateFailed`."""
        while True:
            try:
                return await in_thread(self._writer, partial(self._homes.find, cluster_id, topic_id))
            except StateBusy as busy:
                LOG.warning("the start waits for the end of a lock reason=%r", str(busy))
            await asyncio.sleep(self._pauses.directory_probe_s)

    def home(self, partition: int) -> StateDirectory:
        """The directory in which the state database of a replica is, or is to be made."""
        return self._homes.home(partition)

    def found(self) -> list[int]:
        """The partitions whose state databases were found at the start."""
        return self._homes.found()

    def retire(self, partition: int) -> None:
        """The replica of a partition is closed and not needed any more: its database is a spare."""
        self._homes.retire(partition)
        self._doubts.pop(partition, None)
        self.on_changed()

    def spares(self) -> dict[int, int]:
        """The sizes in bytes of the state databases that no replica uses, by partition; 0 while one is not known."""
        return {partition: max(0, self._size_of(directory, partition)) for partition, directory in self._homes.spares().items()}

    def spares_beyond(self, percent: int) -> list[int]:
        """The spares to remove so that those of each disk take at most so much of it, and leave as much free; the oldest come first."""
        beyond: list[int] = []
        sizes, homes = self.spares(), self._homes.spares()
        for directory in self._homes.online:
            here = [partition for partition, home in homes.items() if home is directory]
            use = self._uses.get(directory.directory_id)
            if not percent:
                beyond += here
            elif here and use is not None:
                share = use.total_bytes * percent // 100
                over = max(sum(sizes[one] for one in here) - share, share - use.free_bytes)
                while here and over > 0:
                    over -= sizes[here[0]]
                    beyond.append(here.pop(0))
        return beyond

    async def remove_spare(self, partition: int) -> None:
        """Remove a spare. Raises `StateFailed`."""
        directory = self._homes.spares().get(partition)
        if directory is not None:
            await in_thread(self._writer, partial(directory.remove, partition))
            self._homes.removed(partition, directory)
            LOG.info("spare state database removed partition=%d path=%s", partition, directory.path)

    async def loaded(self, partition: int) -> None:
        """A replica is loaded: its home holds what can be used, databases of it in other directories go."""
        for directory in self._homes.superfluous(partition):
            try:
                await in_thread(self._writer, partial(directory.remove, partition))
            except StateFailed as failed:
                LOG.warning("a further state database stays partition=%d path=%s reason=%r", partition, directory.path, str(failed))
                continue
            self._homes.removed(partition, directory)
            LOG.info("further state database removed partition=%d path=%s", partition, directory.path)

    @property
    def has_online(self) -> bool:
        """Whether there is a directory left."""
        return bool(self._homes.online)

    def is_homeless(self, partition: int) -> bool:
        """Whether the directory of a replica is offline."""
        home = self._homes.known(partition)
        return home is not None and home not in self._homes.online

    # ---- failures

    async def has_failed(self, partition: int, trouble: StateFailed) -> bool:
        """Whether the home of a replica that had trouble is offline, or is so now because the trouble is the directory's."""
        home = self._homes.known(partition)
        if home is None or self.is_homeless(partition):
            return True
        if not isinstance(trouble, DirectoryFailed):
            return False
        wanted_bytes = trouble.wanted_bytes if isinstance(trouble, DiskFull) else 0
        try:
            async with asyncio.timeout(self._pauses.directory_patience_s):
                self._uses[home.directory_id] = await home.probe(CONFIRM_BYTES + wanted_bytes)
        except DirectoryFailed as failed:
            self.take_offline(home, f"{failed} (coordinator {partition}: {trouble})")
        except TimeoutError:
            LOG.warning("data directory is slow path=%s trouble=%r", home.path, str(trouble))
        else:
            self._doubt(partition, home, trouble)
        return home not in self._homes.online

    def _doubt(self, partition: int, home: StateDirectory, trouble: StateFailed) -> None:
        now_s = asyncio.get_running_loop().time()
        doubts = [then_s for then_s in self._doubts.get(partition, ()) if now_s - then_s < DOUBTS_FORGOTTEN_S]
        self._doubts[partition] = [*doubts, now_s]
        if len(doubts) + 1 >= DOUBTS_MAX:
            self.take_offline(home, f"{trouble} (coordinator {partition}, {DOUBTS_MAX} times in a row)")

    async def _watch(self, directory: StateDirectory) -> None:
        """Probe a directory until it fails, so that one with idle replicas is found as well."""
        while directory in self._homes.online:
            await asyncio.sleep(self._pauses.directory_probe_s)
            try:
                self._uses[directory.directory_id] = await directory.probe()
            except DirectoryFailed as failed:
                self.take_offline(directory, str(failed))

    def take_offline(self, directory: StateDirectory, reason: str) -> None:
        """A directory is offline until the process starts again."""
        if directory not in self._homes.online:
            return
        LOG.error("data directory failed path=%s reason=%r", directory.path, reason)
        self._reasons[directory.directory_id] = reason
        self._homes.take_away(directory)
        if not self._homes.online:
            self._on_fatal(FatalError(self._nothing_left(), may_hand_over=True))
        else:
            self._on_failed(self._homes.living_in(directory), reason)
        self.on_changed()

    def leave(self, partition: int) -> None:
        """The replica of a partition is closed and gets another home."""
        self._homes.leave(partition)
        self._doubts.pop(partition, None)

    def _nothing_left(self) -> str:
        told = "; ".join(f"{one.path}: {one.offline_reason}" for one in self.directories())
        remedy = "What is in them is a cache: mend one, or name another in data.dirs, and start the node again"
        return f"no data directory can be used any more: {told}. {remedy}"
