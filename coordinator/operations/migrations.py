"""Steps of the migration of classic partitions, and what is known of it, between the wire and the core.

Commands and answers are flat lists in the order of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.core.commands import (
    DescribeDisklessLogs,
    DescribedLog,
    LogInit,
    LogOrigin,
    LogRepair,
    LogReset,
    MigratedLog,
    MigratePartitions,
    MigrationStep,
    NamedLog,
    PrefixReport,
)
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import ALTER, CLUSTER_ACTION, DISCOVERY, AnsweredBy, Lane, Operation, Translation, declare
from coordinator.operations.nesting import each_partition, partition_results
from coordinator.protocol.messages import (
    DescribeDisklessLogRequest,
    DescribeDisklessLogResponse,
    InitDisklessLogRequest,
    InitDisklessLogResponse,
    RepairDisklessLogRequest,
    RepairDisklessLogResponse,
    ReportPrefixStartRequest,
    ReportPrefixStartResponse,
    ResetDisklessLogRequest,
    ResetDisklessLogResponse,
)

NO_STATE: Final = -1
BROKERS_AND_OPERATORS: Final = CLUSTER_ACTION | ALTER


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


def _resets(request: ResetDisklessLogRequest) -> list[LogReset]:
    return [LogReset(topic_id, one.partition_index, one.leader_epoch) for topic_id, one in each_partition(request)]


def _repairs(request: RepairDisklessLogRequest) -> list[LogRepair]:
    return [
        LogRepair(topic_id, one.partition_index, one.start_offset, one.leader_epoch, request.dry_run)
        for topic_id, one in each_partition(request)
    ]


def _repaired(answer: MigratedLog) -> Mapping[str, object]:
    after = answer.after
    return {
        "previous_start_offset": answer.before.start_offset,
        "start_offset": after.start_offset,
        "prefix_start": after.prefix_start,
        "suffix_start": after.suffix_start,
        "high_watermark": after.high_watermark,
    }


def _reports(request: ReportPrefixStartRequest) -> list[PrefixReport]:
    return [PrefixReport(topic_id, one.partition_index, one.prefix_start, one.leader_epoch) for topic_id, one in each_partition(request)]


def _named(request: DescribeDisklessLogRequest) -> list[NamedLog]:
    return [NamedLog(topic_id, one.partition_index) for topic_id, one in each_partition(request)]


def _described(answer: DescribedLog) -> Mapping[str, object]:
    return {"state": answer.facts.origin if answer.outcome.error is ErrorCode.NONE else NO_STATE, **answer.facts._asdict()}


def _take(steps: list[MigrationStep]) -> MigratePartitions:
    return MigratePartitions(steps=steps)


def origin_of(state: int) -> LogOrigin | None:
    """The state that a response names, None for one that this version does not know."""
    return LogOrigin(state) if state in list(LogOrigin) else None


INIT_DISKLESS_LOG: Final[Operation] = declare(
    InitDisklessLogRequest,
    InitDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(elements=_inits, refused=MigratedLog, response=partition_results(InitDisklessLogResponse), command=_take),
)

DESCRIBE_DISKLESS_LOG: Final[Operation] = declare(
    DescribeDisklessLogRequest,
    DescribeDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=DISCOVERY,
    translation=Translation(
        elements=_named,
        refused=DescribedLog,
        response=partition_results(DescribeDisklessLogResponse, _described),
        command=lambda named: DescribeDisklessLogs(partitions=named),
    ),
)

RESET_DISKLESS_LOG: Final[Operation] = declare(
    ResetDisklessLogRequest,
    ResetDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(elements=_resets, refused=MigratedLog, response=partition_results(ResetDisklessLogResponse), command=_take),
)

REPAIR_DISKLESS_LOG: Final[Operation] = declare(
    RepairDisklessLogRequest,
    RepairDisklessLogResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=ALTER,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_repairs, refused=MigratedLog, response=partition_results(RepairDisklessLogResponse, _repaired), command=_take
    ),
    only_looks=lambda request: bool(request.dry_run),
)

REPORT_PREFIX_START: Final[Operation] = declare(
    ReportPrefixStartRequest,
    ReportPrefixStartResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=BROKERS_AND_OPERATORS,
    lane=Lane.ALONE,
    translation=Translation(elements=_reports, refused=MigratedLog, response=partition_results(ReportPrefixStartResponse), command=_take),
)
