"""The HTTP port with TLS and tokens: what is shown to whom, certificates that change, and clients that do not finish a handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from coordinator.adapters.metrics import HttpServer, Metrics
from coordinator.adapters.metrics.http import CONNECTIONS_MAX
from coordinator.app.security.http import HttpSecurity
from coordinator.config.load import load_settings
from coordinator.config.values import HttpAddress
from coordinator.runtime.failures import FatalError
from simulation.fakes.certificates import Authority
from tests.waiting import attempts

TOKEN = "0123456789abcdef"
ESSENTIAL = {"node.id": "1", "bootstrap.servers": "k:9092", "data.dirs": "/tmp/d", "object.store.url": "memory://"}
WAIT_S = 60.0


def security(folder: Path, authority: Authority | None = None, token: str | None = None, **more: str) -> HttpSecurity:
    given = ESSENTIAL | more
    if authority is not None:
        both = str(authority.issue("node"))
        given |= {"http.listener": "https://127.0.0.1:0", "http.ssl.certificate.location": both, "http.ssl.key.location": both}
    if token is not None:
        file = folder / "token"
        file.write_text(token)
        given |= {"http.bearer.token.file": str(file)}
    return HttpSecurity(load_settings(overrides=given))


@asynccontextmanager
async def serving(made: HttpSecurity, *, is_ready_open: bool = True, timeout_ms: int = 60_000) -> AsyncIterator[int]:
    server = HttpServer(
        HttpAddress("127.0.0.1", 0),
        ready=lambda: (True, {"leading": [3]}),
        metrics=Metrics(),
        request_timeout_ms=timeout_ms,
        tls=made.context,
        admit=None if made.tokens is None else made.tokens.admit,
        is_ready_open=is_ready_open,
        settings=[{"key": "node.id", "value": "7", "source": "default"}],
    )
    address = await server.start()
    try:
        yield address.port
    finally:
        await server.stop()


async def ask(port: int, path: str, *, token: str = "", trust: Authority | None = None) -> tuple[int, bytes]:
    context = None if trust is None else ssl.create_default_context(cafile=trust.ca_file)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{authorization}\r\n".encode())
    async with asyncio.timeout(WAIT_S):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head + b"\r\n"
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ("path", "token", "is_ready_open", "status", "shown"),
    [
        ("/metrics", "", True, 401, b"Authorization: Bearer"),
        ("/metrics", "wrong" * 4, True, 401, b"Authorization: Bearer"),
        ("/metrics", TOKEN, True, 200, b"diskless_coordinator_"),
        ("/config", "", True, 401, b"Authorization: Bearer"),
        ("/config", TOKEN, True, 200, b'{"settings": [{"key": "node.id", "value": "7", "source": "default"}]}\n'),
        ("/healthy", "", False, 200, b"healthy"),
        ("/ready", "", True, 200, b'{"ready": true}\n'),
        ("/ready", TOKEN, True, 200, b"leading"),
        ("/ready", "", False, 401, b"Authorization: Bearer"),
        ("/ready", TOKEN, False, 200, b"leading"),
    ],
)
async def test_who_has_no_token_sees_health_and_nothing_else(
    tmp_path: Path, path: str, token: str, is_ready_open: bool, status: int, shown: bytes
) -> None:
    async with serving(security(tmp_path, token=TOKEN), is_ready_open=is_ready_open) as port:
        found, body = await ask(port, path, token=token)
    assert (found, shown in body) == (status, True)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_whole_answer_comes_through_tls(tmp_path: Path, run: Callable[..., None]) -> None:
    authority = Authority(tmp_path)

    async def look() -> None:
        async with serving(security(tmp_path, authority, TOKEN)) as port:
            for _ in range(3):
                status, body = await ask(port, "/metrics", token=TOKEN, trust=authority)
                assert (status, body[-1:]) == (200, b"\n")

    run(look())


async def test_a_certificate_that_changes_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    first = Authority(tmp_path, "first")
    made = security(tmp_path, first)
    async with serving(made) as port:
        assert (await ask(port, "/healthy", trust=first))[0] == 200
        second = Authority(tmp_path, "second")
        second.issue("node")
        following = asyncio.create_task(made.follow(0.01))
        async for _ in attempts("the second certificate"):
            with suppress(ssl.SSLError):
                assert (await ask(port, "/healthy", trust=second))[0] == 200
                break
        following.cancel()
        with pytest.raises(ssl.SSLError):
            await ask(port, "/healthy", trust=first)


async def test_plain_text_half_handshakes_and_wrong_authorities_harm_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(security(tmp_path, authority), timeout_ms=500) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        reader, writer = silent[0]
        writer.write(b"GET /healthy HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            assert b"200" not in await reader.read()  # no answer in plain text
            for one, _ in silent[1:]:
                assert await one.read() == b""  # a handshake that does not come ends by its time
        with pytest.raises(ssl.SSLError):
            await ask(port, "/healthy", trust=Authority(tmp_path, "other"))
        assert (await ask(port, "/healthy", trust=authority))[0] == 200
        for _, writing in silent:
            writing.close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"http.bearer.token.file": "/does/not/exist"}, "http.bearer.token.file /does/not/exist: No such file"),
        (
            {
                "http.listener": "https://127.0.0.1:0",
                "http.ssl.certificate.location": "/does/not/exist",
                "http.ssl.key.location": "/does/not/exist",
            },
            "ssl.certificate.location and ssl.key.location /does/not/exist",
        ),
    ],
    ids=["token", "certificate"],
)
def test_files_that_are_not_usable_end_the_start_with_their_name(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    with pytest.raises(FatalError, match="No such file") as raised:
        HttpSecurity(load_settings(overrides=ESSENTIAL | changed))
    assert told in str(raised.value)
