"""Creating, deleting and placing topics between the wire and the core."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import Outcome, PlacePartitions, RegisterNode, RemoveTopics, TopicRemoval, TopicShare, WantedTopic
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    CreatablePartitionsResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    PlacePartitionsRequest,
    PlacePartitionsResponse,
    PlacePartitionsTopicResult,
    RegisterNodeRequest,
    RegisterNodeResponse,
    RemoveTopicsRequest,
    RemoveTopicsResponse,
    RemoveTopicsTopicResult,
)
from records.model import Endpoint


def wanted_topics(request: CreatePartitionsRequest) -> list[WantedTopic]:
    """The topics in request order."""
    return [WantedTopic(topic_id=t.topic_id, name=t.name, num_partitions=t.num_partitions) for t in request.topics]


def create_partitions_response(request: CreatePartitionsRequest, outcomes: Sequence[Outcome]) -> Message:
    """The response, one outcome per topic."""
    results = [
        CreatablePartitionsResult(topic_id=topic.topic_id, error_code=outcome.error, error_message=outcome.message)
        for topic, outcome in zip(request.topics, outcomes, strict=True)
    ]
    return CreatePartitionsResponse(topics=tuple(results))


def delete_topics_response(request: DeleteTopicsRequest, outcomes: Sequence[Outcome]) -> Message:
    """The response, one outcome per topic."""
    results = [
        DeletableTopicResult(topic_id=topic.topic_id, error_code=outcome.error, error_message=outcome.message)
        for topic, outcome in zip(request.topics, outcomes, strict=True)
    ]
    return DeleteTopicsResponse(responses=tuple(results))


def place_partitions(request: PlacePartitionsRequest) -> PlacePartitions:
    """What the directory asks of an owner."""
    return PlacePartitions(
        shares=[
            TopicShare(
                topic_id=topic.topic_id,
                name=topic.name,
                first_partition=topic.first_partition,
                num_partitions=topic.num_partitions,
                order_offset=topic.order_offset,
            )
            for topic in request.topics
        ]
    )


def place_partitions_response(request: PlacePartitionsRequest, outcomes: Sequence[Outcome]) -> Message:
    """The response, one outcome per topic."""
    results = [
        PlacePartitionsTopicResult(topic_id=topic.topic_id, error_code=outcome.error, error_message=outcome.message)
        for topic, outcome in zip(request.topics, outcomes, strict=True)
    ]
    return PlacePartitionsResponse(topics=tuple(results))


def remove_topics(request: RemoveTopicsRequest) -> RemoveTopics:
    """What the directory asks of an owner."""
    return RemoveTopics(removals=[TopicRemoval(topic_id=t.topic_id, order_offset=t.order_offset) for t in request.topics])


def remove_topics_response(request: RemoveTopicsRequest, outcomes: Sequence[Outcome]) -> Message:
    """The response, one outcome per topic."""
    results = [
        RemoveTopicsTopicResult(topic_id=topic.topic_id, error_code=outcome.error, error_message=outcome.message)
        for topic, outcome in zip(request.topics, outcomes, strict=True)
    ]
    return RemoveTopicsResponse(topics=tuple(results))


def register_node(request: RegisterNodeRequest) -> RegisterNode:
    """A node that says where it listens."""
    endpoints = [Endpoint(listener=e.listener, host=e.host, port=e.port) for e in request.endpoints]
    return RegisterNode(
        node_id=request.node_id,
        rack=request.rack or "",
        endpoints=endpoints,
        schema_level_max=request.schema_level_max,
        incarnation_id=request.incarnation_id,
        replaced_id=request.replaced_id,
    )


def register_node_response(outcome: Outcome) -> Message:
    """The response to a registration."""
    return RegisterNodeResponse(error_code=outcome.error, error_message=outcome.message)
