"""Topics are created: CreateTopics, and Metadata that creates what it names.

Kafka is asked first, on the client's own connection, so its rights, limits and policies count; then the coordinators get a topic with the
id that Kafka gave. A gateway that ends in between leaves a shadow without records and without a topic of the coordinators: the same request
finishes it, at any gateway. Invariant: only a shadow that the coordinators do not know is finished or taken away.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.client.errors import ServiceError
from coordinator.kafka.topic_configs import SHADOW_SETTINGS
from coordinator.protocol.codec import encode
from gateway.kafka_apis import KafkaApi, converted, made
from gateway.ports import Catalogue, Session
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.rule import ENABLE, CreationRule, Wanted
from gateway.topics.settings import configs_of
from gateway.topics.shadows import Shadows
from gateway.topics.wire import NOW, kafka_code, relayed, shown

LOG = logging.getLogger(__name__)

AUTO_CREATE: Final = "auto.create.topics.enable"
_WITHIN: Final = i32Timedelta.parse(timedelta(seconds=15))
AT_ONCE: Final = 50
"""So many topics are created at the coordinators at once."""
_SECOND_THOUGHTS: Final = (ErrorCode.request_timed_out,)


class TopicCreation:
    """Creates topics of both kinds. Used on one event loop."""

    def __init__(self, rule: CreationRule, shadows: Shadows, catalogue: Catalogue, coordinators: TopicCoordinators) -> None:
        self._rule = rule
        self._shadows = shadows
        self._catalogue = catalogue
        self._coordinators = coordinators
        self._places = asyncio.Semaphore(AT_ONCE)

    # ---- CreateTopics

    async def answer(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer CreateTopics. Raises `BrokerLost`, `MalformedMessage`."""
        asked = KafkaApi.CREATE_TOPICS.read_request(request)
        wanted = {
            str(one.name): self._rule.wanted(str(one.name), {each.name: each.value for each in one.configs}, request.client_id)
            for one in asked.topics
        }
        is_plain = all(not one.is_diskless and not one.error for one in wanted.values())
        if is_plain and not any(each.name == ENABLE for one in asked.topics for each in one.configs):
            return await relayed(session, request, KafkaApi.CREATE_TOPICS)
        rows = await self._create(session, converted(asked, CreateTopicsRequest), wanted)
        answer = CreateTopicsResponse(throttle_time=cast(i32Timedelta, NOW), topics=tuple(rows))
        return encode(converted(answer, KafkaApi.CREATE_TOPICS.answer_type(request.api_version)))

    async def _create(self, session: Session, asked: Any, wanted: Mapping[str, Wanted]) -> list[Any]:
        """Create what a request of the latest version asks for; one row for each topic."""
        deadline_s = _now_s() + asked.timeout.total_seconds()
        names = [str(one.name) for one in asked.topics]
        rows: dict[str, Any] = {}
        for name, times in Counter(names).items():
            if times > 1:
                rows[name] = refused(name, ErrorCode.invalid_request, "Duplicate topic name.")
            elif wanted[name].error:
                rows[name] = refused(name, ErrorCode(int(wanted[name].error)), wanted[name].message)
        left = [one for one in asked.topics if str(one.name) not in rows]
        sent = tuple(_at_kafka(one, wanted[str(one.name)]) for one in left)
        if sent:
            told = await session.upstream.ask(replace(asked, topics=sent), CreateTopicsResponse)
            rows |= {str(one.name): one for one in told.topics}
        diskless = [one for one in left if wanted[str(one.name)].is_diskless]
        done = await asyncio.gather(
            *(
                self._second(session, one, rows[str(one.name)], wanted[str(one.name)], deadline_s, is_dry_run=asked.validate_only)
                for one in diskless
                if str(one.name) in rows
            )
        )
        rows |= {str(one.name): one for one in done}
        if diskless and not asked.validate_only:
            await shown(self._catalogue, "creation")
            rows |= await self._described([rows[str(one.name)] for one in diskless if str(one.name) in rows])
        return [rows[name] for name in dict.fromkeys(names) if name in rows]

    async def _second(self, session: Session, topic: Any, row: Any, wanted: Wanted, deadline_s: float, *, is_dry_run: bool) -> Any:
        """The second step of a diskless topic: what is answered when Kafka has answered `row` of the shadow."""
        name, settings = str(topic.name), {key: value or "" for key, value in wanted.settings.items()}
        row = replace(row, configs=None if row.configs is None else ())
        if row.error_code is ErrorCode.none:
            if is_dry_run:
                return replace(row, configs=_own_configs(settings) if row.configs is not None else None)
            topic_id, partitions = row.topic_id.bytes, int(row.num_partitions)
            if partitions < 0:  # a client that may not describe settings is not told
                partitions = (await self._known(name, topic_id)) or int(topic.num_partitions)
            return await self._finish(session, row, topic_id, partitions, settings, deadline_s, is_new=True)
        if row.error_code is not ErrorCode.topic_already_exists:
            return row
        sorted_out = await self._shadows.sort_out([name], all_exist=True)
        found = sorted_out.in_kafka.get(name)
        if found is None or name not in sorted_out.half:
            return row
        count = len(topic.assignments) or int(topic.num_partitions)
        if is_dry_run or count not in (-1, found.partitions):
            text = f"Topic '{name}' is half created, with {found.partitions} partitions: create it with as many, or delete it first"
            return replace(row, error_message=text)
        LOG.info("creation is finished topic=%s partitions=%d", name, found.partitions)
        row = replace(
            row,
            error_code=ErrorCode.none,
            error_message=None,
            topic_id=uuid.UUID(bytes=found.topic_id),
            num_partitions=i32(found.partitions),
            replication_factor=topic.replication_factor,
            configs=(),
        )
        return await self._finish(session, row, found.topic_id, found.partitions, settings, deadline_s, is_new=False)

    async def _known(self, name: str, topic_id: bytes) -> int | None:
        """The number of partitions that Kafka chose for a topic."""
        found = await self._shadows.known_topics([name], are_new=lambda found: name in found and found[name].topic_id == topic_id)
        topic = found.seen.get(name)
        return topic.partitions if topic is not None and topic.topic_id == topic_id else None

    async def _finish(
        self, session: Session, row: Any, topic_id: bytes, partitions: int, settings: Mapping[str, str], deadline_s: float, *, is_new: bool
    ) -> Any:
        """Have the coordinators create the topic of a shadow; return its row."""
        name = str(row.name)
        try:
            async with self._places:
                left_ms = max(1_000, int((deadline_s - _now_s()) * 1000))
                await self._coordinators.create_topic(name, partitions, topic_id=topic_id, settings=settings, timeout_ms=left_ms)
        except ServiceError as error:
            code = ErrorCode(kafka_code(error))
            if code in _SECOND_THOUGHTS:
                return replace(
                    row, error_code=code, error_message=f"topic {name} is half created ({error}): repeat the request to finish it"
                )
            LOG.warning("creation refused topic=%s error=%r", name, str(error))
            return await self._refused(session, row, topic_id, code, error.message, is_new=is_new)
        LOG.info("created topic=%s partitions=%d client=%s", name, partitions, session.client_id)
        return row

    async def _refused(self, session: Session, row: Any, topic_id: bytes, code: ErrorCode, why: str, *, is_new: bool) -> Any:
        """The coordinators refuse the topic for good: take away the shadow that this request has made, if they are sure not to have it."""
        is_seen = await shown(self._catalogue, "creation")
        if self._catalogue.identified(topic_id) is not None:  # created meanwhile by another request, with other settings
            return replace(row, error_code=ErrorCode.topic_already_exists, error_message=why)
        fate = "its shadow in Kafka is left: delete the topic"
        if is_new and is_seen:
            state = DeleteTopicState(name=None, topic_id=uuid.UUID(bytes=topic_id))
            ask = DeleteTopicsRequest(topics=(state,), timeout=_WITHIN)
            [gone] = (await session.upstream.ask(ask, DeleteTopicsResponse)).responses
            fate = "" if gone.error_code is ErrorCode.none else f"{fate}, which this client may not ({gone.error_code.name})"
        return replace(row, error_code=code, error_message="; ".join(filter(None, (why, fate))))

    async def _described(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Rows of topics that were created, with their settings, where the client may see them."""
        seen = [row for row in rows if row.error_code is ErrorCode.none and row.configs is not None]
        try:
            told = await configs_of(self._coordinators, [str(row.name) for row in seen]) if seen else {}
        except ServiceError as error:
            LOG.info("settings of created topics not described error=%r", str(error))
            return {}
        described = {}
        for row in seen:
            configs = told.get(str(row.name))
            if configs is not None:
                rows_of = [
                    CreatableTopicConfigs(
                        name=one.name, value=one.value, read_only=one.name == ENABLE, config_source=i8(one.source), is_sensitive=False
                    )
                    for one in configs
                ]
                described[str(row.name)] = replace(row, configs=tuple(rows_of))
        return described

    # ---- Metadata

    def creates(self, asked: Any) -> bool:
        """Return whether a Metadata request may create a topic that would be diskless."""
        named = getattr(asked, "topics", None) or ()
        return bool(getattr(asked, "allow_auto_topic_creation", True)) and any(
            one.name is not None and self._rule.covers(one.name) for one in named
        )

    async def metadata(self, session: Session, asked: Any, answer_type: type[Any]) -> Any:
        """Ask Metadata of version 4 or later, and create missing topics by the same rule as CreateTopics. Raises `BrokerLost`.

        Kafka creates the classic ones by itself. As from Kafka, a topic that was created just now has LEADER_NOT_AVAILABLE.
        """
        first = await session.upstream.ask(replace(asked, allow_auto_topic_creation=False), answer_type)
        missing = {str(one.name) for one in first.topics if one.error_code is ErrorCode.unknown_topic_or_partition and one.name is not None}
        if not missing or not await self._shadows.broker_allows(AUTO_CREATE):
            return first
        rows: dict[str, Any] = {}
        classic = tuple(one for one in asked.topics if one.name in missing and not self._rule.covers(one.name))
        if classic:
            second = await session.upstream.ask(replace(asked, topics=classic), answer_type)
            rows = {str(one.name): one for one in second.topics}
        codes = await self._auto_create(session, [name for name in missing if self._rule.covers(name)])
        changed = [
            replace(one, error_code=codes[str(one.name)]) if one.name in codes else rows.get(str(one.name), one) for one in first.topics
        ]
        return replace(first, topics=tuple(changed))

    async def _auto_create(self, session: Session, names: Collection[str]) -> dict[str, ErrorCode]:
        if not names:
            return {}
        topics = tuple(
            CreatableTopic(name=TopicName(name), num_partitions=i32(-1), replication_factor=i16(-1), assignments=(), configs=())
            for name in names
        )
        request = CreateTopicsRequest(topics=topics, timeout=_WITHIN, validate_only=False)
        rows = await self._create(session, request, {name: self._rule.wanted(name, {}) for name in names})
        codes = {str(one.name): one.error_code for one in rows}
        soon = (ErrorCode.none, ErrorCode.topic_already_exists, ErrorCode.request_timed_out)
        return {name: ErrorCode.leader_not_available if code in soon else code for name, code in codes.items()}


def refused(name: str, code: ErrorCode, message: str | None) -> Any:
    """Return the row of a topic that is not created."""
    return made(
        CreatableTopicResult,
        name=TopicName(name),
        topic_id=None,
        error_code=code,
        error_message=message,
        topic_config_error_code=i16(0),
        configs=None,
    )


def _at_kafka(topic: Any, wanted: Wanted) -> Any:
    """What Kafka is asked for: the shadow of a diskless topic; a classic topic without the settings that Kafka does not know."""
    settings = SHADOW_SETTINGS if wanted.is_diskless else wanted.settings
    return replace(topic, configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in settings.items()))


def _own_configs(settings: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(
        CreatableTopicConfigs(name=name, value=value, read_only=name == ENABLE, config_source=i8(1), is_sensitive=False)
        for name, value in {ENABLE: "true", **settings}.items()
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
