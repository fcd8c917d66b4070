"""The answers by which clients find nodes and leaders: asked of the broker on the client's own connection, and rewritten by the view."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from coordinator.adapters.server.contract import IncomingRequest, Respond
from gateway.answering import answer_later
from gateway.front.apis import PortApis
from gateway.kafka_apis import KafkaApi, converted
from gateway.ports import DisklessTopic, Session
from gateway.view import rewrite
from gateway.view.view import View

METADATA_WITH_IDS: Final = 10
"""The first version of Metadata whose answers have topic ids; earlier requests are asked in it."""
_UNSUPPORTED_VERSION: Final = 35


class Sights(Protocol):
    """What clients see."""

    def of(self, session: Session) -> View:
        """Return the view of a client."""

    def learn(self, answer: Any) -> None:
        """Take note of the brokers that a Metadata answer of a broker names."""

    def diskless(self, topic_id: bytes) -> DisklessTopic | None:
        """Return the diskless topic of an id."""

    async def grow(self, partitions: Mapping[bytes, int]) -> None:
        """Look diskless topics up, by id, that have more partitions in Kafka than are known here."""

    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        """Return the ids of those topics of an answer that may not be shown as classic ones. Raises `BrokerLost`."""


class CreatesTopics(Protocol):
    """Creates diskless topics that Metadata names."""

    def creates(self, asked: Any) -> bool:
        """Return whether a request may create a topic that would be diskless."""

    async def metadata(self, session: Session, asked: Any, answer_type: type[Any]) -> Any:
        """Ask Metadata, and create what is missing. Raises `BrokerLost`."""


class MetadataTaker:
    """Answers Metadata."""

    def __init__(self, sights: Sights, creation: CreatesTopics) -> None:
        self._sights = sights
        self._creation = creation

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        answer_later(self._answer(session, request), session, respond, "Metadata")

    async def _answer(self, session: Session, request: IncomingRequest) -> bytes:
        version = request.api_version
        asked_version = max(version, METADATA_WITH_IDS)
        asked = KafkaApi.METADATA.read_request(request)
        if version < METADATA_WITH_IDS:
            asked = converted(_with_ids(asked), KafkaApi.METADATA.request_type(METADATA_WITH_IDS))
        if self._creation.creates(asked):
            answer = await self._creation.metadata(session, asked, KafkaApi.METADATA.answer_type(asked_version))
        elif version < METADATA_WITH_IDS:
            answer = await session.upstream.ask(asked, KafkaApi.METADATA.answer_type(METADATA_WITH_IDS))
        else:
            answer = KafkaApi.METADATA.read_answer(version, await session.upstream.forward(request.data))
        self._sights.learn(answer)
        rows = [(rewrite.topic_id_of(topic), topic) for topic in answer.topics if topic.topic_id is not None]
        named = [(str(topic.name or ""), topic_id) for topic_id, topic in rows]
        unfinished = await self._sights.unfinished(named)
        await self._sights.grow({topic_id: len(topic.partitions) for topic_id, topic in rows})
        diskless = {topic_id: found for _, topic_id in named if (found := self._sights.diskless(topic_id)) is not None}
        seen = rewrite.metadata(answer, self._sights.of(session), diskless, unfinished)
        if version < METADATA_WITH_IDS:
            seen = converted(seen, KafkaApi.METADATA.answer_type(version))
        return KafkaApi.METADATA.write_answer(version, seen)


def _with_ids(asked: Any) -> Any:
    """Return an early request so that it can be asked in a later version: no topics mean all in version 0, and none in later ones."""
    if int(asked.__version__) == 0 and not asked.topics:
        return _EarlyMetadata(None)
    return _EarlyMetadata(
        None if asked.topics is None else tuple(_EarlyTopic(topic.name) for topic in asked.topics),
        getattr(asked, "allow_auto_topic_creation", True),
        getattr(asked, "include_cluster_authorized_operations", False),
        getattr(asked, "include_topic_authorized_operations", False),
    )


class _EarlyTopic:
    def __init__(self, name: str) -> None:
        self.topic_id = None
        self.name = name


class _EarlyMetadata:
    def __init__(
        self, topics: Sequence[_EarlyTopic] | None, is_creating: bool = True, of_cluster: bool = False, of_topics: bool = False
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = is_creating
        self.include_cluster_authorized_operations = of_cluster
        self.include_topic_authorized_operations = of_topics


class RewritingTaker:
    """Passes a request on and rewrites its answer."""

    def __init__(self, api: KafkaApi, rewriting: Callable[[Any, View], Any], sights: Sights) -> None:
        self._api = api
        self._rewriting = rewriting
        self._sights = sights

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        answer_later(self._answer(session, request), session, respond, self._api.text)

    async def _answer(self, session: Session, request: IncomingRequest) -> bytes:
        answer = self._api.read_answer(request.api_version, await session.upstream.forward(request.data))
        return self._api.write_answer(request.api_version, self._rewriting(answer, self._sights.of(session)))


class ApiVersionsTaker:
    """Answers ApiVersions: what the broker offers, narrowed to what this port serves."""

    def __init__(self, served: PortApis) -> None:
        self._served = served

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        answer_later(self._answer(session, request), session, respond, "ApiVersions")

    async def _answer(self, session: Session, request: IncomingRequest) -> bytes:
        frame = await session.upstream.forward(request.data)
        is_unknown = len(frame) >= 6 and struct.unpack_from(">h", frame, 4) == (_UNSUPPORTED_VERSION,)
        version = 0 if is_unknown else request.api_version  # brokers answer an unknown version in version 0
        answer = KafkaApi.API_VERSIONS.read_answer(version, frame)
        rows = []
        for row in answer.api_keys:
            narrowed = self._served.narrowed(int(row.api_key), int(row.min_version), int(row.max_version))
            if narrowed is not None:
                rows.append(replace(row, min_version=narrowed[0], max_version=narrowed[1]))
        return KafkaApi.API_VERSIONS.write_answer(version, replace(answer, api_keys=tuple(rows)))


def discovery_takers(sights: Sights, creation: CreatesTopics, served: PortApis) -> dict[int, Any]:
    """Return the takers of the requests by which clients find nodes, for one kind of ports."""
    return {
        KafkaApi.API_VERSIONS: ApiVersionsTaker(served),
        KafkaApi.METADATA: MetadataTaker(sights, creation),
        KafkaApi.FIND_COORDINATOR: RewritingTaker(KafkaApi.FIND_COORDINATOR, rewrite.find_coordinator, sights),
        KafkaApi.DESCRIBE_CLUSTER: RewritingTaker(KafkaApi.DESCRIBE_CLUSTER, rewrite.describe_cluster, sights),
        KafkaApi.SHARE_FETCH: RewritingTaker(KafkaApi.SHARE_FETCH, rewrite.node_endpoints, sights),
        KafkaApi.SHARE_ACKNOWLEDGE: RewritingTaker(KafkaApi.SHARE_ACKNOWLEDGE, rewrite.node_endpoints, sights),
    }
