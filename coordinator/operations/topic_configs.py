"""Settings of topics between the wire and the core: two of Kafka's own requests, for resources of the type TOPIC.

The messages are kio's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from kio.schema.errors import ErrorCode as KioError

from coordinator.core.commands import ConfigChange, Outcome, TopicAlteration
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import ConfigType
from coordinator.operations.declaration import Lane
from coordinator.operations.kafka_versions import kafka_operation, schema_module
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4 import DescribeConfigsRequest
    from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

TOPIC_RESOURCE: Final = 2
"""Kafka's number of the type of resource that is a topic."""
OF_TOPIC: Final = 1
OF_SERVICE: Final = 4
BUILT_IN: Final = 5
"""Kafka's numbers of the source of a value: the topic, the settings of a broker, the default."""

_ALTER_VERSION: Final = 1
"""The version in which this program asks."""


def no_topic(resource_type: int, name: str) -> Outcome:
    """Return the refusal of a resource that is not a topic."""
    message = (
        f"resource {name!r} has the type {resource_type}; only topics (type {TOPIC_RESOURCE}) have settings that can be asked for here"
    )
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


# ---- IncrementalAlterConfigs


class Alterations(NamedTuple):
    """The resources of a request as (type, changes), and whether they are to be checked only."""

    resources: Sequence[tuple[int, TopicAlteration]]
    is_dry_run: bool


def alter_request(alterations: Iterable[TopicAlteration], *, is_dry_run: bool = False) -> Message:
    """Return the request to change settings of topics."""
    module = schema_module("incremental_alter_configs", _ALTER_VERSION, "request")
    resources = tuple(
        module.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=one.topic,
            configs=tuple(
                module.AlterableConfig(name=change.name, config_operation=change.operation, value=change.value) for change in one.changes
            ),
        )
        for one in alterations
    )
    return cast(Message, module.IncrementalAlterConfigsRequest(resources=resources, validate_only=is_dry_run))


def asked_alterations(request: Message) -> Alterations:
    """Return what a request of any version asks for."""
    asked = cast("IncrementalAlterConfigsRequest", request)
    resources = []
    for one in asked.resources:
        changes = tuple(ConfigChange(each.name, int(each.config_operation), each.value) for each in one.configs)
        resources.append((int(one.resource_type), TopicAlteration(one.resource_name, changes)))
    return Alterations(resources, asked.validate_only)


def alter_response(version: int, answered: Iterable[tuple[int, str, Outcome]]) -> Message:
    """Return Kafka's response of a version to resources as (type, name, outcome)."""
    module = schema_module("incremental_alter_configs", version, "response")
    responses = tuple(
        module.AlterConfigsResourceResponse(
            error_code=KioError(int(outcome.error)), error_message=outcome.message, resource_type=resource_type, resource_name=name
        )
        for resource_type, name, outcome in answered
    )
    return cast(Message, module.IncrementalAlterConfigsResponse(throttle_time=timedelta(0), responses=responses))


def alter_outcomes(response: Message) -> list[Outcome]:
    """Return the outcome of each resource."""
    told = cast("IncrementalAlterConfigsResponse", response)
    return [Outcome(error=ErrorCode(int(one.error_code.value)), message=one.error_message) for one in told.responses]


# ---- DescribeConfigs


class AskedConfigs(NamedTuple):
    """A resource whose settings are asked for: all of them, or those that are named."""

    resource_type: int
    name: str
    keys: frozenset[str] | None


class DescribedConfig(NamedTuple):
    """A setting of a topic. `synonyms` are the values in the order in which they count, as (name, value, source)."""

    name: str
    value: str
    source: int
    config_type: ConfigType
    about: str
    synonyms: Sequence[tuple[str, str, int]]


class DescribedConfigs(NamedTuple):
    """The settings of a resource, or why there is no answer."""

    asked: AskedConfigs
    outcome: Outcome
    configs: Sequence[DescribedConfig] = ()


def asked_configs(request: Message) -> list[AskedConfigs]:
    """Return the resources of a request of any version; as in Kafka, no key named means all."""
    asked = cast("DescribeConfigsRequest", request)
    return [
        AskedConfigs(int(one.resource_type), one.resource_name, frozenset(one.configuration_keys or ()) or None) for one in asked.resources
    ]


def describe_response(version: int, request: Message, described: Iterable[DescribedConfigs]) -> Message:
    """Return Kafka's response of a version; synonyms and texts only when the request wants them."""
    module = schema_module("describe_configs", version, "response")
    has_synonyms = cast("DescribeConfigsRequest", request).include_synonyms
    has_texts = version >= 3 and cast("DescribeConfigsRequest", request).include_documentation
    results = []
    for one in described:
        configs = tuple(
            module.DescribeConfigsResourceResult(
                name=each.name,
                value=each.value,
                read_only=False,
                config_source=each.source,
                is_sensitive=False,
                synonyms=tuple(
                    module.DescribeConfigsSynonym(name=name, value=value, source=source)
                    for name, value, source in (each.synonyms if has_synonyms else ())
                ),
                **({"config_type": int(each.config_type), "documentation": each.about if has_texts else None} if version >= 3 else {}),
            )
            for each in one.configs
        )
        results.append(
            module.DescribeConfigsResult(
                error_code=KioError(int(one.outcome.error)),
                error_message=one.outcome.message,
                resource_type=one.asked.resource_type,
                resource_name=one.asked.name,
                configs=configs,
            )
        )
    return cast(Message, module.DescribeConfigsResponse(throttle_time=timedelta(0), results=tuple(results)))


def _refuse_alter(version: int, request: Message, outcome: Outcome) -> Message:
    return alter_response(version, [(kind, one.topic, outcome) for kind, one in asked_alterations(request).resources])


def _refuse_describe(version: int, request: Message, outcome: Outcome) -> Message:
    return describe_response(version, request, [DescribedConfigs(one, outcome) for one in asked_configs(request)])


INCREMENTAL_ALTER_CONFIGS: Final = kafka_operation(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    _ALTER_VERSION,
    acl=frozenset({AclOperation.ALTER_CONFIGS}),
    refuse=_refuse_alter,
    lane=Lane.ALONE,
)
DESCRIBE_CONFIGS: Final = kafka_operation(
    ApiKey.DESCRIBE_CONFIGS, 1, 4, acl=frozenset({AclOperation.DESCRIBE_CONFIGS}), refuse=_refuse_describe, is_unbounded=True
)
