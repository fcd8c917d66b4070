"""Requests on relay ports are looked at: the topics they name, by the loop compiled and interpreted as by kio, and how they are refused."""

from __future__ import annotations

import dataclasses
import io
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from coordinator.adapters.server.contract import NO_REPLY, IncomingRequest, Peer
from coordinator.protocol.framing import read_request_header, request_frame
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import ANONYMOUS
from gateway.front import topics_loops
from gateway.front.apis import RELAYED
from gateway.front.stale import LOOKED_AT, StaleTaker, layout, read_names, refusal, refusal_if_answered
from gateway.kafka_apis import KafkaApi
from gateway.ports import DisklessTopic
from integration_tests.gateway.samples import message_type, sample
from tests.compiled import plain

PLAIN = plain(topics_loops)
BOTH = pytest.mark.parametrize("loops", [topics_loops, PLAIN], ids=["compiled", "interpreted"])
PEER = Peer(1, "PLAINTEXT", "10.0.0.1:5000", ANONYMOUS)
VERSIONS = [(key, version) for key in sorted(LOOKED_AT) for version in range(key.first, RELAYED.get(key, (0, key.last))[1] + 1)]
EACH = pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{key.text}-{version}" for key, version in VERSIONS])
NAMES = ("orders", "ø-topic", "x")
TOPICS_OF = {KafkaApi.PRODUCE: ("topic_data", "partition_data"), KafkaApi.FETCH: ("topics", "partitions")}


def incoming(key: KafkaApi, version: int, **known: object) -> tuple[IncomingRequest, Any]:
    """Return a request for several topics with several partitions, as received, and as kio has it."""
    made = sample(message_type(key, version, "request"), {"records": b"0123456789", "acks": -1, **known})
    topics, partitions = TOPICS_OF.get(key, ("topics", "partitions"))
    [topic] = getattr(made, topics)
    [row] = getattr(topic, partitions)
    name = next(field for field in ("name", "topic", "topic_id") if hasattr(topic, field))
    rows = []
    for place, text in enumerate(NAMES):
        value = dataclasses.replace(topic, **{partitions: (row,) * (place + 1)})
        if name == "topic_id":
            value = dataclasses.replace(value, topic_id=sample_id(place))
        else:
            value = dataclasses.replace(value, **{name: text})
        rows.append(value)
    made = dataclasses.replace(made, **{topics: tuple(rows)})
    return received(key, version, made), made


def sample_id(place: int) -> Any:
    """Return an id."""
    return uuid.UUID(int=place + 1)


def received(key: KafkaApi, version: int, made: Any) -> IncomingRequest:
    """Return a request as the server gives it to handlers."""
    body = io.BytesIO()
    entity_writer(type(made))(body, made)
    flexible = key.is_flexible(version)
    frame = request_frame(key, version, 3, "client", body.getvalue(), flexible=flexible)[4:]
    at = read_request_header(frame, flexible=flexible).body_offset
    return IncomingRequest(key, version, 3, "client", frame, at, key, 0.0, PEER)


class Upstream:
    """Keeps what it was told to send."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.told: list[bytes] = []

    def send(self, frame: bytes, answered: Any) -> None:
        self.sent.append(frame)
        answered(b"\0\0\0\3the answer")

    def tell(self, frame: bytes, taken: Callable[[], None]) -> None:
        self.told.append(frame)
        taken()


class Session:
    """A client's."""

    def __init__(self) -> None:
        self.upstream = Upstream()


