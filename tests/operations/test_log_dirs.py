"""Requests about data directories on the wire: kio makes and reads the same bytes, and what is said survives in every version."""

from __future__ import annotations

import pytest
from kio.schema.describe_log_dirs import v1, v4

from coordinator.kafka.directory_ids import LOST, MIGRATING
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    ASSIGN_REPLICAS_TO_DIRS,
    DESCRIBE_LOG_DIRS,
    AssignedReplica,
    DescribedDirectory,
    DescribedReplica,
    WantedPlace,
    alter_outcomes,
    alter_request,
    alter_response,
    assign_outcomes,
    assign_request,
    assign_response,
    assigned_replicas,
    describe_request,
    describe_response,
    described_directories,
    described_partitions,
    wanted_places,
)
from tests.operations.kio_codec import same_as_kio

DIR_1, DIR_2, TOPIC = b"1" * 16, b"2" * 16, b"t" * 16
REPLICAS = [
    AssignedReplica(DIR_1, TOPIC, 0),
    AssignedReplica(DIR_1, TOPIC, 3),
    AssignedReplica(LOST, TOPIC, 1),
    AssignedReplica(MIGRATING, bytes(16), 2),
]
DIRECTORIES = [
    DescribedDirectory("/a", ErrorCode.NONE, 1 << 40, 1 << 30, [DescribedReplica("t", 0, 5, 0, False)]),
    DescribedDirectory("/c", ErrorCode.NONE, -1, -1, [DescribedReplica("t", 1, 0, 7, True)]),
    DescribedDirectory("/b", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, []),
]


def test_assignments_survive_also_those_to_ids_that_name_no_directory() -> None:
    assert assigned_replicas(same_as_kio(assign_request(7, 1 << 62, REPLICAS))) == (7, 1 << 62, REPLICAS)


def test_what_became_of_assignments_survives() -> None:
    errors = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    answered = list(zip(REPLICAS, errors, strict=True))
    assert assign_outcomes(same_as_kio(assign_response(ErrorCode.NONE, answered))) == (ErrorCode.NONE, dict(answered))
    assert assign_outcomes(same_as_kio(assign_response(ErrorCode.STALE_BROKER_EPOCH))) == (ErrorCode.STALE_BROKER_EPOCH, {})


@pytest.mark.parametrize("version", ALTER_REPLICA_LOG_DIRS.versions)
def test_moves_and_their_outcomes_survive(version: int) -> None:
    wanted = [WantedPlace("/a", "t", 0), WantedPlace("/a", "t", 3), WantedPlace("/b", "t", 1)]
    assert wanted_places(same_as_kio(alter_request(wanted))) == wanted
    errors = [ErrorCode.NONE, ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.KAFKA_STORAGE_ERROR]
    response = same_as_kio(alter_response(version, list(zip(wanted, errors, strict=True))))
    assert alter_outcomes(response) == {0: errors[0], 3: errors[1], 1: errors[2]}


def test_directories_survive() -> None:
    assert described_directories(same_as_kio(describe_response(4, ErrorCode.NONE, DIRECTORIES))) == (ErrorCode.NONE, DIRECTORIES)
    assert described_partitions(same_as_kio(describe_request())) is None


@pytest.mark.parametrize("version", DESCRIBE_LOG_DIRS.versions)
def test_every_version_of_the_description_can_be_told(version: int) -> None:
    response = same_as_kio(describe_response(version, ErrorCode.NONE, DIRECTORIES))
    assert [(one.log_dir, len(one.topics)) for one in response.results] == [("/a", 1), ("/c", 1), ("/b", 0)]  # type: ignore[attr-defined]


def test_topics_that_are_asked_for_are_told() -> None:
    for module in (v1, v4):
        topic = module.request.DescribableLogDirTopic(topic="t", partitions=(1, 2))
        assert described_partitions(module.request.DescribeLogDirsRequest(topics=(topic,))) == {"t": frozenset({1, 2})}


def test_the_numbers_are_those_of_kafka_and_only_nodes_assign() -> None:
    assert (ALTER_REPLICA_LOG_DIRS.key, DESCRIBE_LOG_DIRS.key, ASSIGN_REPLICAS_TO_DIRS.key) == (34, 35, 73)
    assert ASSIGN_REPLICAS_TO_DIRS.is_internal
    assert not DESCRIBE_LOG_DIRS.is_internal
