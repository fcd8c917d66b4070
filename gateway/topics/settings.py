"""The settings of diskless topics as Kafka's tools see them: DescribeConfigs, IncrementalAlterConfigs and AlterConfigs.

All of them are the coordinators'; of the shadow's, clients see nothing and change nothing. Kafka says on the client's own connection
whether the client may see or change settings of the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.client.errors import ServiceError
from coordinator.kafka.topic_configs import ConfigOperation, ConfigType
from coordinator.operations.topic_configs import DescribedConfig
from coordinator.protocol.codec import encode
from gateway.kafka_apis import KafkaApi, made
from gateway.ports import Catalogue, DisklessTopic, Session
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.rule import ENABLE
from gateway.topics.shadows import Shadows
from gateway.topics.wire import NOW, TOPIC, kafka_code, relayed, shown

LOG = logging.getLogger(__name__)

OF_TOPIC: Final = 1
TIMEOUT_MS: Final = 10_000
IS_DISKLESS: Final = DescribedConfig(
    ENABLE,
    "true",
    OF_TOPIC,
    ConfigType.BOOLEAN,
    "Whether the topic's records are in the object store. It is decided when the topic is created.",
    ((ENABLE, "true", OF_TOPIC),),
)
STAYS: Final = (
    f"{ENABLE} cannot be altered: a topic is diskless or classic from its creation on; `diskless migration` makes a classic one diskless"
)


async def configs_of(coordinators: TopicCoordinators, names: Sequence[str]) -> dict[str, list[DescribedConfig]]:
    """Return the settings of diskless topics by name. Raises `ServiceError` when the coordinators do not tell them."""
    told = await coordinators.describe_topic_configs(names, timeout_ms=TIMEOUT_MS)
    found = {}
    for name, one in zip(names, told, strict=True):
        one.raise_for_error()
        found[name] = [IS_DISKLESS, *one.configs]
    return found


class TopicSettings:
    """Answers requests about settings. Used on one event loop."""

    def __init__(self, shadows: Shadows, catalogue: Catalogue, coordinators: TopicCoordinators) -> None:
        self._shadows = shadows
        self._catalogue = catalogue
        self._coordinators = coordinators

    # ---- DescribeConfigs

    async def describe(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer DescribeConfigs: Kafka says what the client may see, the coordinators what the topics have."""
        asked = KafkaApi.DESCRIBE_CONFIGS.read_request(request)
        names = {one.resource_name for one in asked.resources if int(one.resource_type) == TOPIC}
        diskless = (await self._shadows.sort_out(names)).diskless if names else {}
        if not diskless:
            return await relayed(session, request, KafkaApi.DESCRIBE_CONFIGS)
        answer = await session.upstream.ask(asked, KafkaApi.DESCRIBE_CONFIGS.answer_type(request.api_version))
        keys = {one.resource_name: one.configuration_keys for one in asked.resources if int(one.resource_type) == TOPIC}
        seen = [
            one.resource_name for one in answer.results if int(one.resource_type) == TOPIC and one.error_code is ErrorCode.none
            and one.resource_name in diskless
        ]  # fmt: skip
        told: Mapping[str, Sequence[DescribedConfig]] = {}
        failure: ServiceError | None = None
        try:
            told = await configs_of(self._coordinators, seen) if seen else {}
        except ServiceError as error:
            failure = error
        results = []
        for one in answer.results:
            is_diskless = int(one.resource_type) == TOPIC and one.error_code is ErrorCode.none and one.resource_name in diskless
            if is_diskless and failure is not None:
                results.append(replace(one, error_code=ErrorCode(kafka_code(failure)), error_message=failure.message, configs=()))
            elif is_diskless:
                results.append(replace(one, configs=_rows(request.api_version, asked, keys[one.resource_name], told[one.resource_name])))
            else:
                results.append(one)
        return encode(replace(answer, results=tuple(results)))

    # ---- IncrementalAlterConfigs, AlterConfigs

    async def alter_incrementally(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer IncrementalAlterConfigs."""
        return await self._alter(session, request, KafkaApi.INCREMENTAL_ALTER_CONFIGS)

    async def alter_wholly(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer AlterConfigs, which names all settings that a topic shall have of its own."""
        return await self._alter(session, request, KafkaApi.ALTER_CONFIGS)

    async def _alter(self, session: Session, request: IncomingRequest, api: KafkaApi) -> bytes:
        asked = api.read_request(request)
        names = {one.resource_name for one in asked.resources if int(one.resource_type) == TOPIC}
        sorted_out = await self._shadows.sort_out(names) if names else None
        rows: dict[tuple[int, str], tuple[ErrorCode, str | None]] = {}
        diskless: dict[str, Any] = {}
        for one in asked.resources:
            key = (int(one.resource_type), one.resource_name)
            if key[0] != TOPIC or sorted_out is None:
                continue
            if one.resource_name in sorted_out.diskless:
                diskless[one.resource_name] = one
            elif (why_not := sorted_out.why_not(one.resource_name)) is not None:
                rows[key] = (ErrorCode.request_timed_out, why_not)
            elif any(config.name == ENABLE for config in one.configs):
                rows[key] = (ErrorCode.invalid_config, STAYS)
        if not rows and not diskless:
            return await relayed(session, request, api)
        rest = tuple(
            one for one in asked.resources if (int(one.resource_type), one.resource_name) not in rows and one.resource_name not in diskless
        )
        response_type = api.answer_type(request.api_version)
        if rest:
            answer = await session.upstream.ask(replace(asked, resources=rest), response_type)
            rows |= {(int(one.resource_type), one.resource_name): (one.error_code, one.error_message) for one in answer.responses}
        if diskless:
            assert sorted_out is not None
            rows |= await self._alter_diskless(session, diskless, sorted_out.diskless, api, is_dry_run=asked.validate_only)
        row_type = api.answer_parts(request.api_version).AlterConfigsResourceResponse
        responses = tuple(
            row_type(error_code=code, error_message=text, resource_type=i8(kind), resource_name=name)
            for kind, name in dict.fromkeys((int(one.resource_type), one.resource_name) for one in asked.resources)
            for code, text in (rows.get((kind, name), (ErrorCode.unknown_server_error, "the broker did not answer for it")),)
        )
        return encode(made(response_type, throttle_time=NOW, responses=responses))

    async def _alter_diskless(
        self, session: Session, asked: Mapping[str, Any], topics: Mapping[str, DisklessTopic], api: KafkaApi, *, is_dry_run: bool
    ) -> dict[tuple[int, str], tuple[ErrorCode, str | None]]:
        rows = await self._permitted(session, asked)
        for name, one in asked.items():
            if rows[TOPIC, name][0] is not ErrorCode.none:
                continue
            changes, fault = _changes(one, topics[name], api)
            if fault is not None:
                rows[TOPIC, name] = fault
                continue
            try:
                if changes:
                    await self._coordinators.alter_topic(name, changes, dry_run=is_dry_run, timeout_ms=TIMEOUT_MS)
            except ServiceError as error:
                rows[TOPIC, name] = (ErrorCode(kafka_code(error)), error.message)
                continue
            if changes and not is_dry_run:
                LOG.info("altered topic=%s settings=%s client=%s", name, sorted(changes), session.client_id)
        await shown(self._catalogue, "alteration")
        return rows

    async def _permitted(self, session: Session, names: Iterable[str]) -> dict[tuple[int, str], tuple[ErrorCode, str | None]]:
        """What Kafka says to a client that alters nothing of these topics: whether it might."""
        resources = tuple(AlterConfigsResource(resource_type=i8(TOPIC), resource_name=name, configs=()) for name in names)
        told = await session.upstream.ask(
            IncrementalAlterConfigsRequest(resources=resources, validate_only=True), IncrementalAlterConfigsResponse
        )
        return {(TOPIC, one.resource_name): (one.error_code, one.error_message) for one in told.responses}


def _rows(version: int, asked: Any, keys: Sequence[str] | None, configs: Iterable[DescribedConfig]) -> tuple[Any, ...]:
    """The settings of a topic in a version of the answer; no key named means all."""
    module = KafkaApi.DESCRIBE_CONFIGS.answer_parts(version)
    has_texts = getattr(asked, "include_documentation", False)
    return tuple(
        made(
            module.DescribeConfigsResourceResult,
            name=one.name,
            value=one.value,
            read_only=one.name == ENABLE,
            config_source=i8(one.source),
            is_sensitive=False,
            synonyms=tuple(
                module.DescribeConfigsSynonym(name=name, value=value, source=i8(source))
                for name, value, source in (one.synonyms if asked.include_synonyms else ())
            ),
            config_type=i8(one.config_type),
            documentation=one.about if has_texts else None,
        )
        for one in configs
        if not keys or one.name in keys
    )


def _changes(asked: Any, topic: DisklessTopic, api: KafkaApi) -> tuple[dict[str, str | None], tuple[ErrorCode, str] | None]:
    """The changes that a resource of a request asks for, or why they are refused."""
    changes: dict[str, str | None] = {}
    if api is KafkaApi.ALTER_CONFIGS:
        changes = dict.fromkeys(topic.settings)
    seen = set()
    for one in asked.configs:
        if one.name in seen:
            return {}, (ErrorCode.invalid_request, f"topic {topic.name}: {one.name} is in the request twice")
        seen.add(one.name)
        operation = int(getattr(one, "config_operation", ConfigOperation.SET))
        if one.name == ENABLE:
            if operation != ConfigOperation.SET or (one.value or "").strip().lower() != "true":
                return {}, (ErrorCode.invalid_config, f"topic {topic.name}: {STAYS}")
            continue
        if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            text = f"topic {topic.name}: {one.name}: its value is set or deleted as a whole; nothing is appended or subtracted"
            return {}, (ErrorCode.invalid_config, text)
        if operation == ConfigOperation.SET and one.value is None:
            return {}, (ErrorCode.invalid_config, f"topic {topic.name}: {one.name} has no value; name one, or delete the setting")
        changes[one.name] = None if operation == ConfigOperation.DELETE else one.value
    if api is KafkaApi.ALTER_CONFIGS:
        changes = {name: value for name, value in changes.items() if value is not None or name in topic.settings}
    return changes, None
