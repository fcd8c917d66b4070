"""The client's half of CONTRIBUTING.md's exercise: declarations alone say how their calls are asked and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.client.calls.declared import ByCoordinators, ByPartitions, OneByOne, by_directory, read_as
from coordinator.client.errors import Refusal
from coordinator.client.model import PartitionId, Result
from coordinator.client.routing.pool import Line
from coordinator.client.routing.routed_call import RoutedCall
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import ENFORCE_RETENTION, FINISH_RESTORE, NO_RESTORE, TAKE_SNAPSHOT
from coordinator.operations.migrations import REPAIR_DISKLESS_LOG, REPORT_PREFIX_START
from coordinator.operations.partitions import DELETE_RECORDS, LIST_OFFSETS
from coordinator.protocol import messages as m
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import MalformedMessage

ONE, OTHER = bytes([1]) * 16, bytes([2]) * 16
LINE = Line("host", 1, "admin")
PARTITIONS = [PartitionId(ONE, 3), PartitionId(ONE, 1), PartitionId(OTHER, 0), PartitionId(ONE, 2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted(Result):
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Result):
    coordinator_id: int = -1
    end_offset: int = -1


class Pool:
    """Answers requests as a node would; keeps them."""

    def __init__(self, answer: Callable[[Any], Message]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def call(self, line: Line, message: Message, timeout_s: float) -> Message:
        assert (line, timeout_s > 0) == (LINE, True)
        self.asked.append(message)
        return self.answer(message)


def deleted(request: m.DeleteRecordsRequest) -> m.DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        rows = [
            m.DeleteRecordsPartitionResult(
                partition_index=one.partition_index, low_watermark=one.offset, error_code=0 if one.offset else 1, error_message=None
            )
            for one in topic.partitions
        ]
        topics.append(m.DeleteRecordsTopicResult(topic_id=topic.topic_id, partitions=tuple(rows)))
    return m.DeleteRecordsResponse(topics=tuple(topics))


def deletion() -> ByPartitions[Deleted]:
    parts = [
        (partition, m.DeleteRecordsPartition(partition_index=partition.partition, offset=place))
        for place, partition in enumerate(PARTITIONS)
    ]
    return ByPartitions(DELETE_RECORDS, parts, Deleted)


async def test_partitions_are_nested_by_topic_in_their_order_and_answers_are_read_by_name() -> None:
    pool, call = Pool(deleted), deletion()
    assert call.targets == [partition.key for partition in PARTITIONS]
    answers = await call.send(pool, LINE, range(4), 1.0)
    assert [(one.error, one.low_watermark) for one in answers] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, 0), (ErrorCode.NONE, 1), (ErrorCode.NONE, 2), (ErrorCode.NONE, 3),
    ]  # fmt: skip
    [request] = pool.asked
    assert [(topic.topic_id, [one.partition_index for one in topic.partitions]) for topic in request.topics] == [
        (ONE, [3, 1]), (OTHER, [0]), (ONE, [2]),
    ]  # fmt: skip
    assert 0 < request.timeout_ms < 1000
    assert [one.low_watermark for one in await call.send(pool, LINE, [3, 1], 1.0)] == [3, 1]


@pytest.mark.parametrize("places", [[0], [1, 0], [0, 1, 2, 3]])
async def test_answers_about_other_partitions_than_those_asked_are_malformed(places: Sequence[int]) -> None:
    async def answer(places: Sequence[int]) -> Message:
        pool = Pool(deleted)
        await deletion().send(pool, LINE, places, 1.0)
        return deleted(pool.asked[0])

    other = await answer([0, 1])
    with pytest.raises(MalformedMessage, match="partitions were asked for; the answer has 2, or others"):
        await deletion().send(Pool(lambda _: other), LINE, places, 1.0)


async def test_coordinators_are_named_in_one_request_and_must_be_answered_in_its_order() -> None:
    def taken(request: m.TakeSnapshotRequest) -> m.TakeSnapshotResponse:
        results = [
            m.TakeSnapshotResult(error_code=0, error_message=None, coordinator_id=one, end_offset=10 * one, size_bytes=1)
            for one in request.coordinator_ids
        ]
        return m.TakeSnapshotResponse(results=tuple(results))

    call = ByCoordinators(TAKE_SNAPSHOT, [5, 2, 7], Taken)
    pool = Pool(taken)
    assert await call.send(pool, LINE, [2, 0], 1.0) == [Taken(coordinator_id=7, end_offset=70), Taken(coordinator_id=5, end_offset=50)]
    assert [one.coordinator_ids for one in pool.asked] == [(7, 5)]
    late = Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")
    assert call.refused(1, late) == Taken(coordinator_id=2, refusal=late)
    with pytest.raises(MalformedMessage, match="2 coordinators were named"):
        await call.send(Pool(lambda request: taken(pool.asked[0])), LINE, [0, 2], 1.0)


async def test_each_coordinator_gets_a_request_of_its_own() -> None:
    def request(coordinator_id: int, timeout_ms: int) -> m.ListFilesRequest:
        return m.ListFilesRequest(
            coordinator_ids=(coordinator_id,), after_key=None, max_files=1, states=(), object_keys=(), timeout_ms=timeout_ms
        )

    def read(coordinator_id: int, response: Any) -> Taken:
        return read_as(Taken, response, coordinator_id=coordinator_id, end_offset=len(response.files))

    pool = Pool(lambda _: m.ListFilesResponse(error_code=0, error_message=None, files=(), last_key=None, more=False))
    call = OneByOne(TAKE_SNAPSHOT, [4, 6], request, Taken, read)
    assert [one.coordinator_id for one in await call.send(pool, LINE, [1, 0], 1.0)] == [6, 4]
    assert [one.coordinator_ids for one in pool.asked] == [(6,), (4,)]


def restore(restore_id: bytes) -> RoutedCall[Result]:
    return by_directory(FINISH_RESTORE, lambda timeout_ms: m.FinishRestoreRequest(restore_id=restore_id, timeout_ms=timeout_ms), Result)


def test_the_declaration_says_whether_the_outcome_of_a_lost_request_is_open() -> None:
    repair = {dry: ByPartitions(REPAIR_DISKLESS_LOG, [], Result, dry_run=dry).is_write for dry in (True, False)}
    retention = {dry: ByCoordinators(ENFORCE_RETENTION, [1], Taken, topic_ids=(), dry_run=dry).is_write for dry in (True, False)}
    assert repair == retention == {True: False, False: True}
    assert [restore(one).is_write for one in (NO_RESTORE, ONE)] == [False, True]
    assert [ByPartitions(one, [], Result).is_write for one in (REPORT_PREFIX_START, LIST_OFFSETS)] == [True, False]
