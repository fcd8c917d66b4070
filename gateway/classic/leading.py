"""Questions to the brokers that lead classic partitions: each broker is asked once for all its partitions, and again where they have moved.

Every partition has its result as soon as its own broker has answered. A broker that has let a question wait for too long is asked nothing
for a while, so that requests do not pile up at it.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v12.request import MetadataRequestTopic

from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace, Place
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import Message

ANSWER_TIMEOUT_S: Final = 5.0
AWAY_S: Final = 5.0
AT_ONCE_MAX: Final = 4
"""Requests that are under way at one broker, each on a connection of its own."""
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 1.0
MOVING: Final = frozenset(
    {
        KafkaError.not_leader_or_follower,
        KafkaError.fenced_leader_epoch,
        KafkaError.unknown_leader_epoch,
        KafkaError.leader_not_available,
        KafkaError.replica_not_available,
        KafkaError.offset_not_available,
        KafkaError.kafka_storage_error,
        KafkaError.unknown_topic_or_partition,
        KafkaError.unknown_topic_id,
        KafkaError.inconsistent_topic_id,
    }
)
"""Answers while a partition moves to another broker, or is not known there yet."""

_CODES: Final = frozenset(map(int, ErrorCode))

Q = TypeVar("Q")
R = TypeVar("R")
A = TypeVar("A", bound=Message)


class LedBy(NamedTuple):
    """The leader of a partition, the number of its leadership, and the name of the topic."""

    place: Place
    epoch: int
    topic: str


class AskedOf(NamedTuple, Generic[Q]):
    """What is asked of one partition at its leader."""

    partition: PartitionId
    led: LedBy
    value: Q


@dataclass(frozen=True, slots=True)
class Question(Generic[Q, R]):
    """A request about partitions of one broker, and how its answer is read: error and result of each partition."""

    request: Callable[[Sequence[AskedOf[Q]]], Message]
    answer_type: type[Message]
    read: Callable[[Any, Sequence[AskedOf[Q]]], Mapping[PartitionId, tuple[KafkaError, R]]]


class AsksAny(Protocol):
    """Asks any broker with the gateway's own login."""

    async def ask(self, request: Message, answer_type: type[A]) -> A:
        """Ask a question that may be asked twice. Raises `BrokerLost`."""


class _Broker:
    """The connections to one broker that nobody uses now, and until when it is asked nothing."""

    __slots__ = ("away_until_s", "free", "gate")

    def __init__(self) -> None:
        self.free: list[BrokerLink] = []
        self.gate = asyncio.Semaphore(AT_ONCE_MAX)
        self.away_until_s = 0.0


