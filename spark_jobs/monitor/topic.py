"""The monitor's questions to Kafka besides the log's entries: which topic it is, where its partitions end, the brokers' racks.

Every question has a limit of time. Nothing is changed in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # public, missing in its __all__

REQUEST_TIMEOUT_S = 10.0

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID})


class TopicMissingError(Exception):
    """The topic does not exist."""


class KafkaUnavailableError(Exception):
    """Kafka did not answer, or not what was asked; asking again may help."""


class WatchedTopic(NamedTuple):
    """The identity of a topic; `topic_id` as Kafka writes it."""

    topic_id: str
    partitions: int


class TopicBroker(NamedTuple):
    """A broker; `rack` is empty when it has none."""

    broker_id: int
    rack: str
    host: str


def plain(error: BaseException) -> str:
    """Return the message of Kafka's client without the wrapping of its Python class."""
    return re.sub(r'KafkaError\{code=(\w+),val=-?\d+,str="(.*?)"\}', r"\1: \2", str(error))


class TopicWatch:
    """Questions about one topic. One thread at a time. An answer may take `timeout_s`."""

    def __init__(self, bootstrap_servers: str, topic: str, properties: Mapping[str, str]) -> None:
        """`properties` are librdkafka's. Raises `KafkaException` when they cannot be used."""
        self.topic = topic
        self.timeout_s = REQUEST_TIMEOUT_S
        # The client must live as long as its questions, so it is kept.
        named: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "client.id": "diskless-monitor", "error_cb": self._on_error}
        self._refusal: KafkaError | None = None
        self._admin = AdminClient({"log_level": 0, **properties, **named})
        self._places: dict[int, str] = {}
        self._brokers: list[TopicBroker] = []

    def facts(self) -> WatchedTopic:
        """Which topic has the name now. Raises `TopicMissingError` and `KafkaUnavailableError`."""
        asked = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=self.timeout_s)
        found = self._answer(asked[self.topic])
        # Kafka's own tools write ids with the other two letters.
        return WatchedTopic(str(found.topic_id).translate(str.maketrans("+/", "-_")), len(found.partitions))

    def ends(self, partitions: Sequence[int]) -> dict[int, int]:
        """The end of each partition: the offset of its next entry. Raises as `facts`."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        """The first offset of each partition that is left. Raises as `facts`."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, partitions: Sequence[int], which: OffsetSpec) -> dict[int, int]:
        asked = self._admin.list_offsets({TopicPartition(self.topic, one): which for one in partitions}, request_timeout=self.timeout_s)
        return {place.partition: int(self._answer(future).offset) for place, future in asked.items()}

    def brokers(self) -> list[TopicBroker]:
        """The brokers of the cluster. Raises `KafkaUnavailableError`, also when none is in service."""
        try:
            listed = self._admin.list_topics(self.topic, timeout=self.timeout_s).brokers
        except KafkaException as error:
            raise KafkaUnavailableError(plain(error)) from error
        places = {one.id: str(one.host) for one in listed.values()}
        if places != self._places:
            # Racks are told by `describe_cluster` alone, whose answer without any broker ends this process by an assertion of
            # librdkafka. Brokers answer so that are missed themselves, for moments after they stood still: it is asked rarely.
            self._places = {}
            if not places:
                raise KafkaUnavailableError("no broker is in service")
            found = self._answer(self._admin.describe_cluster(request_timeout=self.timeout_s))
            self._brokers = [TopicBroker(node.id, node.rack or "", node.host) for node in found.nodes]
            self._places = places
        return self._brokers

    def _on_error(self, error: KafkaError) -> None:
        """Called by the client: that a login was refused is told here alone, and questions only end because of their time."""
        if error.code() == KafkaError._AUTHENTICATION:
            self._refusal = error

    def _answer(self, future: Any) -> Any:
        try:
            return future.result(self.timeout_s + 1)
        except KafkaException as error:
            if error.args[0].code() in _MISSING:
                raise TopicMissingError(f"topic {self.topic} does not exist") from error
            if error.args[0].code() == KafkaError._TIMED_OUT and self._refusal is not None:
                raise KafkaUnavailableError(
                    f"the login was refused, check sasl.username and sasl.password: {self._refusal.str()}"
                ) from error
            raise KafkaUnavailableError(plain(error)) from error
        except TimeoutError as error:
            raise KafkaUnavailableError(f"no answer within {self.timeout_s:g} s") from error
