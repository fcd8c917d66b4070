"""DescribeTopics says that a topic does not exist only from a directory that has everything that was logged."""

from __future__ import annotations

from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.protocol.messages import DescribeTopicsRequest, DescribeTopicsResponse, DescribeTopicsTopic
from coordinator.runtime.answers.discovery import describe_topics
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Running, in_memory, running


async def error_of_an_unknown_topic(started: Running) -> int:
    topics = (DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name="orders"),)
    answer = await describe_topics(started.node, 0, DescribeTopicsRequest(topics=topics, timeout_ms=20))
    assert isinstance(answer, DescribeTopicsResponse)
    [one] = answer.topics
    return one.error_code


async def test_a_node_that_has_not_read_the_directory_does_not_say_that_a_topic_does_not_exist() -> None:
    kafka = in_memory()
    kafka.set_available(False)
    async with running(kafka, MemoryStateStores()) as started:
        assert await error_of_an_unknown_topic(started) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        kafka.set_available(True)
        await started.leads()
        assert await error_of_an_unknown_topic(started) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
