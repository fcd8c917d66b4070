"""Requests on relay ports for partitions of diskless topics: answered NOT_LEADER_OR_FOLLOWER, so that the client looks anew who leads them.

They come from clients whose metadata is older than a topic's migration. Whoever sends one of them has old metadata of all its partitions,
so no partition of the request is served. All other requests go to the broker unread, but for the acks of Produce, which say whether there
is an answer.
Invariant: no record for a diskless topic reaches a broker, and no reader gets a shadow's emptiness for the topic's records.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from coordinator.adapters.server.contract import NO_REPLY, IncomingRequest, Respond
from coordinator.protocol.codec_fields import shape
from coordinator.protocol.wire import MalformedMessage
from gateway.front.session import pass_on
from gateway.front.topics_loops import named_topics
from gateway.kafka_apis import KafkaApi
from gateway.ports import Catalogue, Session

TAGS: Final = (b"", b"\0")
"""The tagged fields of an answer's header, where it has none and where it has some."""
_ACKS: Final = struct.Struct(">h")


class StaleLayout(NamedTuple):
    """Where the topics of a request are, in one version of it."""

    before: int
    """Bytes of fixed size before the topics."""
    has_id: bool
    partition_bytes: int
    has_records: bool = False


def layout(api: KafkaApi, version: int) -> StaleLayout:
    """Return the layout of a request that `StaleTaker` looks at."""
    match api:
        case KafkaApi.PRODUCE:  # acks, timeout; after the transactional id
            return StaleLayout(2 + 4, False, 4, True)
        case KafkaApi.FETCH:
            before = (0 if version >= 15 else 4) + 4 + 4 + 4 + 1 + (8 if version >= 7 else 0)
            epochs = (4 if version >= 9 else 0) + (4 if version >= 12 else 0) + (8 if version >= 5 else 0)
            return StaleLayout(before, version >= 13, 4 + 8 + 4 + epochs)
        case KafkaApi.LIST_OFFSETS:
            return StaleLayout(4 + (1 if version >= 2 else 0), False, 4 + 8 + (4 if version >= 4 else 0))
        case KafkaApi.DELETE_RECORDS:
            return StaleLayout(0, False, 4 + 8)
        case KafkaApi.OFFSET_FOR_LEADER_EPOCH:
            return StaleLayout(4 if version >= 3 else 0, False, 4 + 4 + 4)
    raise KeyError(api)


class _Names(NamedTuple):
    """What kio calls the fields of a request and its answer: the topics of each, of a topic its partitions and its name."""

    asked: str
    asked_rows: str
    told: str
    told_rows: str
    told_index: str
    topic: str = "name"
    asked_index: str = "partition_index"


_ANSWERS: Final[Mapping[KafkaApi, _Names]] = {
    KafkaApi.PRODUCE: _Names("topic_data", "partition_data", "responses", "partition_responses", told_index="index", asked_index="index"),
    KafkaApi.FETCH: _Names(
        "topics", "partitions", "responses", "partitions", told_index="partition_index", topic="topic", asked_index="partition"
    ),
    KafkaApi.LIST_OFFSETS: _Names("topics", "partitions", "topics", "partitions", told_index="partition_index"),
    KafkaApi.DELETE_RECORDS: _Names("topics", "partitions", "topics", "partitions", told_index="partition_index"),
    KafkaApi.OFFSET_FOR_LEADER_EPOCH: _Names(
        "topics", "partitions", "topics", "partitions", "partition", topic="topic", asked_index="partition"
    ),
}
LOOKED_AT: Final = frozenset(_ANSWERS)
"""The requests that are looked at."""


