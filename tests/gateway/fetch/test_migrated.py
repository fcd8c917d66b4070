"""Fetches of migrated topics: below B0 from brokers, from B0 on from objects, in one log without a gap or a double."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from coordinator.kafka.errors import ErrorCode
from gateway.classic.leading import ANSWER_TIMEOUT_S
from gateway.fetch.migrated import GRACE_S
from gateway.fetch.wire import VERSIONS
from records.record_batch import parse_headers
from tests.gateway.classic.kafka import numbered
from tests.gateway.fetch.world import World, batch_of
from tests.virtual_loop import lived
from tests.waiting import virtual_time


def spans(records: Any) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header in parse_headers(bytes(records))]


def both_parts(*, start: int = 6, leaders: tuple[int, ...] = (1, 2)) -> World:
    """Partitions with classic batches of two records below B0, and diskless ones of three from B0 on."""
    world = World(is_migrated=True)
    for partition, leader in enumerate(leaders):
        log = world.kafka.logs[partition]
        log.leader = leader
        log.batches = [numbered(first, [b"classic"] * 2) for first in range(0, start, 2)]
        world.log.first[partition] = start
        world.kafka.begin(partition, start, end=start)
        world.write(f"wal/{partition}", [(partition, batch_of(300, records=3)), (partition, batch_of(90, records=3))], is_own=True)
    return world


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_passes_from_one_part_into_the_other(version: int) -> None:
    async def story() -> None:
        world = both_parts()
        world.kafka.logs[0].aborted = [(7, 2)]
        read: list[tuple[int, int]] = []
        offset = 0
        while offset < 12:
            [one] = await world.partitions((0, offset), version=version, partition_max_bytes=150, isolation_level=1)
            assert (one.error_code, one.high_watermark, one.last_stable_offset) == (0, 12, 12)
            aborted = [(each.producer_id, each.first_offset) for each in one.aborted_transactions]
            assert aborted == ([(7, 2)] if offset < 6 else [])
            found = spans(one.records)
            read += found
            offset = found[-1][1] + 1
        assert read == [(0, 1), (2, 3), (4, 5), (6, 8), (9, 11)]
        headers = parse_headers(bytes((await world.partitions((0, 3), version=version))[0].records))
        assert {header.partition_leader_epoch for header in headers} == {5}, "classic records pass unchanged"
        # Clients commit nothing with an epoch below one that they have committed.
        both = (await world.partitions((0, 6), version=version))[0], (await world.partitions((0, 9), version=version))[0]
        epochs = {header.partition_leader_epoch for one in both for header in parse_headers(bytes(one.records))}
        assert epochs == {7}
        [outside] = await world.partitions((0, 13), version=version)
        assert outside.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    lived(story())


def test_one_request_has_partitions_of_both_kinds() -> None:
    async def story() -> None:
        world = both_parts()
        zero, one = await world.partitions((0, 2), (1, 9), max_wait_ms=1_000)
        assert (spans(zero.records), spans(one.records)) == ([(2, 3), (4, 5)], [(9, 11)])
        one, zero = await world.partitions((1, 6), (0, 0), max_wait_ms=1_000, leader_epoch=5)
        assert (spans(one.records), spans(zero.records)) == ([(6, 8), (9, 11)], [(0, 1), (2, 3), (4, 5)])
        assert asyncio.get_running_loop().time() < 0.1

    lived(story())


def test_records_from_b0_on_in_the_classic_log_are_never_given_out() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        world.kafka.logs[0].batches.append(numbered(6, [b"past B0"] * 2))
        [one] = await world.partitions((0, 4))
        assert spans(one.records) == [(4, 5)]
        # Offsets up to B0 may have no record at all, where a transaction of a compacted past ended.
        del world.kafka.logs[0].batches[2]
        [one] = await world.partitions((0, 4))
        assert spans(one.records) == [(6, 8), (9, 11)]

    lived(story())


def test_a_batch_that_lies_across_b0_is_refused_and_not_read_twice() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        world.kafka.logs[0].batches[2] = numbered(4, [b"across"] * 3)
        [one] = await world.partitions((0, 0))
        assert spans(one.records) == [(0, 1), (2, 3)]
        [one] = await world.partitions((0, 4))
        assert (one.error_code, bytes(one.records)) == (ErrorCode.CORRUPT_MESSAGE, b"")

    lived(story())


def test_readers_pass_over_what_was_deleted_at_the_beginning_of_the_diskless_part() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        assert spans((await world.partitions((0, 4)))[0].records) == [(4, 5)]
        world.log.first[0] = 9
        world.log.batches[world.log.id(0)].pop(0)
        world.kafka.begin(0, 6, suffix=9, end=12)
        [one] = await world.partitions((0, 6))
        assert spans(one.records) == [(9, 11)]
        # Nothing of the classic part is left: an offset before the log is one.
        world.kafka.logs[0].start, world.kafka.logs[0].batches = 6, []
        world.kafka.begin(0, 6, prefix=6, suffix=9, end=12)
        await world.kafka.boundaries.learn([world.log.id(0)])
        for offset in (3, 6):
            [one] = await world.partitions((0, offset))
            assert one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    lived(story())


def test_retention_of_the_classic_part_is_what_its_broker_says() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        world.kafka.logs[0].start = 2
        del world.kafka.logs[0].batches[0]
        [gone], [left] = await world.partitions((0, 1)), await world.partitions((0, 2))
        assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (left.log_start_offset, spans(left.records)) == (2, [(2, 3), (4, 5)])

    lived(story())


def test_b0_may_be_unset_and_lowered_by_operators() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        await world.partitions((0, 0))
        # The log has lost its end, so a reader waits; after a repair it goes on.
        log = world.kafka.logs[0]
        del log.batches[2]
        [one] = await world.partitions((0, 4))
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.kafka.begin(0, 4, suffix=6, end=12)
        [one] = await world.partitions((0, 4))
        assert spans(one.records) == [(6, 8), (9, 11)]
        # Taken back and migrated again, further on.
        log.batches += [numbered(first, [b"classic"] * 2) for first in (4, 6)]
        world.log.first[0], world.log.batches[world.log.id(0)] = 8, []
        world.kafka.begin(0, 8, end=8)
        [one] = await world.partitions((0, 4))
        assert spans(one.records) == [(4, 5), (6, 7)]

    lived(story())


def test_a_partition_that_moves_is_found_at_its_new_leader() -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        await world.partitions((0, 0))
        world.kafka.logs[0].leader = 2
        assert spans((await world.partitions((0, 0)))[0].records) == [(0, 1), (2, 3), (4, 5)]
        world.kafka.dead.add(2)
        waiting = asyncio.ensure_future(world.partitions((0, 2)))
        await virtual_time(2)
        assert not waiting.done()
        world.kafka.logs[0].leader = 1
        assert spans((await waiting)[0].records) == [(2, 3), (4, 5)]
        world.kafka.dead.add(1)
        [one] = await world.partitions((0, 2))
        assert one.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    lived(story())


def test_a_broker_that_hangs_delays_its_own_partitions_alone() -> None:
    async def story() -> None:
        world, clock = both_parts(), asyncio.get_running_loop().time
        world.kafka.hung.add(1)
        for _ in range(3):
            begun_s = clock()
            zero, one = await world.partitions((0, 0), (1, 0), max_wait_ms=10_000)
            assert (zero.error_code, spans(zero.records)) == (0, [])
            assert spans(one.records) == [(0, 1), (2, 3), (4, 5)]
            assert clock() - begun_s <= GRACE_S + 0.1
        # A reader at the end of another partition hears of news at once.
        waiting = asyncio.ensure_future(world.partitions((0, 0), (1, 12), max_wait_ms=10_000))
        await virtual_time(0.1)
        world.write("wal/news", [(1, batch_of(50))], is_own=True)
        begun_s = clock()
        _, one = await waiting
        assert spans(one.records) == [(12, 12)]
        assert clock() - begun_s <= GRACE_S + 0.1
        assert sum(broker == 1 for broker, _ in world.kafka.asked) == 1, "who asks again waits for the same read"
        world.kafka.hung.clear()
        await virtual_time(3 * ANSWER_TIMEOUT_S)
        assert spans((await world.partitions((0, 0)))[0].records) == [(0, 1), (2, 3), (4, 5)]

    lived(story())


def test_what_a_broker_refuses_the_gateway_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = both_parts(leaders=(1,))
        world.kafka.refusing = KafkaError.topic_authorization_failed
        [one] = await world.partitions((0, 0))
        assert one.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert world.kafka.parts.failures == 1
        assert "allow it Read" in caplog.text

    lived(story())


def test_an_answer_has_what_its_client_wants_and_the_first_batch_anyway() -> None:
    async def story() -> None:
        world = both_parts(start=200, leaders=(1, 2))
        size = len(world.kafka.logs[0].batches[0].data)
        zero, one = await world.partitions((0, 0), (1, 0), max_bytes=10 * size)
        assert 8 * size <= len(bytes(zero.records)) + len(bytes(one.records)) <= 10 * size
        [one] = await world.partitions((1, 0), partition_max_bytes=1)
        assert spans(one.records) == [(0, 1)]

    lived(story())
