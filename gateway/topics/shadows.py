"""What Kafka says of topics to the gateway's own login: which id a name has, which topics are shadows, and what its brokers allow.

The own login sees all topics; what a client may see and do is asked on its own connection. A topic id that is neither in the catalogue nor
known as classic is looked up before anything is done with it: a listing that began after the question, then the topic's own
`max.message.bytes`, which is 0 for a shadow. Invariant: a topic is called classic only when both have said so; classic ids are kept, since
an id is never another topic's.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8

from coordinator.client.errors import ServiceError
from coordinator.kafka.names import illegal_topic_name, topic_id_text
from coordinator.kafka.topic_configs import MAX_MESSAGE_BYTES, SHADOW_SETTINGS
from coordinator.protocol.codec import Message
from gateway.ports import SPREAD_PAUSE_S, SPREAD_S, Catalogue, DisklessTopic
from gateway.topics.wire import TOPIC

LOG = logging.getLogger(__name__)

CLASSIC_MAX: Final = 100_000
"""The number of classic ids that are kept; above it all are looked up anew."""
BROKER_KEPT_S: Final = 10.0
"""For so long a setting of brokers is not asked for again."""
BROKER: Final = 4
"""Kafka's number of the type of resource that is a broker."""
_MAY_NOT: Final = "the gateway's own login may not see topic=%s: give it Describe and DescribeConfigs on all topics"

Answer = TypeVar("Answer", bound=Message)


class Asks(Protocol):
    """Asks any broker with the gateway's own login."""

    async def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Ask a question that may be asked twice. Raises `BrokerLost`."""


class SeenTopic(NamedTuple):
    """A topic as Kafka has it."""

    name: str
    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """What Kafka tells the own login of topics: those that it sees, by name, and names and ids of those that are kept from it."""

    seen: dict[str, SeenTopic] = field(default_factory=dict)
    hidden: set[str | bytes] = field(default_factory=set)

    def missing(self, names: Collection[str], ids: Collection[bytes]) -> set[str | bytes]:
        """Return the names and ids that Kafka does not know."""
        known = {one.topic_id for one in self.seen.values()}
        missing: set[str | bytes] = {name for name in names if name not in self.seen}
        return (missing | {one for one in ids if one not in known}) - self.hidden


class Sorted(NamedTuple):
    """Topics that a client named, by name; those in none of the first three are Kafka's own."""

    diskless: dict[str, DisklessTopic]
    half: frozenset[str]
    """Shadows that the coordinators do not know: a creation or a deletion was cut off."""
    undecided: frozenset[str | bytes]
    """Names and ids of which it cannot be told now what they are."""
    in_kafka: dict[str, SeenTopic]
    """What Kafka has of those that it knows."""

    def why_not(self, key: str | bytes) -> str | None:
        """Return why a topic cannot be changed now."""
        name = key if isinstance(key, str) else topic_id_text(key)
        if key in self.half:
            return f"topic {name} is half created: create it again with as many partitions, or delete it"
        if key in self.undecided:
            return f"it cannot be told now whether topic {name} is a diskless one: retry, or see the gateway's log"
        return None


def _id_of(topic: MetadataResponseTopic) -> bytes:
    return b"" if topic.topic_id is None else topic.topic_id.bytes


class _Judged(NamedTuple):
    half: frozenset[bytes]
    undecided: frozenset[bytes]


