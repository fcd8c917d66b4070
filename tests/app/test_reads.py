"""ListOffsets and FindBatches through the dispatcher of a node: answered at once or by a task, in the bytes of the general codec."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.app.requests import reads
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.core.commands import FoundOffset, OffsetQuery
from coordinator.kafka.errors import ErrorCode
from coordinator.operations import partitions as partitions_api
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.list_offsets import encode_list_offsets_response
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import ANONYMOUS
from tests.app.topics import NOWHERE, ONE, SPREAD, dispatching
from tests.core.build import batch, commit, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running

Found = list[tuple[int, int]]


def send(dispatcher: Dispatcher, key: ApiKey, body: bytes, *, connection_id: int = 1) -> asyncio.Future[bytes | None]:
    """Hand a request over as a connection does; its answer."""
    answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    head = b"head"
    dispatcher.handle(
        IncomingRequest(key, 0, 1, "test", head + body, len(head), key, 0.0, Peer(connection_id, "PLAINTEXT", "peer", ANONYMOUS)),
        answer.set_result,
    )
    return answer


def asked(*topics: tuple[bytes, list[int]], timestamp: int = -1, timeout_ms: int = TIMEOUT_MS) -> m.ListOffsetsRequest:
    return m.ListOffsetsRequest(
        topics=tuple(
            m.ListOffsetsTopic(
                topic_id=topic_id, partitions=tuple(m.ListOffsetsPartition(partition_index=one, timestamp=timestamp) for one in partitions)
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
    response = decode(m.ListOffsetsResponse, body)
    assert encode(response) == body
    for topic in response.topics:
        assert all((one.error_message is None) == (one.error_code == 0) for one in topic.partitions)
    return [(topic.topic_id, [(one.error_code, one.offset) for one in topic.partitions]) for topic in response.topics]


async def test_what_one_coordinator_owns_and_what_several_own_is_answered_alike() -> None:
    async with dispatching() as (started, dispatcher):
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
    async with dispatching() as (_, dispatcher):
        answer = send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((SPREAD, [0, 1]), timeout_ms=timeout_ms)))
        assert await found(answer) == [(SPREAD, [(int(ErrorCode.INVALID_REQUEST), -1)] * 2)]


async def test_a_replica_that_does_not_lead_says_so() -> None:
    async with dispatching() as (started, dispatcher):
        owner = started.node.view.owner_of(ONE + bytes(4))
        assert owner is not None
        started.node.replicas[owner].set_assigned(False)
        started.node.replicas[owner].invalidate("injected")
        [(_, [(error, offset)])] = await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))))
        assert error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert offset == -1


async def test_reads_that_arrive_together_share_the_proof_of_leadership() -> None:
    async with dispatching(partitions=1) as (started, dispatcher):
        before = started.kafka.logs[0].end_offset
        answers = [send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))), connection_id=number) for number in range(16)]
        assert [await found(answer) for answer in answers] == [[(ONE, [(0, 0)])]] * 16
        assert started.kafka.logs[0].end_offset == before + 1


async def test_a_read_waits_for_what_stands_before_it_in_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    point = m.DeleteRecordsTopic(topic_id=ONE, partitions=(m.DeleteRecordsPartition(partition_index=0, offset=-1),))
    async with dispatching() as (started, dispatcher):
        router = started.node.router
        ask, asked_after_the_deletion = router.list_offsets_here, []

        def note(queries: list[OffsetQuery], timeout_ms: int, respond: Callable[[list[FoundOffset]], None]) -> bool:
            asked_after_the_deletion.append(deletion.done())
            return ask(queries, timeout_ms, respond)

        monkeypatch.setattr(router, "list_offsets_here", note)
        deletion = send(dispatcher, ApiKey.DELETE_RECORDS, encode(m.DeleteRecordsRequest(topics=(point,), timeout_ms=TIMEOUT_MS)))
        listed = [send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))) for _ in range(2)]
        assert [await found(read) for read in listed] == [[(ONE, [(0, 0)])]] * 2
        assert asked_after_the_deletion == [True, True]


async def test_a_request_that_fails_closes_its_connection_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_queries: list[OffsetQuery], _timeout_ms: int) -> list[FoundOffset]:
        raise LookupError("injected")

    async with dispatching() as (started, dispatcher):
        monkeypatch.setattr(started.node.router, "list_offsets", fail)
        assert await send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((NOWHERE, [0])))) is None
        assert dispatcher.answered == {("LIST_OFFSETS", int(ErrorCode.UNKNOWN_SERVER_ERROR)): 1}
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]


async def test_an_answer_that_cannot_be_written_closes_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dispatching() as (started, dispatcher):
        with monkeypatch.context() as patched:
            patched.setattr(partitions_api, "encode_list_offsets_response", lambda _: encode_list_offsets_response([(b"short", [])]))
            assert await send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))) is None
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]
        assert started.node.replicas.led() == [0, 1]


async def test_damaged_bytes_are_refused_before_anything_is_asked() -> None:
    async with dispatching() as (_, dispatcher):
        with pytest.raises(MalformedMessage):
            send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0])))[:-1])
        assert await found(send(dispatcher, ApiKey.LIST_OFFSETS, encode(asked((ONE, [0]))))) == [(ONE, [(0, 0)])]


# ---- FindBatches


def wanted(*topics: tuple[bytes, list[tuple[int, int]]], timeout_ms: int = TIMEOUT_MS, batches_max: int = 0) -> m.FindBatchesRequest:
    """(partition, offset) pairs per topic."""

    def partitions(points: list[tuple[int, int]]) -> tuple[m.FindBatchesPartition, ...]:
        return tuple(m.FindBatchesPartition(partition_index=at, offset=offset, max_partition_fetch_bytes=1 << 20) for at, offset in points)

    asked_of = tuple(m.FindBatchesTopic(topic_id=topic_id, partitions=partitions(points)) for topic_id, points in topics)
    return m.FindBatchesRequest(fetch_max_bytes=1 << 20, max_batches_per_partition=batches_max, topics=asked_of, timeout_ms=timeout_ms)


async def bases(answer: asyncio.Future[bytes | None]) -> list[list[tuple[int, list[int]]]]:
    """(error, base offsets) of each partition of each topic."""
    async with asyncio.timeout(TIMEOUT_MS / 1000):
        body = await answer
    assert body is not None
    response = decode(m.FindBatchesResponse, body)
    assert encode(response) == body
    return [[(one.error_code, [found.base_offset for found in one.batches]) for one in topic.partitions] for topic in response.topics]


async def fill(started: Running, topic_id: bytes, partition: int, counts: list[int]) -> None:
    owner = started.node.view.owner_of(topic_id + partition.to_bytes(4, "big"))
    assert owner is not None
    batches = [batch(partition, count, topic_id=topic_id) for count in counts]
    answer = await started.ask(owner, commit(f"k{partition}", batches, owner_ids=[owner]))
    assert result_of(answer).errors == [0] * len(counts)


async def test_batches_are_found_at_once_or_after_a_wait_and_are_the_same() -> None:
    async with dispatching() as (started, dispatcher):
        await fill(started, SPREAD, 0, [3, 2, 4])
        await fill(started, SPREAD, 1, [1])
        points = [(0, 3), (1, 0), (2, 0)]
        here = send(dispatcher, ApiKey.FIND_BATCHES, encode(wanted((SPREAD, points))))
        assert here.done()
        expected = [(0, [3, 5]), (0, [0]), (0, [])]
        assert await bases(here) == [expected]
        # The offset past the end and the unknown topic have to be waited for; so does the second of a round.
        past = send(dispatcher, ApiKey.FIND_BATCHES, encode(wanted((SPREAD, [*points, (0, 10)]), (NOWHERE, [(0, 0)]))))
        second = send(dispatcher, ApiKey.FIND_BATCHES, encode(wanted((SPREAD, points), batches_max=1)))
        assert not past.done()
        assert not second.done()
        assert await bases(past) == [[*expected, (int(ErrorCode.OFFSET_OUT_OF_RANGE), [])], [(int(ErrorCode.UNKNOWN_TOPIC_ID), [])]]
        assert await bases(second) == [[(0, [3]), (0, [0]), (0, [])]]
        name, error = "FIND_BATCHES", int(ErrorCode.OFFSET_OUT_OF_RANGE)
        assert dispatcher.answered == {(name, 0): 2, (name, error): 1}


async def test_the_whole_request_has_one_budget_of_bytes() -> None:
    async with dispatching() as (started, dispatcher):
        await fill(started, SPREAD, 0, [3, 2, 4])
        request = dataclasses.replace(wanted((SPREAD, [(0, 0), (0, 0)])), fetch_max_bytes=1)
        assert await bases(send(dispatcher, ApiKey.FIND_BATCHES, encode(request))) == [[(0, [0]), (0, [])]]


@pytest.mark.parametrize("request_", [wanted((SPREAD, [(0, 0)]), timeout_ms=0), wanted((SPREAD, [(0, 0)]), batches_max=-1)])
async def test_a_find_that_may_not_be_served_is_refused(request_: m.FindBatchesRequest) -> None:
    async with dispatching() as (_, dispatcher):
        assert await bases(send(dispatcher, ApiKey.FIND_BATCHES, encode(request_))) == [[(int(ErrorCode.INVALID_REQUEST), [])]]


async def test_a_find_that_fails_closes_its_connection_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dispatching() as (started, dispatcher):
        body = encode(wanted((SPREAD, [(0, 0)])))

        def fail(*_: object) -> None:
            raise LookupError("injected")

        with monkeypatch.context() as patched:
            patched.setattr(reads, "find_applied_batches", fail)
            assert await send(dispatcher, ApiKey.FIND_BATCHES, body) is None
        await asyncio.sleep(0)
        assert send(dispatcher, ApiKey.FIND_BATCHES, body).done()
        with monkeypatch.context() as patched:
            patched.setattr(started.node.router, "find_batches", fail)
            assert await send(dispatcher, ApiKey.FIND_BATCHES, body) is None
        assert await bases(send(dispatcher, ApiKey.FIND_BATCHES, body)) == [[(0, [])]]
