"""Takes Fetch requests: from the decoded request to the encoded answer.

What is refused is refused with the codes of Kafka's broker, partition by partition. The gateway keeps no fetch sessions (KIP-227): its
session id is 0, after which clients name all their partitions in each request. The leader epoch of all partitions is 0.

A request that waited in vain for news of all its partitions is remembered by its connection, and answered there when it comes again
(`coordinator.adapters.server.repeats`), as long as nothing is new, the client may read, and the topics are what they were.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import IncomingRequest, RememberedRequest, Respond
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from gateway.fetch.answer_loops import Told
from gateway.fetch.batch_loops import count_fitting
from gateway.fetch.limits import FetchLimits, FetchStats, Places
from gateway.fetch.migrated import Below, FetchOfBoth, MigratedReads
from gateway.fetch.ports import NewsWatch, PromisedRights, TailFinder
from gateway.fetch.readers import Readers
from gateway.fetch.reads import BatchReader, Share
from gateway.fetch.request_loops import FIRST_WITH_SESSIONS, FIRST_WITH_TOPIC_IDS, Asked
from gateway.fetch.wire import FetchBody, decode_fetch, encode_answer, encode_refusal, encode_transactions
from gateway.ports import Catalogue, DisklessTopic, Session, forbidden_topics

log = logging.getLogger(__name__)

_LEADER_EPOCH: Final = 0
_FULL_FETCHES: Final = (0, -1)
"""The epochs of a session with which a request names all of its partitions."""
_FIRST_WITH_STORAGE_ERRORS: Final = 6
_UNKNOWN: Final = -1
_EPOCH: Final = struct.Struct(">i")
_EPOCH_AT: Final = 12
"""Where a batch has its leader epoch."""

_AS_THEY_ARE: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
_HEALING: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class AnswerBytes(bytearray):
    """The records of an answer. Their place is given back when nobody holds them any more, which is when they were sent."""

    __slots__ = ("_give",)

    def __init__(self, size_bytes: int, give: Callable[[int], None]) -> None:
        """`size_bytes` were taken; `give` gives them back."""
        self._give = partial(give, size_bytes)
        super().__init__(size_bytes)

    def __del__(self) -> None:
        self._give()


class _Idle:
    """What has to be so that a request may be answered as it was, that nothing is new. Implements `Promise`."""

    def __init__(
        self,
        session: Session,
        topics: Sequence[DisklessTopic],
        rights: PromisedRights,
        catalogue: Catalogue,
        ended: Callable[[_Idle], None],
    ) -> None:
        self.watch: NewsWatch | None = None
        self.remembered: RememberedRequest | None = None
        self._session = session
        self._topics = topics
        self._names = [one.name for one in topics]
        self._rights = rights
        self._catalogue = catalogue
        self._ended = ended

    def holds_until_s(self) -> float:
        """See `Promise`."""
        if self.watch is None:
            return 0.0
        for one in self._topics:
            if self._catalogue.named(one.name) is not one:
                return 0.0
        return min(self.watch.holds_until_s(), self._rights.allowed_until_s(self._session, self._names, AclOperation.READ))

    def is_over(self) -> None:
        """Note that something is new."""
        self.watch = None
        if self.remembered is not None:
            self.remembered.forget()

    def ended(self) -> None:
        """See `Promise`."""
        if self.watch is not None:
            self.watch.close()
        self._ended(self)


class FetchTaker:
    """Implements `Taker`. Used on the event loop."""

    def __init__(
        self,
        catalogue: Catalogue,
        rights: PromisedRights,
        finder: TailFinder,
        reader: BatchReader,
        limits: FetchLimits,
        stats: FetchStats,
        migrated: MigratedReads,
    ) -> None:
        self._migrated = migrated
        self._catalogue = catalogue
        self._rights = rights
        self._finder = finder
        self._reader = reader
        self._limits = limits
        self._stats = stats
        self._readers = Readers()
        self._answers = Places(limits.answers_bytes, limits.answers_bytes, waiting=partial(setattr, stats, "answers_waiting"))
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: set[_Idle] = set()

    @property
    def requests(self) -> int:
        """How many requests there were."""
        return self._stats.requests + sum(one.remembered.repeated for one in self._idle if one.remembered is not None)

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        self._stats.requests += 1
        version = request.api_version
        body = decode_fetch(request.data, request.body_offset, version)
        if version >= FIRST_WITH_SESSIONS and body.session_epoch not in _FULL_FETCHES:
            respond(encode_refusal(version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        task = asyncio.get_running_loop().create_task(self._serve(session, request, body, respond))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer no request any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, session: Session, request: IncomingRequest, body: FetchBody, respond: Respond) -> None:
        version = request.api_version
        try:
            answer = await self._sorted(session, version, body)
            waited_ms = int((asyncio.get_running_loop().time() - request.received_s) * 1000)
            left_ms = max(0, answer.max_wait_ms - waited_ms)
            below: Mapping[int, Below] = {}
            if answer.migrated:
                found, below = await self._find_both(answer, body.isolation_level, left_ms)
            else:
                found = await self._find(answer, answer.wanted, left_ms)
            records = await self._read(answer, found, below)
        except BrokerLost as lost:
            log.info("fetch not answered connection=%d: %s", session.connection_id, lost)
            respond(None)
        except DisklessError as error:
            log.warning("fetch not answered connection=%d error=%r", session.connection_id, str(error))
            respond(None)
        except Exception:
            log.exception("fetch failed connection=%d", session.connection_id)
            respond(None)
        else:
            self._stats.bytes_out += sum(map(len, records))
            encoded = encode_answer(version, answer.topics, records, is_committed=body.isolation_level != 0)
            respond(encoded)
            if isinstance(encoded, bytes) and answer.is_idle(found, below):
                self._remember(session, request, answer, found, encoded)

    def _remember(
        self, session: Session, request: IncomingRequest, answer: _Answer, found: Sequence[PartitionBatches], encoded: bytes
    ) -> None:
        """Have the request answered so from now on, if that can be promised."""
        idle = _Idle(session, answer.read, self._rights, self._catalogue, self._forget)
        idle.watch = self._finder.watch(answer.wanted, found, idle.is_over)
        if idle.watch is not None:
            idle.remembered = session.remember(request, encoded, answer.max_wait_ms / 1000, idle)
            if idle.remembered is None:
                idle.watch.close()
            else:
                self._idle.add(idle)

    def _forget(self, idle: _Idle) -> None:
        if idle.remembered is not None:
            self._stats.requests += idle.remembered.repeated
        self._idle.discard(idle)

    async def _sorted(self, session: Session, version: int, body: FetchBody) -> _Answer:
        """Refuse what cannot be read. Rights are asked for the topics that are named and, by their ids, for those that exist."""
        if version >= FIRST_WITH_TOPIC_IDS:
            topics = [self._catalogue.identified(topic_id) for topic_id, _ in body.topics]
            names = [one.name for one in topics if one is not None]
        else:
            names = body.names
            topics = [self._catalogue.named(name) for name in names]
        forbidden = await forbidden_topics(self._rights, session, names, AclOperation.READ) if names else frozenset[str]()
        return _Answer(version, body, self._limits, topics, forbidden)

    async def _find_both(self, answer: _Answer, isolation: int, left_ms: int) -> tuple[Sequence[PartitionBatches], Mapping[int, Below]]:
        """Find batches where topics were migrated: readers below B0 get records of brokers, a share of the answer by their number."""
        share = self._room(answer) * len(answer.migrated) // len(answer.wanted)
        fetch = FetchOfBoth(answer.wanted, answer.migrated, isolation, share, left_ms)
        return await self._migrated.find(fetch, partial(self._find, answer))

    async def _find(self, answer: _Answer, wanted: Sequence[FetchFrom], max_wait_ms: int) -> Sequence[PartitionBatches]:
        """Find batches of the partitions that can be read: more than are wanted where a reader of old data goes on."""
        ahead = 0
        if not wanted:
            return ()
        if self._readers:
            more = [self._readers.bytes_ahead(one, self._limits.ahead_bytes_max) for one in wanted]
            ahead = sum(more)
            wanted = [one._replace(bytes_max=one.bytes_max + each) if each else one for one, each in zip(wanted, more, strict=True)]
        return await self._finder.find(wanted, min_bytes=answer.min_bytes, max_bytes=answer.max_bytes + ahead, max_wait_ms=max_wait_ms)

    async def _read(self, answer: _Answer, found: Sequence[PartitionBatches], below: Mapping[int, Below]) -> list[memoryview]:
        """Read what belongs into the answer; returns the records of the partitions that have some."""
        classic = {place: one.records for place, one in below.items() if one.records}
        shares = self._share(answer, found, below)
        if not shares and not classic:
            answer.tell(found, shares, below)
            return []
        at = sum(one.size_bytes for one in shares.values())
        size = at + sum(map(len, classic.values()))
        await self._answers.take(size)
        out = AnswerBytes(size, self._answers.give)
        if shares:
            await self._reader.read(list(shares.values()), out)
            answer.set_epochs(shares, out)
        answer.tell(found, shares, below)
        view = memoryview(out)
        records = {place: view[one.at : one.at + one.size_bytes] for place, one in shares.items() if one.size_bytes}
        for place, data in classic.items():
            records[place] = view[at : at + len(data)]
            records[place][:] = data
            at += len(data)
        return [records[place] for place in sorted(records)]

    def _room(self, answer: _Answer) -> int:
        """How many bytes an answer may have now."""
        return min(answer.max_bytes, max(self._limits.answer_bytes_least, self._answers.bytes_free // 4))

    def _share(self, answer: _Answer, found: Sequence[PartitionBatches], below: Mapping[int, Below]) -> dict[int, Share]:
        """How many of the batches found go into the answer, by the place of the partition among those that are wanted."""
        taken = sum(len(one.records) for one in below.values())
        left = max(0, self._room(answer) - taken)
        shares: dict[int, Share] = {}
        for place, one in enumerate(found):
            if not one.batches or place in below:
                continue
            wanted = answer.wanted[place]
            count, size = count_fitting(one.batches, min(left, wanted.bytes_max), not shares and not taken)
            if not count and one.batches[0].byte_size <= left:
                # Larger than what the client wants of a partition at a time: it would never get past it.
                count, size = 1, one.batches[0].byte_size
            if count:
                left -= size
                shares[place] = Share(answer.names[place], wanted.partition.partition, one.batches, count, size)
                self._readers.note(wanted.partition, one, count, self._reader.is_old(one.batches[0]))
        return shares


class _Answer:
    """What is asked, checked, and what is told. `topics` become the answer; the rest are the partitions that can be read."""

    def __init__(
        self, version: int, body: FetchBody, limits: FetchLimits, topics: Sequence[DisklessTopic | None], forbidden: frozenset[str]
    ) -> None:
        self.topics: list[tuple[bytes, list[Told]]] = []
        self.wanted: list[FetchFrom] = []
        self.migrated: list[int] = []
        """The places among those that are wanted of partitions that have, or had, a classic part."""
        self.epochs: dict[int, int] = {}
        """Leader epochs of their batches."""
        self.names: list[str] = []
        """Of the topics of those that are wanted."""
        self.read: list[DisklessTopic] = []
        """The topics that can be read."""
        self._places: list[tuple[list[Told], int]] = []
        self._version = version
        self.max_bytes = max(0, min(body.max_bytes, limits.answer_bytes_max))
        self.min_bytes = max(0, min(body.min_bytes, self.max_bytes))
        self.max_wait_ms = max(0, min(body.max_wait_ms, limits.wait_ms_max))
        is_follower = body.replica_id >= 0
        for number, ((asked_name, rows), topic) in enumerate(zip(body.topics, topics, strict=True)):
            told: list[Told] = []
            self.topics.append((asked_name, told))
            name = topic.name if topic is not None else body.names[number] if body.names else ""
            # Followers need a right to the cluster, which the gateway gives nobody.
            error = self._error(topic, is_denied=name in forbidden or is_follower)
            if topic is not None and error is ErrorCode.NONE:
                self.read.append(topic)
            for asked in rows:
                if topic is None or error is not ErrorCode.NONE:
                    told.append(self._refused(asked[0], error))
                else:
                    self._place(topic, asked, told)

    def _error(self, topic: DisklessTopic | None, *, is_denied: bool) -> ErrorCode:
        """The error of all partitions of a topic."""
        if topic is None and self._version >= FIRST_WITH_TOPIC_IDS:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if is_denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE

    def _place(self, topic: DisklessTopic, asked: Asked, told: list[Told]) -> None:
        index, leader_epoch, offset, bytes_max = asked
        if not 0 <= index < topic.partitions:
            told.append(self._refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif leader_epoch > _LEADER_EPOCH and not topic.is_migrated:
            self.max_wait_ms = 0
            told.append(self._refused(index, ErrorCode.UNKNOWN_LEADER_EPOCH))
        else:
            self._places.append((told, len(told)))
            if topic.is_migrated:
                self.epochs[len(self.wanted)] = topic.leader_epoch(index)
                self.migrated.append(len(self.wanted))
            self.wanted.append(FetchFrom(PartitionId(topic.topic_id, index), offset, max(0, min(bytes_max, self.max_bytes))))
            self.names.append(topic.name)
            told.append((index, 0, _UNKNOWN, _UNKNOWN, 0, b""))

    def tell(self, found: Sequence[PartitionBatches], shares: Mapping[int, Share], below: Mapping[int, Below]) -> None:
        """Put down what was found of the partitions that are wanted, and what could be read of that."""
        for place, ((told, row), one) in enumerate(zip(self._places, found, strict=True)):
            index = told[row][0]
            if place in below:
                told[row] = self._told_below(index, below[place])
                continue
            share, error = shares.get(place), one.error
            if share is not None and not share.count:
                error = share.error
            if error is ErrorCode.NONE:
                told[row] = (index, 0, one.high_watermark, one.log_start_offset, 0 if share is None else share.size_bytes, b"")
            else:
                told[row] = self._refused(index, error)

    def _told_below(self, index: int, one: Below) -> Told:
        if one.error is not ErrorCode.NONE:
            return self._refused(index, one.error)
        transactions = encode_transactions(self._version, one.aborted)
        return index, 0, one.high_watermark, one.log_start, len(one.records), transactions

    def set_epochs(self, shares: Mapping[int, Share], out: bytearray) -> None:
        """Give batches of migrated topics their leader epoch, which no checksum covers."""
        for place in self.migrated:
            share, epoch = shares.get(place), self.epochs.get(place, 0)
            if share is None or not epoch:
                continue
            at = share.at
            for batch in share.batches[: share.count]:
                _EPOCH.pack_into(out, at + _EPOCH_AT, epoch)
                at += batch.byte_size

    def is_idle(self, found: Sequence[PartitionBatches], below: Mapping[int, Below]) -> bool:
        """Whether the answer is that there is nothing new, of all that is asked for; so is the next one if nothing is new then."""
        if not self.wanted or not self.min_bytes or not self.max_wait_ms or len(self.wanted) != sum(len(rows) for _, rows in self.topics):
            return False
        # Readers before the beginning of a diskless part wait for its first records, at another offset than theirs.
        if below or any(self.wanted[place].offset < found[place].log_start_offset for place in self.migrated):
            return False
        return all(not one.batches and one.error is ErrorCode.NONE for one in found)

    def _refused(self, index: int, error: ErrorCode) -> Told:
        return index, self._code(error), _UNKNOWN, _UNKNOWN, 0, b""

    def _code(self, error: ErrorCode) -> int:
        """An error as a consumer of this version understands it: some end with an exception at codes that brokers never answer."""
        if error is ErrorCode.UNKNOWN_TOPIC_ID and self._version < FIRST_WITH_TOPIC_IDS:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error in _HEALING or (error is ErrorCode.KAFKA_STORAGE_ERROR and self._version < _FIRST_WITH_STORAGE_ERRORS):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error if error in _AS_THEY_ARE else ErrorCode.UNKNOWN_SERVER_ERROR
