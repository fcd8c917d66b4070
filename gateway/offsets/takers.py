"""The takers of this room: they share what is refused, and differ in what they ask the coordinators."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.calls.partitions import DeletedRecords
from coordinator.client.errors import ServiceError
from coordinator.client.model import ListedOffset, PartitionId
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from gateway.answering import answer_later
from gateway.offsets.exact import ByTime, ExactOffsets
from gateway.offsets.wire import DELETE_RECORDS, LEADER_EPOCH, LIST_OFFSETS, NO_EPOCH, OFFSET_FOR_LEADER_EPOCH, Asked, Told, Wire
from gateway.ports import Catalogue, DisklessTopic, Rights, Session, Taker, forbidden_topics

LOG = logging.getLogger(__name__)

TIMEOUT_MS: Final = 20_000
"""How long the coordinators are asked, at most: clients wait for 30 s."""
TIMEOUT_LEAST_MS: Final = 100
EARLIEST_PENDING_UPLOAD: Final = -6

FIRST_VERSIONS: Final = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version of ListOffsets from which a timestamp that is no time has its meaning."""
TIERED: Final = frozenset({LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
"""Places that only a log with tiered storage has."""

_AS_THEY_ARE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
    }
)
_HEALING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)

Ask = Callable[[Sequence[tuple[PartitionId, Asked]], int], Awaitable[list[Told]]]
"""Asks the coordinators about partitions, within milliseconds. Raises DisklessError."""
Check = Callable[[int, Asked], Told | None]
"""Answers what can be answered of a partition without the coordinators: version of the request, and the partition."""


