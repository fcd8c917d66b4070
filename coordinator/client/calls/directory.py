"""Requests to the leader of the directory: topics created, altered and deleted, the schema level, the restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from coordinator.client.calls.declared import OneByOne, by_directory
from coordinator.client.errors import refusal_of
from coordinator.client.model import Result
from coordinator.core.commands import ConfigChange, TopicAlteration
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.kafka.topic_configs import ConfigOperation, ConfigType
from coordinator.operations.kafka_versions import schema_module
from coordinator.operations.maintenance import FINISH_RESTORE, NO_RESTORE
from coordinator.operations.nodes import DRAIN_NODE, UPDATE_SCHEMA_LEVEL
from coordinator.operations.topic_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    TOPIC_RESOURCE,
    DescribedConfig,
    alter_outcomes,
    alter_request,
)
from coordinator.operations.topics import CREATE_PARTITIONS, DELETE_TOPICS
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    CreatableConfig,
    CreatablePartitions,
    CreatePartitionsRequest,
    DeletableTopicState,
    DeleteTopicsRequest,
    DrainNodeRequest,
    FinishRestoreCoordinator,
    FinishRestoreRequest,
    UpdateSchemaLevelNode,
    UpdateSchemaLevelRequest,
)
from coordinator.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4 import DescribeConfigsResponse

_DESCRIBE_VERSION: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDescription(Result):
    """The schema level of the log that is in force, and the highest one of each registered node."""

    level: int = -1
    nodes: tuple[UpdateSchemaLevelNode, ...] = ()


def update_schema_level(level: int, gone_node_ids: Sequence[int]) -> OneByOne[LevelDescription]:
    """Raise the schema level, 0 to ask for the one in force. Repeating it is harmless."""
    return by_directory(
        UPDATE_SCHEMA_LEVEL,
        lambda timeout_ms: UpdateSchemaLevelRequest(level=level, gone_node_ids=tuple(gone_node_ids), timeout_ms=timeout_ms),
        LevelDescription,
    )


def drain_node(node_id: int, drain: int) -> OneByOne[Result]:
    """Have a node give up what it leads, or lead again. Repeating it is harmless."""
    return by_directory(DRAIN_NODE, lambda timeout_ms: DrainNodeRequest(node_id=node_id, drain=drain, timeout_ms=timeout_ms), Result)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigs(Result):
    """All settings of a topic: its own, the service's and defaults."""

    configs: tuple[DescribedConfig, ...] = ()


def finish_restore(restore_id: bytes) -> OneByOne[RestoreDescription]:
    """Call a restore finished, all zero to ask for the one there is. Repeating it is harmless."""
    return by_directory(
        FINISH_RESTORE, lambda timeout_ms: FinishRestoreRequest(restore_id=restore_id, timeout_ms=timeout_ms), RestoreDescription
    )


def create_topic(
    name: str, num_partitions: int, topic_id: bytes, settings: Mapping[str, str], *, classic_pending: bool
) -> OneByOne[Result]:
    """Create a topic or grow it to `num_partitions`; new partitions are classic ones that are to be migrated if `classic_pending`."""
    configs = tuple(CreatableConfig(name=key, value=value) for key, value in settings.items())
    topic = CreatablePartitions(
        topic_id=topic_id, name=name, num_partitions=num_partitions, configs=configs, classic_pending=classic_pending
    )
    return by_directory(
        CREATE_PARTITIONS,
        lambda timeout_ms: CreatePartitionsRequest(topics=(topic,), timeout_ms=timeout_ms),
        Result,
        lambda response: _only([(one.error_code, one.error_message) for one in response.topics]),
    )


def alter_topic(name: str, changes: Mapping[str, str | None], *, is_dry_run: bool) -> OneByOne[Result]:
    """Change settings of a topic; None deletes one. A dry run is only checked."""
    altered = tuple(
        ConfigChange(key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value) for key, value in changes.items()
    )

    return by_directory(
        INCREMENTAL_ALTER_CONFIGS,
        lambda _: alter_request([TopicAlteration(name, altered)], is_dry_run=is_dry_run),
        Result,
        lambda response: _only([(int(one.error), one.message) for one in alter_outcomes(response)]),
    )


def describe_configs_request(names: Sequence[str]) -> Message:
    """Return the request for all settings of topics, with texts and with the values that would count otherwise."""
    module = schema_module("describe_configs", _DESCRIBE_VERSION, "request")
    resources = tuple(
        module.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None) for name in names
    )
    return cast(Message, module.DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True))


def configs_described(response: Message) -> list[TopicConfigs]:
    """Return the settings of each topic."""
    return [
        TopicConfigs(
            refusal=refusal_of(int(one.error_code.value), one.error_message),
            configs=tuple(
                DescribedConfig(
                    each.name,
                    each.value or "",
                    int(each.config_source),
                    ConfigType(int(each.config_type)),
                    each.documentation or "",
                    tuple((same.name, same.value or "", int(same.source)) for same in each.synonyms),
                )
                for each in one.configs
            ),
        )
        for one in cast("DescribeConfigsResponse", response).results
    ]


def delete_topic(topic_id: bytes) -> OneByOne[Result]:
    """Delete a topic."""
    return by_directory(
        DELETE_TOPICS,
        lambda timeout_ms: DeleteTopicsRequest(topics=(DeletableTopicState(topic_id=topic_id),), timeout_ms=timeout_ms),
        Result,
        lambda response: _only([(one.error_code, one.error_message) for one in response.responses]),
    )


def _only(results: Sequence[tuple[int, str | None]]) -> Result:
    """The result of the one topic that was named."""
    if len(results) != 1:
        raise MalformedMessage(f"one topic was named; the answer has {len(results)}")
    return Result(refusal=refusal_of(*results[0]))
