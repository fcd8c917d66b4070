"""Keys of tokens that come from an authority which answers with anything: the last keys hold, and nothing else is raised."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator.security.login import LoginFailed
from coordinator.security.token_keys import TokenKeys, parse_keys
from coordinator.security.tokens import TOKEN_BYTES_MAX, TokenCheck, TokenLogin, TokenRules
from simulation.fakes.certificates import Authority


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(max_workers=1) as made:
        yield made


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"keys": 1}', '{"keys": [1]}', "[" * 200_000])
def test_what_is_no_document_of_keys_is_a_value_error(document: str) -> None:
    with pytest.raises(ValueError, match=r"JWKS|no key|Expecting value"):
        parse_keys(document)


@pytest.mark.parametrize(
    "answer",
    [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n"],
    ids=["nothing", "no HTTP", "cut off", "too many headers"],
)
async def test_an_authority_that_answers_rubbish_gives_no_keys_and_breaks_nothing(
    answer: bytes, tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, asked = Authority(tmp_path), asyncio.Event()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("keys"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        keys = TokenKeys(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys", executor)
        with pytest.raises(LoginFailed, match="a key that is not known"):
            await keys.find("any")
    assert asked.is_set()


@pytest.mark.parametrize("text", ["[" * 40_000, '{"alg":' * 6_000, "[" * 40_000 + "1" * 5_000])
async def test_a_token_of_nested_brackets_is_not_valid(text: str, tmp_path: Path, executor: Executor) -> None:
    part = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
    login = TokenLogin(TokenCheck(TokenKeys((tmp_path / "keys").as_uri(), executor), TokenRules()))
    for token in (f"{part}.e30.e30", f"{part}.{part}.{part}"[: TOKEN_BYTES_MAX - 1]):
        with pytest.raises(LoginFailed, match="the token is not valid"):
            await login.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
