"""Answers ListTopics: the topics with their settings and coordinators, or what changed of them since an earlier answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.core.directory.directory import DIRECTORY_PARTITION, Directory
from coordinator.core.directory.topic_settings import settings_of
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import Message
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import ListTopicsConfig, ListTopicsRange, ListTopicsRequest, ListTopicsResponse, ListTopicsTopic
from coordinator.runtime.node.node import Node

CURRENT_TIMEOUT_MS: Final = 2_000


async def list_topics(node: Node, _: int, request: ListTopicsRequest) -> Message:
    """Answer ListTopics. A node that need not be current, and has less than the earlier answer had, says that nothing changed."""
    wait_ms = min(max(1, request.timeout_ms), CURRENT_TIMEOUT_MS)
    if request.is_current and not await node.router.directory_is_current(wait_ms):
        return _unavailable("the directory of topics cannot be read to its end now; retry")
    shard = node.replicas.shard(DIRECTORY_PARTITION)
    if shard is None:
        return _unavailable("the directory of topics is being loaded; retry")
    directory, restoration = shard.directory, shard.restoration
    base = 0 if restoration is None else restoration.begun.file_id_base
    offset, since = shard.applied_offset + base, request.since_offset
    if since > offset and not request.is_current:
        return _changes(directory, since, ())
    changed = node.topic_changes.since(since, directory, offset)
    if changed is None or not 0 <= since <= offset:
        return ListTopicsResponse(
            error_code=ErrorCode.NONE,
            offset=offset,
            is_whole=True,
            topics=_listed(directory, directory.placements),
            deleted_topic_ids=(),
        )
    return _changes(directory, offset, changed)


def _changes(directory: Directory, offset: int, changed: Iterable[bytes]) -> Message:
    gone = tuple(topic_id for topic_id in changed if topic_id not in directory.placements)
    left = [topic_id for topic_id in changed if topic_id in directory.placements]
    return ListTopicsResponse(
        error_code=ErrorCode.NONE, offset=offset, is_whole=False, topics=_listed(directory, left), deleted_topic_ids=gone
    )


def _listed(directory: Directory, topic_ids: Iterable[bytes]) -> tuple[ListTopicsTopic, ...]:
    placements = sorted((directory.placements[topic_id] for topic_id in topic_ids), key=lambda one: one.name)
    return tuple(
        ListTopicsTopic(
            topic_id=one.topic_id,
            name=one.name,
            ranges=tuple(
                ListTopicsRange(
                    coordinator_id=placed.coordinator_id, num_partitions=placed.num_partitions, classic_pending=placed.classic_pending
                )
                for placed in sorted(one.ranges, key=lambda placed: placed.first_partition)
            ),
            configs=tuple(ListTopicsConfig(name=name, value=value) for name, value in sorted(settings_of(directory, one.topic_id).items())),
        )
        for one in placements
    )


def _unavailable(message: str) -> Message:
    return blank(ListTopicsResponse, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=message)