class Catalogue:
    """Knows one diskless topic."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        self._topic = DisklessTopic(name, topic_id, 3, {})

    def named(self, name: str) -> DisklessTopic | None:
        return self._topic if name == self._topic.name else None

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        return self._topic if topic_id == self._topic.topic_id else None

    async def refreshed(self) -> None:
        return


def take(key: KafkaApi, request: IncomingRequest, diskless: str, topic_id: bytes) -> tuple[list[Any], Upstream, list[int]]:
    """Take a request; returns what was answered, what the broker got, and what was refused."""
    answers: list[Any] = []
    refused: list[int] = []
    session: Any = Session()
    StaleTaker(key, Catalogue(diskless, topic_id), refused.append).take(session, request, answers.append)
    return answers, session.upstream, refused


@EACH
def test_the_topics_of_a_request_are_found_in_every_version(key: KafkaApi, version: int) -> None:
    request, _ = incoming(key, version)
    wants_answer, names, has_id = read_names(key, request)
    assert wants_answer
    assert names == ([sample_id(place).bytes for place in range(3)] if has_id else [name.encode() for name in NAMES])


@EACH
def test_a_request_for_classic_topics_passes_unread(key: KafkaApi, version: int) -> None:
    request, _ = incoming(key, version)
    answers, upstream, refused = take(key, request, "another", bytes(15) + b"\7")
    assert (upstream.sent, upstream.told, refused) == ([request.data], [], [])
    assert [bytes(b"".join(one)) for one in answers] == [b"the answer"]


@EACH
def test_a_request_that_names_a_diskless_topic_is_refused_as_a_whole(key: KafkaApi, version: int) -> None:
    request, made = incoming(key, version)
    [body], upstream, refused = take(key, request, NAMES[1], sample_id(1).bytes)
    assert (upstream.sent, upstream.told, refused) == ([], [], [key])
    assert body is not None
    body = b"".join(body)
    tags = 1 if key.is_answer_tagged(version) else 0
    assert body[:tags] == bytes(tags)
    answer: Any = entity_reader(message_type(key, version, "response"))(body, tags)[0]
    topics = getattr(answer, "responses", None) or answer.topics
    rows = [getattr(one, "partition_responses", None) or one.partitions for one in topics]
    assert [len(one) for one in rows] == [1, 2, 3]
    assert {row.error_code for one in rows for row in one} == {ErrorCode.not_leader_or_follower}
    # None at all, or empty: librdkafka takes null records for a damaged answer, and asks again at once.
    assert {getattr(row, "records", b"") for one in rows for row in one} == {b""}
    asked = getattr(made, TOPICS_OF.get(key, ("topics",))[0])
    for field in ("name", "topic", "topic_id"):
        if hasattr(topics[0], field):
            assert [getattr(one, field) for one in topics] == [getattr(one, field) for one in asked]


@pytest.mark.parametrize("version", range(3, 10))
def test_produce_without_acknowledgement_is_told_and_not_answered(version: int) -> None:
    request, _ = incoming(KafkaApi.PRODUCE, version, acks=0)
    answers, upstream, _ = take(KafkaApi.PRODUCE, request, "another", bytes(16))
    assert (answers, upstream.told, upstream.sent) == ([NO_REPLY], [request.data], [])
    answers, upstream, _ = take(KafkaApi.PRODUCE, request, NAMES[0], bytes(16))
    assert (answers, upstream.told, upstream.sent) == ([None], [], [])


@given(st.sampled_from(VERSIONS), st.data())
def test_damage_is_found_or_harmless(drawn: tuple[int, int], data: st.DataObject) -> None:
    key, version = drawn
    request, _ = incoming(key, version)
    cut = data.draw(st.integers(request.body_offset, len(request.data)))
    place = data.draw(st.integers(request.body_offset, len(request.data) - 1))
    damaged = bytearray(request.data)
    damaged[place] = data.draw(st.integers(0, 255))
    for frame in (request.data[:cut], bytes(damaged)):
        try:
            _, names, _ = read_names(key, request._replace(data=frame))
        except MalformedMessage:
            continue
        assert sum(map(len, names)) <= len(frame)


@BOTH
@given(st.binary(max_size=80), st.integers(0, 90), st.booleans(), st.integers(4, 40), st.booleans(), st.booleans())
def test_any_bytes_end_the_same_way(
    loops: ModuleType, data: bytes, at: int, has_id: bool, partition_bytes: int, has_records: bool, is_flexible: bool
) -> None:
    found: list[bytes] = []
    expected: list[bytes] = []
    stop = loops.named_topics(data, at, has_id, partition_bytes, has_records, is_flexible, found)
    assert stop == PLAIN.named_topics(data, at, has_id, partition_bytes, has_records, is_flexible, expected)
    assert found == expected
    assert -1 <= stop <= len(data)


def test_every_request_that_is_looked_at_has_a_layout() -> None:
    for key, version in VERSIONS:
        assert layout(key, version).partition_bytes > 0


@EACH
def test_a_gateway_that_is_about_to_stop_leads_nothing(key: KafkaApi, version: int) -> None:
    request, _ = incoming(key, version)
    body = refusal_if_answered(request)
    assert body is not None
    assert body == refusal(key, request)
    read: Any = entity_reader(message_type(key, version, "response"))
    assert read(body, 0)[1] == len(body)


def test_what_wants_no_answer_is_taken_until_the_end() -> None:
    for version in range(3, 10):
        assert refusal_if_answered(incoming(KafkaApi.PRODUCE, version, acks=0)[0]) is None
