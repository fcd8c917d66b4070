"""Kafka's own requests between the wire and what the service knows: Metadata and FindCoordinator; ApiVersions is answered by the server.

The standard messages are kio's; versions of one message differ only in the class, so each answer is built for the
class of the request's version.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.core.commands import Outcome
from coordinator.core.endpoints import endpoint_of
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, parse_topic_id
from coordinator.operations.declaration import DISCOVERY, EVERYBODY, ByTopic, TopicScope
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6 import FindCoordinatorRequest
    from kio.schema.metadata.v12 import MetadataRequest

    from records.model import NodeRegistered

COORDINATOR_KEY_TYPE = 100
"""FindCoordinator's key type for Diskless Coordinators; Kafka's own types are 0 to 2."""


class TopicLeaders(NamedTuple):
    """A topic for Metadata: leaders by partition; a topic without leaders carries an error."""

    error: ErrorCode
    topic_id: bytes
    name: str | None
    leaders: Sequence[int]


class CoordinatorKey(NamedTuple):
    """The key of FindCoordinator: a coordinator id, or a topic partition. `standby` counts from 1 for a standby, 0 is the leader."""

    coordinator_id: int | None
    topic_id: bytes
    partition: int
    standby: int = 0


class FoundCoordinator(NamedTuple):
    key: str
    node_id: int
    host: str
    port: int
    outcome: Outcome


def parse_coordinator_key(text: str) -> CoordinatorKey:
    """A key is `<topicId>:<partition>` or a coordinator id, with `/1` behind it for its first standby, and so on. Raises ValueError."""
    coordinator, slash, standby = text.partition("/")
    if coordinator.isdecimal() and (standby.isdecimal() if slash else True):
        return CoordinatorKey(int(coordinator), bytes(16), -1, int(standby or 0))
    topic, colon, partition = text.rpartition(":")
    if not colon or not partition.isdecimal():
        raise ValueError(f"key {text!r} is neither a coordinator id, <coordinatorId>/<number of a standby> nor <topicId>:<partition>")
    return CoordinatorKey(None, parse_topic_id(topic), int(partition))


def find_coordinator_response(version: int, found: Sequence[FoundCoordinator]) -> Message:
    """Kafka's response of a version."""
    module = schema_module("find_coordinator", version, "response")
    coordinators = tuple(
        module.Coordinator(
            key=one.key,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
            error_code=KioError(int(one.outcome.error)),
            error_message=one.outcome.message,
        )
        for one in found
    )
    return cast(Message, module.FindCoordinatorResponse(throttle_time=timedelta(0), coordinators=coordinators))


def coordinator_keys(request: Message) -> tuple[int, list[str]]:
    """(key type, keys) of a FindCoordinator request of any version."""
    asked = cast("FindCoordinatorRequest", request)
    return int(asked.key_type), list(asked.coordinator_keys)


def wanted_topics(request: Message) -> list[tuple[bytes, str | None]] | None:
    """(topic id or zero, name) of the topics of a Metadata request of any version; None asks for all."""
    topics = cast("MetadataRequest", request).topics
    if topics is None:
        return None
    # Version 9 has no topic ids.
    ids = [getattr(topic, "topic_id", None) for topic in topics]
    return [(bytes(16) if i is None else i.bytes, topic.name) for i, topic in zip(ids, topics, strict=True)]


def metadata_response(
    version: int,
    nodes: Sequence[NodeRegistered],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[TopicLeaders],
    listener: str = "",
) -> Message:
    """Kafka's response of a version: our nodes, by their addresses of a listener, as brokers, our coordinators as partition leaders."""
    module = schema_module("metadata", version, "response")
    known = [(one, endpoint_of(one.endpoints, listener)) for one in nodes if one.endpoints]
    brokers = tuple(
        module.MetadataResponseBroker(node_id=one.node_id, host=at.host, port=at.port, rack=one.rack or None) for one, at in known
    )
    described = tuple(_metadata_topic(module, version, topic) for topic in topics)
    return cast(
        Message,
        module.MetadataResponse(
            throttle_time=timedelta(0), brokers=brokers, cluster_id=cluster_id, controller_id=controller_id, topics=described
        ),
    )


