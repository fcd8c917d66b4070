"""A client that was given the address of something else is told so at once, and not when its time is over."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from coordinator.client.client import DisklessClient
from coordinator.client.errors import InvalidRequest
from tests.client.scripted import scripted
from tests.client.strangers import API_VERSIONS, Answer, as_broker, as_http, as_patient_http, listening
from tests.client.test_client import TOPIC

SOON_S = 30.0
"""Far less than these clients would try."""


async def as_whole_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hang up on requests that Kafka does not know, as Kafka does."""
    head = await reader.readexactly(6)
    if struct.unpack(">ih", head)[1] == API_VERSIONS:
        again = asyncio.StreamReader()
        again.feed_data(head)
        again.feed_data(await reader.readexactly(struct.unpack_from(">i", head)[0] - 2))
        again.feed_eof()
        await as_broker(again, writer)
    else:
        writer.close()


@pytest.mark.parametrize(
    ("server", "said"),
    [(as_whole_broker, "is a Kafka broker, not a Diskless"), (as_http, "is an HTTP port"), (as_patient_http, "is an HTTP port")],
)
async def test_another_server_is_told_at_once(server: Answer, said: str) -> None:
    async with listening(server) as port, DisklessClient(f"127.0.0.1:{port}", api_timeout_ms=600_000) as client:
        start_s = time.monotonic()
        with pytest.raises(InvalidRequest, match=said):
            await client.admin.list_topics()
        with pytest.raises(InvalidRequest, match=said):
            await client.describe_topic("orders")
        with pytest.raises(InvalidRequest, match=said):
            await client.admin.create_topic("orders", 3)
        assert time.monotonic() - start_s < SOON_S


async def test_one_wrong_address_does_not_end_what_others_may_answer() -> None:
    async with scripted(nodes=1, coordinators=1) as cluster, listening(as_whole_broker) as port:
        cluster.add_topic(TOPIC, "t", 1)
        async with DisklessClient([f"127.0.0.1:{port}", *cluster.addresses]) as client:
            assert (await client.describe_topic("t")).topic_id == TOPIC