class Lists(Protocol):
    """The operation of the service that ListOffsets needs; `DisklessClient` has it."""

    async def list_offsets(self, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[ListedOffset]:
        """Look up offsets."""


class Deletes(Protocol):
    """The operation of the service that DeleteRecords needs; `DisklessAdmin` has it."""

    async def delete_records(self, points: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[DeletedRecords]:
        """Move log starts forward."""


class OffsetsTaker(Taker):
    """Takes one of the three requests. Used on the event loop."""

    def __init__(self, wire: Wire, operation: AclOperation, catalogue: Catalogue, rights: Rights, check: Check, ask: Ask) -> None:
        """`operation` is what a client has to be allowed to do with a topic."""
        self.api = wire.api
        self._wire = wire
        self._operation = operation
        self._catalogue = catalogue
        self._rights = rights
        self._check = check
        self._ask = ask

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        asked, timeout_ms = self._wire.read(request)
        answer_later(self._answer(session, request.api_version, asked, timeout_ms), session, respond, self.api.text)

    async def _answer(self, session: Session, version: int, asked: Sequence[Asked], timeout_ms: int | None) -> bytes:
        return self._wire.write(version, asked, await self._tell(session, version, asked, timeout_ms))

    async def _tell(self, session: Session, version: int, asked: Sequence[Asked], timeout_ms: int | None) -> list[Told]:
        unknown = await self._error_of_unknown(asked)
        names = {one.topic for one in asked}
        forbidden = await forbidden_topics(self._rights, session, names, self._operation)
        named = Counter((one.topic, one.partition) for one in asked)
        told: list[Told | None] = []
        open_: list[tuple[PartitionId, Asked]] = []
        for one in asked:
            if one.topic in forbidden:
                told.append(Told(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif named[one.topic, one.partition] > 1:
                told.append(Told(ErrorCode.INVALID_REQUEST))
            elif (topic := self._known(one)) is None:
                told.append(Told(unknown))
            elif one.current_epoch > LEADER_EPOCH:
                told.append(Told(ErrorCode.UNKNOWN_LEADER_EPOCH))
            else:
                told.append(self._check(version, one))
                if told[-1] is None:
                    open_.append((PartitionId(topic.topic_id, one.partition), one))
        within_ms = TIMEOUT_MS if timeout_ms is None else min(max(timeout_ms, TIMEOUT_LEAST_MS), TIMEOUT_MS)
        answers = iter(await self._ask(open_, within_ms) if open_ else ())
        return [next(answers) if one is None else one for one in told]

    def _known(self, one: Asked) -> DisklessTopic | None:
        """Return the topic of a partition that exists."""
        topic = self._catalogue.named(one.topic)
        return topic if topic is not None and 0 <= one.partition < topic.partitions else None

    async def _error_of_unknown(self, asked: Sequence[Asked]) -> ErrorCode:
        """Return the error of partitions that are not known, once the catalogue was brought up to date if there are any.

        Another gateway may have made or grown the topic and named this one as its leader; some clients tell their users at once.
        """
        if all(self._known(one) is not None for one in asked):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            await self._catalogue.refreshed()
        except ServiceError as error:
            LOG.info("%s of unknown topics: topics not listed error=%r", self.api.text, str(error))
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offsets_takers(catalogue: Catalogue, rights: Rights, lists: Lists, deletes: Deletes, exact: ExactOffsets) -> dict[int, OffsetsTaker]:
    """Return the takers of this room, by API key."""

    async def list_offsets(open_: Sequence[tuple[PartitionId, Asked]], timeout_ms: int) -> list[Told]:
        found = await lists.list_offsets([(partition, one.value) for partition, one in open_], timeout_ms=timeout_ms)
        told = [_listed(one) for one in found]
        by_time = {
            place: ByTime(partition, one.value, told[place].timestamp, told[place].offset)
            for place, (partition, one) in enumerate(open_)
            if (one.value >= 0 or one.value == MAX_TIMESTAMP) and told[place].offset >= 0
        }
        if by_time:
            for place, record in zip(by_time, await exact.refine(list(by_time.values()), timeout_ms), strict=True):
                told[place] = record
        return told

    async def end_offsets(open_: Sequence[tuple[PartitionId, Asked]], timeout_ms: int) -> list[Told]:
        found = await lists.list_offsets([(partition, LATEST) for partition, _ in open_], timeout_ms=timeout_ms)
        return [_listed(one) for one in found]

    async def delete_records(open_: Sequence[tuple[PartitionId, Asked]], timeout_ms: int) -> list[Told]:
        done = await deletes.delete_records([(partition, one.value) for partition, one in open_], timeout_ms=timeout_ms)
        return [_told(one.error) or Told(ErrorCode.NONE, offset=one.low_watermark) for one in done]

    takers = (
        OffsetsTaker(LIST_OFFSETS, AclOperation.DESCRIBE, catalogue, rights, _place_without_log, list_offsets),
        OffsetsTaker(DELETE_RECORDS, AclOperation.DELETE, catalogue, rights, lambda _version, _one: None, delete_records),
        OffsetsTaker(OFFSET_FOR_LEADER_EPOCH, AclOperation.DESCRIBE, catalogue, rights, _end_of_other_epoch, end_offsets),
    )
    return {one.api: one for one in takers}


def _place_without_log(version: int, one: Asked) -> Told | None:
    """The answer for a timestamp that names no place in the log: a version that does not know it, or a place of tiered storage."""
    if one.value < 0 and version < FIRST_VERSIONS.get(one.value, version + 1):
        return Told(ErrorCode.UNSUPPORTED_VERSION)
    return Told(ErrorCode.NONE) if one.value in TIERED else None


def _end_of_other_epoch(_version: int, one: Asked) -> Told | None:
    """The answer for another epoch than the leader's: none ended, so a broker knows of no end."""
    return None if one.value == LEADER_EPOCH else Told(ErrorCode.NONE)


def _listed(one: ListedOffset) -> Told:
    epoch = NO_EPOCH if one.offset < 0 else LEADER_EPOCH
    return _told(one.error) or Told(ErrorCode.NONE, one.timestamp_ms, one.offset, epoch)


def _told(error: ErrorCode) -> Told | None:
    """An error as clients of brokers understand it; None when there is none."""
    if error is ErrorCode.NONE:
        return None
    if error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return Told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if error in _HEALING:
        return Told(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return Told(error if error in _AS_THEY_ARE else ErrorCode.UNKNOWN_SERVER_ERROR)
