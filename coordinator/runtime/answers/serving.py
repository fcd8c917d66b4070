"""A request of any operation answered by a node, as the operation's declaration says.

The commands of partitions and coordinators need nothing but the declaration; the tables of answers and `PROCEDURES` name what the node
does for the others. Shared by the dispatcher and the simulator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from coordinator.core.commands import FencedFile, FenceFiles, FileStanding, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.operations.declaration import AnsweredBy, Operation, bad_timeout
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message
from coordinator.runtime.answers import discovery, gateways, maintenance, snapshot_fetches, topic_listing
from coordinator.runtime.answers import log_dirs as log_dir_answers
from coordinator.runtime.answers import moves as move_answers
from coordinator.runtime.answers import orphans as orphan_answers
from coordinator.runtime.answers import producers as producer_answers
from coordinator.runtime.answers import restores as restore_answers
from coordinator.runtime.answers import retention as retention_answers
from coordinator.runtime.answers import snapshots as snapshot_answers
from coordinator.runtime.answers import topic_configs as topic_config_answers
from coordinator.runtime.node.node import Node

Answer = Callable[[Node, int, Any], Awaitable[Message]]
"""Takes the node, the version of the request, and the request."""
AnswerOfListener = Callable[[Node, int, Any, str], Awaitable[Message]]
"""Takes the arguments of `Answer` and the name of the client's listener, because the answer has addresses of nodes."""
Procedure = Callable[[Node, Any, int], Awaitable[Sequence[Any]]]
"""Takes the node, the elements asked for, and the timeout in ms; returns one answer per element."""

ANSWERS_OF_LISTENERS: Final[Mapping[int, AnswerOfListener]] = {
    ApiKey.METADATA: discovery.metadata,
    ApiKey.FIND_COORDINATOR: discovery.find_coordinator,
    ApiKey.DESCRIBE_COORDINATORS: maintenance.describe_coordinators,
}

ANSWERS: Final[Mapping[int, Answer]] = {
    ApiKey.DESCRIBE_TOPICS: discovery.describe_topics,
    ApiKey.LIST_TOPICS: topic_listing.list_topics,
    ApiKey.LIST_FILES: maintenance.list_files,
    ApiKey.UPDATE_SCHEMA_LEVEL: maintenance.update_schema_level,
    ApiKey.DRAIN_NODE: maintenance.drain_node,
    ApiKey.BALANCE_LEADERS: maintenance.balance_leaders,
    ApiKey.FINISH_RESTORE: restore_answers.finish_restore,
    ApiKey.ENFORCE_RETENTION: retention_answers.enforce_retention,
    ApiKey.SCAN_ORPHANS: orphan_answers.scan_orphans,
    ApiKey.TAKE_SNAPSHOT: snapshot_answers.take_snapshot,
    ApiKey.DESCRIBE_SNAPSHOTS: snapshot_answers.describe_snapshots,
    ApiKey.DESCRIBE_GATEWAYS: gateways.describe_gateways,
    ApiKey.DESCRIBE_NODE: maintenance.describe_node,
    ApiKey.REPORT_CONTRADICTION: maintenance.report_contradiction,
    ApiKey.FETCH_SNAPSHOT: snapshot_fetches.fetch_snapshot,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: log_dir_answers.assign_replicas_to_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: log_dir_answers.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: log_dir_answers.describe_log_dirs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: topic_config_answers.alter_configs,
    ApiKey.DESCRIBE_CONFIGS: topic_config_answers.describe_configs,
    ApiKey.DESCRIBE_PRODUCERS: producer_answers.describe_producers,
    ApiKey.MOVE_PARTITIONS: move_answers.move_partitions,
}

PROCEDURES: Final[Mapping[int, Procedure]] = {
    ApiKey.CREATE_PARTITIONS: lambda node, topics, timeout_ms: node.directory.create_topics(topics, timeout_ms),
    ApiKey.DELETE_TOPICS: lambda node, topic_ids, timeout_ms: node.directory.delete_topics(topic_ids, timeout_ms),
}


async def serve(node: Node, operation: Operation, version: int, request: Any, listener: str = "") -> Message:
    """Return the response of a node to a request on a listener; on one without a name addresses are those for nodes.

    Raises KeyError for an operation without a translation that the tables of answers lack.
    """
    translation = operation.translation
    if (by_listener := ANSWERS_OF_LISTENERS.get(operation.key)) is not None:
        return await by_listener(node, version, request, listener)
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
    answers = await node.directory.serve(coordinator_id, asked, len(elements), timeout_ms)
    if isinstance(asked, FenceFiles) and any(isinstance(one, FencedFile) and one.standing is FileStanding.EMPTY for one in answers):
        node.workers.files.hurry(coordinator_id)
    return [refused(one) if isinstance(one, Outcome) else one for one in answers]
