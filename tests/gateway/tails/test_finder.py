"""Readers at the ends of partitions, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from coordinator.client.errors import ClientClosed
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.batches import BATCH, BatchArray
from coordinator.kafka.errors import ErrorCode
from gateway.tails.finder import Tails
from gateway.tails.tail import LIVE_S
from tests.gateway.tails.scripted_log import BATCH_BYTES, ScriptedCoordinators
from tests.virtual_loop import lived
from tests.waiting import virtual_time

TOPIC = bytes([5] * 16)
MORE = 1 << 20
SOON_S = 0.1
"""Within this virtual time a reader has what was committed: two ways over the network, and the pauses of lanes."""


Finding = Coroutine[Any, Any, list[PartitionBatches]]


def partition(index: int) -> PartitionId:
    return PartitionId(TOPIC, index)


class Scene:
    def __init__(self, nodes: int = 1) -> None:
        self.coordinators = ScriptedCoordinators()
        self.tails = Tails(self.coordinators, lambda one: one.partition % nodes)
        self.now_s = asyncio.get_running_loop().time

    def ask(self, *points: tuple[int, int], min_bytes: int = 1, max_bytes: int = MORE, max_wait_ms: int = 500) -> Finding:
        fetches = [FetchFrom(partition(index), offset, MORE) for index, offset in points]
        return self.tails.find(fetches, min_bytes=min_bytes, max_bytes=max_bytes, max_wait_ms=max_wait_ms)

    def find(self, *points: tuple[int, int], **wanted: int) -> asyncio.Task[list[PartitionBatches]]:
        return asyncio.get_running_loop().create_task(self.ask(*points, **wanted))

    async def at_end(self, *indexes: int, max_wait_ms: int = 500) -> asyncio.Task[list[PartitionBatches]]:
        """A reader that waits at the ends of partitions."""
        ends = [(index, self.coordinators.log(partition(index)).end) for index in indexes]
        waiting = self.find(*ends, max_wait_ms=max_wait_ms)
        await virtual_time(0.05)
        assert not waiting.done()
        return waiting


def live(story: Callable[[Scene], Coroutine[Any, Any, None]], nodes: int = 1) -> None:
    async def run() -> None:
        scene = Scene(nodes)
        try:
            await story(scene)
        finally:
            await scene.tails.close()

    lived(run())


def bases(found: list[PartitionBatches]) -> list[list[int]]:
    return [[one.base_offset for one in each.batches] for each in found]


def rows_of(*batches: tuple[int, int, int]) -> BatchArray:
    """Rows of a file: (partition, records, timestamp type)."""
    rows = np.zeros(len(batches), BATCH)
    for row, (index, records, kind) in enumerate(batches):
        rows[row]["topic_partition"] = np.void(partition(index).key)
        rows[row]["byte_offset"], rows[row]["size"] = row * BATCH_BYTES, BATCH_BYTES
        rows[row]["last_offset"], rows[row]["timestamp_type"] = records - 1, kind
    return rows


def test_a_reader_below_the_end_is_answered_at_once() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            scene.coordinators.append(partition(0))
        began_s = scene.now_s()
        assert bases(await scene.find((0, 1))) == [[1, 2]]
        assert scene.now_s() - began_s < 0.01
        assert scene.tails.followed == 0

    live(story)


def test_a_reader_at_an_end_is_woken_by_what_others_commit() -> None:
    async def story(scene: Scene) -> None:
        scene.coordinators.append(partition(0))
        waiting = await scene.at_end(0, 1)
        committed_s = scene.now_s()
        scene.coordinators.append(partition(1), 5)
        found = await waiting
        assert bases(found) == [[], [0]]
        assert [one.high_watermark for one in found] == [1, 5]
        assert scene.now_s() - committed_s < 0.005

    live(story)


def test_a_reader_at_an_end_is_answered_when_its_time_is_over() -> None:
    async def story(scene: Scene) -> None:
        began_s = scene.now_s()
        assert bases(await scene.find((0, 0), (1, 0), max_wait_ms=500)) == [[], []]
        assert scene.now_s() - began_s == pytest.approx(0.5, abs=0.01)
        assert bases(await scene.find((0, 0), max_wait_ms=0)) == [[]]
        assert scene.tails.waiting == 0

    live(story)


def test_many_readers_share_one_poll_and_ask_nothing_while_idle() -> None:
    async def story(scene: Scene) -> None:
        readers = [await_all_at_end(scene, index) for index in range(50)]
        await virtual_time(20)
        before, polls = len(scene.coordinators.asked), scene.tails.polls
        await virtual_time(40)
        # 50 readers asked 80 times each; the two lanes of the node polled every ten seconds.
        assert len(scene.coordinators.asked) - before <= 10
        assert scene.tails.polls - polls <= 10
        assert scene.coordinators.polls_under_way <= 2
        assert max(count for count, _ in scene.coordinators.asked[before:]) == 50
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await virtual_time(40)
        assert scene.tails.followed == 0
        assert scene.coordinators.polls_under_way == 0

    live(story)


def await_all_at_end(scene: Scene, index: int) -> asyncio.Task[None]:
    """A consumer that asks again and again."""

    async def consume() -> None:
        await virtual_time(index * 0.003)
        while True:
            await scene.ask((index, 0))

    return asyncio.get_running_loop().create_task(consume())


def test_each_node_has_its_own_poll() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0, 1, 2, 3)
        assert scene.coordinators.polls_under_way == 3
        scene.coordinators.append(partition(3))
        assert bases(await waiting) == [[], [], [], [0]]

    live(story, nodes=3)


def test_a_batch_that_was_committed_here_needs_no_question() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0, 1)
        scene.coordinators.delay_s = 10.0  # nothing comes from the coordinators in time
        asked, began_s = len(scene.coordinators.asked), scene.now_s()
        scene.tails.committed("wal/own", rows_of((0, 3, 0), (0, 2, 0), (7, 1, 0)), [0, 3, 0])
        found = await waiting
        assert scene.now_s() == began_s
        assert len(scene.coordinators.asked) == asked
        assert [(one.object_key, one.byte_offset, one.byte_size, one.base_offset, one.last_offset) for one in found[0].batches] == [
            ("wal/own", 0, BATCH_BYTES, 0, 2),
            ("wal/own", BATCH_BYTES, BATCH_BYTES, 3, 4),
        ]
        assert found[0].high_watermark == 5
        # Who comes later, too.
        assert bases(await scene.find((0, 3))) == [[3]]
        assert scene.now_s() == began_s

    live(story)


def test_commits_with_others_between_them_or_with_append_times_are_left_to_the_poll() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0)
        scene.tails.committed("wal/own", rows_of((0, 1, 0)), [1])
        await virtual_time(0.01)
        assert not waiting.done()
        scene.coordinators.append(partition(0))
        scene.coordinators.append(partition(0))
        assert bases(await waiting) in ([[0]], [[0, 1]])
        waiting = await scene.at_end(0)
        scene.tails.committed("wal/own", rows_of((0, 1, 1)), [2])
        await virtual_time(0.01)
        assert not waiting.done()
        scene.coordinators.append(partition(0))
        assert bases(await waiting) == [[2]]
        # A duplicate has the offsets of the first time.
        waiting = await scene.at_end(0)
        scene.tails.committed("wal/own", rows_of((0, 1, 0)), [0])
        await virtual_time(0.01)
        assert not waiting.done()
        waiting.cancel()

    live(story)


def test_a_poll_that_brings_what_is_known_already_changes_nothing() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0)
        batch = scene.coordinators.append(partition(0))
        scene.tails.committed(batch.object_key, rows_of((0, 1, 0)), [0])
        assert bases(await waiting) == [[0]]
        await virtual_time(0.05)
        assert bases(await scene.find((0, 0))) == [[0]]
        assert bases(await scene.find((0, 1), max_wait_ms=10)) == [[]]

    live(story)


def test_enough_bytes_are_waited_for() -> None:
    async def story(scene: Scene) -> None:
        waiting = scene.find((0, 0), (1, 0), min_bytes=3 * BATCH_BYTES, max_wait_ms=10_000)
        for index in (0, 1):
            await virtual_time(0.1)
            scene.coordinators.append(partition(index))
        await virtual_time(0.1)
        assert not waiting.done()
        scene.coordinators.append(partition(1))
        assert bases(await waiting) == [[0], [0, 1]]

    live(story)


def test_answers_have_as_many_batches_as_are_wanted_and_at_least_one() -> None:
    async def story(scene: Scene) -> None:
        waiting = [scene.find((0, 0), (1, 0), max_bytes=size, max_wait_ms=10_000) for size in (1, 2 * BATCH_BYTES, MORE)]
        await virtual_time(0.05)
        for _ in range(3):
            scene.coordinators.log(partition(0)).append()
        scene.coordinators.append(partition(1))
        assert [bases(await one) for one in waiting] == [[[0], []], [[0, 1], []], [[0, 1, 2], [0]]]

    live(story)


def test_a_deleted_topic_and_deleted_records_are_told() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            scene.coordinators.append(partition(0))
        waiting = await scene.at_end(0, 1)
        scene.coordinators.delete(partition(1))
        found = await waiting
        assert [one.error for one in found] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
        waiting = scene.find((0, 2), min_bytes=MORE, max_wait_ms=10_000)
        await virtual_time(0.05)
        scene.coordinators.append(partition(0))
        await virtual_time(0.05)
        assert not waiting.done()
        scene.coordinators.truncate(partition(0), 3)
        scene.coordinators.append(partition(0))
        assert [one.error for one in await waiting] == [ErrorCode.OFFSET_OUT_OF_RANGE]

    live(story)


def test_an_error_that_heals_holds_nobody_up_and_is_told_when_it_lasts() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0, 1, max_wait_ms=3_000)
        scene.coordinators.failing.add(partition(1))
        scene.coordinators.append(partition(0))
        assert bases(await waiting) == [[0], []]
        asked = len(scene.coordinators.asked)
        assert bases(await scene.find((1, 0), max_wait_ms=2_000)) == [[]]
        assert len(scene.coordinators.asked) - asked < 20
        await virtual_time(LIVE_S)
        [found] = await scene.find((1, 0))
        assert found.error is ErrorCode.NOT_COORDINATOR
        scene.coordinators.failing.clear()
        waiting = await scene.at_end(1, max_wait_ms=5_000)
        scene.coordinators.append(partition(1))
        assert bases(await waiting) == [[0]]

    live(story)


def test_nodes_that_are_away_for_a_while_are_asked_again() -> None:
    async def story(scene: Scene) -> None:
        waiting = await scene.at_end(0, max_wait_ms=30_000)
        scene.coordinators.down = ClientClosed()
        scene.coordinators.tell()
        await virtual_time(5)
        with pytest.raises(ClientClosed):
            await scene.find((3, 0))
        scene.coordinators.down = None
        committed_s = scene.now_s()
        scene.coordinators.append(partition(0))
        assert bases(await waiting) == [[0]]
        assert scene.now_s() - committed_s < 1.2

    live(story)


def test_a_busy_partition_does_not_have_all_the_quiet_ones_asked_for() -> None:
    async def story(scene: Scene) -> None:
        readers = [await_all_at_end(scene, index) for index in range(40) if index != 7]
        await virtual_time(20)
        before = len(scene.coordinators.asked)
        for offset in range(20):
            waiting = scene.find((7, offset), max_wait_ms=5_000)
            await virtual_time(0.1)
            scene.coordinators.append(partition(7))
            assert bases(await waiting) == [[offset]]
        polled = [count for count, wait_ms in scene.coordinators.asked[before:] if wait_ms]
        assert sum(count > 10 for count in polled) < 6
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    live(story)


@pytest.mark.parametrize("seed", range(15))
def test_no_reader_sleeps_while_there_is_what_it_waits_for(seed: int) -> None:
    rng = random.Random(seed)

    async def story(scene: Scene) -> None:
        coordinators, partitions = scene.coordinators, 12
        coordinators.delay_s = rng.choice([0.0, 0.001, 0.005])
        got: dict[tuple[int, int], int] = {}

        async def consume(number: int, indexes: list[int]) -> None:
            """Read partitions in order, as a consumer does."""
            offsets = dict.fromkeys(indexes, 0)
            while True:
                await virtual_time(rng.choice([0.005, 0.2]))  # its way to the gateway
                found = await scene.ask(
                    *offsets.items(),
                    min_bytes=rng.choice([1, 1, 1, 250]),
                    max_bytes=rng.choice([1, 300, MORE]),
                    max_wait_ms=rng.choice([50, 500, 5_000]),
                )
                for index, one in zip(list(offsets), found, strict=True):
                    if one.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                        offsets[index] = coordinators.log(partition(index)).start
                        continue
                    assert one.error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
                    for batch in one.batches:
                        assert batch.base_offset <= offsets[index] <= batch.last_offset
                        offsets[index] = batch.last_offset + 1
                    got[number, index] = offsets[index]

        loop = asyncio.get_running_loop()
        readers = [loop.create_task(consume(number, rng.sample(range(partitions), rng.randint(1, 4)))) for number in range(6)]
        for _ in range(60):
            index = rng.randrange(partitions)
            kind = rng.random()
            if kind < 0.75:
                batch = coordinators.append(partition(index), rng.randint(1, 3))
                if rng.random() < 0.5:
                    count = batch.last_offset - batch.base_offset + 1
                    rows = rows_of((index, count, 0))
                    scene.tails.committed(batch.object_key, rows, [batch.base_offset])
            elif kind < 0.8:
                log = coordinators.log(partition(index))
                coordinators.truncate(partition(index), rng.choice([log.start, *(one.base_offset for one in log.batches)]))
            elif kind < 0.9:
                coordinators.failing ^= {partition(index)}
                coordinators.tell()
            await virtual_time(rng.choice([0.0, 0.001, 0.02, 0.3]))
        coordinators.failing.clear()
        coordinators.tell()
        # Errors that healed a moment ago have their pause, and readers of 250 bytes the rest of their time.
        await virtual_time(6.5)
        for (number, index), offset in got.items():
            assert offset == coordinators.log(partition(index)).end, (number, index)
        for index in range(partitions):
            coordinators.append(partition(index), 2)
        await virtual_time(5 + SOON_S)
        for (number, index), offset in got.items():
            assert offset == coordinators.log(partition(index)).end, (number, index)
        for reader in readers:
            assert not reader.done()
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        assert scene.tails.waiting == 0

    live(story)
