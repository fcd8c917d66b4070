"""CommitFile requests that were read together, through a connection and the dispatcher of a node."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coordinator.adapters.server.contract import CloseReason, ServerLimits
from coordinator.adapters.server.server import Server
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.core.commands import CommitFile
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import COMMIT_FILE
from coordinator.operations.partitions import LIST_OFFSETS
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.commit_file import BATCH, CommitFileBody, decode_commit_response, encode_commit_file
from coordinator.protocol.framing import FrameReader, read_correlation_id, reply_body, request_frame
from coordinator.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.app.topics import NOWHERE, ONE, SPREAD, dispatching
from tests.core.build import batch, commit
from tests.runtime.nodes import TIMEOUT_MS, Running
from tests.server.lines import REMAINS_S, serving, until

Answer = tuple[int, list[tuple[int, int]]]
"""Correlation id, and error and base offset of each batch."""


@asynccontextmanager
async def listening(limits: ServerLimits | None = None) -> AsyncIterator[tuple[Running, Dispatcher, Server, int]]:
    async with dispatching() as (started, dispatcher), serving(dispatcher, limits) as (server, port):
        yield started, dispatcher, server, port


def commit_frame(number: int, *places: tuple[bytes, int], timeout_ms: int = TIMEOUT_MS) -> bytes:
    """A request that commits a batch of three records to each of these partitions."""
    rows = commit("", [batch(partition, 3, topic_id=topic_id) for topic_id, partition in places]).batches.view(BATCH)
    body = encode_commit_file(CommitFileBody(f"file-{number}", 1, 1 << 20, [0, 1], rows, timeout_ms))
    return request_frame(COMMIT_FILE.key, 0, number, "client", body)


def read_frame_of(number: int, partitions: list[int]) -> bytes:
    topic = ListOffsetsTopic(
        topic_id=SPREAD, partitions=tuple(ListOffsetsPartition(partition_index=one, timestamp=-1) for one in partitions)
    )
    return request_frame(ApiKey.LIST_OFFSETS, 0, number, "client", encode(ListOffsetsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)))


async def replies(reader: asyncio.StreamReader, count: int) -> list[bytes]:
    frames, found = FrameReader(1 << 20), list[bytes]()
    async with asyncio.timeout(REMAINS_S):
        while len(found) < count and (data := await reader.read(1 << 16)):
            found += frames.feed(data)
    return found


def told(reply: bytes) -> Answer:
    results = decode_commit_response(reply, len(reply) - len(reply_body(reply))).results
    return read_correlation_id(reply), list(zip(results["error_code"].tolist(), results["base_offset"].tolist(), strict=True))


@pytest.mark.parametrize("pending_requests_max", [1, 3, 256])
async def test_commits_read_together_are_committed_and_answered_in_order(pending_requests_max: int) -> None:
    async with listening(ServerLimits(pending_requests_max=pending_requests_max)) as (_, dispatcher, server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        places = [[(ONE, 0)], [(ONE, 0)], [(SPREAD, 0)], [(SPREAD, 1)], [(SPREAD, 2), (SPREAD, 1)], [(SPREAD, 3)], [(ONE, 0)], []]
        frames = [commit_frame(number, *places[number]) for number in range(len(places))]
        late = commit_frame(8, (ONE, 0), timeout_ms=0)
        writer.write(b"".join([*frames, late, read_frame_of(9, [0, 1, 2, 3]), commit_frame(10, (ONE, 0))]))
        *answers, refused, read, last = await replies(reader, 11)
        assert [told(one) for one in answers] == [
            (0, [(0, 0)]), (1, [(0, 3)]), (2, [(0, 0)]), (3, [(0, 0)]), (4, [(0, 0), (0, 3)]), (5, [(0, 0)]), (6, [(0, 6)]), (7, []),
        ]  # fmt: skip
        assert told(refused) == (8, [(int(ErrorCode.INVALID_REQUEST), -1)])
        assert told(last) == (10, [(0, 9)])
        offsets = decode(ListOffsetsResponse, reply_body(read)).topics[0].partitions
        assert [one.offset for one in offsets] == [3, 6, 3, 3]
        assert dispatcher.answered == {
            (COMMIT_FILE.name, 0): 9, (COMMIT_FILE.name, int(ErrorCode.INVALID_REQUEST)): 1, (LIST_OFFSETS.name, 0): 1,
        }  # fmt: skip
        assert server.stats.requests == {COMMIT_FILE.key: 10, int(ApiKey.LIST_OFFSETS): 1}
        writer.close()


async def test_a_commit_that_waits_for_the_directory_holds_back_those_read_with_it() -> None:
    async with listening() as (_, _, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        unknown = commit_frame(1, (NOWHERE, 0))
        writer.write(b"".join([commit_frame(0, (ONE, 0)), unknown, commit_frame(2, (ONE, 0)), commit_frame(3, (SPREAD, 0))]))
        answers = [told(one) for one in await replies(reader, 4)]
        assert answers == [(0, [(0, 0)]), (1, [(int(ErrorCode.UNKNOWN_TOPIC_ID), -1)]), (2, [(0, 3)]), (3, [(0, 0)])]
        writer.close()


async def test_commits_before_a_malformed_one_are_committed() -> None:
    async with listening() as (_, _, server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        damaged = commit_frame(1, (ONE, 0))[4:-1]
        writer.write(commit_frame(0, (ONE, 0)) + len(damaged).to_bytes(4, "big") + damaged + commit_frame(2, (ONE, 0)))
        assert await replies(reader, 1) == []
        await until(lambda: server.stats.connections_open == 0)
        assert server.stats.closed == {CloseReason.MALFORMED: 1}
        await until(lambda: server.stats.replies_too_late == 1)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(commit_frame(3, (ONE, 0)))
        assert [told(one) for one in await replies(reader, 1)] == [(3, [(0, 3)])]
        writer.close()


async def test_nothing_of_a_commit_is_left_to_the_collector_of_cycles() -> None:
    async with listening() as (_, _, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        gc.collect()
        before = _commands()
        gc.disable()
        try:
            writer.write(b"".join(commit_frame(number, (ONE, 0)) for number in range(5)))
            assert len(await replies(reader, 5)) == 5
            await until(lambda: _commands() <= before)
        finally:
            gc.enable()
        writer.close()


def _commands() -> int:
    return sum(isinstance(one, CommitFile) for one in gc.get_objects())
