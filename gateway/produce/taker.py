"""Serves Produce: takes requests from connections, cuts files of them, and answers.

`ProduceTaker` is the loop's side of the room: it has the timers and the tasks; what is decided is decided in the other modules.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.client.errors import ServiceError
from coordinator.client.model import CommitOutcome
from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.client.records.writing import Fences, remove_refused
from coordinator.errors import DisklessError
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectStore
from gateway.ports import NO_ANSWER, Catalogue, DisklessTopic, Rights, Session, forbidden_topics
from gateway.produce.admission import Admission
from gateway.produce.buffer import Buffer, BufferLimits
from gateway.produce.commits import CommitsShares, CutFile, ShareCommits
from gateway.produce.connections import RequestWindow
from gateway.produce.faults import PartitionRefusal
from gateway.produce.files import FilePart, by_owners, file_bytes, load_of, sorted_load
from gateway.produce.request import Int64s, PendingProduce, ProduceRequest
from gateway.produce.stats import ProduceStats
from gateway.produce.uploads import upload
from gateway.produce.wire_loops import APPEND_TIME, BASE_OFFSET, CODE, LOG_START, RESULT_WIDTH

LOG = logging.getLogger("gateway.produce")

UNANSWERED_PATIENCE_S: Final = 30.0
"""How long the upload of a request is tried for that nobody waits for (acks=0): the usual request.timeout.ms."""
PATIENCE_S_MAX: Final = 300.0
MOVED_S: Final = 0.05
"""The pause before the topics are listed after a partition was found to have moved: its next owner has it by then."""
TIMER_S_MAX: Final = 0.2
"""Longer timers of a process may come late (`coordinator.app.process.timers.LONG_S`)."""
_PASSED_ON: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Refusals of a coordinator that producers know; others are KAFKA_STORAGE_ERROR to them, after which they try again."""


class Client(CommitsShares, Fences, Protocol):
    """The operations of the service that Produce needs; `DisklessClient` has them."""


class CommittedFile(NamedTuple):
    """A file of which a coordinator has accepted batches, duplicates aside: `rows` (dtype BATCH) of those, with their base offsets."""

    object_key: str
    rows: np.typing.NDArray[np.void]
    base_offsets: Int64s


@dataclass(frozen=True, kw_only=True)
class ProduceHooks:
    """What others want to know. All are called on the event loop and must not raise."""

    stored: Callable[[str, bytes], None] = lambda _key, _data: None
    """A file is in the store, and will be committed: its key and its bytes, for a cache."""
    committed: Callable[[CommittedFile], None] = lambda _file: None
    """Batches were accepted: readers that wait for them may be woken."""


class _Connection:
    """A client's connection, as far as Produce is concerned."""

    def __init__(self) -> None:
        self.window = RequestWindow()
        self.unchecked: deque[tuple[Session, IncomingRequest, ProduceRequest, Respond]] = deque()
        """Requests that wait until rights are known, so that none overtakes another."""


