"""Reads of the store: each byte once at a time, whole blocks at the tail, and old data only in places of its own."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.fetch.test_taker import HOUR_AGO_MS, offsets
from tests.gateway.fetch.world import World, batch_of, fetch_request, unavailable
from tests.virtual_loop import lived
from tests.waiting import virtual_time


def write_many(world: World, files: int, *, append_ms: int, size: int = 1_000) -> None:
    for number in range(files):
        world.write(f"wal/{number:03}", [(n, batch_of(size, seed=number)) for n in range(4)], append_ms=append_ms)


def test_readers_of_one_block_make_one_read() -> None:
    async def story() -> None:
        world = World()
        data = world.write("wal/1", [(n, batch_of(1_000, seed=n)) for n in range(4)])
        world.store.is_open.clear()
        readers = [world.send(fetch_request((n % 4, 0))) for n in range(40)]
        await virtual_time(1)
        assert world.store.reads == [("wal/1", 0, world.limits.block_bytes)]
        world.store.is_open.set()
        await asyncio.gather(*readers)
        assert world.stats.store_read_bytes == len(data)
        assert world.stats.joined_reads == 39
        # One that fails fails them all; the next one tries again.
        world.write("wal/2", [(0, batch_of(100))])
        world.store.faults["wal/2"] = unavailable()
        found = await asyncio.gather(*(world.partitions((0, 1)) for _ in range(5)))
        assert {one.error_code for [one] in found} == {56}
        assert world.stats.store_read_failures == 1
        world.store.faults.clear()
        [one] = await world.partitions((0, 1))
        assert offsets(one.records) == [1]

    lived(story())


def test_objects_of_an_answer_are_read_side_by_side_within_bounds() -> None:
    async def story() -> None:
        world = World(tail_reads_max=6, block_bytes=1_000_000)
        write_many(world, 30, append_ms=world.objects.now_ms())
        [one] = await world.partitions((0, 0))
        assert len(offsets(one.records)) == 30
        assert world.store.under_way_max == 6
        assert asyncio.get_running_loop().time() == pytest.approx(5 * world.store.takes_s)
        narrow = World(tail_bytes_max=3_000_000, block_bytes=1_000_000)
        write_many(narrow, 9, append_ms=narrow.objects.now_ms())
        await narrow.partitions((0, 0))
        assert narrow.store.under_way_max == 3, "bytes have a bound, too"

    lived(story())


def test_old_data_is_read_in_ranges_until_a_block_is_worth_it() -> None:
    async def story() -> None:
        world = World(block_worth_bytes=3_000, block_worth_reads=100, cache_bytes=100_000)
        parts = [(n, batch_of(1_000, seed=n)) for n in range(4)]
        data = world.write("wal/1", parts, append_ms=HOUR_AGO_MS)
        sizes = [len(part) for _, part in parts]
        await world.partitions((0, 0))
        await world.partitions((2, 0))
        assert world.store.reads == [("wal/1", 0, sizes[0]), ("wal/1", sizes[0] + sizes[1], sizes[2])]
        await world.partitions((1, 0))
        assert world.store.reads[2:] == [("wal/1", 0, world.limits.block_bytes)]
        await world.partitions((3, 0))
        assert len(world.store.reads) == 3
        assert world.stats.store_read_bytes == sizes[0] + sizes[2] + len(data)
        # A block that the cache has lost is not read whole for each small part of it.
        lost = World(block_worth_bytes=3_000, block_worth_reads=100, cache_bytes=0)
        lost.write("wal/1", parts, append_ms=HOUR_AGO_MS)
        for _ in range(3):
            for partition in range(3):
                await lost.partitions((partition, 0))
        assert [size for _, _, size in lost.store.reads] == [sizes[0], sizes[1], lost.limits.block_bytes] * 3
        often = World(block_worth_bytes=10**9, block_worth_reads=3)
        often.write("wal/1", parts, append_ms=HOUR_AGO_MS)
        for partition in range(4):
            await often.partitions((partition, 0))
        assert [size for _, _, size in often.store.reads] == [sizes[0], sizes[1], often.limits.block_bytes]

    lived(story())


def test_neighbouring_ranges_of_an_object_are_one_read() -> None:
    async def story() -> None:
        world = World(block_worth_bytes=10**9, range_gap_bytes=100, block_bytes=6_000)
        parts = [
            (0, batch_of(1_000)),
            (1, batch_of(1_000)),
            (3, batch_of(2_000)),
            (2, batch_of(500)),
            (3, batch_of(20)),
            (0, batch_of(500)),
        ]
        data = world.write("wal/1", parts, append_ms=HOUR_AGO_MS)
        found = await world.partitions((0, 0), (1, 0), (2, 0))
        assert [offsets(one.records) for one in found] == [[0, 1], [0], [0]]
        ends = [sum(len(part) for _, part in parts[: n + 1]) for n in range(len(parts))]
        assert sorted(world.store.reads) == [("wal/1", 0, ends[1]), ("wal/1", ends[2], len(data) - ends[2])]

    lived(story())


def test_a_batch_on_the_edge_of_a_block_is_read_by_itself() -> None:
    async def story() -> None:
        world = World(block_bytes=2_500)
        batches = [batch_of(1_000, seed=n) for n in range(5)]
        world.write("wal/1", [(0, b"".join(batches))])
        [one] = await world.partitions((0, 0))
        assert offsets(one.records) == [0, 1, 2, 3, 4]
        reads = len(world.store.reads)
        again = [offsets(found.records) for offset in range(5) for found in await world.partitions((0, offset))]
        assert again == [list(range(offset, 5)) for offset in range(5)]
        assert len(world.store.reads) <= reads + 3

    lived(story())


def test_old_reads_wait_for_places_of_their_own_and_the_tail_does_not() -> None:
    async def story() -> None:
        world = World(old_reads_max=2)
        write_many(world, 20, append_ms=HOUR_AGO_MS)
        world.store.is_open.clear()
        old = [world.send(fetch_request((0, 4 * n), partition_max_bytes=4_500)) for n in range(5)]
        await virtual_time(1)
        assert world.store.under_way == 2
        assert world.stats.old_waiting > 10
        world.write("wal/new", [(1, batch_of(100))])
        tail = world.send(fetch_request((1, 20)))
        await virtual_time(1)
        assert (world.store.under_way, world.stats.tail_waiting) == (3, 0)
        assert world.store.reads[-1][0] == "wal/new"
        world.store.is_open.set()
        await tail
        await asyncio.gather(*old)
        assert world.store.under_way_max == 3
        assert world.stats.old_waiting == 0

    lived(story())
