"""Kafka's requests about topics and their answers in every version (kio's classes), and their taker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.errors import ServiceError
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.kafka_versions import schema_module
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import reply_body
from gateway.answering import answer_later
from gateway.ports import Session

NOW: Final = timedelta(0)
"""No throttling."""
TOPIC: Final = 2
"""Kafka's number of the type of resource that is a topic."""


class TopicApi(NamedTuple):
    """A request of Kafka: its number, kio's package, and the name of its messages."""

    key: int
    package: str
    name: str

    def requests(self, version: int) -> Any:
        """Return the module of a version's request."""
        return schema_module(self.package, version, "request")

    def answers(self, version: int) -> Any:
        """Return the module of a version's answer."""
        return schema_module(self.package, version, "response")

    def request_type(self, version: int) -> type[Any]:
        """Return the class of a request."""
        return cast(type[Any], getattr(self.requests(version), f"{self.name}Request"))

    def answer_type(self, version: int) -> type[Any]:
        """Return the class of an answer."""
        return cast(type[Any], getattr(self.answers(version), f"{self.name}Response"))

    def read(self, request: IncomingRequest) -> Any:
        """Decode a request. Raises `MalformedMessage`."""
        return decode(self.request_type(request.api_version), request.data, request.body_offset)


CREATE_TOPICS: Final = TopicApi(19, "create_topics", "CreateTopics")
DELETE_TOPICS: Final = TopicApi(20, "delete_topics", "DeleteTopics")
ADD_PARTITIONS_TO_TXN: Final = TopicApi(24, "add_partitions_to_txn", "AddPartitionsToTxn")
DESCRIBE_CONFIGS: Final = TopicApi(32, "describe_configs", "DescribeConfigs")
ALTER_CONFIGS: Final = TopicApi(33, "alter_configs", "AlterConfigs")
DESCRIBE_LOG_DIRS: Final = TopicApi(35, "describe_log_dirs", "DescribeLogDirs")
CREATE_PARTITIONS: Final = TopicApi(37, "create_partitions", "CreatePartitions")
INCREMENTAL_ALTER_CONFIGS: Final = TopicApi(44, "incremental_alter_configs", "IncrementalAlterConfigs")
DESCRIBE_PRODUCERS: Final = TopicApi(61, "describe_producers", "DescribeProducers")
SHARE_GROUP_HEARTBEAT: Final = TopicApi(76, "share_group_heartbeat", "ShareGroupHeartbeat")
SHARE_FETCH: Final = TopicApi(78, "share_fetch", "ShareFetch")
SHARE_ACKNOWLEDGE: Final = TopicApi(79, "share_acknowledge", "ShareAcknowledge")


def made(message_type: type[Any], **values: Any) -> Any:
    """Make a message of those values that its version has fields for."""
    known = {item.name for item in fields(message_type)}
    return message_type(**{name: value for name, value in values.items() if name in known})


def in_version(message: Any, message_type: type[Any]) -> Any:
    """Return a message in another version of its type; fields that this one lacks are left out, new ones have their defaults."""
    values = {}
    for item in fields(message_type):
        if not hasattr(message, item.name):
            continue
        value = getattr(message, item.name)
        if isinstance(value, tuple) and value and hasattr(value[0], "__dataclass_fields__"):
            inner = getattr(schema_of(message_type), type(value[0]).__name__)
            value = tuple(in_version(one, inner) for one in value)
        values[item.name] = value
    return message_type(**values)


def schema_of(message_type: type[Any]) -> Any:
    """Return the module in which kio declares a message and its parts."""
    package, version, part = message_type.__module__.rsplit(".", 3)[-3:]
    return schema_module(package, int(version.removeprefix("v")), part)


async def relayed(session: Session, request: IncomingRequest, api: TopicApi) -> bytes:
    """Pass a request on unread; return the body of the answer. Raises `UpstreamLost`."""
    frame = await session.upstream.forward(request.data)
    return reply_body(frame, tagged=bool(api.answer_type(request.api_version).__flexible__))


def kafka_code(error: ServiceError) -> int:
    """Return what a client of Kafka is told of a failure of the coordinators.

    Codes of unavailable coordinators would mean the coordinator of a group to it.
    """
    waits = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    return int(ErrorCode.REQUEST_TIMED_OUT if error.code in waits else error.code)


class TopicTaker:
    """Answers the requests of an API by a coroutine. Implements `gateway.ports.Taker`."""

    def __init__(self, api: TopicApi, work: Callable[[Session, IncomingRequest], Coroutine[Any, Any, bytes]]) -> None:
        self.api = api
        self._work = work

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `gateway.ports.Taker`."""
        answer_later(self._work(session, request), session, respond, self.api.name)


def encoded(message: Any) -> bytes:
    """Encode an answer without its header."""
    return encode(cast(Message, message))
