"""`diskless offsets list`: which partitions of which topics are listed, and each of them once."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.kafka.names import topic_id_text
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from coordinator.protocol.messages import (
    DescribeTopicsPartitionResult,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopicResult,
)
from tests.client.scripted import ScriptedCluster, ScriptedNode, scripted
from tests.decoding import decode_request

SMALL, LARGE = bytes(range(16)), bytes(range(1, 17))


async def ask(cluster: ScriptedCluster, *words: str) -> Result:
    arguments = ["offsets", "list", *words, "--bootstrap-server", ",".join(cluster.addresses), "-o", "json"]
    result = await asyncio.to_thread(CliRunner().invoke, root, arguments, prog_name="diskless")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


async def listed(*words: str) -> list[tuple[str, int]]:
    async with scripted() as cluster:
        fill(cluster)
        result = await ask(cluster, *words)
    assert result.exit_code == Exit.OK, result.output
    return [(row["topic"], row["partition"]) for row in json.loads(result.stdout)]


def fill(cluster: ScriptedCluster) -> None:
    cluster.add_topic(SMALL, "small", 2)
    cluster.add_topic(LARGE, "large", 3)
    tell_of_all(cluster)


def tell_of_all(cluster: ScriptedCluster) -> None:
    """Let the nodes answer a question that names no topic, as real ones do: with every topic."""
    for node in cluster.nodes.values():
        node.trouble.append(all_topics)


def all_topics(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    if request.api_key != ApiKey.DESCRIBE_TOPICS:
        return False
    message = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
    if not isinstance(message, DescribeTopicsRequest) or message.topics:
        return False
    cluster = node.cluster
    topics = tuple(
        DescribeTopicsTopicResult(
            error_code=0,
            topic_id=topic_id,
            name=name,
            partitions=tuple(
                DescribeTopicsPartitionResult(error_code=0, partition_index=index, coordinator_id=owner, leader_id=cluster.leaders[owner])
                for index, owner in enumerate(owners)
            ),
            configs=(),
        )
        for topic_id, (name, owners) in cluster.topics.items()
    )
    respond(encode(DescribeTopicsResponse(topics=topics)))
    return True


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("small",), [("small", 0), ("small", 1)]),
        (("small", "small", topic_id_text(SMALL)), [("small", 0), ("small", 1)]),
        (("small", "--partition", "0", "--partition", "0"), [("small", 0)]),
        (("large", "small", "--partition", "1", "--partition", "0"), [("large", 1), ("large", 0), ("small", 1), ("small", 0)]),
    ],
)
async def test_partitions_of_named_topics(words: tuple[str, ...], expected: list[tuple[str, int]]) -> None:
    assert await listed(*words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [("large", 0), ("large", 1), ("large", 2), ("small", 0), ("small", 1)]),
        (("--partition", "2"), [("large", 2)]),
        (("--partition", "1", "--partition", "2", "--partition", "1"), [("large", 1), ("large", 2), ("small", 1)]),
    ],
)
async def test_of_all_topics_those_that_have_the_partition(words: tuple[str, ...], expected: list[tuple[str, int]]) -> None:
    assert sorted(await listed(*words)) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("small", "--partition", "2"), "topic small has no partition 2; it has 2"),
        (("large", "small", "--partition", "2"), "topic small has no partition 2; it has 2"),
        (("--partition", "3"), "no topic has partition 3; the largest topic has 3"),
        (("--partition", "0", "--partition", "3"), "no topic has partition 3; the largest topic has 3"),
    ],
)
async def test_a_partition_that_is_not_there_is_refused(words: tuple[str, ...], says: str) -> None:
    async with scripted() as cluster:
        fill(cluster)
        result = await ask(cluster, *words)
    assert result.exit_code == Exit.NOT_FOUND
    assert says in result.stderr
    assert result.stdout == ""


async def test_without_any_topic_there_is_nothing_to_list_and_no_partition() -> None:
    async with scripted() as cluster:
        tell_of_all(cluster)
        nothing = await ask(cluster)
        partition = await ask(cluster, "--partition", "0")
    assert (nothing.exit_code, json.loads(nothing.stdout)) == (Exit.OK, [])
    assert partition.exit_code == Exit.NOT_FOUND
    assert "no topic has partition 0; there are no topics" in partition.stderr
