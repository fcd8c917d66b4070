"""FindBatches that waits: woken by what is committed, deleted or lost, and by nothing else."""

from __future__ import annotations

import asyncio
import random

import pytest

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.app.requests.long_polls import CROWDED_S
from coordinator.core.commands import DeletePoint, DeleteRecords, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.find_batches import FindBatchesBody, FoundPartition, decode_find_batches_response, encode_find_batches
from coordinator.runtime.files.rules import FileRules
from coordinator.runtime.replica.watches import Watch, Watches
from coordinator.security.acls import Everything
from coordinator.security.principal import ANONYMOUS, Principal
from simulation.fakes.state_store import MemoryStateStores
from tests.app.topics import ONE, SPREAD, dispatching
from tests.core.build import batch, commit, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.virtual_loop import lived
from tests.waiting import stays, until

LONG_MS = 50_000
Point = tuple[int, int]
"""Partition and offset."""


class Poll:
    """A request, and its answer when it has come."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *topics: tuple[bytes, list[Point]],
        min_bytes: int = 1,
        max_wait_ms: int = LONG_MS,
        connection_id: int = 1,
        bytes_max: int = 1 << 20,
        batches_max: int = 0,
        principal: Principal = ANONYMOUS,
    ) -> None:
        asked = [(topic_id, [(partition, offset, bytes_max) for partition, offset in points]) for topic_id, points in topics]
        body = encode_find_batches(FindBatchesBody(1 << 20, batches_max, asked, TIMEOUT_MS, min_bytes, max_wait_ms))
        self.bodies: list[bytes | None] = []
        key, peer = ApiKey.FIND_BATCHES, Peer(connection_id, "PLAINTEXT", "peer", principal)
        received_s = asyncio.get_running_loop().time()
        dispatcher.handle(IncomingRequest(key, 0, 1, "test", b"head" + body, 4, key, received_s, peer), self.bodies.append)

    @property
    def is_answered(self) -> bool:
        return bool(self.bodies)

    async def answer(self) -> list[tuple[int, list[int]]]:
        """(error, base offsets) of each partition."""
        await until(lambda: self.bodies, "an answer")
        return self.found

    @property
    def partitions(self) -> list[FoundPartition]:
        [body] = self.bodies
        assert body is not None
        return [one for _, partitions in decode_find_batches_response(body).topics for one in partitions]

    @property
    def found(self) -> list[tuple[int, list[int]]]:
        return [(one.error_code, [found[5] for found in one.batches]) for one in self.partitions]


class Writer:
    """Commits files, each of one batch for each of some partitions."""

    def __init__(self, started: Running) -> None:
        self._started = started
        self._files = 0

    async def write(self, *partitions: int, topic_id: bytes = SPREAD, count: int = 1) -> None:
        owners: dict[int, list[int]] = {}
        for partition in partitions:
            owner = self._started.node.view.owner_of(topic_id + partition.to_bytes(4, "big"))
            assert owner is not None
            owners.setdefault(owner, []).append(partition)
        for owner, mine in owners.items():
            self._files += 1
            batches = [batch(partition, count, topic_id=topic_id) for partition in mine]
            answer = await self._started.ask(owner, commit(f"long-{self._files}", batches, owner_ids=[owner]))
            assert result_of(answer).errors == [0] * len(mine)


async def test_a_poll_is_answered_when_something_comes_and_not_before() -> None:
    async with dispatching() as (started, dispatcher):
        writer, logs = Writer(started), started.kafka.logs
        poll = Poll(dispatcher, (SPREAD, [(0, 0), (1, 0), (2, 0)]))
        await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
        await writer.write(3)
        await writer.write(0, topic_id=ONE)
        entries = sum(log.end_offset for log in logs)
        await stays(lambda: not poll.is_answered, "the poll without an answer", 0.1)
        await writer.write(1)
        assert await poll.answer() == [(0, []), (0, [0]), (0, [])]
        assert [one.high_watermark for one in poll.partitions] == [0, 1, 0]
        # The poll itself has written nothing.
        assert sum(log.end_offset for log in logs) == entries + 1
        assert dispatcher.polls_waiting == 0
        assert await Poll(dispatcher, (SPREAD, [(1, 0)])).answer() == [(0, [0])]


async def test_a_poll_that_waits_looks_at_what_it_waits_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Watch] = []
    add = Watches.add
    monkeypatch.setattr(Watches, "add", lambda watches, watch, view: (watched.append(watch), add(watches, watch, view)))
    async with dispatching() as (started, dispatcher):
        Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]))
        await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
        waits = list(watched)
        await Writer(started).write(0, topic_id=ONE)
        [outcome] = await started.node.directory.delete_topics([ONE], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        await stays(lambda: watched == waits, "the poll to wait as it did", 0.1)


async def test_a_poll_ends_with_its_time() -> None:
    async with dispatching() as (started, dispatcher):
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]), max_wait_ms=100).answer() == [(0, []), (0, [])]
        assert loop.time() - began_s >= 0.1
        await Writer(started).write(0)
        assert await Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]), max_wait_ms=100, min_bytes=1 << 19).answer() == [(0, [0]), (0, [])]
        assert dispatcher.polls_waiting == 0


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(0, LONG_MS), (1, 0)])
async def test_without_bytes_or_time_to_wait_for_nothing_waits(min_bytes: int, max_wait_ms: int) -> None:
    async with dispatching() as (_, dispatcher):
        assert Poll(dispatcher, (SPREAD, [(0, 0)]), min_bytes=min_bytes, max_wait_ms=max_wait_ms).is_answered


@pytest.mark.parametrize(("min_bytes", "max_wait_ms"), [(-1, LONG_MS), (1, -1)])
async def test_negative_numbers_are_refused(min_bytes: int, max_wait_ms: int) -> None:
    async with dispatching() as (_, dispatcher):
        poll = Poll(dispatcher, (SPREAD, [(0, 0)]), min_bytes=min_bytes, max_wait_ms=max_wait_ms)
        assert poll.found == [(int(ErrorCode.INVALID_REQUEST), [])]


async def test_a_poll_waits_for_as_many_bytes_as_it_wants() -> None:
    async with dispatching() as (started, dispatcher):
        writer = Writer(started)
        await writer.write(0)
        [size] = [found[4] for found in Poll(dispatcher, (SPREAD, [(0, 0)])).partitions[0].batches]
        poll = Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]), min_bytes=3 * size)
        await writer.write(1)
        await stays(lambda: not poll.is_answered, "the poll without an answer", 0.1)
        await writer.write(1)
        assert await poll.answer() == [(0, [0]), (0, [0, 1])]


async def test_a_poll_does_not_wait_for_more_than_an_answer_holds() -> None:
    async with dispatching() as (started, dispatcher):
        writer = Writer(started)
        for _ in range(3):
            await writer.write(0)
        assert await Poll(dispatcher, (SPREAD, [(0, 0)]), min_bytes=1 << 19, batches_max=2).answer() == [(0, [0, 1])]
        assert await Poll(dispatcher, (SPREAD, [(0, 0)]), min_bytes=1 << 19, bytes_max=1).answer() == [(0, [0])]


async def test_deletions_end_polls() -> None:
    async with dispatching() as (started, dispatcher):
        writer = Writer(started)
        for _ in range(2):
            await writer.write(0)
        behind = Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]), min_bytes=1 << 19)
        at_end = Poll(dispatcher, (SPREAD, [(0, 2), (2, 0)]), connection_id=2)
        other = Poll(dispatcher, (ONE, [(0, 0)]), connection_id=3)
        await until(lambda: dispatcher.polls_waiting == 3, "the polls to wait")
        owner = started.node.view.owner_of(SPREAD + bytes(4))
        assert owner is not None
        await started.node.replicas[owner].ask(DeleteRecords(points=[DeletePoint(topic_id=SPREAD, partition=0, offset=1)]), TIMEOUT_MS)
        assert await behind.answer() == [(int(ErrorCode.OFFSET_OUT_OF_RANGE), []), (0, [])]
        await stays(lambda: not at_end.is_answered, "a poll at the end without an answer", 0.1)
        [outcome] = await started.node.directory.delete_topics([SPREAD], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        assert {error for error, _ in await at_end.answer()} <= {int(ErrorCode.UNKNOWN_TOPIC_ID), 0}
        assert int(ErrorCode.UNKNOWN_TOPIC_ID) in {error for error, _ in at_end.found}
        assert not other.is_answered
        await writer.write(0, topic_id=ONE)
        assert await other.answer() == [(0, [0])]


async def test_a_replica_that_fails_ends_its_polls() -> None:
    async with dispatching() as (started, dispatcher):
        poll = Poll(dispatcher, (ONE, [(0, 0)]))
        await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
        owner = started.node.view.owner_of(ONE + bytes(4))
        assert owner is not None
        started.node.replicas[owner].invalidate("injected")
        [(error, _)] = await poll.answer()
        assert error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_the_end_of_the_node_ends_polls() -> None:
    async with dispatching() as (started, dispatcher):
        poll = Poll(dispatcher, (SPREAD, [(0, 0)]))
        await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
        await started.node.stop(hand_over=False)
        [(error, _)] = await poll.answer()
        assert error


async def test_the_end_of_a_connection_ends_its_polls_alone() -> None:
    async with dispatching() as (started, dispatcher):
        gone, stays_on = Poll(dispatcher, (SPREAD, [(0, 0)])), Poll(dispatcher, (SPREAD, [(0, 0)]), connection_id=2)
        await until(lambda: dispatcher.polls_waiting == 2, "the polls to wait")
        dispatcher.gone(Peer(1, "PLAINTEXT", "peer", ANONYMOUS))
        assert dispatcher.polls_waiting == 1
        assert gone.is_answered
        await Writer(started).write(0)
        assert await stays_on.answer() == [(0, [0])]
        dispatcher.gone(Peer(1, "PLAINTEXT", "peer", ANONYMOUS))


async def test_another_request_of_its_connection_ends_a_poll() -> None:
    async with dispatching() as (started, dispatcher):
        first, other = Poll(dispatcher, (SPREAD, [(0, 0)])), Poll(dispatcher, (SPREAD, [(0, 0)]), connection_id=2)
        second = Poll(dispatcher, (SPREAD, [(1, 0)]))
        assert await first.answer() == [(0, [])]
        await stays(lambda: not (second.is_answered or other.is_answered), "the other polls without an answer", 0.1)
        writer = Writer(started)
        await writer.write(0, 1)
        assert await second.answer() == [(0, [0])]
        assert await other.answer() == [(0, [0])]
        assert dispatcher.polls_waiting == 0


async def test_polls_that_are_too_many_are_answered_after_a_pause() -> None:
    async with dispatching() as (started, _):
        dispatcher, writer = Dispatcher(started.node, Metrics(), Everything(), poll_points_max=3), Writer(started)
        first = Poll(dispatcher, (SPREAD, [(0, 0), (1, 0)]))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        crowded = Poll(dispatcher, (SPREAD, [(2, 0), (3, 0)]), connection_id=2)
        await writer.write(2)
        assert await crowded.answer() == [(0, [0]), (0, [])]
        assert loop.time() - began_s >= CROWDED_S
        assert not first.is_answered
        last = Poll(dispatcher, (SPREAD, [(3, 0)]), connection_id=3)
        await writer.write(3)
        assert await last.answer() == [(0, [0])]
        await dispatcher.close()


async def test_a_replica_that_does_not_lead_wakes_its_polls_and_waits_for_what_others_have_read() -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores(), name="1") as leader:
        await leader.leads()
        async with running(kafka, MemoryStateStores(), name="2", node_id=2) as standby:
            await leader.node.directory.create_topics([WantedTopic(topic_id=SPREAD, name="spread", num_partitions=4)], TIMEOUT_MS)
            await until(lambda: standby.node.view.owner_of(SPREAD + bytes(4)) is not None, "the topic at the standby")
            await until(lambda: standby.node.replicas[0].freshness.is_sufficient, "a fresh standby")
            dispatcher = Dispatcher(standby.node, Metrics(), Everything())
            poll, ahead = Poll(dispatcher, (SPREAD, [(0, 0)])), Poll(dispatcher, (SPREAD, [(0, 1)]), connection_id=2)
            await until(lambda: dispatcher.polls_waiting == 2, "the polls to wait")
            writer = Writer(leader)
            await writer.write(0)
            assert await poll.answer() == [(0, [0])]
            await stays(lambda: not ahead.is_answered, "a poll ahead without an answer", 0.1)
            await writer.write(0)
            assert await ahead.answer() == [(0, [1])]
            short = Poll(dispatcher, (SPREAD, [(0, 9)]), max_wait_ms=100)
            assert await short.answer() == [(int(ErrorCode.OFFSET_NOT_AVAILABLE), [])]
            await dispatcher.close()
        leads = Dispatcher(leader.node, Metrics(), Everything())
        assert await Poll(leads, (SPREAD, [(0, 9)])).answer() == [(int(ErrorCode.OFFSET_OUT_OF_RANGE), [])]
        await leads.close()


def test_a_replica_that_sees_no_end_of_its_log_ends_its_polls() -> None:
    async def story() -> None:
        kafka = in_memory(partitions=1)
        async with running(kafka, MemoryStateStores(), files=FileRules(delete_grace_ms=600)) as started:
            await started.leads()
            [outcome] = await started.node.directory.create_topics([WantedTopic(topic_id=ONE, name="one", num_partitions=1)], TIMEOUT_MS)
            assert outcome.error is ErrorCode.NONE
            dispatcher = Dispatcher(started.node, Metrics(), Everything())
            poll = Poll(dispatcher, (ONE, [(0, 0)]), max_wait_ms=10 * LONG_MS)
            await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
            kafka.is_available = False
            await until(lambda: dispatcher.polls_waiting == 0, "the poll to wait no longer")
            kafka.is_available = True
            await dispatcher.close()
            assert not poll.is_answered or poll.found[0][0] in (0, int(ErrorCode.OFFSET_NOT_AVAILABLE))

    lived(story())


@pytest.mark.parametrize("seed", range(8))
async def test_no_poll_sleeps_while_there_is_what_it_waits_for(seed: int) -> None:
    rng = random.Random(seed)
    ends = [0] * 4
    async with dispatching() as (started, dispatcher):
        writer, polls = Writer(started), list[tuple[Poll, list[Point]]]()

        async def write() -> None:
            partitions = rng.sample(range(4), rng.randint(1, 3))
            await writer.write(*partitions)
            for partition in partitions:
                ends[partition] += 1

        for number in range(60):
            kind = rng.random()
            if kind < 0.55:
                points = [(partition, ends[partition]) for partition in rng.sample(range(4), rng.randint(1, 4))]
                polls.append((Poll(dispatcher, (SPREAD, points), connection_id=number), points))
            elif kind < 0.9:
                await write()
            else:
                await asyncio.gather(write(), write())
            if rng.random() < 0.3:
                await asyncio.sleep(0)
            if number % 10 == 9:
                for poll, points in polls:
                    if any(ends[partition] > offset for partition, offset in points):
                        assert any(bases for _, bases in await poll.answer())
                    else:
                        assert not poll.is_answered
        # Each answer holds all of what it names from the asked offset on, without a hole.
        for poll, points in polls:
            if poll.is_answered:
                for (_, offset), (error, bases) in zip(points, poll.found, strict=True):
                    assert (error, bases) == (0, list(range(offset, offset + len(bases))))
