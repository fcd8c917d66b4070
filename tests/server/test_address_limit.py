"""Connections of one address: those beyond the limit are refused, over all listeners that share it, and others are not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from coordinator.adapters.server.close_log import LINES_AT_ONCE
from coordinator.adapters.server.contract import CloseReason
from coordinator.adapters.server.limits import AddressLimit
from coordinator.adapters.server.server import Server
from coordinator.operations.table import ApiTable
from tests.server.lines import Echo, read_to_end, until


async def test_an_address_has_no_more_connections_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    addresses = AddressLimit(2, "the.setting")
    servers = [Server(Echo(), ApiTable(), listener=name, addresses=addresses) for name in ("one", "two")]
    ports = [await server.start("127.0.0.1", 0) for server in servers]
    kept = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
    await until(lambda: sum(server.stats.connections_open for server in servers) == 2)
    for _ in range(LINES_AT_ONCE + 5):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        assert await read_to_end(reader) == b""
        writer.close()
    assert servers[0].stats.closed == {CloseReason.TOO_MANY: LINES_AT_ONCE + 5}
    lines = [one.getMessage() for one in caplog.records if "the.setting" in one.getMessage()]
    assert 0 < len(lines) <= LINES_AT_ONCE + 1
    _, writer = await asyncio.open_connection("127.0.0.1", ports[0], local_addr=("127.0.0.2", 0))
    await until(lambda: servers[0].stats.connections_open == 2)
    writer.close()
    kept[1][1].close()
    await until(lambda: servers[1].stats.connections_open == 0)
    kept.append(await asyncio.open_connection("127.0.0.1", ports[1]))
    await until(lambda: servers[1].stats.connections_open == 1)
    for _, one in kept:
        one.close()
    for server in servers:
        await server.stop(1_000)


def test_what_enters_and_leaves_is_counted() -> None:
    limit, inside, rng = AddressLimit(3, "x"), Counter[str](), random.Random(5)
    for _ in range(5_000):
        host = rng.choice(["10.0.0.1", "::1", "fe80::1%eth0", "?"])
        peer = f"{host}:{rng.randrange(65536)}"
        if inside[host] and rng.random() < 0.5:
            limit.leave(peer)
            inside[host] -= 1
        else:
            assert limit.enter(peer) == (inside[host] < 3)
            inside[host] = min(3, inside[host] + 1)
