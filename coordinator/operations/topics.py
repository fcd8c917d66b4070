"""Creating, deleting, placing and describing topics between the wire and the core."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coordinator.core.commands import Outcome, PlacePartitions, RemoveTopics, TopicRemoval, TopicShare, WantedTopic
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.operations.declaration import (
    CLUSTER_ACTION,
    DISCOVERY,
    AnsweredBy,
    ByTopic,
    Lane,
    Operation,
    TopicScope,
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
    return DescribeTopicsResponse(topics=tuple(_refused_topic(topic_id, name, outcome) for topic_id, name in wanted))


def _refused_topic(topic_id: bytes, name: str | None, outcome: Outcome) -> DescribeTopicsTopicResult:
    return blank(DescribeTopicsTopicResult, error_code=outcome.error, error_message=outcome.message, topic_id=topic_id, name=name)


def _narrow_description(_: int, request: DescribeTopicsRequest, answer: DescribeTopicsResponse, scope: TopicScope) -> Message:
    if not request.topics:
        seen = (one for one in answer.topics if one.name is None or scope.allows(ZERO_TOPIC_ID, one.name))
        return DescribeTopicsResponse(topics=tuple(seen))
    return DescribeTopicsResponse(
        topics=tuple(
            found if scope.allows(one.topic_id, one.name) else _refused_topic(one.topic_id, one.name, scope.refusal(one.topic_id, one.name))
            for one, found in zip(request.topics, answer.topics, strict=True)
        )
    )


def _narrow_list(_: int, __: ListTopicsRequest, answer: ListTopicsResponse, scope: TopicScope) -> Message:
    return replace(answer, topics=tuple(one for one in answer.topics if scope.allows(ZERO_TOPIC_ID, one.name)))


DESCRIBE_TOPICS: Final[Operation] = declare(
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=_refuse_describe,
    by_topic=ByTopic(acl=AclOperation.DESCRIBE, narrow=_narrow_description),
)

LIST_TOPICS: Final[Operation] = declare(
    ListTopicsRequest,
    ListTopicsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DISCOVERY,
    is_unbounded=True,
    refuse=refuse_whole(ListTopicsResponse),
    # What changed in the directory is not what changed for the principal, whose rights change, too.
    by_topic=ByTopic(acl=AclOperation.DESCRIBE, whole=lambda request: replace(request, since_offset=-1), narrow=_narrow_list),
)