class StaleTaker:
    """Takes one of the requests that are looked at."""

    def __init__(self, api: KafkaApi, catalogue: Catalogue, refused: Callable[[KafkaApi], None]) -> None:
        """`refused` is told of each request that names a diskless topic."""
        self._api = api
        self._catalogue = catalogue
        self._refused = refused

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `gateway.ports.Taker`."""
        wants_answer, names, has_id = read_names(self._api, request)
        find = self._catalogue.identified if has_id else self._named
        if any(find(name) is not None for name in names):
            self._refused(self._api)
            # A client that wants no answer learns of its error by the end of the connection, as from a broker.
            respond((TAGS[self._api.is_answer_tagged(request.api_version)], refusal(self._api, request)) if wants_answer else None)
        elif wants_answer:
            pass_on(session, request, respond)
        else:
            session.upstream.tell(request.data, partial(respond, NO_REPLY))

    def _named(self, name: bytes) -> object | None:
        return self._catalogue.named(name.decode("utf-8", "replace"))


def read_names(api: KafkaApi, request: IncomingRequest) -> tuple[bool, Sequence[bytes], bool]:
    """Return whether a request wants an answer, the topics that it names, and whether by id. Raises `MalformedMessage`."""
    data, version, at = request.data, request.api_version, request.body_offset
    is_flexible, wants_answer = api.is_flexible(version), True
    where = layout(api, version)
    if api is KafkaApi.PRODUCE:
        wants_answer, at = _wants_answer(request)
    found: list[bytes] = []
    if named_topics(data, at + where.before, where.has_id, where.partition_bytes, where.has_records, is_flexible, found) < 0:
        raise MalformedMessage(f"{api.text} version {version}: its topics cannot be read")
    return wants_answer, found, where.has_id


def _after_text(data: bytes, at: int, is_flexible: bool) -> int:
    """Return the place after a nullable string of at most 16 KB."""
    if is_flexible:
        size = data[at] if at < len(data) else 0
        if size < 0x80:
            return at + max(size, 1)
        second = data[at + 1] if at + 1 < len(data) else 0
        if second >= 0x80:
            raise MalformedMessage("Produce: its transactional id is too long")
        return at + 1 + (size & 0x7F | second << 7)
    if at + 2 > len(data):
        raise MalformedMessage("Produce: the bytes end inside its transactional id")
    return at + 2 + max(int(_ACKS.unpack_from(data, at)[0]), 0)


def refusal_if_answered(request: IncomingRequest) -> bytes | None:
    """Encode the answer that no partition of a request is led here, without its header; None for a request that wants no answer.

    Raises `MalformedMessage`.
    """
    api = KafkaApi(request.api_key)
    if api is KafkaApi.PRODUCE and not _wants_answer(request)[0]:
        return None
    return refusal(api, request)


def _wants_answer(request: IncomingRequest) -> tuple[bool, int]:
    """Return whether a Produce request wants an answer, and where its acks are. Raises `MalformedMessage`."""
    at = _after_text(request.data, request.body_offset, KafkaApi.PRODUCE.is_flexible(request.api_version))
    if at + _ACKS.size > len(request.data):
        raise MalformedMessage("Produce: the bytes end before its acks")
    return _ACKS.unpack_from(request.data, at) != (0,), at


def refusal(api: KafkaApi, request: IncomingRequest) -> bytes:
    """Encode the answer that no partition of a request is led here, without its header. Raises `MalformedMessage`."""
    how, version = _ANSWERS[api], request.api_version
    asked, answer_type = api.read_request(request), api.answer_type(version)
    topic_type = _inner(answer_type, how.told)
    partition_type = _inner(topic_type, how.told_rows)
    topics = []
    for topic in getattr(asked, how.asked):
        rows = tuple(
            _blank(partition_type, **{how.told_index: getattr(row, how.asked_index), "error_code": ErrorCode.not_leader_or_follower})
            for row in getattr(topic, how.asked_rows)
        )
        named = {how.topic: getattr(topic, how.topic, None), "topic_id": getattr(topic, "topic_id", None)}
        topics.append(_blank(topic_type, **{how.told_rows: rows}, **named))
    out = io.BytesIO()
    # kio's own encoder knows times that may be null, as Produce has them; it happens once for a client with old metadata.
    entity_writer(answer_type)(out, _blank(answer_type, **{how.told: tuple(topics)}))
    return out.getvalue()


def _inner(entity: Any, name: str) -> Any:
    return shape(entity.__dataclass_fields__[name])[1]


_NOTHING: Final[Mapping[str, object]] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "datetime_i64": None,
}
"""The values of fields that a refusal has no value for, by type; -1 for numbers."""
_NO_RECORDS: Final = b""
"""Those of a partition that has none: brokers never answer null, which the schema allows and librdkafka takes for a damaged answer."""


def _blank(kind: Any, **known: object) -> Any:
    """Return a part of an answer of which only some fields are known."""
    values: dict[str, object] = {}
    for item in fields(kind):
        is_array, inner, nullable = shape(item)
        if item.name in known:
            values[item.name] = known[item.name]
        elif item.default is MISSING and not is_dataclass(inner):
            kafka_type = str(item.metadata["kafka_type"])
            if kafka_type == "records":
                values[item.name] = _NO_RECORDS
            else:
                values[item.name] = () if is_array else None if nullable else _NOTHING.get(kafka_type, -1)
        elif item.default is MISSING and is_array:
            values[item.name] = ()
    return kind(**values)
