"""Discovery between the wire and what the service knows: Metadata, FindCoordinator, DescribeTopics and so on.

The standard messages are kio's; versions of one message differ only in the class, so each answer is built for the
class of the request's version.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from types import ModuleType
from typing import NamedTuple, cast

import kio.schema.find_coordinator.v4.response as find_coordinator_v4
import kio.schema.find_coordinator.v5.response as find_coordinator_v5
import kio.schema.find_coordinator.v6.request as find_coordinator_request
import kio.schema.find_coordinator.v6.response as find_coordinator_v6
import kio.schema.metadata.v9.response as metadata_v9
import kio.schema.metadata.v10.response as metadata_v10
import kio.schema.metadata.v11.response as metadata_v11
import kio.schema.metadata.v12.request as metadata_request
import kio.schema.metadata.v12.response as metadata_v12
from kio.schema.errors import ErrorCode as KioError

from coordinator.core.commands import Outcome
from coordinator.core.directory.directory import Directory
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import parse_topic_id
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    ReportContradictionRequest,
    ReportContradictionResponse,
    UpdateSchemaLevelNode,
    UpdateSchemaLevelResponse,
)
from records.model import NodeRegistered

COORDINATOR_KEY_TYPE = 100
"""FindCoordinator's key type for Diskless Coordinators; Kafka's own types are 0 to 2."""

_METADATA = {9: metadata_v9, 10: metadata_v10, 11: metadata_v11, 12: metadata_v12}
_FIND_COORDINATOR = {4: find_coordinator_v4, 5: find_coordinator_v5, 6: find_coordinator_v6}


class MetadataTopic(NamedTuple):
    """A topic for Metadata: leaders by partition; a topic without leaders carries an error."""

    error: ErrorCode
    topic_id: bytes
    name: str | None
    leaders: Sequence[int]


class CoordinatorKey(NamedTuple):
    """What FindCoordinator asks for: a coordinator id, or a topic partition."""

    coordinator_id: int | None
    topic_id: bytes
    partition: int


class FoundCoordinator(NamedTuple):
    key: str
    node_id: int
    host: str
    port: int
    outcome: Outcome


def parse_coordinator_key(text: str) -> CoordinatorKey:
    """A key is `<topicId>:<partition>` or a coordinator id. Raises ValueError."""
    if text.isdecimal():
        return CoordinatorKey(int(text), bytes(16), -1)
    topic, colon, partition = text.rpartition(":")
    if not colon or not partition.isdecimal():
        raise ValueError(f"key {text!r} is neither a coordinator id nor <topicId>:<partition>")
    return CoordinatorKey(None, parse_topic_id(topic), int(partition))


def find_coordinator_response(version: int, found: Sequence[FoundCoordinator]) -> Message:
    """Kafka's response of a version."""
    module = _FIND_COORDINATOR[version]
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
    asked = cast(find_coordinator_request.FindCoordinatorRequest, request)
    return int(asked.key_type), list(asked.coordinator_keys)


def wanted_topics(request: Message) -> list[tuple[bytes, str | None]] | None:
    """(topic id or zero, name) of the topics of a Metadata request of any version; None asks for all."""
    topics = cast(metadata_request.MetadataRequest, request).topics
    if topics is None:
        return None
    # Version 9 has no topic ids.
    ids = [getattr(topic, "topic_id", None) for topic in topics]
    return [(bytes(16) if i is None else i.bytes, topic.name) for i, topic in zip(ids, topics, strict=True)]


def metadata_response(
    version: int, nodes: Sequence[NodeRegistered], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataTopic]
) -> Message:
    """Kafka's response of a version: our nodes as brokers, our coordinators as partition leaders."""
    module = _METADATA[version]
    brokers = tuple(
        module.MetadataResponseBroker(node_id=n.node_id, host=n.endpoints[0].host, port=n.endpoints[0].port, rack=n.rack or None)
        for n in nodes
        if n.endpoints
    )
    described = tuple(_metadata_topic(module, version, topic) for topic in topics)
    return cast(
        Message,
        module.MetadataResponse(
            throttle_time=timedelta(0), brokers=brokers, cluster_id=cluster_id, controller_id=controller_id, topics=described
        ),
    )


def _metadata_topic(module: ModuleType, version: int, topic: MetadataTopic) -> object:
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


def contradictory_entry(request: ReportContradictionRequest) -> ContradictoryEntry:
    """The entry that another node complains of."""
    return ContradictoryEntry(request.offset, request.epoch, request.term, request.reason)


def report_contradiction_response(outcome: Outcome) -> Message:
    """Whether the complaint was heard by the leader it concerns."""
    return ReportContradictionResponse(error_code=outcome.error, error_message=outcome.message)


def update_schema_level_response(outcome: Outcome, directory: Directory | None) -> Message:
    """What became of the request, and the level and nodes of the directory as this node knows it."""
    nodes = [] if directory is None else sorted(directory.nodes.values(), key=lambda node: node.node_id)
    return UpdateSchemaLevelResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        level=-1 if directory is None else directory.schema_level,
        nodes=tuple(UpdateSchemaLevelNode(node_id=node.node_id, schema_level_max=node.schema_level_max) for node in nodes),
    )
