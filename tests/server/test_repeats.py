"""Requests that are remembered, over real sockets: who answers them, when, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coordinator.adapters.server.contract import Desk, Host, IncomingRequest, ListenerSecurity, RememberedRequest, ServerLimits
from coordinator.adapters.server.login_desk import LoginDesk
from coordinator.adapters.server.repeats import REQUEST_BYTES_MAX, SHORTEST_S, TICK_S
from coordinator.adapters.server.server import Server
from coordinator.operations.table import ApiTable
from coordinator.protocol.framing import reply_frame, request_frame
from tests.server.lines import KEY, Held, read_frame, read_to_end, until

WAIT_S = 0.1
LONG_S = 0.7
"""Longer than what a test does while a request waits."""
FOR_EVER_S = 1e9

lent_or_not = pytest.mark.parametrize("is_lent", [False, True], ids=["loop", "lent"])


class Word:
    """A promise that holds until a time."""

    def __init__(self, until_s: float = FOR_EVER_S) -> None:
        self.until_s = until_s
        self.asked = self.ends = 0

    def holds_until_s(self) -> float:
        self.asked += 1
        return self.until_s

    def ended(self) -> None:
        self.ends += 1


class Line:
    """One connection to a server whose handler answers on command."""

    def __init__(
        self, server: Server, handler: Held, hosts: list[Host], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.handler = handler
        self._hosts = hosts
        self.reader = reader
        self.writer = writer

    @property
    def host(self) -> Host:
        [host] = self._hosts
        return host

    def send(self, *ids: int, body: bytes = b"poll") -> None:
        self.writer.write(b"".join(request_frame(KEY, 0, one, "c", body) for one in ids))

    async def taken(self, count: int) -> IncomingRequest:
        """The request that the handler got, when it has so many."""
        await self.handler.wait_for(count)
        return self.handler.requests[count - 1][0]

    def answer(self, count: int, body: bytes) -> None:
        self.handler.requests[count - 1][1](body)

    async def reply(self, correlation_id: int, body: bytes) -> None:
        assert await read_frame(self.reader) == reply_frame(correlation_id, body)[4:]

    async def remember(
        self, promise: Word, *, wait_s: float = WAIT_S, body: bytes = b"poll", is_lent: bool = False
    ) -> RememberedRequest | None:
        """Have the first request answered, and remembered; with `is_lent` it has come again, so the socket is lent."""
        self.send(1, body=body)
        request = await self.taken(1)
        self.answer(1, b"nothing new")
        await self.reply(1, b"nothing new")
        remembered = self.host.remember(request, b"nothing new", wait_s, promise)
        if is_lent:
            self.send(1, body=body)
            await self.reply(1, b"nothing new")
        return remembered

    async def wait_again(self, correlation_id: int) -> float:
        """Send the remembered request, and return when it waits."""
        before = self.server.stats.bytes_in
        self.send(correlation_id)
        await until(lambda: self.server.stats.bytes_in > before)
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def connected(limits: ServerLimits | None = None) -> AsyncIterator[Line]:
    handler, hosts = Held(), list[Host]()

    def open_desk(host: Host) -> Desk:
        hosts.append(host)
        return LoginDesk(host, ListenerSecurity(), ServerLimits())

    server = Server(handler, ApiTable(), limits=limits, listener="test", open_desk=open_desk)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Line(server, handler, hosts, reader, writer)
    finally:
        writer.close()
        await server.stop(0)


async def test_a_request_that_comes_again_is_answered_in_time_without_its_handler() -> None:
    async with connected() as line:
        loop, promise = asyncio.get_running_loop(), Word()
        assert await line.remember(promise) is not None
        before = line.server.stats.bytes_in, line.server.stats.bytes_out
        for correlation_id in (7, 2**31 - 1, -1):
            sent_s = loop.time()
            line.send(correlation_id)
            await line.reply(correlation_id, b"nothing new")
            assert loop.time() - sent_s >= WAIT_S - 2 * TICK_S
        assert len(line.handler.requests) == promise.asked == 1
        assert line.server.stats.requests == {KEY: 4}
        request, reply = request_frame(KEY, 0, 1, "c", b"poll"), reply_frame(1, b"nothing new")
        assert line.server.stats.bytes_in - before[0] == 3 * len(request)
        assert line.server.stats.bytes_out - before[1] == 3 * len(reply)


async def test_an_answer_is_not_late() -> None:
    async with connected() as line:
        loop = asyncio.get_running_loop()
        await line.remember(Word(), wait_s=0.3)
        for number in range(10):
            sent_s = loop.time()
            line.send(number)
            await line.reply(number, b"nothing new")
            assert loop.time() - sent_s < 0.3 + 0.25, "far later than asked, even for a busy machine"


@lent_or_not
async def test_a_request_that_is_not_the_same_goes_to_the_handler(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), is_lent=is_lent)
        for number, body in enumerate((b"polL", b"pol", b"poll!", b"Poll"), 2):
            line.send(number, body=body)
            request = await line.taken(number)
            assert request.data[request.body_offset :] == body
            line.answer(number, body)
            await line.reply(number, body)
        line.send(9)
        await line.reply(9, b"nothing new")
        assert len(line.handler.requests) == 5


@lent_or_not
async def test_a_request_that_comes_in_pieces_goes_to_the_handler(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), is_lent=is_lent)
        frame = request_frame(KEY, 0, 2, "c", b"poll")
        line.writer.write(frame[:5])
        await until(lambda: line.server.stats.unfinished_bytes > 0)
        line.writer.write(frame[5:])
        assert (await line.taken(2)).correlation_id == 2


@lent_or_not
async def test_what_comes_meanwhile_is_answered_after_the_request_that_waits(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), wait_s=LONG_S, is_lent=is_lent)
        came_s = await line.wait_again(2)
        line.send(3, body=b"other")
        line.send(4)
        assert [(await line.taken(count)).correlation_id for count in (2, 3, 4)] == [2, 3, 4]
        assert (await line.taken(2)).received_s <= came_s
        for count in (4, 3, 2):
            line.answer(count, b"answer %d" % count)
        for count in (2, 3, 4):
            await line.reply(count, b"answer %d" % count)


@lent_or_not
async def test_requests_that_are_read_together_go_to_the_handler(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), is_lent=is_lent)
        line.send(2, 3)
        assert [(await line.taken(count)).correlation_id for count in (2, 3)] == [2, 3]


@lent_or_not
async def test_a_request_that_waits_goes_to_the_handler_when_it_is_forgotten(is_lent: bool) -> None:
    async with connected() as line:
        promise = Word()
        await line.remember(promise, wait_s=LONG_S, is_lent=is_lent)
        came_s = await line.wait_again(2)
        line.host.forget()
        request = await line.taken(2)
        assert (request.correlation_id, promise.ends) == (2, 1)
        assert request.received_s <= came_s
        line.answer(2, b"news")
        await line.reply(2, b"news")
        line.send(3)
        assert (await line.taken(3)).correlation_id == 3


async def test_an_answer_that_holds_no_more_is_not_given() -> None:
    async with connected() as line:
        loop = asyncio.get_running_loop()
        promise = Word(loop.time() + 60)
        await line.remember(promise)
        line.send(2)
        await line.reply(2, b"nothing new")
        promise.until_s = 0.0
        line.send(3)
        await line.reply(3, b"nothing new")
        assert promise.asked == 1, "it was asked before its time was over"

    async with connected() as line:
        promise = Word(0.0)
        await line.remember(promise)
        line.send(2)
        assert (await line.taken(2)).correlation_id == 2
        assert promise.asked == 2


@lent_or_not
async def test_a_connection_that_is_paused_answers_nothing(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), wait_s=SHORTEST_S, is_lent=is_lent)
        line.host.pause(True)
        line.send(2)
        before = line.server.stats.bytes_out
        await asyncio.sleep(5 * SHORTEST_S)
        assert (line.server.stats.bytes_out, len(line.handler.requests)) == (before, 1)
        line.host.pause(False)
        assert (await line.taken(2)).correlation_id == 2


@lent_or_not
async def test_a_connection_that_ends_keeps_no_promise(is_lent: bool) -> None:
    async with connected() as line:
        promise = Word()
        await line.remember(promise, is_lent=is_lent)
        await line.wait_again(2)
        line.writer.close()
        await until(lambda: line.server.stats.connections_open == 0)
        assert promise.ends == 1
        await asyncio.sleep(2 * WAIT_S)
        assert len(line.handler.requests) == 1


@lent_or_not
async def test_a_server_that_stops_has_the_request_that_waits_answered(is_lent: bool) -> None:
    async with connected() as line:
        await line.remember(Word(), wait_s=LONG_S, is_lent=is_lent)
        await line.wait_again(2)
        stopping = asyncio.create_task(line.server.stop(60_000))
        await line.taken(2)
        line.answer(2, b"the last")
        assert await read_to_end(line.reader) == reply_frame(2, b"the last")
        await stopping


async def test_the_last_request_is_remembered() -> None:
    async with connected() as line:
        first, second = Word(), Word()
        await line.remember(first)
        line.send(2, body=b"next")
        request = await line.taken(2)
        line.answer(2, b"none")
        await line.reply(2, b"none")
        assert line.host.remember(request, b"none", WAIT_S, second) is not None
        assert (first.ends, second.ends) == (1, 0)
        line.send(3)
        assert (await line.taken(3)).correlation_id == 3
        line.answer(3, b"x")
        await line.reply(3, b"x")
        line.send(4, body=b"next")
        await line.reply(4, b"none")


@pytest.mark.parametrize(("wait_s", "size"), [(SHORTEST_S / 2, 4), (WAIT_S, REQUEST_BYTES_MAX + 1)])
async def test_what_is_too_short_or_too_large_is_not_remembered(wait_s: float, size: int) -> None:
    async with connected() as line:
        promise = Word()
        assert await line.remember(promise, wait_s=wait_s, body=bytes(size)) is None
        assert promise.asked == 0
        line.send(2, body=bytes(size))
        assert (await line.taken(2)).correlation_id == 2


async def test_a_waiting_connection_is_not_idle() -> None:
    async with connected(ServerLimits(connection_idle_ms_max=300)) as line:
        await line.remember(Word(), wait_s=0.8)
        for number in range(3):
            line.send(number)
            await line.reply(number, b"nothing new")


async def test_a_client_that_does_not_read_its_answers_gets_them_in_order() -> None:
    """It sends on meanwhile, until the socket takes no more and the connection no more of its requests."""
    count = 300
    async with connected() as line:
        line.send(1)
        request = await line.taken(1)
        large = bytes(200_000)
        line.answer(1, large)
        line.host.remember(request, large, SHORTEST_S, Word())
        for correlation_id in range(2, count):
            line.send(correlation_id)
            await asyncio.sleep(0)

        async def answer_all() -> None:
            done = 1
            while True:
                await line.handler.wait_for(done + 1)
                while done < len(line.handler.requests):
                    line.handler.requests[done][1](large)
                    done += 1

        answering = asyncio.create_task(answer_all())
        for correlation_id in range(1, count):
            await line.reply(correlation_id, large)
        answering.cancel()


async def test_a_lent_socket_is_closed_by_its_server() -> None:
    async with connected() as line:
        promise = Word()
        await line.remember(promise, is_lent=True)
        await line.server.stop(0)
        assert await read_to_end(line.reader) == b""
        assert promise.ends == 1
        assert line.server.stats.connections_open == 0
