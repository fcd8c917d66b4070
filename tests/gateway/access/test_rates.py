"""Byte rates of principals: what is charged, where answers tell of it, and who waits. Time is the test's own."""

from __future__ import annotations

import io
import struct
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from coordinator.adapters.server.contract import NO_REPLY, IncomingRequest, Peer, Respond
from coordinator.adapters.server.throttle import BURST_S, WAIT_MAX_S
from coordinator.protocol.framing_loops import Body
from coordinator.security.principal import Principal
from gateway.access.rates import RatedFetch, RatedProduce, with_time_at_the_beginning, with_time_at_the_end
from tests.app.test_quotas import HandTimers

RATE = 1_000
SESSION: Any = None
ALICE, BOB = Peer(1, "SASL_SSL", "10.0.0.1:1", Principal("alice")), Peer(2, "SASL_SSL", "10.0.0.1:2", Principal("bob"))
ALICE_AGAIN = ALICE._replace(connection_id=3)


class Echo:
    """A taker that answers at once, always the same."""

    def __init__(self, body: Body | None) -> None:
        self.body = body
        self.taken: list[int] = []

    def take(self, session: Any, request: IncomingRequest, respond: Respond) -> None:
        self.taken.append(request.correlation_id)
        respond(self.body)


def request(correlation_id: int, size: int, peer: Peer = ALICE, *, key: int = 0, version: int = 9) -> IncomingRequest:
    return IncomingRequest(key, version, correlation_id, "app", bytes(size), 0, key, 0.0, peer)


def produced(version: int) -> bytes:
    module = import_module(f"kio.schema.produce.v{version}.response")
    fields: dict[str, Any] = {"index": 0, "error_code": ErrorCode.none, "base_offset": 7, "log_append_time": None}
    fields |= {"log_start_offset": 0} if version >= 5 else {}
    fields |= {"record_errors": (), "error_message": None} if version >= 8 else {}
    partition = module.PartitionProduceResponse(**fields)
    topic = module.TopicProduceResponse(name="t", partition_responses=(partition,))
    out = io.BytesIO()
    entity_writer(module.ProduceResponse)(out, module.ProduceResponse(responses=(topic,), throttle_time=timedelta()))
    return out.getvalue()


def seconds_told(version: int, body: bytes) -> float:
    kind = import_module(f"kio.schema.produce.v{version}.response").ProduceResponse
    found, end = entity_reader(kind)(body, 0)
    assert end == len(body)
    return float(found.throttle_time.total_seconds())


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("is_split", [False, True])
def test_an_answer_to_produce_tells_the_time(version: int, is_split: bool) -> None:
    body = produced(version)
    given_body: Body = (body[:5], memoryview(body)[5:]) if is_split else body
    told = with_time_at_the_end(given_body, 1_234, is_flexible=version >= 9)
    assert isinstance(told, bytes)
    assert seconds_told(version, told) == 1.234
    assert with_time_at_the_end(told, 0, is_flexible=version >= 9) == body


@given(st.lists(st.binary(), min_size=1).map(tuple) | st.binary(), st.booleans())
def test_answers_keep_their_length(body: Body, is_flexible: bool) -> None:
    whole = body if isinstance(body, bytes) else b"".join(body)
    told = with_time_at_the_end(body, 5, is_flexible=is_flexible)
    assert len(told if isinstance(told, bytes) else b"".join(told)) == len(whole)
    if len(whole) >= 4:
        fetched = with_time_at_the_beginning(body, 5)
        joined = fetched if isinstance(fetched, bytes) else b"".join(fetched)
        assert joined == struct.pack(">i", 5) + whole[4:]


def test_records_are_not_copied() -> None:
    head, records = bytes(20), memoryview(bytes(1_000))
    told = with_time_at_the_beginning((head, records), 7)
    assert told[-1] is records


def test_produced_bytes_are_charged_and_the_next_request_waits() -> None:
    timers, echo, answers = HandTimers(), Echo(produced(9)), []
    gate = RatedProduce(echo, RATE, timers)
    gate.take(SESSION, request(1, int(RATE * BURST_S)), answers.append)
    assert seconds_told(9, answers[0]) == 0
    gate.take(SESSION, request(2, 2 * RATE), answers.append)
    assert seconds_told(9, answers[1]) == pytest.approx(2, abs=0.01)
    assert gate.throttled == 1
    gate.take(SESSION, request(3, 1), answers.append)
    gate.take(SESSION, request(4, 1, ALICE_AGAIN), answers.append)
    assert echo.taken == [1, 2]
    assert gate.waiting == 2
    gate.take(SESSION, request(5, 1, BOB), answers.append)
    assert echo.taken == [1, 2, 5], "another principal waited"
    timers.pass_time(1.9)
    assert echo.taken == [1, 2, 5]
    timers.pass_time(0.2)
    assert echo.taken == [1, 2, 5, 3, 4]


def test_fetched_bytes_are_charged_when_they_are_answered() -> None:
    timers, answers = HandTimers(), []
    body: Body = (struct.pack(">i", 0) + b"head", memoryview(bytes(int(RATE * BURST_S) + 3 * RATE)))
    echo = Echo(body)
    gate = RatedFetch(echo, RATE, timers)
    gate.take(SESSION, request(1, 10**6, key=1), answers.append)
    assert struct.unpack_from(">i", answers[0][0])[0] == pytest.approx(3_000, abs=20)
    gate.take(SESSION, request(2, 10, key=1), answers.append)
    assert echo.taken == [1]
    timers.pass_time(3.1)
    assert echo.taken == [1, 2]


@pytest.mark.parametrize("body", [None, NO_REPLY])
def test_what_is_no_answer_stays_so_and_is_charged(body: Body | None) -> None:
    timers, echo, answers = HandTimers(), Echo(body), []
    gate = RatedProduce(echo, RATE, timers)
    gate.take(SESSION, request(1, int(RATE * BURST_S) + RATE), answers.append)
    gate.take(SESSION, request(2, 1), answers.append)
    assert answers == [body]
    assert gate.waiting == 1


def test_who_waits_too_long_loses_the_connection_and_nothing_is_done() -> None:
    timers, echo, answers = HandTimers(), Echo(produced(9)), []
    gate = RatedProduce(echo, RATE, timers)
    gate.take(SESSION, request(1, int(RATE * BURST_S) + int(RATE * WAIT_MAX_S) * 10), answers.append)
    gate.take(SESSION, request(2, 1), answers.append)
    timers.pass_time(WAIT_MAX_S + 1)
    assert answers[1:] == [None]
    assert echo.taken == [1]


@given(st.lists(st.tuples(st.integers(0, 20_000), st.floats(0, 5)), max_size=40))
def test_no_principal_gets_more_than_its_rate(sent: list[tuple[int, float]]) -> None:
    """What was begun in any time is within the burst, the rate, and the one request that emptied the bucket."""
    timers, echo = HandTimers(), Echo(produced(9))
    gate = RatedProduce(echo, RATE, timers)
    began_s, total = timers.now_s, 0
    sizes = {}
    for number, (size, pause_s) in enumerate(sent):
        sizes[number] = size
        gate.take(SESSION, request(number, size), lambda _body: None)
        timers.pass_time(pause_s)
        total = sum(sizes[one] for one in echo.taken)
        assert total <= RATE * (BURST_S + timers.now_s - began_s) + max(sizes.values())
