"""Takes Fetch requests: from the decoded request to the encoded answer.

What is refused is refused with the codes of Kafka's broker, partition by partition. The gateway keeps no fetch sessions (KIP-227): its
session id is 0, after which clients name all their partitions in each request. The leader epoch of all partitions is 0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from gateway.fetch.answer_loops import Told
from gateway.fetch.batch_loops import count_fitting
from gateway.fetch.limits import FetchLimits, FetchStats, Places
from gateway.fetch.ports import Finder
from gateway.fetch.readers import Readers
from gateway.fetch.reads import BatchReader, Share
from gateway.fetch.request_loops import FIRST_WITH_SESSIONS, FIRST_WITH_TOPIC_IDS, Asked
from gateway.fetch.wire import FetchBody, decode_fetch, encode_answer, encode_refusal
from gateway.ports import Catalogue, DisklessTopic, Rights, Session, UpstreamLost

log = logging.getLogger(__name__)

_LEADER_EPOCH: Final = 0
_FULL_FETCHES: Final = (0, -1)
"""The epochs of a session with which a request names all of its partitions."""
_FIRST_WITH_STORAGE_ERRORS: Final = 6
_UNKNOWN: Final = -1

_AS_THEY_ARE: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
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


class _Place(NamedTuple):
    """Where the answer of a partition belongs: the place of its topic and its own."""

    topic: int
    row: int
    name: str
    wanted: FetchFrom


class FetchTaker:
    """Implements `Taker`. Used on the event loop."""

    def __init__(
        self, catalogue: Catalogue, rights: Rights, finder: Finder, reader: BatchReader, limits: FetchLimits, stats: FetchStats
    ) -> None:
        self._catalogue = catalogue
        self._rights = rights
        self._finder = finder
        self._reader = reader
        self._limits = limits
        self._stats = stats
        self._readers = Readers()
        self._answers = Places(limits.answers_bytes, limits.answers_bytes, waiting=partial(setattr, stats, "answers_waiting"))
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        self._stats.requests += 1
        version = request.api_version
        body = decode_fetch(request.data, request.body_offset, version)
        if version >= FIRST_WITH_SESSIONS and body.session_epoch not in _FULL_FETCHES:
            respond(encode_refusal(version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        task = asyncio.get_running_loop().create_task(self._serve(session, version, body, respond))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Answer no request any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, session: Session, version: int, body: FetchBody, respond: Respond) -> None:
        try:
            answer = _Answer(version, body, self._limits)
            answer.sort(self._topics(version, body), await self._forbidden(session, version, body))
            found = await self._find(answer)
            records = await self._read(answer, found)
        except UpstreamLost as lost:
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
            respond(encode_answer(version, answer.topics, records, is_committed=body.isolation_level != 0))

    def _topics(self, version: int, body: FetchBody) -> list[DisklessTopic | None]:
        if version >= FIRST_WITH_TOPIC_IDS:
            return [self._catalogue.identified(topic_id) for topic_id, _ in body.topics]
        return [self._catalogue.named(name) for name in body.names]

    async def _forbidden(self, session: Session, version: int, body: FetchBody) -> frozenset[str]:
        """The topics that the client may not read, of those that it names and, by their ids, of those that exist."""
        names = body.names if version < FIRST_WITH_TOPIC_IDS else [one.name for one in self._topics(version, body) if one is not None]
        if not names:
            return frozenset()
        known = self._rights.known(session, names, AclOperation.READ)
        return await self._rights.forbidden(session, names, AclOperation.READ) if known is None else known

    async def _find(self, answer: _Answer) -> Sequence[PartitionBatches]:
        """Find batches of the partitions that can be read: more than are wanted where a reader of old data goes on."""
        if not answer.places:
            return ()
        wanted, ahead = [], 0
        for place in answer.places:
            more = self._readers.bytes_ahead(place.wanted, self._limits.ahead_bytes_max)
            ahead += more
            wanted.append(place.wanted._replace(bytes_max=place.wanted.bytes_max + more) if more else place.wanted)
        return await self._finder.find(
            wanted, min_bytes=answer.min_bytes, max_bytes=answer.max_bytes + ahead, max_wait_ms=answer.max_wait_ms
        )

    async def _read(self, answer: _Answer, found: Sequence[PartitionBatches]) -> list[memoryview]:
        """Read what belongs into the answer; returns the records of the partitions that have some."""
        shares = self._share(answer, found)
        size = sum(one.size_bytes for one in shares if one is not None)
        if not size:
            answer.tell(found, shares)
            return []
        await self._answers.take(size)
        out = AnswerBytes(size, self._answers.give)
        read = [share for share in shares if share is not None]
        await self._reader.read(read, out)
        answer.tell(found, shares)
        view = memoryview(out)
        return [view[one.at : one.at + one.size_bytes] for one in read if one.size_bytes]

    def _share(self, answer: _Answer, found: Sequence[PartitionBatches]) -> list[Share | None]:
        """How many of the batches found go into the answer, by partition."""
        free = max(self._limits.answer_bytes_least, self._answers.bytes_free // 4)
        left, is_first = min(answer.max_bytes, free), True
        shares: list[Share | None] = []
        for place, one in zip(answer.places, found, strict=True):
            if not one.batches:
                shares.append(None)
                continue
            count, size = count_fitting(one.batches, min(left, place.wanted.bytes_max), is_first)
            if not count and one.batches[0].byte_size <= left:
                # Larger than what the client wants of a partition at a time: it would never get past it.
                count, size = 1, one.batches[0].byte_size
            if not count:
                shares.append(None)
                continue
            is_first = False
            left -= size
            shares.append(Share(place.name, place.wanted.partition.partition, one.batches, count, size))
            self._readers.note(place.wanted.partition, one, count, self._reader.is_old(one.batches[0]))
        return shares


class _Answer:
    """What is asked, checked, and what is told; `topics` become the answer."""

    def __init__(self, version: int, body: FetchBody, limits: FetchLimits) -> None:
        self.topics: list[tuple[bytes, list[Told]]] = []
        self.places: list[_Place] = []
        self._version = version
        self._body = body
        self.max_bytes = max(0, min(body.max_bytes, limits.answer_bytes_max))
        self.min_bytes = max(0, min(body.min_bytes, self.max_bytes))
        self.max_wait_ms = max(0, min(body.max_wait_ms, limits.wait_ms_max))

    def sort(self, topics: Sequence[DisklessTopic | None], forbidden: frozenset[str]) -> None:
        """Refuse what cannot be read, and place the rest."""
        for number, ((asked_name, rows), topic) in enumerate(zip(self._body.topics, topics, strict=True)):
            name = topic.name if topic is not None else "" if self._version >= FIRST_WITH_TOPIC_IDS else self._body.names[number]
            told: list[Told] = []
            for place, asked in enumerate(rows):
                error = self._refusal(asked, name, topic, forbidden)
                told.append((asked[0], self._code(error), _UNKNOWN, _UNKNOWN, 0))
                if topic is not None and error is ErrorCode.NONE:
                    index, _, offset, bytes_max = asked
                    wanted = FetchFrom(PartitionId(topic.topic_id, index), offset, max(0, min(bytes_max, self.max_bytes)))
                    self.places.append(_Place(number, place, name, wanted))
            self.topics.append((asked_name, told))

    def tell(self, found: Sequence[PartitionBatches], shares: Sequence[Share | None]) -> None:
        """Put down what was found of the partitions, and what could be read of that."""
        for place, one, share in zip(self.places, found, shares, strict=True):
            index = place.wanted.partition.partition
            error = one.error if one.error is not ErrorCode.NONE or share is None or share.count else share.error
            if error is ErrorCode.NONE:
                told = (index, 0, one.high_watermark, one.log_start_offset, 0 if share is None else share.size_bytes)
            else:
                told = (index, self._code(error), _UNKNOWN, _UNKNOWN, 0)
            self.topics[place.topic][1][place.row] = told

    def _refusal(self, asked: Asked, name: str, topic: DisklessTopic | None, forbidden: frozenset[str]) -> ErrorCode:
        if topic is None and self._version >= FIRST_WITH_TOPIC_IDS:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if name in forbidden or self._body.replica_id >= 0:  # followers need a right to the cluster, which the gateway gives nobody
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or not 0 <= asked[0] < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if asked[1] > _LEADER_EPOCH:
            self.max_wait_ms = 0
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def _code(self, error: ErrorCode) -> int:
        """An error as a consumer of this version understands it: some end with an exception at codes that brokers never answer."""
        if error is ErrorCode.NONE:
            return 0
        if error is ErrorCode.UNKNOWN_TOPIC_ID and self._version < FIRST_WITH_TOPIC_IDS:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error in _HEALING or (error is ErrorCode.KAFKA_STORAGE_ERROR and self._version < _FIRST_WITH_STORAGE_ERRORS):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error in _AS_THEY_ARE or error is ErrorCode.UNKNOWN_TOPIC_ID:
            return error
        return ErrorCode.UNKNOWN_SERVER_ERROR
