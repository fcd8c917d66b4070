"""ListOffsets, FindBatches and DeleteRecords between the wire and the core.

Requests nest partitions in topics; commands and answers are flat lists in the order of the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.core.commands import (
    DeletedTo,
    DeletePoint,
    DeleteRecords,
    FetchPoint,
    FoundBatches,
    FoundOffset,
    OffsetQuery,
    Outcome,
)
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import CLUSTER_ACTION, AnsweredBy, ByTopic, Lane, Operation, Translation, bad_timeout, declare
from coordinator.operations.nesting import each_partition, partition_results
from coordinator.protocol.find_batches import FindBatchesBody, FoundPartition, decode_find_batches, encode_find_batches_response
from coordinator.protocol.list_offsets import ListOffsetsBody, decode_list_offsets, encode_list_offsets_response
from coordinator.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FindBatchesRequest,
    FindBatchesResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)


def list_offsets_queries(request: ListOffsetsBody) -> list[OffsetQuery]:
    """The queries in request order."""
    return [OffsetQuery(topic_id, index, timestamp) for topic_id, partitions in request.topics for index, timestamp in partitions]


def list_offsets_body(request: ListOffsetsBody, answers: Sequence[FoundOffset]) -> bytes:
    """The encoded response, one answer per query."""
    topics = []
    start = 0
    for topic_id, partitions in request.topics:
        start, found = start + len(partitions), answers[start : start + len(partitions)]
        rows = [
            (index, one.outcome.error, one.outcome.message, one.timestamp, one.offset)
            for (index, _), one in zip(partitions, found, strict=True)
        ]
        topics.append((topic_id, rows))
    return encode_list_offsets_response(topics)


def _delete_points(request: DeleteRecordsRequest) -> list[DeletePoint]:
    """The points in request order."""
    return [DeletePoint(topic_id=topic_id, partition=one.partition_index, offset=one.offset) for topic_id, one in each_partition(request)]


class FetchPoints(NamedTuple):
    """A FindBatches request; `refusal` is set when it may not be served."""

    points: list[FetchPoint]
    refusal: Outcome | None


def find_batches_points(request: FindBatchesBody) -> FetchPoints:
    """The points in request order, with what is wrong with the request as a whole."""
    points = [
        FetchPoint(topic_id, index, offset, max_bytes) for topic_id, partitions in request.topics for index, offset, max_bytes in partitions
    ]
    refusal = None
    if request.max_batches_per_partition < 0:
        message = f"MaxBatchesPerPartition {request.max_batches_per_partition} is negative; 0 means no limit"
        refusal = Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    elif request.timeout_ms <= 0:
        refusal = bad_timeout(request.timeout_ms)
    elif request.min_bytes < 0 or request.max_wait_ms < 0:
        message = f"MinBytes {request.min_bytes} and MaxWaitMs {request.max_wait_ms} may not be negative; 0 does not wait"
        refusal = Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    return FetchPoints(points, refusal)


def find_batches_body(request: FindBatchesBody, answers: Sequence[FoundBatches]) -> bytes:
    """The encoded response, one answer per point."""
    flat = iter(answers)
    topics = [
        (topic_id, [_found_partition(partition[0], next(flat)) for partition in partitions]) for topic_id, partitions in request.topics
    ]
    return encode_find_batches_response(topics)


def _found_partition(index: int, answer: FoundBatches) -> FoundPartition:
    return FoundPartition(index, int(answer.outcome.error), answer.log_start, answer.high_watermark, answer.batches)


def _refuse_list_offsets(data: bytes, body_offset: int, outcome: Outcome) -> bytes:
    request = decode_list_offsets(data, body_offset)
    return list_offsets_body(request, [FoundOffset(outcome)] * len(list_offsets_queries(request)))


def _refuse_find_batches(data: bytes, body_offset: int, outcome: Outcome) -> bytes:
    request = decode_find_batches(data, body_offset)
    return find_batches_body(request, [FoundBatches(outcome=outcome, batches=[])] * len(find_batches_points(request).points))


READ_OF_TOPIC: Final = ByTopic(acl=AclOperation.READ)

LIST_OFFSETS: Final[Operation] = declare(
    ListOffsetsRequest,
    ListOffsetsResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=CLUSTER_ACTION,
    has_own_codec=True,
    refuse_body=_refuse_list_offsets,
    by_topic=READ_OF_TOPIC,
)

FIND_BATCHES: Final[Operation] = declare(
    FindBatchesRequest,
    FindBatchesResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=CLUSTER_ACTION,
    is_unbounded=True,
    has_own_codec=True,
    refuse_body=_refuse_find_batches,
    by_topic=READ_OF_TOPIC,
)

DELETE_RECORDS: Final[Operation] = declare(
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=CLUSTER_ACTION,
    lane=Lane.ALONE,
    translation=Translation(
        elements=_delete_points,
        refused=lambda outcome: DeletedTo(outcome=outcome),
        response=partition_results(DeleteRecordsResponse, lambda answer: {"low_watermark": answer.low_watermark}),
        command=lambda points: DeleteRecords(points=points),
    ),
)
