"""The HTTP port: three paths, and clients that misbehave harm nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from coordinator.adapters.metrics import HttpServer, Metrics, Sample
from coordinator.adapters.metrics.http import CONNECTIONS_MAX, REQUEST_BYTES_MAX
from coordinator.config.values import HttpAddress


@asynccontextmanager
async def serving(
    ready: Callable[[], tuple[bool, Mapping[str, object]]] = lambda: (True, {}),
    metrics: Metrics | None = None,
    request_timeout_ms: int = 60_000,
) -> AsyncIterator[int]:
    server = HttpServer(HttpAddress("127.0.0.1", 0), ready=ready, metrics=metrics or Metrics(), request_timeout_ms=request_timeout_ms)
    address = await server.start()
    try:
        yield address.port
    finally:
        await server.stop()
        await server.stop()


async def ask(port: int, request: bytes, *, close_writing: bool = False) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if close_writing:
            writer.write_eof()
        async with asyncio.timeout(60):
            answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert status.startswith("HTTP/1.1 "), answer
    assert int(headers["content-length"]) == len(body)
    return int(status.split()[1]), headers, body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_healthy_does_not_ask_anybody() -> None:
    def never() -> tuple[bool, Mapping[str, object]]:
        raise AssertionError("healthy must not depend on readiness")

    async with serving(never) as port:
        assert (await ask(port, get("/healthy")))[::2] == (200, b'{"healthy": true}\n')


async def test_ready_tells_what_it_was_told() -> None:
    state: tuple[bool, Mapping[str, object]] = (False, {"partitions": {"3": "recovering"}})
    async with serving(lambda: state) as port:
        status, headers, body = await ask(port, get("/ready?verbose"))
        assert (status, headers["content-type"]) == (503, "application/json")
        assert json.loads(body) == {"ready": False, "partitions": {"3": "recovering"}}
        state = (True, {})
        assert (await ask(port, get("/ready")))[0] == 200


async def test_metrics_are_collected_at_each_scrape() -> None:
    metrics = Metrics()
    scrapes = 0

    def count() -> Iterable[Sample]:
        nonlocal scrapes
        scrapes += 1
        return [Sample("partitions", ("leading",), scrapes)]

    metrics.read_from(count)
    async with serving(metrics=metrics) as port:
        for expected in (b"1.0", b"2.0"):
            status, headers, body = await ask(port, get("/metrics"))
            assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
            assert b'diskless_coordinator_partitions{state="leading"} ' + expected in body


async def test_large_answer_is_whole_even_when_the_client_closed_its_side() -> None:
    metrics = Metrics()
    metrics.read_from(lambda: [Sample("log_end_offset", (n,), n) for n in range(50_000)])
    async with serving(metrics=metrics) as port:
        status, _headers, body = await ask(port, get("/metrics"), close_writing=True)
        assert status == 200
        assert body.count(b"log_end_offset{") == 50_000


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/metrics/x"), 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"\x00\x00\x00\x10\x00\x12\x00\x03garbage\r\n\r\n", 400),
        (b"GET /healthy\r\n\r\n", 400),
        (b"GET http://x/healthy HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthy HTTP/2\r\n\r\n", 400),
        (b"GET /healthy HTTP/1.1\r\nX: " + b"x" * (3 * REQUEST_BYTES_MAX), 431),
        (b"\xff" * (3 * REQUEST_BYTES_MAX), 431),
    ],
)
async def test_wrong_request_gets_its_status_and_the_port_lives(request_bytes: bytes, status: int) -> None:
    async with serving() as port:
        found, headers, _body = await ask(port, request_bytes)
        assert found == status
        assert headers["connection"] == "close"
        assert headers.get("allow") == ("GET" if status == 405 else None)
        assert (await ask(port, get("/healthy")))[0] == 200


async def test_a_body_is_not_read_and_not_parsed(caplog: pytest.LogCaptureFixture) -> None:
    body = b"[" * 50_000
    async with serving() as port:
        for method, status in ((b"POST", 405), (b"GET", 200)):
            head = b"%s /healthy HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (method, len(body))
            assert (await ask(port, head + body, close_writing=True))[0] == status
    assert not caplog.records


async def test_slow_request_is_given_up() -> None:
    async with serving(request_timeout_ms=50) as port:
        assert (await ask(port, b"GET /heal"))[0] == 408


async def test_client_that_leaves_early_harms_nobody() -> None:
    async with serving() as port:
        for _ in range(3):
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metr")
            writer.transport.abort()
        assert (await ask(port, get("/healthy")))[0] == 200


async def test_connections_are_bounded_and_who_says_nothing_gives_way_to_who_asks() -> None:
    async with serving() as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        for _ in range(3):
            assert (await ask(port, get("/healthy")))[0] == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            assert await silent[0][0].read() == b""  # the oldest
        writer.write(get("/healthy"))
        async with asyncio.timeout(60):
            assert b"200" in await reader.readline()
        for _reader, opened in [*silent, (reader, writer)]:
            opened.transport.abort()


async def test_clients_that_have_their_answer_and_do_not_close_give_way_first() -> None:
    async with serving() as port:
        silent = await asyncio.open_connection("127.0.0.1", port)
        lingering = []
        for _ in range(CONNECTIONS_MAX + 6):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(get("/healthy"))
            lingering.append((reader, writer))
            async with asyncio.timeout(60):
                assert b"200" in await reader.readline()
        for _ in range(3):
            assert (await ask(port, get("/healthy")))[0] == 200
        silent[1].write(get("/healthy"))
        async with asyncio.timeout(60):
            assert b"200" in await silent[0].readline()
        for _reader, opened in [silent, *lingering]:
            opened.transport.abort()


async def test_clients_that_do_not_read_their_answers_keep_no_probe_out() -> None:
    metrics = Metrics()
    metrics.read_from(lambda: [Sample("log_end_offset", (n,), n) for n in range(500)])
    async with serving(metrics=metrics) as port:
        deaf = []
        for _ in range(CONNECTIONS_MAX):
            with socket.socket() as unread:
                unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                unread.setblocking(False)
                await asyncio.get_running_loop().sock_connect(unread, ("127.0.0.1", port))
                deaf.append(unread.dup())
            deaf[-1].send(get("/metrics"))
        assert (await ask(port, get("/healthy")))[0] == 200
        for one in deaf:
            one.close()


async def test_failing_reader_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> tuple[bool, Mapping[str, object]]:
        raise RuntimeError("broken detail")

    with caplog.at_level(logging.ERROR):
        async with serving(failing) as port:
            assert (await ask(port, get("/ready")))[::2] == (500, b"failed, see the log\n")
            assert (await ask(port, get("/healthy")))[0] == 200
    assert "broken detail" in caplog.text


async def test_stop_ends_requests_under_way() -> None:
    async with serving(request_timeout_ms=60_000) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /he")
        await writer.drain()
    async with asyncio.timeout(60):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


async def test_taken_port_is_an_error() -> None:
    async with serving() as port:
        second = HttpServer(HttpAddress("127.0.0.1", port), ready=lambda: (True, {}), metrics=Metrics())
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()
