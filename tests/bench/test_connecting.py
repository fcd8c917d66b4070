"""Sockets of the load on listeners of every kind: what was sent comes back, whole, and a wrong password says so."""

from __future__ import annotations

import asyncio
import select
import socket
from pathlib import Path

import pytest

from cli.bench.connecting import connect, read_all
from coordinator.adapters.server.contract import ServerLimits
from coordinator.client.routing.login import LoginRejected
from coordinator.protocol.framing import FrameReader, request_frame
from tests.server.lines import KEY, REMAINS_S, Echo, serving
from tests.server.secured import PASSWORD, USER, Place

SIZE = 3 * 1024 * 1024


def properties(place: Place, protocol: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "ssl.truststore.location": str(place.ca.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": password,
    }


def echo(port: int, given: dict[str, str]) -> bytes:
    """Send a large request, and read without blocking, as the load does."""
    opened = connect("127.0.0.1", port, given)
    try:
        opened.sendall(request_frame(KEY, 0, 5, "c", bytes(SIZE)))
        opened.setblocking(False)
        frames = FrameReader(2 * SIZE)
        while True:
            assert select.select([opened], [], [], REMAINS_S)[0]
            for frame in frames.feed(_read(opened)):
                return frame
    finally:
        opened.close()


def _read(opened: socket.socket) -> bytes:
    try:
        data = read_all(opened, 1 << 18)
    except BlockingIOError:
        return b""
    assert data, "the node hung up"
    return data


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_secured_socket_carries_the_load(protocol: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.listener(protocol) as security:
        async with serving(Echo(), ServerLimits(login_failure_delay_ms=0), security=security) as (_, port):
            answer = await asyncio.to_thread(echo, port, properties(place, protocol))
            assert answer.endswith(bytes(SIZE))
            if "SASL" in protocol:
                with pytest.raises(LoginRejected, match="user name or the password is wrong"):
                    await asyncio.to_thread(echo, port, properties(place, protocol, "wrong"))


async def test_a_plain_socket_needs_no_properties() -> None:
    async with serving(Echo()) as (_, port):
        assert (await asyncio.to_thread(echo, port, {})).endswith(bytes(SIZE))