def _metadata_topic(module: ModuleType, version: int, topic: TopicLeaders) -> object:
    partitions = tuple(
        module.MetadataResponsePartition(
            error_code=KioError.none if leader >= 0 else KioError.leader_not_available,
            partition_index=index,
            leader_id=leader,
            replica_nodes=() if leader < 0 else (leader,),
            isr_nodes=() if leader < 0 else (leader,),
        )
        for index, leader in enumerate(topic.leaders)
    )
    fields: dict[str, object] = {"error_code": KioError(int(topic.error)), "name": topic.name if version >= 12 else topic.name or ""}
    if version >= 10:
        fields["topic_id"] = uuid.UUID(bytes=topic.topic_id) if any(topic.topic_id) else None
    return module.MetadataResponseTopic(partitions=partitions, **fields)


def _refuse_find_coordinator(version: int, request: Message, outcome: Outcome) -> Message:
    _, keys = coordinator_keys(request)
    return find_coordinator_response(version, [FoundCoordinator(key, -1, "", -1, outcome) for key in keys])


def _refuse_metadata(version: int, request: Message, outcome: Outcome) -> Message:
    """Name no nodes; a request for all topics gets an empty list, as in Kafka."""
    refused = [TopicLeaders(outcome.error, topic_id, name, []) for topic_id, name in wanted_topics(request) or ()]
    return metadata_response(version, [], None, -1, refused)


def _narrow_find_coordinator(_: int, request: Message, answer: Any, scope: TopicScope) -> Message:
    """Refuse keys of partitions; coordinators by their numbers name no topic."""
    found = tuple(
        one if (topic_id := _topic_of_key(key)) is None or scope.allows(topic_id, None) else _withheld(one, scope.refusal(topic_id, None))
        for key, one in zip(coordinator_keys(request)[1], answer.coordinators, strict=True)
    )
    return cast(Message, replace(answer, coordinators=found))


def _topic_of_key(text: str) -> bytes | None:
    """Return the topic id in a key, if it has one."""
    try:
        key = parse_coordinator_key(text)
    except ValueError:
        return None
    return key.topic_id if key.coordinator_id is None else None


def _withheld(one: Any, outcome: Outcome) -> object:
    return replace(one, node_id=-1, host="", port=-1, error_code=KioError(int(outcome.error)), error_message=outcome.message)


def _narrow_metadata(version: int, request: Message, answer: Any, scope: TopicScope) -> Message:
    """As in Kafka nodes are told to everybody who may ask, and a list of all topics has those that the principal may describe."""
    wanted = wanted_topics(request)
    if wanted is None:
        topics = tuple(one for one in answer.topics if scope.allows(ZERO_TOPIC_ID, one.name))
    else:
        module = schema_module("metadata", version, "response")
        topics = tuple(
            one if scope.allows(topic_id, name) else _metadata_topic(module, version, _withheld_topic(topic_id, name, scope))
            for (topic_id, name), one in zip(wanted, answer.topics, strict=True)
        )
    return cast(Message, replace(answer, topics=topics))


def _withheld_topic(topic_id: bytes, name: str | None, scope: TopicScope) -> TopicLeaders:
    return TopicLeaders(scope.refusal(topic_id, name).error, topic_id, name, [])


METADATA: Final = kafka_operation(
    ApiKey.METADATA,
    9,
    12,
    acl=DISCOVERY,
    refuse=_refuse_metadata,
    is_unbounded=True,
    by_topic=ByTopic(acl=AclOperation.DESCRIBE, narrow=_narrow_metadata),
)
FIND_COORDINATOR: Final = kafka_operation(
    ApiKey.FIND_COORDINATOR,
    4,
    6,
    acl=DISCOVERY,
    refuse=_refuse_find_coordinator,
    by_topic=ByTopic(acl=AclOperation.DESCRIBE, narrow=_narrow_find_coordinator),
)
API_VERSIONS: Final = kafka_operation(ApiKey.API_VERSIONS, 0, 4, acl=EVERYBODY, refuse=None)
