"""Kafka's requests about data directories, as a node answers them over real folders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.core.directory.replica_dirs import node_epoch
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.kafka_versions import schema_module
from coordinator.operations.log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    ASSIGN_REPLICAS_TO_DIRS,
    DESCRIBE_LOG_DIRS,
    AssignedReplica,
    DescribedDirectory,
    WantedPlace,
    alter_outcomes,
    alter_request,
    assign_outcomes,
    assign_request,
    describe_request,
    described_directories,
)
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from tests.runtime.data_directories import over
from tests.runtime.nodes import Running, in_memory

PARTITIONS = 4


class Service(NamedTuple):
    """A node that leads everything, and the paths of its two directories."""

    running: Running
    one: str
    two: str


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[Service]:
    one, two = folder / "one", folder / "two"
    async with over(in_memory(partitions=PARTITIONS), one, two) as started:
        await started.leads()
        await started.until(
            lambda: not started.node.reports.queued() and _is_registered(started), "the node to be registered with its places"
        )
        yield Service(started, str(one), str(two))


def _is_registered(of: Running) -> bool:
    directory = of.node.view.directory
    return directory is not None and 1 in directory.nodes


async def assign(to: Service, *replicas: AssignedReplica, node_id: int = 1, epoch: int | None = None) -> tuple[ErrorCode, list[ErrorCode]]:
    own = node_epoch(to.running.node.config.incarnation_id)
    request = assign_request(node_id, own if epoch is None else epoch, replicas)
    error, told = assign_outcomes(await serve(to.running.node, ASSIGN_REPLICAS_TO_DIRS, 0, request))
    return error, [told[one] for one in replicas if one in told]


async def describe(to: Service, request: Message | None = None, version: int = 4) -> dict[str, DescribedDirectory]:
    response = await serve(to.running.node, DESCRIBE_LOG_DIRS, version, request or describe_request())
    error, directories = described_directories(response)
    assert error is ErrorCode.NONE
    return {one.path: one for one in directories}


async def move(to: Service, *wanted: WantedPlace) -> dict[int, ErrorCode]:
    return alter_outcomes(await serve(to.running.node, ALTER_REPLICA_LOG_DIRS, 2, alter_request(wanted)))


async def test_each_assignment_gets_its_own_error(tmp_path: Path) -> None:
    async with service(tmp_path) as to:
        facts = to.running.node.topic.facts
        assert facts is not None
        elsewhere = b"e" * 16
        right, unknown = AssignedReplica(elsewhere, facts.topic_id, 1), AssignedReplica(elsewhere, facts.topic_id, PARTITIONS)
        stranger = AssignedReplica(elsewhere, b"another topic id", 1)
        error, errors = await assign(to, right, unknown, stranger)
        assert error is ErrorCode.NONE
        assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize(
    ("node_id", "epoch", "error"),
    [(1, 7, ErrorCode.STALE_BROKER_EPOCH), (5, None, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
async def test_assignments_of_others_are_refused_whole(tmp_path: Path, node_id: int, epoch: int | None, error: ErrorCode) -> None:
    async with service(tmp_path) as to:
        facts = to.running.node.topic.facts
        assert facts is not None
        assert await assign(to, AssignedReplica(b"e" * 16, facts.topic_id, 1), node_id=node_id, epoch=epoch) == (error, [])


async def test_the_directories_of_a_node_are_described(tmp_path: Path) -> None:
    async with service(tmp_path) as to:
        found = await describe(to)
        assert sorted(found) == [to.one, to.two]
        assert {path: sorted(one.partition for one in found[path].replicas) for path in found} == {to.one: [0, 2], to.two: [1, 3]}
        for one in found.values():
            assert one.error is ErrorCode.NONE
            assert one.total_bytes > one.usable_bytes > 0
            assert {replica.topic for replica in one.replicas} == {to.running.kafka.topic}


async def test_only_the_replicas_that_are_asked_for_are_described(tmp_path: Path) -> None:
    async with service(tmp_path) as to:
        module = schema_module("describe_log_dirs", 4, "request")
        for topic, partitions, expected in ((to.running.kafka.topic, (1, 9), [1]), ("orders", (1,), [])):
            request = module.DescribeLogDirsRequest(topics=(module.DescribableLogDirTopic(topic=topic, partitions=partitions),))
            found = await describe(to, request)
            assert [one.partition for directory in found.values() for one in directory.replicas] == expected


async def test_a_directory_that_failed_is_described_as_offline(tmp_path: Path) -> None:
    async with service(tmp_path) as to:
        (tmp_path / "two").rename(tmp_path / "gone")
        await to.running.until(
            lambda: any(one.offline_reason for one in to.running.node.keeper.directories.directories()), "it to be found"
        )
        found = await describe(to)
        assert found[to.two] == DescribedDirectory(to.two, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, [])


async def test_moves_that_cannot_be_are_refused_one_by_one(tmp_path: Path) -> None:
    async with service(tmp_path) as to:
        topic = to.running.kafka.topic
        assert await move(to, WantedPlace(to.two, topic, PARTITIONS), WantedPlace(str(tmp_path / "three"), topic, 0)) == {
            PARTITIONS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0: ErrorCode.LOG_DIR_NOT_FOUND,
        }
        assert await move(to, WantedPlace(to.two, "orders", 1)) == {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        # A replica that is there already needs no move.
        assert await move(to, WantedPlace(to.two, topic, 1)) == {1: ErrorCode.NONE}
