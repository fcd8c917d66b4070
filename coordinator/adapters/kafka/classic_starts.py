"""Where the logs of classic partitions begin, by topic id: one request for all topics, and one for each broker that leads some of them.

Connections are this process's own, since librdkafka asks about each topic for itself and waits for the slowest broker.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import kio.schema.list_offsets.v7 as list_offsets
import kio.schema.metadata.v12 as metadata
from confluent_kafka import KafkaException
from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.bootstrap import Bootstrap
from coordinator.adapters.kafka.broker import connect
from coordinator.adapters.kafka.partition_leaders import TOPIC_MISSING, Leadership, leaders_of
from coordinator.adapters.kafka.partition_log import CONSUMER, offsets_request
from coordinator.adapters.kafka.settings import check_user_properties
from coordinator.kafka.timestamps import EARLIEST
from coordinator.runtime.ports import ClassicPlace, KafkaUnavailable

_REFUSED: Final = "the principal of this node may not Describe the topic; allow it (kafka-acls.sh --add --topic .. --operation Describe)"
_MISSING: Final = "Kafka has no topic of this id; was it deleted, or is it on another cluster?"
_NO_LEADER: Final = "it has no leader; look at its brokers"

Starts = dict[ClassicPlace, int | str]
Led = Mapping[str, Mapping[int, tuple[ClassicPlace, Leadership]]]
"""Places at one broker, by topic and index."""


class KafkaClassicLogs:
    """`ClassicLogs` of a real Kafka."""

    def __init__(
        self, *, bootstrap_servers: str, client_id: str, kafka_properties: Mapping[str, Any], request_timeout_s: float = 3.0
    ) -> None:
        """`request_timeout_s` is for each broker that is asked. Raises `KafkaPropertyRefused`."""
        check_user_properties(kafka_properties)
        self._properties = {**kafka_properties, "bootstrap.servers": bootstrap_servers, "client.id": client_id}
        self._timeout_s = request_timeout_s

    async def log_starts(self, places: Collection[ClassicPlace]) -> Mapping[ClassicPlace, int | str]:
        """Return the first offset of each log, or why it is unknown. Raises `KafkaUnavailable` when no broker says who leads."""
        try:
            return await asyncio.to_thread(self._ask, places)
        except KafkaException as error:
            raise KafkaUnavailable(error.args[0].str()) from error

    # ---- blocking, in a worker thread

    def _ask(self, places: Collection[ClassicPlace]) -> Starts:
        bootstrap = Bootstrap.of(self._properties)
        ids = sorted({place.topic_id for place in places})
        asked = tuple(metadata.request.MetadataRequestTopic(topic_id=uuid.UUID(bytes=one), name=None) for one in ids)
        request = metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        end_s = time.monotonic() + self._timeout_s
        answer = bootstrap.ask(request, metadata.MetadataResponse, lambda found: found, end_s)
        starts, led = _by_leader(places, answer)
        for (host, port), topics in led.items():
            starts |= self._ask_leader(bootstrap, host, port, topics)
        return starts

    def _ask_leader(self, bootstrap: Bootstrap, host: str, port: int, topics: Led) -> Starts:
        wanted = {name: {index: leader.epoch for index, (_, leader) in led.items()} for name, led in topics.items()}
        try:
            with connect(host, port, security=bootstrap.security, client_id=bootstrap.client_id, timeout_s=self._timeout_s) as broker:
                answer = broker.ask(offsets_request(wanted, EARLIEST, CONSUMER), list_offsets.ListOffsetsResponse)
        except KafkaException as error:
            return {place: error.args[0].str() for led in topics.values() for place, _ in led.values()}
        return {
            place: int(one.offset) if one.error_code is ErrorCode.none else f"its leader answers {one.error_code.name}"
            for topic in answer.topics
            for one in topic.partitions
            for place, _ in _named(topics, topic.name, int(one.partition_index))
        }


def _named(topics: Led, name: str, index: int) -> Iterator[tuple[ClassicPlace, Leadership]]:
    """The place that an answer names, if it was asked about."""
    if (found := topics.get(name, {}).get(index)) is not None:
        yield found


def _by_leader(
    places: Collection[ClassicPlace], answer: metadata.MetadataResponse
) -> tuple[Starts, dict[tuple[str, int], defaultdict[str, dict[int, tuple[ClassicPlace, Leadership]]]]]:
    """Why the starts of some places cannot be asked for, and the others by the address of their leader."""
    starts: Starts = {}
    led: dict[tuple[str, int], defaultdict[str, dict[int, tuple[ClassicPlace, Leadership]]]] = {}
    told = {one.topic_id.bytes: one for one in answer.topics if one.topic_id is not None}
    leaders = {topic_id: leaders_of(answer, topic) for topic_id, topic in told.items()}
    for place in places:
        topic = told.get(place.topic_id)
        if topic is None or topic.error_code in TOPIC_MISSING:
            starts[place] = _MISSING
        elif topic.error_code is not ErrorCode.none or topic.name is None:
            is_refused = topic.error_code is ErrorCode.topic_authorization_failed
            starts[place] = _REFUSED if is_refused else f"the broker answers {topic.error_code.name}"
        elif (leader := leaders[place.topic_id].get(place.partition)) is None:
            starts[place] = _NO_LEADER
        else:
            at_broker = led.setdefault((leader.host, leader.port), defaultdict(dict))
            at_broker[topic.name][place.partition] = (place, leader)
    return starts, led