class LeadingBrokers:
    """See the module. Used on one event loop."""

    def __init__(self, own: AsksAny, connect: Callable[[FindPlace], BrokerLink]) -> None:
        """`connect` makes a connection with the gateway's own login."""
        self._own = own
        self._connect = connect
        self._led: dict[bytes, dict[int, LedBy]] = {}
        self._describing = asyncio.Lock()
        self._brokers: dict[Place, _Broker] = {}
        self.count = 1
        """How many brokers there are, as far as it is known; at least 1."""

    def close(self) -> None:
        """End all connections. Nobody may be asking any more."""
        for broker in self._brokers.values():
            for link in broker.free:
                link.close()
        self._brokers.clear()

    async def leading(self, partitions: Collection[PartitionId]) -> int:
        """Return how many brokers lead these partitions, as far as it can be known now; at least 1."""
        with contextlib.suppress(BrokerLost):  # who asks them is told
            await self._look_for_leaders({one.topic_id for one in partitions})
        return max(1, len({led.place for one in partitions if (led := self._leader(one)) is not None}))

    async def settle(
        self,
        wanted: Mapping[PartitionId, Q],
        question: Question[Q, R],
        landed: Callable[[PartitionId, R | ErrorCode], None],
        *,
        timeout_s: float,
    ) -> None:
        """Ask, and tell `landed` the result of each partition when it is there. NOT_LEADER_OR_FOLLOWER: nobody leads it in this time."""
        until_s = asyncio.get_running_loop().time() + timeout_s
        await self._settle(wanted, question, landed, until_s, PAUSE_S)

    async def _settle(
        self,
        wanted: Mapping[PartitionId, Q],
        question: Question[Q, R],
        landed: Callable[[PartitionId, R | ErrorCode], None],
        until_s: float,
        pause_s: float,
    ) -> None:
        async def again(left: Sequence[PartitionId]) -> None:
            for topic_id in {one.topic_id for one in left}:
                self._led.pop(topic_id, None)
            if asyncio.get_running_loop().time() + pause_s >= until_s:
                for one in left:
                    landed(one, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif left:
                await asyncio.sleep(pause_s)
                await self._settle({one: wanted[one] for one in left}, question, landed, until_s, min(2 * pause_s, PAUSE_MAX_S))

        async def at_broker(place: Place, asked: Sequence[AskedOf[Q]]) -> None:
            await again(await self._ask_broker(place, asked, question, landed))

        try:
            await self._look_for_leaders({one.topic_id for one in wanted})
        except BrokerLost:
            await again(list(wanted))
            return
        groups: dict[Place, list[AskedOf[Q]]] = {}
        unled = []
        for one, value in wanted.items():
            led = self._leader(one)
            if led is None:
                unled.append(one)
            else:
                groups.setdefault(led.place, []).append(AskedOf(one, led, value))
        await asyncio.gather(again(unled), *(at_broker(place, asked) for place, asked in groups.items()))

    async def _ask_broker(
        self,
        place: Place,
        asked: Sequence[AskedOf[Q]],
        question: Question[Q, R],
        landed: Callable[[PartitionId, R | ErrorCode], None],
    ) -> list[PartitionId]:
        """Ask one broker; return the partitions to be asked for again."""
        try:
            answer = await self._ask(place, question.request(asked), question.answer_type)
        except BrokerLost:
            return [one.partition for one in asked]
        results = question.read(answer, asked)
        moved = []
        for one in asked:
            # A broker whose quota is used up answers without the partitions.
            error, result = results.get(one.partition, (KafkaError.not_leader_or_follower, None))
            if error is KafkaError.none and result is not None:
                landed(one.partition, result)
            elif error in MOVING:
                moved.append(one.partition)
            else:
                code = int(error.value)
                landed(one.partition, ErrorCode(code) if code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR)
        return moved

    # ---- leaders

    def _leader(self, partition: PartitionId) -> LedBy | None:
        return self._led.get(partition.topic_id, {}).get(partition.partition)

    async def _look_for_leaders(self, topic_ids: Iterable[bytes]) -> None:
        """Ask for the leaders of topics of which none is known. Raises `BrokerLost`."""
        async with self._describing:
            missing = [one for one in topic_ids if one not in self._led]
            if not missing:
                return
            request = MetadataRequest(
                topics=tuple(MetadataRequestTopic(topic_id=uuid.UUID(bytes=one), name=None) for one in missing),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            answer = await self._own.ask(request, MetadataResponse)
            self.count = max(1, len(answer.brokers))
            places = {int(one.node_id): (one.host, int(one.port)) for one in answer.brokers}
            for topic in answer.topics:
                if topic.topic_id is not None and topic.name is not None:
                    self._led[topic.topic_id.bytes] = {
                        int(one.partition_index): LedBy(places[int(one.leader_id)], int(one.leader_epoch), str(topic.name))
                        for one in topic.partitions
                        if int(one.leader_id) in places
                    }

    # ---- connections

    async def _ask(self, place: Place, request: Message, answer_type: type[A]) -> A:
        """Ask a broker. Raises `BrokerLost`."""
        broker, now_s = self._brokers.setdefault(place, _Broker()), asyncio.get_running_loop().time
        async with broker.gate:
            if now_s() < broker.away_until_s:
                raise BrokerLost(f"broker {place[0]}:{place[1]} has not answered in time a moment ago")
            link = self._link(place, broker)
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    answer = await link.ask(request, answer_type)
            except TimeoutError as error:
                broker.away_until_s = now_s() + AWAY_S
                link.close("no answer in time")
                raise BrokerLost(f"broker {place[0]}:{place[1]} did not answer in {ANSWER_TIMEOUT_S:g} s") from error
            except asyncio.CancelledError:
                link.close("nobody waits for the answer")
                raise
            broker.free.append(link)
            return answer

    def _link(self, place: Place, broker: _Broker) -> BrokerLink:
        async def find(_avoided: Collection[Place]) -> Place:
            return place

        while broker.free:
            link = broker.free.pop()
            if not link.is_lost:
                return link
        return self._connect(find)
