"""Tells partition 0 in which data directory each replica of this node is (KIP-858, AssignReplicasToDirs).

It reports the difference between where the replicas are and what this node's replica of partition 0 has applied, so nothing
is forgotten in a restart and only the newest place of a replica is reported. A replica that moves is reported at its new place as soon as
its copy is written; the keeper of the directories hears when that is recorded. One whose directory failed before partition 0 knew that
it was there is LOST. Failed directories themselves are in the registration of the node; while partition 0 has not heard of one, and
this node leads replicas there, it may go on for `log.dir.failure.timeout.ms` only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, cast

from coordinator.core.commands import Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.directory.replica_dirs import ASSIGNMENTS_MAX, assigning, node_epoch
from coordinator.kafka.directory_ids import LOST
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import AssignedReplica, assign_outcomes, assign_request
from coordinator.runtime.directories.port import DirectoryStatus, ReplicaPlace
from coordinator.runtime.pauses import doubled
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.directories")

ASSIGN_TIMEOUT_MS = 5_000


class Directories(Protocol):
    """The part of the keeper of the data directories that is needed here."""

    def directories(self) -> list[DirectoryStatus]:
        """All data directories, online or not."""

    def places(self) -> list[ReplicaPlace]:
        """Where each replica is that has a home."""

    def assignment_recorded(self, partition: int, directory_id: bytes) -> None:
        """Partition 0 knows that the replica of a partition is in a directory."""

    def must_stop(self, reason: str) -> None:
        """The node cannot go on with its directories as they are."""


class LogDirs(NamedTuple):
    """The directories of a node as its registration has them."""

    online: tuple[bytes, ...] = ()
    is_any_offline: bool = False


def log_dirs(directories: Sequence[DirectoryStatus]) -> LogDirs:
    """Return what the registration says of directories."""
    online = sorted(one.directory_id for one in directories if one.offline_reason is None)
    return LogDirs(tuple(online), len(online) < len(directories))


class DirectoryReports:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        incarnation_id: bytes,
        topic_id: Callable[[], bytes | None],
        directories: Directories,
        failure_timeout_ms: int,
    ) -> None:
        """`topic_id` is that of the metadata topic, None while it is not known."""
        self._node_id = context.node_id
        self._incarnation_id = incarnation_id
        self._topic_id = topic_id
        self._directories = directories
        self._replicas = context.replicas
        self._view = context.view
        self._context = context
        self._check_s = context.pauses.assignment_check_s
        self._retry_s = context.pauses.assignment_retry_s
        self._failure_timeout_s = failure_timeout_ms / 1000
        self._waiting_since_s: dict[int, float] = {}
        self._unreported_since_s: dict[bytes, float] = {}
        self._wake = asyncio.Event()
        self._failures = 0

    # ---- what others may ask

    def queued(self) -> dict[int, bytes]:
        """The directories of replicas, by metadata partition, that partition 0 has not recorded yet."""
        directory = self._view.directory
        known = {} if directory is None else directory.replica_dirs
        offline = {one.directory_id for one in self._directories.directories() if one.offline_reason is not None}
        queued = {}
        for place in self._directories.places():
            recorded = known.get((self._node_id, place.partition))
            wanted = _wanted(place, offline, recorded)
            if wanted != recorded:
                queued[place.partition] = wanted
        return queued

    def longest_wait_s(self) -> float:
        """How long the assignment has waited that waits longest; 0 when none waits."""
        return asyncio.get_running_loop().time() - min(self._waiting_since_s.values()) if self._waiting_since_s else 0.0

    # ---- telling

    def changed(self) -> None:
        """Replicas or directories are not as they were: look at them soon."""
        self._wake.set()

    async def keep(self) -> None:
        """Go on telling; never returns."""
        while True:
            self._wake.clear()
            pause_s = self._check_s
            try:
                if not await self.look():
                    least_s, longest_s = self._retry_s
                    pause_s = doubled(least_s, self._failures, longest_s) * self._context.rng.uniform(0.5, 1.0)
                    self._failures += 1
                    await asyncio.sleep(pause_s)  # what changes meanwhile does not make the leader answer
                    continue
            except Exception:
                LOG.exception("the report of replicas' directories failed; it is repeated")
            self._failures = 0
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def look(self) -> bool:
        """Tell what is new, as much as fits into one request; False when it was not heard."""
        queued = self.queued()
        self._note(queued)
        self._look_at_failures()
        if not queued or not self._is_registered():
            return True
        sent = dict(islice(queued.items(), ASSIGNMENTS_MAX))
        refused = await self._tell(sent)
        if refused is not None:
            LOG.info("directories of %d replicas are not recorded yet reason=%r", len(queued), refused)
            return False
        # Recorded; this node's replica of partition 0 reads that in a moment, and calls `changed`.
        return True

    def _note(self, queued: Mapping[int, bytes]) -> None:
        """Remember since when assignments wait, and tell the keeper of those that its moves wait for no more."""
        now_s = asyncio.get_running_loop().time()
        self._waiting_since_s = {one: self._waiting_since_s.get(one, now_s) for one in queued}
        for place in self._directories.places():
            if place.moving_to is not None and place.partition not in queued and place.moving_applied_offset >= 0:
                self._directories.assignment_recorded(place.partition, place.moving_to)

    def _is_registered(self) -> bool:
        directory = self._view.directory
        node = None if directory is None else directory.nodes.get(self._node_id)
        return node is not None and node.incarnation_id == self._incarnation_id

    async def _tell(self, replicas: Mapping[int, bytes]) -> str | None:
        """Tell the leader of partition 0; returns why it did not record that."""
        epoch = node_epoch(self._incarnation_id)
        if self._replicas.is_leading(DIRECTORY_PARTITION):
            command = assigning(self._node_id, epoch, ((directory_id, one) for one, directory_id in replicas.items()))
            outcome = cast(Outcome, await self._replicas[DIRECTORY_PARTITION].ask(command, ASSIGN_TIMEOUT_MS))
            return None if outcome.error is ErrorCode.NONE else f"{outcome.error.name}: {outcome.message}"
        leader, topic_id = self._view.leader(DIRECTORY_PARTITION), self._topic_id()
        if leader is None or topic_id is None:
            return "the leader of partition 0 is not known"
        request = assign_request(
            self._node_id, epoch, [AssignedReplica(directory_id, topic_id, one) for one, directory_id in replicas.items()]
        )
        try:
            error, told = assign_outcomes(await self._context.peers.call(leader.host, leader.port, request, ASSIGN_TIMEOUT_MS))
        except PeerUnavailable as unavailable:
            return f"node {leader.node_id} does not answer: {unavailable}"
        refusals = {code for code in (error, *told.values()) if code is not ErrorCode.NONE}
        return f"node {leader.node_id} says {', '.join(sorted(code.name for code in refusals))}" if refusals else None

    # ---- failed directories

    def _look_at_failures(self) -> None:
        """Stop the node when partition 0 has not heard for too long of a failed directory in which this node leads."""
        now_s = asyncio.get_running_loop().time()
        led = {place.directory_id for place in self._directories.places() if self._replicas.is_leading(place.partition)}
        unreported = {
            one.directory_id: one
            for one in self._directories.directories()
            if one.offline_reason is not None and one.directory_id in led and not self._is_reported(one.directory_id)
        }
        self._unreported_since_s = {one: self._unreported_since_s.get(one, now_s) for one in unreported}
        for directory_id, since_s in self._unreported_since_s.items():
            if now_s - since_s >= self._failure_timeout_s:
                one = unreported[directory_id]
                limit = f"log.dir.failure.timeout.ms ({self._failure_timeout_s:g} s)"
                self._directories.must_stop(
                    f"data directory {one.path} failed ({one.offline_reason}), and the leader of metadata partition 0 did not learn of it"
                    f" within {limit} while this node leads replicas there. Mend the directory, or take it out of data.dirs, and start the"
                    " node again"
                )

    def _is_reported(self, directory_id: bytes) -> bool:
        """Whether partition 0 knows that a directory of this process is not online."""
        directory = self._view.directory
        node = None if directory is None else directory.nodes.get(self._node_id)
        return node is not None and node.incarnation_id == self._incarnation_id and directory_id not in node.log_dirs


def _wanted(place: ReplicaPlace, offline: set[bytes], recorded: bytes | None) -> bytes:
    """Return what partition 0 is to record of a replica."""
    if place.moving_to is not None and place.moving_applied_offset >= 0:
        return place.moving_to
    if place.directory_id in offline and place.directory_id != recorded:
        return LOST
    return place.directory_id
