"""Requests to the leader of the directory: topics created and deleted, the schema level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import Result
from coordinator.client.routing.discovery import DIRECTORY
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN, RoutedCall, Target
from coordinator.core.commands import ConfigChange, TopicAlteration
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.kafka.topic_configs import ConfigOperation
from coordinator.operations.declaration import Operation
from coordinator.operations.nodes import UPDATE_SCHEMA_LEVEL
from coordinator.operations.restores import FINISH_RESTORE, NO_RESTORE
from coordinator.operations.topic_configs import INCREMENTAL_ALTER_CONFIGS, alter_outcomes, alter_request
from coordinator.operations.topics import CREATE_PARTITIONS, DELETE_TOPICS
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    CreatableConfig,
    CreatablePartitions,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeletableTopicState,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FinishRestoreCoordinator,
    FinishRestoreRequest,
    FinishRestoreResponse,
    UpdateSchemaLevelNode,
    UpdateSchemaLevelRequest,
    UpdateSchemaLevelResponse,
)
from coordinator.protocol.wire import MalformedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDescription(Result):
    """The schema level of the log that is in force, and the highest one of each registered node."""

    level: int = -1
    nodes: tuple[UpdateSchemaLevelNode, ...] = ()


class UpdateSchemaLevelCall(RoutedCall[LevelDescription]):
    """Raise the schema level, 0 to be told the one in force. Repeating it is harmless."""

    operation = UPDATE_SCHEMA_LEVEL
    purpose = ADMIN

    def __init__(self, level: int, gone_node_ids: Sequence[int]) -> None:
        self._level = level
        self._gone_node_ids = gone_node_ids

    @property
    def is_write(self) -> bool:
        return self._level > 0

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[LevelDescription]:
        request = UpdateSchemaLevelRequest(
            level=self._level, gone_node_ids=tuple(self._gone_node_ids), timeout_ms=server_timeout_ms(timeout_s)
        )
        response = cast(UpdateSchemaLevelResponse, await pool.call(line, request, timeout_s))
        refusal = refusal_of(response.error_code, response.error_message)
        return [LevelDescription(refusal=refusal, level=response.level, nodes=response.nodes)]

    def refusal_of(self, answer: LevelDescription) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> LevelDescription:
        return LevelDescription(refusal=refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDescription(Result):
    """The restore that the log begins with; `restore_id` is all zero when it begins with none."""

    restore_id: bytes = NO_RESTORE
    is_finished: bool = False
    old_cluster_id: str = ""
    old_topic_id: bytes = ZERO_TOPIC_ID
    coordinators: tuple[FinishRestoreCoordinator, ...] = ()

    @property
    def is_restored(self) -> bool:
        """Whether the log begins with a restore."""
        return self.restore_id != NO_RESTORE


class FinishRestoreCall(RoutedCall[RestoreDescription]):
    """Call a restore finished, all zero to be told of the one there is. Repeating it is harmless."""

    operation = FINISH_RESTORE
    purpose = ADMIN

    def __init__(self, restore_id: bytes) -> None:
        self._restore_id = restore_id

    @property
    def is_write(self) -> bool:
        return self._restore_id != NO_RESTORE

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[RestoreDescription]:
        request = FinishRestoreRequest(restore_id=self._restore_id, timeout_ms=server_timeout_ms(timeout_s))
        response = cast(FinishRestoreResponse, await pool.call(line, request, timeout_s))
        return [
            RestoreDescription(
                refusal=refusal_of(response.error_code, response.error_message),
                restore_id=response.restore_id,
                is_finished=response.is_finished,
                old_cluster_id=response.old_cluster_id,
                old_topic_id=response.old_topic_id,
                coordinators=response.coordinators,
            )
        ]

    def refusal_of(self, answer: RestoreDescription) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> RestoreDescription:
        return RestoreDescription(refusal=refusal)


class DirectoryCall(RoutedCall[Refusal]):
    """One request to the leader of the directory that concerns one topic; `refusal` reads its response."""

    purpose = ADMIN

    def __init__(self, operation: Operation, request: Callable[[int], Message], refusal: Callable[[Message], Refusal]) -> None:
        self.operation = operation
        self._request = request
        self._read = refusal

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[Refusal]:
        return [self._read(await pool.call(line, self._request(server_timeout_ms(timeout_s)), timeout_s))]

    def refusal_of(self, answer: Refusal) -> Refusal:
        return answer

    def refused(self, place: int, refusal: Refusal) -> Refusal:
        return refusal


def create_topic(name: str, num_partitions: int, topic_id: bytes, settings: Mapping[str, str], *, classic_pending: bool) -> DirectoryCall:
    """Create a topic or grow it to `num_partitions`; new partitions are classic ones that are to be migrated if `classic_pending`."""

    def request(timeout_ms: int) -> Message:
        configs = tuple(CreatableConfig(name=key, value=value) for key, value in settings.items())
        topic = CreatablePartitions(
            topic_id=topic_id, name=name, num_partitions=num_partitions, configs=configs, classic_pending=classic_pending
        )
        return CreatePartitionsRequest(topics=(topic,), timeout_ms=timeout_ms)

    def refusal(response: Message) -> Refusal:
        return _only([(one.error_code, one.error_message) for one in cast(CreatePartitionsResponse, response).topics])

    return DirectoryCall(CREATE_PARTITIONS, request, refusal)


def alter_topic(name: str, changes: Mapping[str, str | None]) -> DirectoryCall:
    """Change settings of a topic; None deletes one."""
    altered = tuple(
        ConfigChange(key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value) for key, value in changes.items()
    )

    def request(_: int) -> Message:
        return alter_request([TopicAlteration(name, altered)])

    def refusal(response: Message) -> Refusal:
        return _only([(int(one.error), one.message) for one in alter_outcomes(response)])

    return DirectoryCall(INCREMENTAL_ALTER_CONFIGS, request, refusal)


def delete_topic(topic_id: bytes) -> DirectoryCall:
    """Delete a topic."""

    def request(timeout_ms: int) -> Message:
        return DeleteTopicsRequest(topics=(DeletableTopicState(topic_id=topic_id),), timeout_ms=timeout_ms)

    def refusal(response: Message) -> Refusal:
        return _only([(one.error_code, one.error_message) for one in cast(DeleteTopicsResponse, response).responses])

    return DirectoryCall(DELETE_TOPICS, request, refusal)


def _only(results: Sequence[tuple[int, str | None]]) -> Refusal:
    if len(results) != 1:
        raise MalformedMessage(f"one topic was named; the answer has {len(results)}")
    return refusal_of(*results[0])
