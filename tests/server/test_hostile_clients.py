"""Bounds that a client which means harm runs into, each over a real socket."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.server.close_log import LINES_AT_ONCE, CloseLog
from coordinator.adapters.server.connection import REQUESTS_A_TICK
from coordinator.adapters.server.contract import CloseReason, IncomingRequest, Respond, ServerLimits
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import read_correlation_id, reply_frame, request_frame
from tests.server.lines import KEY, Echo, Held, read_frame, read_to_end, serving, until
from tests.waiting import attempts


async def test_requests_beyond_the_bound_are_served_when_all_before_are_answered_at_once() -> None:
    handler, bound = Held(), 8
    async with serving(handler, ServerLimits(pending_requests_max=bound)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request_frame(KEY, 0, index, "c", b"") for index in range(2 * bound)))
        await handler.wait_for(bound)
        for _, respond in handler.requests[:bound]:
            respond(b"")
        await handler.wait_for(2 * bound)
        for _, respond in handler.requests[bound:]:
            respond(b"")
        for index in range(2 * bound):
            assert await read_frame(reader) == reply_frame(index, b"")[4:]
        writer.close()


async def test_few_requests_with_unbounded_answers_are_under_way_at_a_time() -> None:
    handler, count = Held(), 20
    async with serving(handler, ServerLimits(pending_large_max=3)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request_frame(ApiKey.FIND_BATCHES, 0, index, "c", b"") for index in range(count)))
        for index in range(count):
            await handler.wait_for(index + 1)
            assert len(handler.requests) <= index + 3
            handler.requests[index][1](b"x" * 100)
            assert await read_frame(reader) == reply_frame(index, b"x" * 100)[4:]
        assert server.stats.reading_paused >= 1
        writer.close()


async def test_a_request_that_trickles_in_does_not_keep_its_connection_open() -> None:
    async with serving(Echo(), ServerLimits(connection_idle_ms_max=50)) as (server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        ended = asyncio.create_task(read_to_end(reader))

        async def trickle() -> None:
            writer.write((1 << 20).to_bytes(4, "big"))
            async for _ in attempts("the server to hang up", every_s=0.001):
                if ended.done():
                    return
                writer.write(b"x")

        await trickle()
        assert await ended == b""
        await until(lambda: server.stats.closed == {CloseReason.IDLE: 1})
        writer.close()


def test_a_flood_of_ends_makes_few_lines_and_says_how_many_it_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = CloseLog("test")
    for index in range(10_000):
        log.note(CloseReason.MALFORMED, "frame of 0 bytes", connection_id=index, peer="p", now_s=100.0)
    assert len(caplog.records) == LINES_AT_ONCE
    log.note(CloseReason.SLOW_READER, "another reason", connection_id=1, peer="p", now_s=100.0)
    assert "another reason" in caplog.messages[-1]
    log.note(CloseReason.MALFORMED, "later", connection_id=2, peer="p", now_s=110.0)
    assert "detail='later' left_out_before=9980" in caplog.messages[-1]


async def test_one_read_full_of_requests_lets_the_loop_serve_others() -> None:
    begun: list[int] = []

    class Counting(Echo):
        """Counts how many requests it gets before anything else is run."""

        def handle(self, request: IncomingRequest, respond: Respond) -> None:
            if not begun or begun[-1] < 0:
                begun.append(0)
                asyncio.get_running_loop().call_soon(begun.append, -1)
            begun[-1] += 1
            super().handle(request, respond)

    async with serving(Counting()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request_frame(KEY, 0, number, "c", b"") for number in range(5_000)))
        for number in range(5_000):
            assert read_correlation_id(await read_frame(reader)) == number
        writer.close()
    ticks = [count for count in begun if count > 0]
    assert sum(ticks) == 5_000
    assert max(ticks) <= REQUESTS_A_TICK