class Shadows:
    """See the module's text. Used on one event loop."""

    def __init__(self, own: Asks, catalogue: Catalogue) -> None:
        self._own = own
        self._catalogue = catalogue
        self._classic: set[bytes] = set()
        self._allowed: dict[str, tuple[float, bool]] = {}
        self.lookups = 0
        """How often topics had to be looked up."""

    async def topics(self, names: Collection[str] = (), ids: Collection[bytes] = ()) -> KafkaTopics:
        """Return what Kafka has of topics by name or id. Raises `BrokerLost`."""
        asked = [MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names if illegal_topic_name(name) is None]
        by_id = [MetadataRequestTopic(topic_id=uuid.UUID(bytes=topic_id), name=None) for topic_id in ids]
        told: list[MetadataResponseTopic] = []
        for topics in (asked, by_id):  # a request names topics by one or by the other
            if topics:
                request = MetadataRequest(topics=tuple(topics), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
                told += (await self._own.ask(request, MetadataResponse)).topics
        found = KafkaTopics()
        for one in told:
            if one.error_code is ErrorCode.topic_authorization_failed:
                LOG.error(_MAY_NOT, one.name or one.topic_id)
                found.hidden.add(str(one.name) if one.name is not None else _id_of(one))
            elif one.name is not None and one.topic_id is not None and one.partitions:
                found.seen[str(one.name)] = SeenTopic(str(one.name), one.topic_id.bytes, len(one.partitions))
        return found

    async def sort_out(self, names: Collection[str] = (), ids: Collection[bytes] = (), *, all_exist: bool = False) -> Sorted:
        """Tell which of the topics are diskless, joined by id; Kafka has said that they exist if `all_exist`. Raises `BrokerLost`.

        What Kafka does not show to the own login is undecided. What it does not know may have been created a moment ago.
        """
        found = await self.known_topics(names, ids, lambda found: not all_exist or all(name in found for name in names))
        undecided: set[str | bytes] = set(found.hidden)
        missing = found.missing(names, ids)
        if missing:
            try:
                await self._catalogue.refreshed()
            except ServiceError as error:
                LOG.info("topics that Kafka does not know not listed error=%r", str(error))
                undecided |= missing
            else:
                if any(self._known(one) is not None for one in missing):
                    found = await self.known_topics(names, ids)
        judged = await self._judge([(one.name, one.topic_id) for one in found.seen.values()])
        diskless = {one.name: topic for one in found.seen.values() if (topic := self._catalogue.identified(one.topic_id)) is not None}
        half = frozenset(one.name for one in found.seen.values() if one.topic_id in judged.half)
        undecided |= {one.name for one in found.seen.values() if one.topic_id in judged.undecided}
        return Sorted(diskless, half, frozenset(undecided), found.seen)

    async def known_topics(
        self, names: Collection[str], ids: Collection[bytes] = (), are_new: Callable[[Mapping[str, SeenTopic]], bool] = lambda _: True
    ) -> KafkaTopics:
        """Return what Kafka has of topics, once the broker had the time to learn of those that the catalogue has.

        So it is with whatever else must be in the answer before `are_new` is true. Raises `BrokerLost`.
        """
        until_s = asyncio.get_running_loop().time() + SPREAD_S
        wanted = [topic for keys in (names, ids) for key in keys if (topic := self._known(key)) is not None]
        while True:
            found = await self.topics(names, ids)
            known = {one.topic_id for one in found.seen.values()}
            has_all = all(one.topic_id in known or {one.name, one.topic_id} & found.hidden for one in wanted) and are_new(found.seen)
            if has_all or asyncio.get_running_loop().time() >= until_s:
                return found
            await asyncio.sleep(SPREAD_PAUSE_S)

    def _known(self, key: str | bytes) -> DisklessTopic | None:
        return self._catalogue.named(key) if isinstance(key, str) else self._catalogue.identified(key)

    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        """Return the ids of those topics, by name and id, that may not be shown as classic ones. Raises `BrokerLost`.

        They are shadows whose creation is not finished, and topics of which nobody can tell now. Diskless topics are not among them.
        """
        half, undecided = await self._judge(topics)
        return half | undecided

    async def _judge(self, topics: Sequence[tuple[str, bytes]]) -> _Judged:
        nothing: frozenset[bytes] = frozenset()
        unknown = self._unknown(topics)
        if not unknown:
            return _Judged(nothing, nothing)
        self.lookups += 1
        try:
            await self._catalogue.refreshed()
        except ServiceError as error:
            LOG.warning("topics not shown, for they may be diskless topics=%s error=%r", [name for name, _ in unknown][:10], str(error))
            return _Judged(nothing, frozenset(topic_id for _, topic_id in unknown))
        unknown = self._unknown(unknown)
        told = await self._described(TOPIC, [name for name, _ in unknown], MAX_MESSAGE_BYTES) if unknown else {}
        half = frozenset(topic_id for name, topic_id in unknown if told.get(name) == SHADOW_SETTINGS[MAX_MESSAGE_BYTES])
        classic = {topic_id for name, topic_id in unknown if name in told and topic_id not in half}
        if len(self._classic) > CLASSIC_MAX:
            self._classic.clear()
        self._classic |= classic
        return _Judged(half, frozenset(topic_id for name, topic_id in unknown if name not in told))

    async def broker_allows(self, setting: str) -> bool:
        """Return whether a broker's setting is on; also when the own login may not see it. Raises `BrokerLost`."""
        now_s = asyncio.get_running_loop().time()
        asked_s, is_on = self._allowed.get(setting, (now_s - BROKER_KEPT_S, False))
        if now_s - asked_s >= BROKER_KEPT_S:
            is_on = await self._ask_brokers(setting)
            self._allowed[setting] = (now_s, is_on)
        return is_on

    async def _ask_brokers(self, setting: str) -> bool:
        nobody: tuple[Any, ...] = ()
        request = MetadataRequest(topics=nobody, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        brokers = [str(one.node_id) for one in (await self._own.ask(request, MetadataResponse)).brokers]
        # A broker describes itself alone, and it is not known which one this connection leads to: the others are refused.
        values = await self._described(BROKER, brokers, setting)
        return "false" not in values.values()

    def _unknown(self, topics: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        return [one for one in topics if one[1] not in self._classic and self._catalogue.identified(one[1]) is None]

    async def _described(self, kind: int, names: Collection[str], setting: str) -> dict[str, str]:
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=(setting,)) for name in names
            )
        )
        found = {}
        for one in (await self._own.ask(request, DescribeConfigsResponse)).results:
            if one.error_code is ErrorCode.topic_authorization_failed:
                LOG.error(_MAY_NOT, one.resource_name)
            for config in one.configs:
                if one.error_code is ErrorCode.none and config.name == setting and config.value is not None:
                    found[one.resource_name] = config.value
        return found
