"""Topics are deleted and given more partitions: DeleteTopics and CreatePartitions.

A topic is deleted at the coordinators first: what a crash leaves is a shadow without records, which repeating deletes as Kafka's own topics
are. It gets partitions at Kafka first: what a crash leaves is a shadow with more partitions, and repeating grows the coordinators' topic to
the same number; until then gateways show the smaller one.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32Timedelta

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.client.errors import NotFound, ServiceError
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.protocol.codec import encode
from gateway.kafka_apis import KafkaApi, converted, made
from gateway.ports import Catalogue, DisklessTopic, Session
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.shadows import Shadows, Sorted
from gateway.topics.wire import NOW, kafka_code, relayed, shown

LOG = logging.getLogger(__name__)

MAY_DELETE: Final = "delete.topic.enable"
DUPLICATE: Final = "Duplicate topic name."
NAME_OR_ID: Final = "Name a topic by its name or by its id."


async def permitted(session: Session, names: Collection[str], operation: AclOperation) -> frozenset[str]:
    """Return the topics that Kafka lets the client use so, asked at once on its connection. Raises `BrokerLost`."""
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    told = (await session.upstream.ask(request, MetadataResponse)).topics
    return frozenset(
        str(one.name)
        for one in told
        if one.error_code is not ErrorCode.topic_authorization_failed and int(one.topic_authorized_operations) & 1 << operation
    )


class TopicChanging:
    """Deletes and grows topics. Used on one event loop."""

    def __init__(self, shadows: Shadows, catalogue: Catalogue, coordinators: TopicCoordinators) -> None:
        self._shadows = shadows
        self._catalogue = catalogue
        self._coordinators = coordinators

    # ---- DeleteTopics

    async def delete(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer DeleteTopics. Raises `BrokerLost`, `MalformedMessage`."""
        asked = KafkaApi.DELETE_TOPICS.read_request(request)
        named = getattr(asked, "topics", None)
        states = [DeleteTopicState(name=name, topic_id=None) for name in asked.topic_names] if named is None else list(named)
        names = {str(one.name) for one in states if one.name is not None}
        ids = {one.topic_id.bytes for one in states if one.name is None and one.topic_id is not None}
        found = await self._shadows.sort_out(names, ids)
        if not found.diskless and not found.undecided:
            return await relayed(session, request, KafkaApi.DELETE_TOPICS)
        rows = await self._delete(session, states, found, _timeout_ms(asked))
        answer = DeleteTopicsResponse(throttle_time=cast(i32Timedelta, NOW), responses=tuple(rows))
        return encode(converted(answer, KafkaApi.DELETE_TOPICS.answer_type(request.api_version)))

    async def _delete(self, session: Session, states: list[Any], found: Sorted, timeout_ms: int) -> list[Any]:
        """Delete topics of both kinds; one row for each."""
        known = {one.topic_id: one.name for one in found.in_kafka.values()}
        keys = [str(one.name) if one.name is not None else known.get(_raw(one.topic_id), _raw(one.topic_id)) for one in states]
        times = Counter(keys)
        rows: dict[int, Any] = {}
        diskless: dict[int, DisklessTopic] = {}
        for place, (state, key) in enumerate(zip(states, keys, strict=True)):
            if (state.name is None) is (state.topic_id is None):
                rows[place] = _deleted(state, ErrorCode.invalid_request, NAME_OR_ID)
            elif times[key] > 1:
                rows[place] = _deleted(state, ErrorCode.invalid_request, DUPLICATE)
            elif key in found.undecided:
                rows[place] = _deleted(state, ErrorCode.request_timed_out, found.why_not(key))
            elif key in found.diskless:
                diskless[place] = found.diskless[key]
        rows |= await self._delete_ours(session, {place: (states[place], topic) for place, topic in diskless.items()}, timeout_ms)
        sent = [place for place in range(len(states)) if place not in rows]
        if sent:
            # By id, so that a topic which got the name of a deleted one is not hit.
            ask = tuple(
                DeleteTopicState(name=None, topic_id=uuid.UUID(bytes=diskless[place].topic_id)) if place in diskless else states[place]
                for place in sent
            )
            told = await session.upstream.ask(
                DeleteTopicsRequest(topics=ask, timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms))), DeleteTopicsResponse
            )
            by_key: dict[Any, Any] = {key: one for one in told.responses for key in (one.topic_id, one.name) if key is not None}
            for place, state in zip(sent, ask, strict=True):
                row = by_key.get(state.topic_id if state.name is None else state.name)
                rows[place] = (
                    _deleted(states[place], ErrorCode.request_timed_out, "the broker did not answer for it") if row is None else row
                )
                if place in diskless:
                    rows[place] = replace(rows[place], name=states[place].name or rows[place].name)
        return [rows[place] for place in range(len(states))]

    async def _delete_ours(self, session: Session, asked: Mapping[int, tuple[Any, DisklessTopic]], timeout_ms: int) -> dict[int, Any]:
        """Delete topics at the coordinators; return rows of those whose shadows stay."""
        if not asked:
            return {}
        if not await self._shadows.broker_allows(MAY_DELETE):
            return {place: _deleted(state, ErrorCode.topic_deletion_disabled, None) for place, (state, _) in asked.items()}
        allowed = await permitted(session, {topic.name for _, topic in asked.values()}, AclOperation.DELETE)
        rows = {}
        for place, (state, topic) in asked.items():
            if topic.name not in allowed:
                rows[place] = _deleted(state, ErrorCode.topic_authorization_failed, None)
                continue
            try:
                await self._coordinators.delete_topic(topic.topic_id, timeout_ms=timeout_ms)
            except NotFound:
                LOG.info("deletion is finished topic=%s", topic.name)
            except ServiceError as error:
                rows[place] = _deleted(state, ErrorCode(kafka_code(error)), f"{error.message}; repeat the request")
                continue
            LOG.info("deleted topic=%s client=%s", topic.name, session.client_id)
        await shown(self._catalogue, "deletion")
        return rows

    # ---- CreatePartitions

    async def grow(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer CreatePartitions. Raises `BrokerLost`, `MalformedMessage`."""
        asked = KafkaApi.CREATE_PARTITIONS.read_request(request)
        found = await self._shadows.sort_out({str(one.name) for one in asked.topics})
        if not found.diskless and not found.undecided and not found.half:
            return await relayed(session, request, KafkaApi.CREATE_PARTITIONS)
        module = KafkaApi.CREATE_PARTITIONS.answer_parts(request.api_version)
        rows: dict[str, Any] = {}

        def row(name: str, code: ErrorCode, text: str | None) -> Any:
            return module.CreatePartitionsTopicResult(name=TopicName(name), error_code=code, error_message=text)

        for one in asked.topics:
            name = str(one.name)
            if (why_not := found.why_not(name)) is not None:
                rows[name] = row(name, ErrorCode.request_timed_out, why_not)
        sent = tuple(one for one in asked.topics if str(one.name) not in rows)
        if sent:
            told = await session.upstream.ask(replace(asked, topics=sent), KafkaApi.CREATE_PARTITIONS.answer_type(request.api_version))
            rows |= {str(one.name): one for one in told.results}
        for one in asked.topics:
            name = str(one.name)
            if name not in found.diskless or asked.validate_only or name not in rows:
                continue
            topic, count, told = found.diskless[name], int(one.count), rows[name].error_code
            if told is ErrorCode.none or (told is ErrorCode.invalid_partitions and await self._is_half_grown(topic, count)):
                failed = await self._grow_ours(topic, count, _timeout_ms(asked))
                rows[name] = row(name, *(failed or (ErrorCode.none, None)))
        await shown(self._catalogue, "growth")
        results = tuple(rows[name] for name in dict.fromkeys(str(one.name) for one in asked.topics) if name in rows)
        return encode(made(module.CreatePartitionsResponse, throttle_time=NOW, results=results))

    async def _is_half_grown(self, topic: DisklessTopic, count: int) -> bool:
        """Whether Kafka, which refuses so many partitions, has them already, and the coordinators have fewer."""
        if topic.partitions >= count:
            return False
        found = await self._shadows.known_topics(
            [topic.name], are_new=lambda found: topic.name in found and found[topic.name].partitions >= count
        )
        return topic.name in found.seen and found.seen[topic.name].partitions == count

    async def _grow_ours(self, topic: DisklessTopic, count: int, timeout_ms: int) -> tuple[ErrorCode, str] | None:
        """Grow a topic at the coordinators; return why it is not grown."""
        try:
            await self._coordinators.create_topic(topic.name, count, topic_id=topic.topic_id, timeout_ms=timeout_ms)
        except ServiceError as error:
            has = f"topic {topic.name} has {count} partitions in Kafka and {topic.partitions} at the coordinators"
            return ErrorCode(kafka_code(error)), f"{has}: {error.message}; repeat the request"
        LOG.info("grown topic=%s partitions=%d", topic.name, count)
        return None


def _deleted(state: Any, code: ErrorCode, message: str | None) -> Any:
    return DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=code, error_message=message)


def _timeout_ms(asked: Any) -> int:
    return max(1_000, int(asked.timeout.total_seconds() * 1000))


def _raw(topic_id: uuid.UUID | None) -> bytes:
    return ZERO_TOPIC_ID if topic_id is None else topic_id.bytes
