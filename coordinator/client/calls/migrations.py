"""Steps of the migration of classic partitions: one request for the partitions of a node; `routing.py` decides what goes where and when.

Invariant: a response that does not name exactly the partitions of its request is a malformed message, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast

from coordinator.client.calls.partitions import PartitionsCall
from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import PartitionId, Result, SeededProducer
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN
from coordinator.core.commands import LogOrigin
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.migrations import (
    DESCRIBE_DISKLESS_LOG,
    INIT_DISKLESS_LOG,
    REPAIR_DISKLESS_LOG,
    REPORT_PREFIX_START,
    RESET_DISKLESS_LOG,
    origin_of,
)
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeDisklessLogPartition,
    DescribeDisklessLogRequest,
    DescribeDisklessLogTopic,
    InitDisklessLogPartition,
    InitDisklessLogRequest,
    InitDisklessLogTopic,
    RepairDisklessLogPartition,
    RepairDisklessLogRequest,
    RepairDisklessLogTopic,
    ReportPrefixStartPartition,
    ReportPrefixStartRequest,
    ReportPrefixStartTopic,
    ResetDisklessLogPartition,
    ResetDisklessLogRequest,
    ResetDisklessLogTopic,
    SeededBatchState,
    SeededProducerState,
)

A = TypeVar("A", bound=Result)

MigrationState = Literal["pending", "initialised", "born"]
_STATES: dict[LogOrigin, MigrationState] = {
    LogOrigin.PENDING: "pending",
    LogOrigin.INITIALISED: "initialised",
    LogOrigin.BORN: "born",
}


class LogToInit(NamedTuple):
    """A classic partition whose diskless log begins at `start_offset` (B0)."""

    partition: PartitionId
    start_offset: int
    prefix_start: int
    leader_epoch: int
    producers: tuple[SeededProducer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogState(Result):
    """Where the migration of a partition stands. `start_offset` is B0; offsets and the epoch are -1 where they are not set.

    `prefix_start` is the start of the classic part, `suffix_start` that of the diskless part.
    """

    state: MigrationState = "pending"
    start_offset: int = -1
    prefix_start: int = -1
    suffix_start: int = -1
    high_watermark: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(Result):
    """The change that a repair makes: the records of `[start_offset, previous_start_offset)` are not in the classic log any more.

    The diskless part goes from `suffix_start` to `high_watermark`.
    """

    previous_start_offset: int = -1
    start_offset: int = -1
    prefix_start: int = -1
    suffix_start: int = -1
    high_watermark: int = -1

    @property
    def lost_offsets(self) -> int:
        """How many offsets no reader finds a record at, between the classic and the diskless part."""
        return max(0, self.suffix_start - self.start_offset)


class _LogsCall(PartitionsCall[A]):
    """A step of a migration; all answers have a partition index, an error and its text."""

    purpose = ADMIN
    make_request: ClassVar[type[Message]]
    make_topic: ClassVar[type[Any]]

    def _asked(self, place: int) -> Message:
        """The part of the request that is of one partition."""
        raise NotImplementedError

    def _answer(self, refusal: Refusal, one: Any) -> A:
        raise NotImplementedError

    def _more(self) -> dict[str, Any]:
        """Further fields of the request."""
        return {}

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[A]:
        topics = tuple(
            self.make_topic(topic_id=topic_id, partitions=tuple(map(self._asked, group))) for topic_id, group in self._by_topic(places)
        )
        request = self.make_request(topics=topics, timeout_ms=server_timeout_ms(timeout_s), **self._more())  # type: ignore[call-arg]
        response = cast(Any, await pool.call(line, request, timeout_s))
        rows = [
            (topic.topic_id, one.partition_index, self._answer(refusal_of(one.error_code, one.error_message), one))
            for topic in response.topics
            for one in topic.partitions
        ]
        return self._checked(places, rows)


class _PlainCall(_LogsCall[Result]):
    """A step whose answer is its error."""

    def _answer(self, refusal: Refusal, one: Any) -> Result:
        return Result(refusal=refusal)

    def refused(self, place: int, refusal: Refusal) -> Result:
        return Result(refusal=refusal)


class InitLogsCall(_PlainCall):
    """Begin diskless logs. Repeating it is harmless."""

    operation = INIT_DISKLESS_LOG
    make_request, make_topic = InitDisklessLogRequest, InitDisklessLogTopic

    def __init__(self, logs: Sequence[LogToInit]) -> None:
        super().__init__([one.partition for one in logs], wait_for_creation=False)
        self._logs = logs

    def _asked(self, place: int) -> Message:
        one = self._logs[place]
        producers = tuple(
            SeededProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                batches=tuple(
                    SeededBatchState(
                        first_sequence=batch.first_sequence,
                        last_sequence=batch.last_sequence,
                        base_offset=batch.base_offset,
                        last_offset=batch.last_offset,
                        max_timestamp=batch.max_timestamp_ms,
                    )
                    for batch in producer.batches
                ),
            )
            for producer in one.producers
        )
        return InitDisklessLogPartition(
            partition_index=one.partition.partition,
            start_offset=one.start_offset,
            prefix_start=one.prefix_start,
            leader_epoch=one.leader_epoch,
            producers=producers,
        )


class ResetLogsCall(_PlainCall):
    """Make partitions pending again; each stands with a leader epoch. Repeating it is harmless."""

    operation = RESET_DISKLESS_LOG
    make_request, make_topic = ResetDisklessLogRequest, ResetDisklessLogTopic

    def __init__(self, logs: Sequence[tuple[PartitionId, int]]) -> None:
        super().__init__([partition for partition, _ in logs], wait_for_creation=False)
        self._logs = logs

    def _asked(self, place: int) -> Message:
        partition, leader_epoch = self._logs[place]
        return ResetDisklessLogPartition(partition_index=partition.partition, leader_epoch=leader_epoch)


class ReportPrefixCall(_PlainCall):
    """Tell where classic logs begin; each partition stands with that offset and a leader epoch. Repeating it is harmless."""

    operation = REPORT_PREFIX_START
    make_request, make_topic = ReportPrefixStartRequest, ReportPrefixStartTopic

    def __init__(self, logs: Sequence[tuple[PartitionId, int, int]]) -> None:
        super().__init__([partition for partition, _, _ in logs], wait_for_creation=False)
        self._logs = logs

    def _asked(self, place: int) -> Message:
        partition, prefix_start, leader_epoch = self._logs[place]
        return ReportPrefixStartPartition(partition_index=partition.partition, prefix_start=prefix_start, leader_epoch=leader_epoch)


class RepairLogsCall(_LogsCall[RepairReport]):
    """Lower start offsets; each partition stands with the lower one and a leader epoch. Repeating it is harmless."""

    operation = REPAIR_DISKLESS_LOG
    make_request, make_topic = RepairDisklessLogRequest, RepairDisklessLogTopic

    def __init__(self, logs: Sequence[tuple[PartitionId, int, int]], *, is_dry_run: bool) -> None:
        super().__init__([partition for partition, _, _ in logs], wait_for_creation=False)
        self._logs = logs
        self._is_dry_run = is_dry_run

    @property
    def is_write(self) -> bool:
        return not self._is_dry_run

    def _asked(self, place: int) -> Message:
        partition, start_offset, leader_epoch = self._logs[place]
        return RepairDisklessLogPartition(partition_index=partition.partition, start_offset=start_offset, leader_epoch=leader_epoch)

    def _more(self) -> dict[str, Any]:
        return {"dry_run": self._is_dry_run}

    def _answer(self, refusal: Refusal, one: Any) -> RepairReport:
        return RepairReport(
            refusal=refusal,
            previous_start_offset=one.previous_start_offset,
            start_offset=one.start_offset,
            prefix_start=one.prefix_start,
            suffix_start=one.suffix_start,
            high_watermark=one.high_watermark,
        )

    def refused(self, place: int, refusal: Refusal) -> RepairReport:
        return RepairReport(refusal=refusal)


class DescribeLogsCall(_LogsCall[DisklessLogState]):
    """Where migrations stand."""

    operation = DESCRIBE_DISKLESS_LOG
    make_request, make_topic = DescribeDisklessLogRequest, DescribeDisklessLogTopic

    def __init__(self, partitions: Sequence[PartitionId]) -> None:
        super().__init__(partitions, wait_for_creation=False)
        self._named = partitions

    def _asked(self, place: int) -> Message:
        return DescribeDisklessLogPartition(partition_index=self._named[place].partition)

    def _answer(self, refusal: Refusal, one: Any) -> DisklessLogState:
        origin = origin_of(one.state)
        if refusal.code is ErrorCode.NONE and origin is None:
            text = f"the state {one.state} of a partition's migration is unknown to this client; use a newer one"
            refusal = Refusal(ErrorCode.UNSUPPORTED_VERSION, text)
        return DisklessLogState(
            refusal=refusal,
            state=_STATES[origin or LogOrigin.PENDING],
            start_offset=one.start_offset,
            prefix_start=one.prefix_start,
            suffix_start=one.suffix_start,
            high_watermark=one.high_watermark,
            leader_epoch=one.leader_epoch,
        )

    def refused(self, place: int, refusal: Refusal) -> DisklessLogState:
        return DisklessLogState(refusal=refusal)
