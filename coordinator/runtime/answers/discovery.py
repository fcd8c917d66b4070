"""Answers Metadata, FindCoordinator and DescribeTopics from the directory as this node's replica has it."""

from __future__ import annotations

import logging
from typing import Final

from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.operations.discovery import (
    COORDINATOR_KEY_TYPE,
    FoundCoordinator,
    TopicLeaders,
    coordinator_keys,
    find_coordinator_response,
    metadata_response,
    parse_coordinator_key,
    wanted_topics,
)
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopicResult,
)
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.node.node import Node

LOG = logging.getLogger("coordinator.dispatch")

DIRECTORY_TIMEOUT_MS: Final = 2_000


async def metadata(node: Node, version: int, request: Message, listener: str) -> Message:
    """Answer Metadata: our nodes as brokers, our coordinators as partition leaders."""
    describe = Descriptions(node)
    wanted = wanted_topics(request)
    placements = describe.all_placements() if wanted is None else describe.placements(wanted)
    topics = []
    for at, placement in enumerate(placements):
        if placement is not None:
            leaders = [partition.leader_id for partition in describe.topic(placement).partitions]
            topics.append(TopicLeaders(ErrorCode.NONE, placement.topic_id, placement.name, leaders))
        elif wanted is not None:
            topic_id, name = wanted[at]
            error = ErrorCode.UNKNOWN_TOPIC_ID if any(topic_id) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(TopicLeaders(error, topic_id, name, []))
    leader = node.view.leader(DIRECTORY_PARTITION)
    controller_id = -1 if leader is None else leader.node_id
    return metadata_response(version, describe.nodes(), describe.cluster_id, controller_id, topics, listener)


async def find_coordinator(node: Node, version: int, request: Message, listener: str) -> Message:
    """Answer FindCoordinator: the node that leads a coordinator, named by its id or by a partition it owns."""
    key_type, keys = coordinator_keys(request)
    return find_coordinator_response(version, [await _find_one(node, key_type, key, listener) for key in keys])


async def _find_one(node: Node, key_type: int, text: str, listener: str) -> FoundCoordinator:
    if key_type != COORDINATOR_KEY_TYPE:
        message = f"key type {key_type} is not served here; Diskless Coordinators have key type {COORDINATOR_KEY_TYPE}"
        return _not_found(text, ErrorCode.INVALID_REQUEST, message)
    try:
        key = parse_coordinator_key(text)
    except ValueError as error:
        return _not_found(text, ErrorCode.INVALID_REQUEST, str(error))
    coordinator_id = key.coordinator_id
    if coordinator_id is None:
        wire_key = partition_key(key.topic_id, key.partition)
        coordinator_id = node.view.owner_of(wire_key)
        if coordinator_id is None and await node.router.directory_is_current(DIRECTORY_TIMEOUT_MS):
            coordinator_id = node.view.owner_of(wire_key)
        if coordinator_id is None:
            coordinator_id = node.view.former_owner_of(wire_key)
    if coordinator_id is not None and key.standby:
        standbys = node.view.standbys(coordinator_id, listener)
        if key.standby > len(standbys):
            what = f"coordinator {coordinator_id} has {len(standbys)} standbys, as far as node {node.config.node_id} knows"
            return _not_found(text, ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
        one = standbys[key.standby - 1]
        return FoundCoordinator(text, one.node_id, one.host, one.port, OK)
    leader = None if coordinator_id is None else node.view.leader(coordinator_id, listener)
    if leader is None:
        what = f"no coordinator owns {text}" if coordinator_id is None else f"coordinator {coordinator_id} has no leader now"
        return _not_found(text, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{what}; retry")
    return FoundCoordinator(text, leader.node_id, leader.host, leader.port, OK)


async def describe_topics(node: Node, _: int, request: DescribeTopicsRequest) -> Message:
    """Answer DescribeTopics from a directory that is brought up to date first, if that is possible in time.

    From one that may be stale no answer says that a topic does not exist, and none that these are all: a node that starts has an empty one.
    """
    describe = Descriptions(node)
    is_current = await node.router.directory_is_current(min(max(1, request.timeout_ms), DIRECTORY_TIMEOUT_MS))
    if not is_current:
        LOG.info("topics are described from a directory that may be stale")
    if not request.topics and not is_current:
        return DescribeTopicsResponse(topics=(_unsure_topic(ZERO_TOPIC_ID, None),))
    if not request.topics:
        described = [describe.topic(placement) for placement in describe.all_placements()]
        return DescribeTopicsResponse(topics=tuple(described))
    wanted = [(topic.topic_id, topic.name) for topic in request.topics]
    results = []
    for (topic_id, name), placement in zip(wanted, describe.placements(wanted), strict=True):
        if placement is not None:
            results.append(describe.topic(placement))
            continue
        results.append(_unknown_topic(node, topic_id, name) if is_current else _unsure_topic(topic_id, name))
    return DescribeTopicsResponse(topics=tuple(results))


def _unsure_topic(topic_id: bytes, name: str | None) -> DescribeTopicsTopicResult:
    """A topic of which a node that does not know all of the directory knows nothing; one without a name stands for all."""
    what = "whether the topic exists" if name is not None or any(topic_id) else "which topics there are"
    return DescribeTopicsTopicResult(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        error_message=f"the directory of topics cannot be read to its end now, so nobody knows {what}; retry",
        topic_id=topic_id,
        name=name,
        partitions=(),
        configs=(),
    )


def _unknown_topic(node: Node, topic_id: bytes, name: str | None) -> DescribeTopicsTopicResult:
    """A topic that is not placed; a deleted one with the coordinators of its partitions, for repeated commits."""
    if not any(topic_id):
        message = f"topic {name} is not known; create it, or list the topics to see which there are"
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicsTopicResult(error_code=error, error_message=message, topic_id=topic_id, name=name, partitions=(), configs=())
    deletion = node.view.deletion(topic_id)
    former = None if deletion is None else Descriptions(node).topic(deletion)
    return DescribeTopicsTopicResult(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        error_message=node.view.why_unknown(topic_id),
        topic_id=topic_id,
        name=name if former is None else former.name,
        partitions=() if former is None else former.partitions,
        configs=(),
    )


def _not_found(key: str, error: ErrorCode, message: str) -> FoundCoordinator:
    return FoundCoordinator(key, -1, "", -1, Outcome(error=error, message=message))
