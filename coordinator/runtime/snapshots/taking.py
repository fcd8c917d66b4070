"""Taking a snapshot of a coordinator that this node leads: mark, write, upload, commit.

The mark is an entry of the log. The write of the state database that ends at it is pinned, and while commits go on the snapshot is
written from there, off the event loop. It counts once `SnapshotCommitted` is in the log, which is only written of an object that was
read back whole. Whatever fails before that leaves nothing but a file or an object that the clean-up finds.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from concurrent.futures import Executor

from coordinator.core.commands import CommitSnapshot, MarkSnapshot, Outcome
from coordinator.core.yielding import Rest
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.ports import DurableSnapshots, LocalSnapshots
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.replica.state_writer import Marked
from coordinator.runtime.snapshots.row_count import RowCount
from coordinator.runtime.threads import in_thread
from records.model import SnapshotCommitted
from records.snapshot import SnapshotFile

LOG = logging.getLogger("coordinator.snapshots")

WRITE_TIMEOUT_MS = 30_000
"""An entry waits so long for its acknowledgement."""
MARK_TIMEOUT_S = 60.0
"""The state is written as of the mark within a fraction of a second, unless the replica fails."""
MARKS_REMEMBERED = 8


class SnapshotNotTaken(Exception):
    """A snapshot could not be taken: the step that failed, an error code of Kafka for the one who asked, and the reason."""

    def __init__(self, step: str, reason: str, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.error = error


class SnapshotTaker:
    """Takes the snapshots of one metadata partition, one at a time."""

    def __init__(
        self,
        *,
        local: LocalSnapshots,
        durable: DurableSnapshots,
        background: Executor,
        rest: Rest,
        rng: random.Random,
        row_count: RowCount,
    ) -> None:
        self.step: str | None = None
        """The step under way; None while no snapshot is taken."""
        self.marks: deque[tuple[int, bytes]] = deque(maxlen=MARKS_REMEMBERED)
        """The offsets of the newest marks with the digest of this replica's state there, where replicas can be compared by it."""
        self.local = local
        self._durable = durable
        self._background = background
        self._rest = rest
        self._rng = rng
        self._row_count = row_count
        self._awaited: asyncio.Future[Marked] | None = None
        self._awaited_id = -1

    def marked(self, marked: Marked) -> None:
        """The state database of the replica ends at a mark."""
        if not marked.is_trimming:
            self.marks.append((marked.header.applied_offset, marked.header.digest))
        awaited, pinned = self._awaited, marked.pinned
        if awaited is not None and not awaited.done() and marked.mark_id == self._awaited_id:
            awaited.set_result(marked)
        elif pinned is not None:
            asyncio.get_running_loop().run_in_executor(self._background, pinned.close)

    async def take(self, replica: Replica) -> SnapshotCommitted:
        """Take one; it is committed then. Raises `SnapshotNotTaken`."""
        if self.step is not None:
            raise SnapshotNotTaken("begin", f"another one is being taken (step {self.step})", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            self.step = "mark"
            marked = await self._mark(replica)
            self.step = "write"
            file = await self._write(marked)
            self.step = "upload"
            snapshot = await self._upload(marked, file)
            self.step = "commit"
            _check(self.step, await replica.ask(CommitSnapshot(snapshot=snapshot), WRITE_TIMEOUT_MS))
        except SnapshotNotTaken:
            raise
        except Exception as error:
            # Any error: commits go on, and the caller counts the error, tells operators and tries again.
            raise SnapshotNotTaken(self.step or "take", str(error) or repr(error)) from error
        finally:
            self.step = None
        return snapshot

    async def _mark(self, replica: Replica) -> Marked:
        awaited: asyncio.Future[Marked] = asyncio.get_running_loop().create_future()
        self._awaited = awaited
        mark_id = self._awaited_id = replica.writer.wanted_mark = self._rng.getrandbits(63)
        try:
            _check("mark", await replica.ask(MarkSnapshot(mark_id=mark_id), WRITE_TIMEOUT_MS))
            async with asyncio.timeout(MARK_TIMEOUT_S):
                return await awaited
        except TimeoutError as late:
            raise SnapshotNotTaken("mark", f"the state was not written as of the mark within {MARK_TIMEOUT_S:g} s") from late
        except BaseException:
            # The pinned state may have come at the last moment: it has to be closed.
            if awaited.done() and not awaited.cancelled() and (pinned := awaited.result().pinned) is not None:
                asyncio.get_running_loop().run_in_executor(self._background, pinned.close)
            raise
        finally:
            self._awaited, replica.writer.wanted_mark = None, None
            awaited.cancel()

    async def _write(self, marked: Marked) -> SnapshotFile:
        pinned = marked.pinned
        if pinned is None:
            raise SnapshotNotTaken("write", "the state was not pinned at the mark")
        if marked.is_trimming:
            await in_thread(self._background, pinned.close)
            raise SnapshotNotTaken("mark", "deleted batches were still being subtracted from their files; it is tried again")

        def write() -> SnapshotFile:
            try:
                rows = self._row_count.counted(pinned.tables(self._rest))
                return self.local.write(pinned.head, rows, log_timestamp_ms=marked.header.log_time_ms, rest=self._rest)
            finally:
                pinned.close()

        return await in_thread(self._background, write)

    async def _upload(self, marked: Marked, file: SnapshotFile) -> SnapshotCommitted:
        header = marked.header
        location = await self._durable.upload(
            file,
            cluster_id=header.cluster_id,
            topic_id=header.topic_id,
            partition=header.metadata_partition,
            end_offset=header.applied_offset + 1,
            epoch=header.epoch,
            suffix=f"{self._rng.getrandbits(64):016x}",
        )
        return SnapshotCommitted(
            mark_offset=header.applied_offset,
            end_offset=header.applied_offset + 1,
            epoch=header.epoch,
            size_bytes=file.size_bytes,
            sha256=file.sha256,
            digest=header.digest,
            location=location,
        )


def _check(step: str, answer: object) -> None:
    assert isinstance(answer, Outcome)
    if answer.error is not ErrorCode.NONE:
        raise SnapshotNotTaken(step, answer.message or answer.error.name, answer.error)
