"""A request of any operation answered by a node, as the operation's declaration says.

The commands of partitions and coordinators need nothing but the declaration; `ANSWERS` and `PROCEDURES` name what the node
does for the others. Shared by the dispatcher and the simulator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from coordinator.operations.declaration import AnsweredBy, Operation, bad_timeout
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message
from coordinator.runtime import discovery, maintenance
from coordinator.runtime.cluster_view import DIRECTORY_PARTITION
from coordinator.runtime.node import Node

Answer = Callable[[Node, int, Any], Awaitable[Message]]
"""Takes the node, the version of the request, and the request."""
Procedure = Callable[[Node, Any, int], Awaitable[Sequence[Any]]]
"""Takes the node, the elements asked for, and the timeout in ms; returns one answer per element."""

ANSWERS: Final[Mapping[int, Answer]] = {
    ApiKey.METADATA: discovery.metadata,
    ApiKey.FIND_COORDINATOR: discovery.find_coordinator,
    ApiKey.DESCRIBE_TOPICS: discovery.describe_topics,
    ApiKey.DESCRIBE_COORDINATORS: maintenance.describe_coordinators,
    ApiKey.LIST_FILES: maintenance.list_files,
    ApiKey.UPDATE_SCHEMA_LEVEL: maintenance.update_schema_level,
    ApiKey.DESCRIBE_NODE: maintenance.describe_node,
    ApiKey.REPORT_CONTRADICTION: maintenance.report_contradiction,
}

PROCEDURES: Final[Mapping[int, Procedure]] = {
    ApiKey.CREATE_PARTITIONS: lambda node, topics, timeout_ms: node.directory.create_topics(topics, timeout_ms),
    ApiKey.DELETE_TOPICS: lambda node, topic_ids, timeout_ms: node.directory.delete_topics(topic_ids, timeout_ms),
}


async def serve(node: Node, operation: Operation, version: int, request: Any) -> Message:
    """Return the response of a node to a request. Raises KeyError for an operation without a translation that `ANSWERS` lacks."""
    translation = operation.translation
    if translation is None:
        return await ANSWERS[operation.key](node, version, request)
    elements = translation.elements(request)
    named = operation.answered_by is AnsweredBy.COORDINATOR
    coordinator_id = request.coordinator_id if named else DIRECTORY_PARTITION
    return translation.response(request, await ask(node, operation, elements, request.timeout_ms, coordinator_id))


async def ask(
    node: Node, operation: Operation, elements: Sequence[Any], timeout_ms: int, coordinator_id: int = DIRECTORY_PARTITION
) -> Sequence[Any]:
    """Return one answer per element of an operation that has a translation; `coordinator_id` is the coordinator a request names."""
    translation = operation.translation
    if translation is None:
        raise TypeError(f"{operation.name} has no elements")
    if operation.is_internal:
        timeout_ms = max(1, timeout_ms)
    elif timeout_ms <= 0:
        return [translation.refused(bad_timeout(timeout_ms))] * len(elements)
    command, refused = translation.command, translation.refused
    if command is None:
        return await PROCEDURES[operation.key](node, elements, timeout_ms)
    if operation.answered_by is AnsweredBy.PARTITION:
        return await node.router.by_owner(command, refused, elements, timeout_ms)
    asked = command(list(elements))
    if translation.best is not None:
        return await node.router.by_all_led(asked, refused, translation.best, len(elements), timeout_ms)
    return await node.directory.serve(coordinator_id, asked, len(elements), timeout_ms)
