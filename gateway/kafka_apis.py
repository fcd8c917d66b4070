"""Kafka's own requests that a gateway knows: their numbers, versions and messages (kio's classes).

Only requests, and versions, whose messages were looked through for addresses are listed: what is not here is offered on no port.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, TypeVar

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.operations.kafka_versions import KafkaVersions
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.codec_fields import shape
from coordinator.protocol.framing import reply_body

T = TypeVar("T")

_NEVER: Final = 2**15 - 1


class KafkaApi(IntEnum):
    """A request of Kafka 4.3: its number, first and last version, and the first version with tagged fields."""

    first: int
    last: int
    flexible: int
    versions: KafkaVersions

    PRODUCE = 0, 3, 13, 9
    FETCH = 1, 4, 18, 12
    LIST_OFFSETS = 2, 1, 11, 6
    METADATA = 3, 0, 13, 9
    OFFSET_COMMIT = 8, 2, 10, 8
    OFFSET_FETCH = 9, 1, 10, 6
    FIND_COORDINATOR = 10, 0, 6, 3
    JOIN_GROUP = 11, 0, 9, 6
    HEARTBEAT = 12, 0, 4, 4
    LEAVE_GROUP = 13, 0, 5, 4
    SYNC_GROUP = 14, 0, 5, 4
    DESCRIBE_GROUPS = 15, 0, 6, 5
    LIST_GROUPS = 16, 0, 5, 3
    SASL_HANDSHAKE = 17, 1, 1, _NEVER  # after version 0 a login has no frames, so its end would not be seen
    API_VERSIONS = 18, 0, 4, 3
    CREATE_TOPICS = 19, 2, 7, 5
    DELETE_TOPICS = 20, 1, 6, 4
    DELETE_RECORDS = 21, 0, 2, 2
    INIT_PRODUCER_ID = 22, 0, 6, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 2, 4, 4
    ADD_PARTITIONS_TO_TXN = 24, 0, 5, 3
    ADD_OFFSETS_TO_TXN = 25, 0, 4, 3
    END_TXN = 26, 0, 5, 3
    WRITE_TXN_MARKERS = 27, 1, 2, 1
    TXN_OFFSET_COMMIT = 28, 0, 5, 3
    DESCRIBE_ACLS = 29, 1, 3, 2
    CREATE_ACLS = 30, 1, 3, 2
    DELETE_ACLS = 31, 1, 3, 2
    DESCRIBE_CONFIGS = 32, 1, 4, 4
    ALTER_CONFIGS = 33, 0, 2, 2
    ALTER_REPLICA_LOG_DIRS = 34, 1, 2, 2
    DESCRIBE_LOG_DIRS = 35, 1, 5, 2
    SASL_AUTHENTICATE = 36, 0, 2, 2
    CREATE_PARTITIONS = 37, 0, 3, 2
    CREATE_DELEGATION_TOKEN = 38, 1, 3, 2
    RENEW_DELEGATION_TOKEN = 39, 1, 2, 2
    EXPIRE_DELEGATION_TOKEN = 40, 1, 2, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 1, 3, 2
    DELETE_GROUPS = 42, 0, 2, 2
    ELECT_LEADERS = 43, 0, 2, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 0, 1, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, 1, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0, 0, 0
    OFFSET_DELETE = 47, 0, 0, _NEVER
    DESCRIBE_CLIENT_QUOTAS = 48, 0, 1, 1
    ALTER_CLIENT_QUOTAS = 49, 0, 1, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, 0, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, 0, 0
    DESCRIBE_QUORUM = 55, 0, 1, 0  # version 2 names the controllers' addresses
    UPDATE_FEATURES = 57, 0, 2, 0
    DESCRIBE_CLUSTER = 60, 0, 2, 0
    DESCRIBE_PRODUCERS = 61, 0, 0, 0
    UNREGISTER_BROKER = 64, 0, 0, 0
    DESCRIBE_TRANSACTIONS = 65, 0, 0, 0
    LIST_TRANSACTIONS = 66, 0, 2, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0, 1, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0, 1, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, 0, 0
    PUSH_TELEMETRY = 72, 0, 0, 0
    LIST_CONFIG_RESOURCES = 74, 0, 1, 0
    SHARE_GROUP_HEARTBEAT = 76, 1, 1, 0
    SHARE_GROUP_DESCRIBE = 77, 1, 1, 0
    SHARE_FETCH = 78, 1, 2, 0
    SHARE_ACKNOWLEDGE = 79, 1, 2, 0
    ADD_RAFT_VOTER = 80, 0, 1, 0
    REMOVE_RAFT_VOTER = 81, 0, 0, 0
    STREAMS_GROUP_HEARTBEAT = 88, 0, 0, 0
    STREAMS_GROUP_DESCRIBE = 89, 0, 0, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, 1, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, 0, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, 0, 0

    def __new__(cls, number: int, *_row: int) -> KafkaApi:
        """Make the member: its value is the number alone."""
        api = int.__new__(cls, number)
        api._value_ = number
        return api

    def __init__(self, _number: int, *row: int) -> None:
        self.first, self.last, self.flexible = row
        self.versions = KafkaVersions(self.name, self.first, self.last)

    @property
    def text(self) -> str:
        """Its name as Kafka writes it."""
        return self.versions.text

    def is_flexible(self, version: int) -> bool:
        """Whether requests of a version have tagged fields, and answers too."""
        return version >= self.flexible

    def is_answer_tagged(self, version: int) -> bool:
        """Whether answers of a version have tagged fields in their header."""
        return version >= self.flexible and self is not KafkaApi.API_VERSIONS

    def request_type(self, version: int) -> Any:
        """Return the class of a request. Raises KeyError for a version that is not known."""
        return self.versions[version].request_type

    def answer_type(self, version: int) -> Any:
        """Return the class of an answer. Raises KeyError for a version that is not known."""
        return self.versions[version].response_type

    def request_parts(self, version: int) -> ModuleType:
        """Return the module with the classes of a request's parts."""
        return self.versions.module(version, "request")

    def answer_parts(self, version: int) -> ModuleType:
        """Return the module with the classes of an answer's parts."""
        return self.versions.module(version, "response")

    def read_request(self, request: IncomingRequest) -> Any:
        """Decode a request of a client. Raises `MalformedMessage`.

        Bytes behind it are left alone, as brokers do: librdkafka sends some behind Metadata.
        """
        return decode(self.request_type(request.api_version), request.data, request.body_offset, rest_allowed=True)

    def read_answer(self, version: int, frame: bytes) -> Any:
        """Decode an answer of a broker, correlation id first. Raises `MalformedMessage`."""
        return decode(self.answer_type(version), self.answer_body(version, frame))

    def answer_body(self, version: int, frame: bytes) -> bytes:
        """Return an answer of a broker without its header. Raises `MalformedMessage`."""
        return reply_body(frame, tagged=self.is_answer_tagged(version))

    def write_answer(self, version: int, answer: Message) -> bytes:
        """Encode an answer with the tagged fields of its header."""
        body = encode(answer)
        return b"\0" + body if self.is_answer_tagged(version) else body


def made(message_type: type[Any], **values: Any) -> Any:
    """Make a message, or a part of one, of those values that its version has fields for."""
    known = {item.name for item in fields(message_type)}
    return message_type(**{name: value for name, value in values.items() if name in known})


def converted(value: Any, kind: type[T]) -> T:
    """Return a message as another version's class: fields that it does not have are left out, those only it has get their default."""
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        if hasattr(value, item.name):
            is_array, inner, _ = shape(item)
            given = getattr(value, item.name)
            if is_dataclass(inner) and given is not None:
                given = tuple(converted(one, inner) for one in given) if is_array else converted(given, inner)  # type: ignore[arg-type]
            values[item.name] = given
        elif item.default is MISSING:
            raise TypeError(f"{kind.__name__}.{item.name} has no default")
    return kind(**values)
