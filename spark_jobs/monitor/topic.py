"""The monitor's questions to Kafka besides the log's entries: which topic it is, where its partitions end, the brokers' racks.

Every question has a limit of time. Nothing is changed in Kafka.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from records.codec import UnreadableEntry, decode_entry, decode_key
from records.log import restored_in
from records.model import Record, Restored

REQUEST_TIMEOUT_S = 10.0
REFUSED_WAIT_S = 3.0
"""A question is given up so long after it began when a broker has refused the client: one that only just started may do so at first."""
LOOK_EVERY_S = 0.2

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID})
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user has no right to the topic, give it the ACLs READ and DESCRIBE of it",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user has no right to the cluster, see its ACLs",
}
_UNCONNECTED = {
    KafkaError._AUTHENTICATION: "the login was refused, check sasl.mechanism, sasl.username and sasl.password",
    KafkaError._SSL: "no connection by TLS, check ssl.ca.location, and the client's certificate if brokers ask for one",
}
_NO_ANSWER = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})


class TopicMissingError(Exception):
    """The topic does not exist."""


class KafkaUnavailableError(Exception):
    """Kafka did not answer, or not what was asked; asking again may help."""


class KafkaRefusedError(KafkaUnavailableError):
    """Kafka does not admit this client, or not permit this; retry after that has changed. The text says what to check."""


class WatchedTopic(NamedTuple):
    """The identity of a topic; `topic_id` as Kafka writes it."""

    topic_id: str
    partitions: int

    @property
    def id_bytes(self) -> bytes:
        """The id as 16 bytes."""
        return base64.urlsafe_b64decode(self.topic_id + "==")


class TopicBroker(NamedTuple):
    """A broker; `rack` is empty when it has none."""

    broker_id: int
    rack: str
    host: str


class TopicWatch:
    """Questions about one topic. One thread at a time. An answer may take `timeout_s`.

    A context manager, for those who need it for a part of the process's life: left to the garbage collector, which may run in a thread
    of the client itself, it could end the process by an assertion of librdkafka.

    Questions raise `KafkaUnavailableError`, and of that `KafkaRefusedError` where it is known.
    """

    def __init__(self, bootstrap_servers: str, topic: str, properties: Mapping[str, str]) -> None:
        """`properties` are librdkafka's. Raises `KafkaException` when they cannot be used."""
        self.topic = topic
        self.timeout_s = REQUEST_TIMEOUT_S
        named: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "client.id": "diskless-monitor", "error_cb": self._on_error}
        self._refusal: KafkaError | None = None
        self._properties = {**properties, **named}
        self._admin = AdminClient({"log_level": 0, **self._properties})
        self._places: dict[int, str] = {}
        self._brokers: list[TopicBroker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._admin.__exit__(kind, error, trace)

    def facts(self) -> WatchedTopic:
        """Which topic has the name now. Raises `TopicMissingError`."""
        asked = self._admin.describe_topics(TopicCollection([self.topic]), request_timeout=self.timeout_s)
        found = self._answer(asked[self.topic])
        # Kafka's own tools write ids with the other two letters.
        return WatchedTopic(str(found.topic_id).translate(str.maketrans("+/", "-_")), len(found.partitions))

    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        return str(self._metadata().cluster_id)

    def ends(self, partitions: Sequence[int]) -> dict[int, int]:
        """The end of each partition: the offset of its next entry. Raises `TopicMissingError`."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        """The first offset of each partition that is left. Raises `TopicMissingError`."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def restored(self, log_starts: Mapping[int, int]) -> dict[int, Restored]:
        """The restores that logs begin with, of those that begin at offset 0. Raises `TopicMissingError`."""
        whole = [kpart for kpart, start in log_starts.items() if start == 0]
        ends = self.ends(whole) if whole else {}
        found = {kpart: restored_in(0, decode_key(key), _records(value)) for kpart, (key, value) in self._first(ends).items()}
        return {kpart: restored for kpart, restored in found.items() if restored is not None}

    def _first(self, ends: Mapping[int, int]) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Key and value of the first entries of partitions that have one."""
        wanted = {kpart for kpart, end in ends.items() if end > 0}
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        consumer = Consumer({"log_level": 0, **self._properties, "group.id": "diskless-monitor", "enable.auto.commit": False})
        try:
            for kpart in sorted(wanted):
                consumer.assign([TopicPartition(self.topic, kpart, 0)])
                deadline_s = time.monotonic() + self.timeout_s
                while kpart not in found:
                    message = consumer.poll(max(0.0, deadline_s - time.monotonic()))
                    if message is None:
                        raise KafkaUnavailableError(f"the first entry of partition {kpart} did not come within {self.timeout_s:g} s")
                    error = message.error()
                    if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                        continue  # the client looks for the group's coordinator whether or not it is needed
                    if error is not None:
                        raise self._unavailable(error)
                    if message.partition() == kpart:
                        found[kpart] = (message.key(), message.value())
        finally:
            consumer.close()
        return found

    def _offsets(self, partitions: Sequence[int], which: OffsetSpec) -> dict[int, int]:
        asked = self._admin.list_offsets({TopicPartition(self.topic, one): which for one in partitions}, request_timeout=self.timeout_s)
        return {place.partition: int(self._answer(future).offset) for place, future in asked.items()}

    def brokers(self) -> list[TopicBroker]:
        """The brokers of the cluster. Raises `KafkaUnavailableError` also when none is in service."""
        places = {one.id: str(one.host) for one in self._metadata().brokers.values()}
        if places != self._places:
            # Only `describe_cluster` gives racks, and whose answer without any broker ends this process by an assertion of
            # librdkafka. Brokers answer so that are missed themselves, for moments after a pause: it is asked rarely.
            self._places = {}
            if not places:
                raise KafkaUnavailableError("no broker is in service")
            found = self._answer(self._admin.describe_cluster(request_timeout=self.timeout_s))
            self._brokers = [TopicBroker(node.id, node.rack or "", node.host) for node in found.nodes]
            self._places = places
        return self._brokers

    def _metadata(self) -> Any:
        try:
            return self._admin.list_topics(self.topic, timeout=self.timeout_s)
        except KafkaException as error:
            self._admin.poll(0)  # calls `_on_error`
            raise self._unavailable(error.args[0]) from error

    def _on_error(self, error: KafkaError) -> None:
        """Called by the client: only here is the reason why there is no connection; questions end by their timeouts."""
        if error.code() in _UNCONNECTED:
            self._refusal = error

    def _unavailable(self, error: KafkaError) -> KafkaUnavailableError:
        """The error of a question that Kafka's client gave up."""
        if error.code() in _FORBIDDEN:
            return KafkaRefusedError(f"{_FORBIDDEN[error.code()]}: {error.str()}")
        if error.code() in _NO_ANSWER and self._refusal is not None:
            return self._unconnected(self._refusal)
        return KafkaUnavailableError(f"{error.name()}: {error.str()}")

    def _unconnected(self, refusal: KafkaError) -> KafkaRefusedError:
        return KafkaRefusedError(f"{_UNCONNECTED[refusal.code()]}: {refusal.str()}")

    def _answer(self, future: Any) -> Any:
        begun_s = time.monotonic()
        while True:
            self._admin.poll(0)  # calls `_on_error`
            try:
                answer = future.result(LOOK_EVERY_S)
            except KafkaException as error:
                if error.args[0].code() in _MISSING:
                    raise TopicMissingError(f"topic {self.topic} does not exist") from error
                raise self._unavailable(error.args[0]) from error
            except TimeoutError as error:
                waited_s = time.monotonic() - begun_s
                if self._refusal is not None and waited_s > REFUSED_WAIT_S:
                    raise self._unconnected(self._refusal) from error
                if waited_s > self.timeout_s + 1:
                    raise KafkaUnavailableError(f"no answer within {self.timeout_s:g} s") from error
            else:
                self._refusal = None
                return answer


def _records(value: object) -> Sequence[Record]:
    """The records of an entry; none when it cannot be read, which jobs say when they come to it."""
    try:
        return decode_entry(value if isinstance(value, bytes) else b"")
    except UnreadableEntry:
        return []
