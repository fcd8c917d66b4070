"""FetchSnapshot on the wire: kio makes and reads the same bytes, and what nodes say to each other survives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode as KioError
from kio.schema.fetch_snapshot import v0, v1

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.snapshot_fetches import (
    FETCH_SNAPSHOT,
    SnapshotAnswer,
    SnapshotQuestion,
    fetch_snapshot_request,
    fetch_snapshot_response,
    snapshot_answer,
    snapshot_questions,
)
from coordinator.protocol.codec import encode
from tests.operations.kio_codec import same_as_kio

ASKED = SnapshotQuestion("__metadata", 3, 1_234, 5, 678)


def test_a_question_survives() -> None:
    request = fetch_snapshot_request("cluster", 7, ASKED, 1_000)
    assert snapshot_questions(request) == ("cluster", 1_000, [ASKED])
    same_as_kio(request)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "answer", [SnapshotAnswer(ErrorCode.NONE, 5_000, b"records"), SnapshotAnswer(ErrorCode.POSITION_OUT_OF_RANGE, 600)]
)
def test_an_answer_survives_in_both_versions(version: int, answer: SnapshotAnswer) -> None:
    response = fetch_snapshot_response(version, ErrorCode.NONE, [(ASKED, answer)])
    same_as_kio(response)
    assert snapshot_answer(response) == answer


def test_an_error_of_the_whole_request_is_the_answer() -> None:
    response = fetch_snapshot_response(1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    same_as_kio(response)
    assert snapshot_answer(response) == SnapshotAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID)


def test_a_response_that_answers_something_else_is_refused() -> None:
    other = ASKED._replace(position=0)
    both = fetch_snapshot_response(1, ErrorCode.NONE, [(ASKED, SnapshotAnswer(ErrorCode.NONE)), (other, SnapshotAnswer(ErrorCode.NONE))])
    with pytest.raises(ValueError, match="2 answers"):
        snapshot_answer(both)


def test_the_leader_that_a_broker_of_kafka_tells_is_read() -> None:
    partition = v1.response.PartitionSnapshot(
        index=3,
        error_code=KioError.none,
        snapshot_id=v1.response.SnapshotId(end_offset=1, epoch=2),
        current_leader=v1.response.LeaderIdAndEpoch(leader_id=4, leader_epoch=9),
        size=10,
        position=0,
        unaligned_records=b"0123456789",
    )
    topic = v1.response.TopicSnapshot(name="__metadata", partitions=(partition,))
    same_as_kio(v1.response.FetchSnapshotResponse(throttle_time=timedelta(0), error_code=KioError.none, topics=(topic,)))


def test_the_bytes_of_a_request_are_those_of_kafka() -> None:
    # KIP-630 by hand: cluster id is tag 0; compact arrays and strings have their length plus one.
    request = v0.FetchSnapshotRequest(
        cluster_id="c",
        replica_id=-1,
        max_bytes=16,
        topics=(
            v0.request.TopicSnapshot(
                name="t",
                partitions=(
                    v0.request.PartitionSnapshot(
                        partition=1, current_leader_epoch=-1, snapshot_id=v0.request.SnapshotId(end_offset=2, epoch=3), position=4
                    ),
                ),
            ),
        ),
    )
    text = "ffffffff 00000010 02 0274 02 00000001 ffffffff 0000000000000002 00000003 00 0000000000000004 00 00 01 00 02 0263"
    assert encode(request) == bytes.fromhex(text)


def test_only_nodes_ask() -> None:
    assert FETCH_SNAPSHOT.is_internal
    assert FETCH_SNAPSHOT.key == 59
