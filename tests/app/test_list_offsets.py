"""ListOffsets through the dispatcher of a node: answered at once or by a task of its own, the bytes are those of the general codec."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import Request
from coordinator.api import partitions as partitions_api
from coordinator.api.topics import wanted_topics
from coordinator.app.dispatch import Dispatcher
from coordinator.core.commands import FoundOffset, OffsetQuery
from coordinator.core.errors import ErrorCode
from coordinator.protocol.api_table import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.list_offsets import encode_list_offsets_response
from coordinator.protocol.messages import (
    CreatablePartitions,
    CreatePartitionsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coordinator.protocol.wire import MalformedMessage
from coordinator.testing.state_store import MemoryStateStores
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

ONE, SPREAD, NOWHERE = (bytes([number]) * 16 for number in (1, 2, 3))
"""A topic of one partition, one whose partitions several coordinators own, and none."""
Found = list[tuple[int, int]]


@asynccontextmanager
async def serving(*, partitions: int = 2) -> AsyncIterator[tuple[Running, Dispatcher]]:
    async with running(in_memory(partitions=partitions), MemoryStateStores()) as started:
        await started.leads()
        topics = tuple(
            CreatablePartitions(topic_id=topic_id, name=name, num_partitions=count)
            for topic_id, name, count in ((ONE, "one", 1), (SPREAD, "spread", 4))
        )
        outcomes = await started.node.directory.create_topics(wanted_topics(CreatePartitionsRequest(topics=topics)), TIMEOUT_MS)
        assert [outcome.error for outcome in outcomes] == [ErrorCode.NONE] * 2
        dispatcher = Dispatcher(started.node, Metrics())
        try:
            yield started, dispatcher
        finally:
            await dispatcher.close()


def send(dispatcher: Dispatcher, key: ApiKey, body: bytes, *, connection_id: int = 1) -> asyncio.Future[bytes | None]:
    """Hand a request over as a connection does; its answer."""
    answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    head = b"head"
    dispatcher.handle(Request(key, 0, 1, "test", head + body, len(head), connection_id, key, 0.0, "PLAINTEXT", "peer"), answer.set_result)
    return answer


def asked(*topics: tuple[bytes, list[int]], timestamp: int = -1, timeout_ms: int = TIMEOUT_MS) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=tuple(
            ListOffsetsTopic(
                topic_id=topic_id, partitions=tuple(ListOffsetsPartition(partition_index=one, timestamp=timestamp) for one in partitions)
            )
            for topic_id, partitions in topics
        ),
        timeout_ms=timeout_ms,
    )


async def found(answer: asyncio.Future[bytes | None]) -> list[tuple[bytes, Found]]:
    """(topic id, (error, offset) per partition index) as a client reads it."""
    async with asyncio.timeout(TIMEOUT_MS / 1000):
        body = await answer
    assert body is not None
    response = decode(ListOffsetsResponse, body)
    assert encode(response) == body
    for topic in response.topics:
        assert all((one.error_message is None) == (one.error_code == 0) for one in topic.partitions)
    return [(topic.topic_id, [(one.error_code, one.offset) for one in topic.partitions]) for topic in response.topics]


async def test_what_one_coordinator_owns_and_what_several_own_is_answered_alike() -> None:
    async with serving() as (started, dispatcher):
        owners = {started.node.view.owner_of(SPREAD + index.to_bytes(4, "big")) for index in range(4)}
        assert len(owners) == 2
        unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]
        many = asked((SPREAD, [3, 1, 9]), (NOWHERE, [0]), (ONE, [0, 0]), (ONE, []))
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(many))) == [
            (SPREAD, [(0, 0), (0, 0), (unknown, -1)]),
            (NOWHERE, [(int(ErrorCode.UNKNOWN_TOPIC_ID), -1)]),
            (ONE, [(0, 0), (0, 0)]),
            (ONE, []),
        ]
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked()))) == []
        assert dispatcher.answered == {("LIST_OFFSETS", 0): 2, ("LIST_OFFSETS", unknown): 1}


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_request_without_time_is_refused(timeout_ms: int) -> None:
    async with serving() as (_, dispatcher):
        answer = send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((SPREAD, [0, 1]), timeout_ms=timeout_ms)))
        assert await found(answer) == [(SPREAD, [(int(ErrorCode.INVALID_REQUEST), -1)] * 2)]


async def test_a_replica_that_does_not_lead_says_so() -> None:
    async with serving() as (started, dispatcher):
        owner = started.node.view.owner_of(ONE + bytes(4))
        assert owner is not None
        started.node.replicas[owner].set_assigned(False)
        started.node.replicas[owner].invalidate("injected")
        [(_, [(error, offset)])] = await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))))
        assert error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert offset == -1


async def test_reads_that_arrive_together_share_the_proof_of_leadership() -> None:
    async with serving(partitions=1) as (started, dispatcher):
        before = started.kafka.logs[0].end_offset
        answers = [send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))), connection_id=number) for number in range(16)]
        assert [await found(answer) for answer in answers] == [[(ONE, [(0, 0)])]] * 16
        assert started.kafka.logs[0].end_offset == before + 1


async def test_a_read_waits_for_what_stands_before_it_in_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    point = DeleteRecordsTopic(topic_id=ONE, partitions=(DeleteRecordsPartition(partition_index=0, offset=-1),))
    async with serving() as (started, dispatcher):
        router = started.node.router
        ask, asked_after_the_deletion = router.list_offsets_here, []

        def note(queries: list[OffsetQuery], timeout_ms: int, respond: Callable[[list[FoundOffset]], None]) -> bool:
            asked_after_the_deletion.append(deletion.done())
            return ask(queries, timeout_ms, respond)

        monkeypatch.setattr(router, "list_offsets_here", note)
        deletion = send(dispatcher, ApiKey.DELETE_RECORDS, encode(DeleteRecordsRequest(topics=(point,), timeout_ms=TIMEOUT_MS)))
        reads = [send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))) for _ in range(2)]
        assert [await found(read) for read in reads] == [[(ONE, [(0, 0)])]] * 2
        assert asked_after_the_deletion == [True, True]


async def test_a_request_that_fails_closes_its_connection_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_queries: list[OffsetQuery], _timeout_ms: int) -> list[FoundOffset]:
        raise LookupError("injected")

    async with serving() as (started, dispatcher):
        monkeypatch.setattr(started.node.router, "list_offsets", fail)
        assert await send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((NOWHERE, [0])))) is None
        assert dispatcher.answered == {("LIST_OFFSETS", int(ErrorCode.UNKNOWN_SERVER_ERROR)): 1}
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]


async def test_an_answer_that_cannot_be_written_closes_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (started, dispatcher):
        with monkeypatch.context() as patched:
            patched.setattr(partitions_api, "list_offsets_body", lambda *_: encode_list_offsets_response([(b"short", [])]))
            assert await send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))) is None
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]
        assert started.node.view.led() == [0, 1]


async def test_damaged_bytes_are_refused_before_anything_is_asked() -> None:
    async with serving() as (_, dispatcher):
        with pytest.raises(MalformedMessage):
            send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))[:-1])
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]
