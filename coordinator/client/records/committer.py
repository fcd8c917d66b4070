"""Commits in the order of a producer: at most one file with unknown outcome for each user partition.

A file waits until every file submitted before it that shares a partition has ended, also when one in between was cancelled;
all others travel at the same time, pipelined over one connection to each node. Without order (`ordered=False`) nothing waits for anything.
Invariant: while the outcome of a file is unknown, no later file of its partitions is sent. If a file ends without
outcome, later files of its partitions are refused until it was submitted again, unchanged, and has one, or was abandoned.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, cast

import numpy as np

from coordinator.client.errors import InvalidRequest, ServiceError
from coordinator.client.model import CommitOutcome
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.commit_file import batch_rows
from coordinator.protocol.wire import UnencodableMessage

if TYPE_CHECKING:
    from coordinator.client.model import Batches


class EarlierOutcomeUnknown(ServiceError):
    """An earlier file of one of the partitions has no outcome yet; this file was not sent."""

    def __init__(self, object_key: str, unknown_key: str) -> None:
        remedy = "submit that file again, unchanged, or abandon it when it can no longer be accepted"
        super().__init__(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"file {object_key}: the outcome of earlier file {unknown_key} is unknown; {remedy}"
        )
        self.unknown_key = unknown_key


class CommitsFiles(Protocol):
    """The operation of the service that a committer needs; `DisklessClient` has it."""

    async def commit_file(
        self, object_key: str, file_size_bytes: int, batches: Batches, *, created_ms: int = -1, timeout_ms: int | None = None
    ) -> CommitOutcome:
        """Commit an uploaded file."""


class Committer:
    """Queues commits of one client. Used on one event loop; an async context manager that waits for submitted files."""

    def __init__(self, client: CommitsFiles, *, ordered: bool = True, in_flight_max: int = 64) -> None:
        """At most `in_flight_max` files are sent and not answered at any time."""
        self._client = client
        self._ordered = ordered
        self._slots = asyncio.Semaphore(in_flight_max)
        self._turns: dict[bytes, asyncio.Future[None]] = {}
        """For each partition a future that is done when its last submitted file and all before it have ended."""
        self._unknown: dict[bytes, str] = {}
        self._tasks: set[asyncio.Task[CommitOutcome]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            for task in self._tasks:
                task.cancel()
        await self.flush()

    def submit(
        self, object_key: str, file_size_bytes: int, batches: Batches, *, created_ms: int = -1, timeout_ms: int | None = None
    ) -> asyncio.Task[CommitOutcome]:
        """Queue a file behind the earlier ones of its partitions. The task raises what `commit_file` raises, EarlierOutcomeUnknown.

        `timeout_ms` counts from when the file's turn has come.
        """
        rows = batches if isinstance(batches, np.ndarray) else batch_rows(batches)
        keys = set(cast(list[bytes], rows["topic_partition"].tolist())) if self._ordered else set()
        earlier = {self._turns[key] for key in keys if key in self._turns}
        work = self._commit(object_key, file_size_bytes, rows, keys, earlier, created_ms, timeout_ms)
        loop = asyncio.get_running_loop()
        task, turn = loop.create_task(work, name=f"commit-{object_key}"), loop.create_future()
        self._turns.update(dict.fromkeys(keys, turn))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, turn, keys, earlier))
        return task

    async def flush(self) -> None:
        """Wait until everything submitted so far has ended."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def abandon(self, object_key: str) -> None:
        """Let later files go although this one's outcome is unknown: it was fenced, or is too old to be accepted."""
        self._unknown = {key: unknown for key, unknown in self._unknown.items() if unknown != object_key}

    @property
    def pending_count(self) -> int:
        """Files submitted and not ended."""
        return len(self._tasks)

    async def _commit(
        self,
        object_key: str,
        file_size_bytes: int,
        rows: Batches,
        keys: set[bytes],
        earlier: set[asyncio.Future[None]],
        created_ms: int,
        timeout_ms: int | None,
    ) -> CommitOutcome:
        if earlier:
            await asyncio.wait(earlier)
        for key in keys:
            unknown = self._unknown.get(key)
            if unknown is not None and unknown != object_key:
                raise EarlierOutcomeUnknown(object_key, unknown)
        async with self._slots:
            # From here on the file may have reached a coordinator, however this ends.
            self._unknown.update(dict.fromkeys(keys, object_key))
            try:
                outcome = await self._client.commit_file(object_key, file_size_bytes, rows, created_ms=created_ms, timeout_ms=timeout_ms)
            except (InvalidRequest, UnencodableMessage):
                self._settle(object_key, keys)  # refused by this client: nothing was sent
                raise
            if outcome.is_known:
                self._settle(object_key, keys)
            return outcome

    def _settle(self, object_key: str, keys: set[bytes]) -> None:
        for key in keys:
            if self._unknown.get(key) == object_key:
                del self._unknown[key]

    def _done(
        self, task: asyncio.Task[CommitOutcome], turn: asyncio.Future[None], keys: set[bytes], earlier: set[asyncio.Future[None]]
    ) -> None:
        self._tasks.discard(task)
        self._end_turn(turn, keys, earlier)
        if not task.cancelled():
            task.exception()  # the submitter may not have waited; the outcome is then told by the next submit

    def _end_turn(self, turn: asyncio.Future[None], keys: set[bytes], earlier: set[asyncio.Future[None]]) -> None:
        """End a file's turn, as soon as the turns before it have ended: a cancelled file may end before them."""
        waiting = next((one for one in earlier if not one.done()), None)
        if waiting is not None:
            waiting.add_done_callback(lambda _: self._end_turn(turn, keys, earlier))
            return
        turn.set_result(None)
        for key in keys:
            if self._turns.get(key) is turn:
                del self._turns[key]
