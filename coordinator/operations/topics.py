"""Creating, deleting, placing and describing topics between the wire and the core."""

from __future__ import annotations

from typing import Final

from coordinator.core.commands import Outcome, PlacePartitions, RemoveTopics, TopicRemoval, TopicShare, WantedTopic
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.operations.declaration import (
    CLUSTER_ACTION,
    DISCOVERY,
    AnsweredBy,
    Lane,
    Operation,
    Translation,
    declare,
    itself,
    refuse_whole,
)
from coordinator.operations.nesting import topic_results
from coordinator.protocol.codec import Message
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopicResult,
    ListTopicsRequest,
    ListTopicsResponse,
    PlacePartitionsRequest,
    PlacePartitionsResponse,
    RemoveTopicsRequest,
    RemoveTopicsResponse,
)


def wanted_topics(request: CreatePartitionsRequest) -> list[WantedTopic]:
    """Return the topics in request order."""
    return [
        WantedTopic(
            topic_id=topic.topic_id,
            name=topic.name,
            num_partitions=topic.num_partitions,
            settings=tuple((one.name, one.value) for one in topic.configs),
            classic_pending=topic.classic_pending,
        )
        for topic in request.topics
    ]


def _topic_ids(request: DeleteTopicsRequest) -> list[bytes]:
    return [topic.topic_id for topic in request.topics]


def _shares(request: PlacePartitionsRequest) -> list[TopicShare]:
    return [
        TopicShare(
            topic_id=topic.topic_id,
            name=topic.name,
            first_partition=topic.first_partition,
            num_partitions=topic.num_partitions,
            order_offset=topic.order_offset,
            classic_pending=topic.classic_pending,
        )
        for topic in request.topics
    ]


def _removals(request: RemoveTopicsRequest) -> list[TopicRemoval]:
    return [TopicRemoval(topic_id=t.topic_id, order_offset=t.order_offset) for t in request.topics]


CREATE_PARTITIONS: Final[Operation] = declare(
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=CLUSTER_ACTION,
    lane=Lane.ALONE,
    translation=Translation(elements=wanted_topics, refused=itself, response=topic_results(CreatePartitionsResponse)),
)

DELETE_TOPICS: Final[Operation] = declare(
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=CLUSTER_ACTION,
    lane=Lane.ALONE,
    translation=Translation(elements=_topic_ids, refused=itself, response=topic_results(DeleteTopicsResponse)),
)

PLACE_PARTITIONS: Final[Operation] = declare(
    PlacePartitionsRequest,
    PlacePartitionsResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    translation=Translation(
        elements=_shares,
        refused=itself,
        response=topic_results(PlacePartitionsResponse),
        command=lambda shares: PlacePartitions(shares=shares),
    ),
)

REMOVE_TOPICS: Final[Operation] = declare(
    RemoveTopicsRequest,
    RemoveTopicsResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    is_internal=True,
    translation=Translation(
        elements=_removals,
        refused=itself,
        response=topic_results(RemoveTopicsResponse),
        command=lambda removals: RemoveTopics(removals=removals),
    ),
)


def _refuse_describe(_: int, request: DescribeTopicsRequest, outcome: Outcome) -> Message:
    """Refuse each topic; the refusal of a request for all names one topic without a name."""
    wanted = [(topic.topic_id, topic.name) for topic in request.topics] or [(ZERO_TOPIC_ID, None)]
    return DescribeTopicsResponse(
        topics=tuple(
            blank(DescribeTopicsTopicResult, error_code=outcome.error, error_message=outcome.message, topic_id=topic_id, name=name)
            for topic_id, name in wanted
        )
    )


DESCRIBE_TOPICS: Final[Operation] = declare(
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=_refuse_describe,
)

LIST_TOPICS: Final[Operation] = declare(
    ListTopicsRequest,
    ListTopicsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=refuse_whole(ListTopicsResponse),
)
