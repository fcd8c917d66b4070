"""DescribeTopics says that a topic does not exist, or which there are, only from a directory that has everything that was logged."""

from __future__ import annotations

from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.protocol.messages import DescribeTopicsRequest, DescribeTopicsResponse, DescribeTopicsTopic
from coordinator.runtime.answers.discovery import describe_topics
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Running, in_memory, running

ORDERS = DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name="orders")


async def described(started: Running, *topics: DescribeTopicsTopic) -> list[tuple[int, str | None]]:
    """Error and name of each topic."""
    answer = await describe_topics(started.node, 0, DescribeTopicsRequest(topics=topics, timeout_ms=20))
    assert isinstance(answer, DescribeTopicsResponse)
    return [(one.error_code, one.name) for one in answer.topics]


async def test_a_node_that_has_not_read_the_directory_does_not_say_that_a_topic_does_not_exist() -> None:
    kafka = in_memory()
    kafka.set_available(False)
    async with running(kafka, MemoryStateStores()) as started:
        assert await described(started, ORDERS) == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, "orders")]
        # A refusal without a name, and not an empty list.
        assert await described(started) == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]
        kafka.set_available(True)
        await started.leads()
        assert await described(started, ORDERS) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders")]
        assert await described(started) == []
