"""Steps of the migration of classic partitions, and what is known of it, between the wire and the core.

Commands and answers are flat lists in the order of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from coordinator.core.commands import (
    DescribeDisklessLogs,
    DescribedLog,
    LogInit,
    LogOrigin,
    LogRepair,
    LogReset,
    MigratedLog,
    MigratePartitions,
    NamedLog,
    PrefixReport,
)
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import ALTER, CLUSTER_ACTION, DISCOVERY, AnsweredBy, Lane, Operation, Translation, declare
from coordinator.operations.nesting import each_partition, nested_response
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeDisklessLogPartitionResult,
    DescribeDisklessLogRequest,
    DescribeDisklessLogResponse,
    InitDisklessLogPartitionResult,
    InitDisklessLogRequest,
    InitDisklessLogResponse,
    RepairDisklessLogPartitionResult,
    RepairDisklessLogRequest,
    RepairDisklessLogResponse,
    ReportPrefixStartPartitionResult,
    ReportPrefixStartRequest,
    ReportPrefixStartResponse,
    ResetDisklessLogPartitionResult,
    ResetDisklessLogRequest,
    ResetDisklessLogResponse,
)

P = TypeVar("P")
NO_STATE: Final = -1
BROKERS_AND_OPERATORS: Final = CLUSTER_ACTION | ALTER


class _OfPartition(Protocol):
    @property
    def partition_index(self) -> int: ...


def _plain(make: Callable[..., P]) -> Callable[[_OfPartition, MigratedLog], P]:
    """The maker of a result that has nothing but its error."""

    def result(partition: _OfPartition, answer: MigratedLog) -> P:
        return make(partition_index=partition.partition_index, error_code=answer.outcome.error, error_message=answer.outcome.message)

    return result


def _inits(request: InitDisklessLogRequest) -> list[LogInit]:
    # Only nodes read requests; other programs start without the records.
    from records.model import SeededProducerBatch

    return [
        LogInit(
            topic_id,
            one.partition_index,
            one.start_offset,
            one.prefix_start,
            one.leader_epoch,
            [
                SeededProducerBatch(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    base_sequence=batch.first_sequence,
                    last_sequence=batch.last_sequence,
                    base_offset=batch.base_offset,
                    timestamp_ms=batch.max_timestamp,
                )
                for producer in one.producers
                for batch in producer.batches
            ],
            max((batch.last_offset for producer in one.producers for batch in producer.batches), default=-1),
        )
        for topic_id, one in each_partition(request)
    ]


def _init_response(request: InitDisklessLogRequest, answers: Sequence[MigratedLog]) -> Message:
    return nested_response(InitDisklessLogResponse, request, _plain(InitDisklessLogPartitionResult), answers)


def _resets(request: ResetDisklessLogRequest) -> list[LogReset]:
    return [LogReset(topic_id, one.partition_index, one.leader_epoch) for topic_id, one in each_partition(request)]


def _reset_response(request: ResetDisklessLogRequest, answers: Sequence[MigratedLog]) -> Message:
    return nested_response(ResetDisklessLogResponse, request, _plain(ResetDisklessLogPartitionResult), answers)


def _repairs(request: RepairDisklessLogRequest) -> list[LogRepair]:
    return [
        LogRepair(topic_id, one.partition_index, one.start_offset, one.leader_epoch, request.dry_run)
        for topic_id, one in each_partition(request)
    ]


def _repaired(partition: _OfPartition, answer: MigratedLog) -> RepairDisklessLogPartitionResult:
    before, after = answer.before, answer.after
    return RepairDisklessLogPartitionResult(
        partition_index=partition.partition_index,
        error_code=answer.outcome.error,
        error_message=answer.outcome.message,
        previous_start_offset=before.start_offset,
        start_offset=after.start_offset,
        prefix_start=after.prefix_start,
        suffix_start=after.suffix_start,
        high_watermark=after.high_watermark,
    )


def _repair_response(request: RepairDisklessLogRequest, answers: Sequence[MigratedLog]) -> Message:
    return nested_response(RepairDisklessLogResponse, request, _repaired, answers)


def _reports(request: ReportPrefixStartRequest) -> list[PrefixReport]:
    return [PrefixReport(topic_id, one.partition_index, one.prefix_start, one.leader_epoch) for topic_id, one in each_partition(request)]


def _report_response(request: ReportPrefixStartRequest, answers: Sequence[MigratedLog]) -> Message:
    return nested_response(ReportPrefixStartResponse, request, _plain(ReportPrefixStartPartitionResult), answers)


def _named(request: DescribeDisklessLogRequest) -> list[NamedLog]:
    return [NamedLog(topic_id, one.partition_index) for topic_id, one in each_partition(request)]


def _described(partition: _OfPartition, answer: DescribedLog) -> DescribeDisklessLogPartitionResult:
    outcome, facts = answer
    return DescribeDisklessLogPartitionResult(
        partition_index=partition.partition_index,
        error_code=outcome.error,
        error_message=outcome.message,
        state=facts.origin if outcome.error is ErrorCode.NONE else NO_STATE,
        start_offset=facts.start_offset,
        prefix_start=facts.prefix_start,
        suffix_start=facts.suffix_start,
        high_watermark=facts.high_watermark,
        leader_epoch=facts.leader_epoch,
    )


def _describe_response(request: DescribeDisklessLogRequest, answers: Sequence[DescribedLog]) -> Message:
    return nested_response(DescribeDisklessLogResponse, request, _described, answers)


def origin_of(state: int) -> LogOrigin | None:
    """The state that a response names, None for one that this version does not know."""
    return LogOrigin(state) if state in list(LogOrigin) else None


INIT_DISKLESS_LOG: Final[Operation] = declare(
    InitDisklessLogRequest,
    InitDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_inits, refused=MigratedLog, response=_init_response, command=lambda steps: MigratePartitions(steps=steps)
    ),
)

DESCRIBE_DISKLESS_LOG: Final[Operation] = declare(
    DescribeDisklessLogRequest,
    DescribeDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=DISCOVERY,
    translation=Translation(
        elements=_named,
        refused=DescribedLog,
        response=_describe_response,
        command=lambda named: DescribeDisklessLogs(partitions=named),
    ),
)

RESET_DISKLESS_LOG: Final[Operation] = declare(
    ResetDisklessLogRequest,
    ResetDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_resets, refused=MigratedLog, response=_reset_response, command=lambda steps: MigratePartitions(steps=steps)
    ),
)

REPAIR_DISKLESS_LOG: Final[Operation] = declare(
    RepairDisklessLogRequest,
    RepairDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=ALTER,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_repairs, refused=MigratedLog, response=_repair_response, command=lambda steps: MigratePartitions(steps=steps)
    ),
    only_looks=lambda request: bool(request.dry_run),
)

REPORT_PREFIX_START: Final[Operation] = declare(
    ReportPrefixStartRequest,
    ReportPrefixStartResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_reports, refused=MigratedLog, response=_report_response, command=lambda steps: MigratePartitions(steps=steps)
    ),
)
