"""Quotas: who is throttled and for how long, order, fairness between principals, and what waits too long. Time is the test's own."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import Handler, IncomingRequest, Peer, Respond
from coordinator.adapters.server.server import Server
from coordinator.adapters.server.throttle import BURST_S, PRINCIPALS_MAX, WAIT_MAX_S, WAITING_BYTES_MAX, Bucket
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.app.requests.quotas import QuotaGate
from coordinator.client.routing.connection import ClientConnection
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import COMMIT_FILE
from coordinator.operations.table import OPERATIONS, ApiTable
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.entity import blank
from coordinator.protocol.framing_loops import Body
from coordinator.protocol.messages import CommitBatch, CommitFileRequest, CommitFileResponse, DescribeTopicsRequest
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.acls import Everything
from coordinator.security.principal import Principal
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import in_memory, running

ALICE, BOB, NODE = Principal("alice"), Principal("bob"), Principal("diskless-node", is_node=True)
ANSWER = struct.pack(">i", 0) + b"answer"
COMMIT = encode(blank(CommitFileRequest, object_key="k", batches=(blank(CommitBatch),), timeout_ms=1))
BY_THE_SERVER = {ApiKey.API_VERSIONS, 17, 36}
"""Requests that no handler sees: ApiVersions and those of logins."""


class HandTimers:
    """Timers of a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._ids = itertools.count()

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> object:
        heapq.heappush(self._due, (when, next(self._ids), callback, args))
        return object()

    def pass_time(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._due and self._due[0][0] <= end_s:
            when, _, callback, args = heapq.heappop(self._due)
            self.now_s = max(self.now_s, when)
            callback(*args)
        self.now_s = end_s


class Bench(Handler):
    """A gate in front of a handler that answers at once, with what was begun and answered by number of the request."""

    def __init__(self, **rates: float) -> None:
        self.timers = HandTimers()
        self.begun: list[int] = []
        self.answers: dict[int, bytes | None] = {}
        self.gate = QuotaGate(self, rates, is_node=lambda peer: peer.principal.is_node, timers=self.timers)

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.begun.append(request.correlation_id)
        if request.data == b"malformed":
            raise MalformedMessage("malformed")
        respond(None if request.data == b"closes" else ANSWER)

    def send(self, number: int, who: Principal = ALICE, data: bytes = COMMIT, connection_id: int = 1) -> None:
        peer = Peer(connection_id, "SECURE", "10.0.0.1:4711", who)
        request = IncomingRequest(COMMIT_FILE.key, 0, number, "test", data, 0, COMMIT_FILE.key, self.timers.now_s, peer)

        def respond(body: Body | None) -> None:
            assert not isinstance(body, tuple)
            self.answers[number] = body

        self.gate.handle(request, respond)

    def throttle_ms(self, number: int) -> int:
        body = self.answers[number]
        assert body is not None
        return int(struct.unpack_from(">i", body)[0])


def test_every_answer_of_a_handler_begins_with_its_throttle_time() -> None:
    for operation in OPERATIONS:
        for version, schema in operation.versions.items():
            first = fields(schema.response_type)[0].name  # type: ignore[arg-type]
            begins = first in ("throttle_time", "throttle_time_ms")
            assert begins is (operation.key not in BY_THE_SERVER), (operation.name, version, first)


def test_what_is_within_the_quota_is_answered_as_it_is() -> None:
    bench = Bench(requests=10)
    for number in range(int(10 * BURST_S)):
        bench.send(number)
    assert set(bench.answers.values()) == {ANSWER}
    assert not bench.gate.throttled


def test_beyond_it_answers_tell_for_how_long_and_the_next_request_waits_so_long_on_any_connection() -> None:
    bench = Bench(requests=10)
    last = int(10 * BURST_S)
    for number in range(last + 3):
        bench.send(number, connection_id=number)
    assert bench.throttle_ms(last - 1) == 0
    assert bench.throttle_ms(last) == 101  # one request of ten per second, rounded up
    assert bench.answers[last][4:] == ANSWER[4:]  # type: ignore[index]
    assert bench.begun == list(range(last + 1))
    assert (bench.gate.waiting, bench.gate.throttled) == (2, {"requests": 1})
    bench.timers.pass_time(0.099)
    assert bench.begun[-1] == last
    bench.timers.pass_time(0.002)
    assert bench.begun[-1] == last + 1
    bench.timers.pass_time(0.1)
    assert bench.begun == list(range(last + 3))
    bench.timers.pass_time(2 * BURST_S)
    bench.send(last + 3)
    assert bench.answers[last + 3] == ANSWER


def test_bytes_of_requests_and_answers_count() -> None:
    bench = Bench(bytes=1_000)
    bench.send(1, data=b"x" * int(1_000 * BURST_S))  # the answer's bytes are the debt
    assert bench.throttle_ms(1) == 1 + len(ANSWER)
    bench.send(2)
    assert 2 not in bench.answers
    bench.timers.pass_time(0.02)
    assert 2 in bench.answers
    bench.send(3, who=BOB, data=b"x" * 1_000_000)  # larger than all that may come at once: taken, and paid for
    assert bench.throttle_ms(3) == 1 + 990_000 + len(ANSWER)
    assert bench.gate.throttled == {"bytes": 3}


def test_the_longer_debt_of_two_quotas_counts() -> None:
    bench = Bench(bytes=1_000, requests=1_000)
    bench.send(1, data=b"x" * 12_000)
    assert bench.gate.throttled == {"bytes": 1}
    assert bench.throttle_ms(1) == pytest.approx(2_000 + len(ANSWER), abs=2)


def test_one_principal_does_not_wait_for_another_and_nodes_wait_for_nobody() -> None:
    bench = Bench(requests=1)
    for number in range(20):
        bench.send(number)
    bench.send(100, who=BOB)
    for number in range(200, 250):
        bench.send(number, who=NODE)
    assert bench.answers[100] == ANSWER
    assert all(bench.answers[number] == ANSWER for number in range(200, 250))
    assert 19 not in bench.answers


def test_what_waits_too_long_is_refused_in_each_element_and_not_done() -> None:
    bench = Bench(requests=0.01)
    bench.send(0)
    bench.send(1)
    bench.timers.pass_time(WAIT_MAX_S - 0.01)
    assert 1 not in bench.answers
    bench.timers.pass_time(0.02)
    assert bench.begun == [0]
    answer: Any = decode(CommitFileResponse, bench.answers[1] or b"")
    assert [one.error_code for one in answer.batches] == [ErrorCode.REQUEST_TIMED_OUT]
    assert "30 s for a quota of User:alice" in answer.batches[0].error_message
    assert answer.throttle_time_ms > 0
    assert bench.gate.waiting == 0


def test_a_waiting_request_that_is_malformed_closes_its_connection_and_holds_up_nobody() -> None:
    bench = Bench(requests=1)
    for number in range(int(BURST_S) + 1):
        bench.send(number)
    bench.send(50, data=b"malformed")
    bench.send(51, data=b"closes")
    bench.send(52)
    bench.timers.pass_time(10)
    assert (bench.answers[50], bench.answers[51]) == (None, None)
    assert bench.answers[52] is not None
    with pytest.raises(MalformedMessage):  # at once the server hears of it, with the reason
        bench.send(53, who=BOB, data=b"malformed")


def test_what_waits_of_a_principal_is_bounded_over_all_connections_even_those_that_are_gone() -> None:
    bench, large = Bench(bytes=1_000_000), bytes(WAITING_BYTES_MAX // 4)
    bench.send(0, data=large)
    for number in range(1, 100):
        bench.send(number, data=large, connection_id=number)
    closed = [number for number, answer in bench.answers.items() if answer is None]
    assert (closed, bench.gate.waiting) == (list(range(4, 100)), 3)
    bench.send(200, who=BOB)
    assert bench.answers[200] == ANSWER
    bench.timers.pass_time(WAIT_MAX_S + 1)
    assert bench.gate.waiting == 0
    bench.send(201)
    assert 201 not in bench.answers  # there is room again


def test_a_request_larger_than_the_bound_may_wait_alone() -> None:
    bench = Bench(bytes=1_000_000)
    bench.send(0, data=bytes(11_000_000))
    bench.send(1, data=bytes(WAITING_BYTES_MAX + 1))
    assert bench.gate.waiting == 1
    bench.timers.pass_time(WAIT_MAX_S)
    assert bench.answers[1] is not None


def test_principals_that_come_and_go_are_forgotten_but_for_those_in_debt() -> None:
    bench = Bench(requests=1)
    for number in range(20):
        bench.send(number)
    for number in range(PRINCIPALS_MAX + 10):
        bench.send(1_000 + number, who=Principal(f"user-{number}"))
    assert bench.gate.principals <= PRINCIPALS_MAX
    bench.send(30)
    assert 30 not in bench.answers  # its debt was not forgotten


@given(
    sends=st.lists(st.tuples(st.floats(0, 3), st.sampled_from([ALICE, BOB]), st.integers(1, 4)), max_size=60),
    rate=st.sampled_from([0.5, 1, 3, 10]),
)
def test_in_any_traffic_order_stays_and_nobody_gets_more_than_the_quota(sends: list[tuple[float, Principal, int]], rate: float) -> None:
    bench = Bench(requests=rate)
    sent: dict[Principal, list[int]] = {ALICE: [], BOB: []}
    began_s = bench.timers.now_s
    for number, (pause_s, who, connection_id) in enumerate(sends):
        bench.timers.pass_time(pause_s)
        bench.send(number, who, connection_id=connection_id)
        sent[who].append(number)
        elapsed_s = bench.timers.now_s - began_s
        for numbers in sent.values():
            begun = [one for one in bench.begun if one in numbers]
            assert begun == [one for one in numbers if one in begun]  # in order
            assert len(begun) <= rate * (BURST_S + elapsed_s + 0.001) + 1.001
    bench.timers.pass_time(WAIT_MAX_S + 1)
    assert set(bench.answers) == set(range(len(sends)))  # each is answered once, done or refused


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1000)), max_size=50), st.floats(0.1, 1000))
def test_a_debt_is_paid_after_the_time_it_says(charges: list[tuple[float, float]], rate: float) -> None:
    now_s = 0.0
    bucket = Bucket(rate, now_s)
    for pause_s, amount in charges:
        now_s += pause_s
        bucket.charge(amount, now_s)
        debt_s = bucket.debt_s(now_s)
        if debt_s > 0:
            assert bucket.debt_s(now_s + debt_s) == pytest.approx(0, abs=1e-6)
            assert bucket.debt_s(now_s + debt_s / 2) > 0


async def test_over_a_socket_a_node_tells_how_long_it_throttles() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        dispatcher = Dispatcher(started.node, Metrics(), Everything())
        gate = QuotaGate(dispatcher, {"requests": 1 / BURST_S}, is_node=dispatcher.access.is_node)
        server = Server(gate, ApiTable(), listener="PLAINTEXT")
        port = await server.start("127.0.0.1", 0)
        connection = await ClientConnection.connect("127.0.0.1", port, client_id="c", timeout_s=60)
        answers: list[Any] = [await connection.call(blank(DescribeTopicsRequest, timeout_ms=1_000), 60) for _ in range(2)]
        await connection.close()
        await server.stop(1_000)
        await dispatcher.close()
    first, second = (one.throttle_time_ms for one in answers)
    assert (first, 0 < second <= BURST_S * 1000) == (0, True)
    assert gate.throttled == {"requests": 1}