class ProduceTaker:
    """Implements `gateway.ports.Taker`. Used on one event loop."""

    def __init__(
        self,
        catalogue: Catalogue,
        rights: Rights,
        client: Client,
        store: ObjectStore,
        *,
        memory: RequestMemory,
        stats: ProduceStats,
        limits: BufferLimits | None = None,
        hooks: ProduceHooks | None = None,
        wal_prefix: str = "wal/",
        uploader_id: int = -1,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: random.Random | None = None,
    ) -> None:
        """`rng` makes the keys of files, so without one they are what the system gives. `uploader_id` is written beside each file."""
        self._catalogue = catalogue
        self._rights = rights
        self._client = client
        self._store = store
        self._memory = memory
        self._stats = stats
        self._limits = limits or BufferLimits()
        self._hooks = hooks or ProduceHooks()
        self._wal_prefix = wal_prefix
        self._now_ms = now_ms
        self._rng = rng or random.SystemRandom()
        self._admission = Admission()
        self._buffer: Buffer[FilePart] = Buffer(self._limits)
        self._commits = ShareCommits(
            client, stats, settle=self._settle, ended=self._ended, failed=self._failed, rng=self._rng, uploader_id=uploader_id
        )
        self._connections: WeakKeyDictionary[Session, _Connection] = WeakKeyDictionary()
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._files: set[CutFile] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def files_open(self) -> int:
        """Files that were cut and have no outcome for all of their batches."""
        return len(self._files)

    # ---- requests

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """Take a request. Raises MalformedMessage."""
        read = ProduceRequest(request.data, request.body_offset, request.api_version)
        self._stats.requests += 1
        self._memory.take(len(request.data))
        connection = self._connections.get(session)
        if connection is None:
            connection = self._connections[session] = _Connection()
        topics = self._topics(read)
        forbidden = None if connection.unchecked else self._rights.known(session, _names(topics), AclOperation.WRITE)
        if forbidden is not None:
            self._admit(session, connection, request, read, respond, topics, forbidden)
            return
        connection.unchecked.append((session, request, read, respond))
        if len(connection.unchecked) == 1:
            self._spawn(self._ask_rights(connection))

    async def _ask_rights(self, connection: _Connection) -> None:
        """Admit the requests of a connection that wait, in order."""
        while connection.unchecked:
            session, request, read, respond = connection.unchecked[0]
            try:
                topics = self._topics(read)
                forbidden = await forbidden_topics(self._rights, session, _names(topics), AclOperation.WRITE)
            except BrokerLost as lost:
                LOG.info("connection=%d closed: rights not known: %s", session.connection_id, lost)
                for _, waiting, _, close in connection.unchecked:
                    self._memory.release(len(waiting.data))
                    close(None)
                connection.unchecked.clear()
                return
            connection.unchecked.popleft()
            self._admit(session, connection, request, read, respond, topics, forbidden)

    def _topics(self, read: ProduceRequest) -> list[DisklessTopic | None]:
        """The topics of a request. One that becomes known while rights are asked for is not written: its rights were not asked for."""
        return [self._topic(name) for name in read.names]

    def _topic(self, name: str | bytes) -> DisklessTopic | None:
        return self._catalogue.named(name) if isinstance(name, str) else self._catalogue.identified(name)

    def _admit(
        self,
        session: Session,
        connection: _Connection,
        request: IncomingRequest,
        read: ProduceRequest,
        respond: Respond,
        topics: Sequence[DisklessTopic | None],
        forbidden: frozenset[str],
    ) -> None:
        """Check a request, and take its lawful batches into the buffer."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        is_awaited = read.acks != 0
        window = connection.window if is_awaited else None
        patience_s = min(max(read.timeout_ms, 0) / 1000, PATIENCE_S_MAX) if is_awaited else UNANSWERED_PATIENCE_S
        if is_awaited:
            connection.window.asked(now_s)
            self._buffer.look_at(window)
        timer: asyncio.TimerHandle | None = None
        received_s = request.received_s  # the request itself, with its records, must not be held until the answer

        def answer(pending: PendingProduce) -> None:
            if timer is not None:
                timer.cancel()
            self._stats.request_seconds.observe(loop.time() - received_s)
            self._answer(pending, session, connection, respond)

        pending = PendingProduce(
            read,
            deadline_s=received_s + patience_s,
            window=window,
            respond=answer,
            freed=partial(self._memory.release, len(request.data)),
        )
        part = self._admission.check(pending, topics, forbidden, self._now_ms())
        if part is None:
            pending.finish()
            return
        self._stats.count_client(request.client_id, len(part.rows), part.size_bytes)
        pending.expect(part.places)
        if is_awaited:
            timer = loop.call_at(pending.deadline_s, pending.expire)
        else:
            pending.answer_unawaited()
        for piece in part.cut(self._limits.buffer_bytes, self._limits.batches_max):
            pending.parts += 1
            self._buffer.add(piece, piece.size_bytes, len(piece.rows), window, now_s)
        self._idle.clear()
        self._look(now_s)

    def _answer(self, pending: PendingProduce, session: Session, connection: _Connection, respond: Respond) -> None:
        codes = pending.codes
        for code in codes:
            if code:
                self._stats.refused[code] += 1
        if pending.request.acks == 0:
            # A broker, too, can only close a connection on which nobody reads why a batch was refused.
            respond(None if any(codes) else NO_ANSWER)
            return
        if ErrorCode.REQUEST_TIMED_OUT in codes:
            self._stats.timed_out += 1
        connection.window.answered(asyncio.get_running_loop().time())
        self._buffer.look_at(connection.window)
        respond(pending.encoded())

    # ---- files

    def _look(self, now_s: float) -> None:
        """Cut the files that are due, and look again when the next one is."""
        due_s = self._buffer.due_s(now_s)
        # A timer that comes earlier looks again itself.
        if due_s is None or (self._timer is not None and self._timer_s <= due_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        # Even what is due now waits until the requests that were read together have all been taken.
        self._timer_s = min(due_s, now_s + TIMER_S_MAX)
        self._timer = asyncio.get_running_loop().call_at(self._timer_s, self._cut)

    def _cut(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        due_s = self._buffer.due_s(now_s)
        while due_s is not None and due_s <= now_s:
            self._cut_file(now_s)
            due_s = self._buffer.due_s(now_s)
        self._look(now_s)

    def _cut_file(self, now_s: float) -> None:
        parts = self._buffer.take(now_s)
        for load in by_owners(load_of(parts)):
            placed = sorted_load(load)
            data = file_bytes(placed)
            key = new_key(self._now_ms(), self._rng.randbytes(RANDOM_BYTES), prefix=self._wal_prefix)
            file = CutFile(key, data, placed)
            self._files.add(file)
            self._commits.enter(file)
            self._spawn(self._upload(file))
        for part in parts:
            part.pending.part_is_filed()

    async def _upload(self, file: CutFile) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        patience_s = max(pending.deadline_s for pending in file.load.pendings)
        complaint = await upload(
            self._store, file.key, file.data, is_in_vain=lambda: loop.time() >= patience_s, stats=self._stats, rng=self._rng
        )
        self._stats.upload_seconds.observe(loop.time() - began_s)
        if complaint is not None:
            self._give_up(file, complaint)
            return
        self._stats.files += 1
        self._stats.file_bytes += len(file.data)
        self._hooks.stored(file.key, file.data)
        file.stored_s = loop.time()
        self._commits.uploaded(file)

    def _give_up(self, file: CutFile, complaint: str) -> None:
        """The file was not stored, so nothing of it is ever committed. What an attempt has left is the orphan scan's."""
        LOG.warning("file given up batches=%d bytes=%d reason=%s", len(file.load.rows), len(file.data), complaint)
        self._stats.uploads_given_up += 1
        self._files.discard(file)
        self._commits.drop(file)
        refusal = PartitionRefusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the object store did not take the file: {complaint}")
        for pending, batches in file.load.by_request():
            places = file.load.places[batches]
            results = np.full((len(places), RESULT_WIDTH), -1, np.int64)
            results[:, CODE] = refusal.code
            pending.settle(places, results, dict.fromkeys(places.tolist(), refusal))
        self._look_idle()

    def _settle(self, file: CutFile, rows: Int64s, outcome: CommitOutcome) -> None:
        """Batches of a file have an outcome: give it to their requests."""
        load = file.load if len(rows) == len(file.load.rows) else file.load.only(rows)
        results = np.empty((len(rows), RESULT_WIDTH), np.int64)
        results[:, CODE] = outcome.error_codes
        results[:, BASE_OFFSET] = outcome.base_offsets
        results[:, APPEND_TIME] = outcome.append_times_ms
        results[:, LOG_START] = outcome.log_start_offsets
        refusals: dict[int, PartitionRefusal] = {}
        if not outcome.is_ok:
            if (outcome.error_codes == ErrorCode.NOT_LEADER_OR_FOLLOWER).any():
                self._look_where_partitions_are()
            for row in np.flatnonzero(outcome.error_codes).tolist():
                refusals[row] = _passed_on(int(outcome.error_codes[row]), outcome.messages.get(row, ""))
        # The log has a duplicate where it was first accepted, not here.
        is_new = (outcome.error_codes == ErrorCode.NONE) & ~outcome.duplicates
        accepted = load.rows[is_new]
        self._stats.batches += len(accepted)
        self._stats.duplicates += int(outcome.duplicates.sum())
        self._stats.size_bytes += int(accepted["size"].sum(dtype=np.int64))
        if len(accepted):
            # Readers first: what they find is theirs before the producer knows.
            self._hooks.committed(CommittedFile(file.key, accepted, outcome.base_offsets[is_new]))
        for pending, batches in load.by_request():
            places = load.places[batches]
            mine = {int(load.places[row]): refusals[row] for row in batches.tolist() if row in refusals} if refusals else {}
            pending.settle(places, results[batches], mine)

    def _look_where_partitions_are(self) -> None:
        """A partition has moved, or is about to: producers send its batches again in a moment, and files go by the catalogue."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._refreshed(), name="moved-partitions")
            self._tasks.add(self._looking)
            self._looking.add_done_callback(self._tasks.discard)

    async def _refreshed(self) -> None:
        await asyncio.sleep(MOVED_S)
        try:
            await self._catalogue.refreshed()
        except ServiceError as error:
            LOG.info("topics not listed after a partition moved error=%r; they are at intervals", str(error))

    def _ended(self, file: CutFile) -> None:
        """All shares of a file are decided."""
        self._files.discard(file)
        self._stats.commit_seconds.observe(asyncio.get_running_loop().time() - file.stored_s)
        if not file.accepted:
            self._stats.files_refused += 1
            self._spawn(self._remove(file))
        self._look_idle()

    async def _remove(self, file: CutFile) -> None:
        """Nothing of a file was accepted: its object goes, or is left to the orphan scan."""
        try:
            fate = await remove_refused(self._client, self._store, file.key, file.owner_ids)
        except DisklessError as error:
            fate = f"is left to the orphan scan: {error}"
        LOG.info("nothing of file=%s was accepted; it %s", file.key, fate)

    def _failed(self, what: str) -> None:
        LOG.warning("%s", what)

    # ---- the end

    async def drain(self, timeout_s: float) -> bool:
        """Cut what is in the buffer, and wait until all files have outcomes; returns whether they have. No more requests may come."""
        now_s = asyncio.get_running_loop().time()
        while self._buffer.due_s(now_s) is not None:
            self._cut_file(now_s)
        self._look_idle()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Give up all work. What was sent may take effect yet; nothing of it was promised."""
        if self._timer is not None:
            self._timer.cancel()
        await self._commits.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look_idle(self) -> None:
        if not self._files and self._buffer.due_s(0.0) is None:
            self._idle.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a task of Produce failed", exc_info=error)


def _names(topics: Iterable[DisklessTopic | None]) -> list[str]:
    return [topic.name for topic in topics if topic is not None]


def _passed_on(code: int, message: str) -> PartitionRefusal:
    """A coordinator's refusal in the words of a broker."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    if known in _PASSED_ON:
        return PartitionRefusal(known, message)
    return PartitionRefusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the coordinator refused the batch: {known.name}: {message}")
