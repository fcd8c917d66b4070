"""Fetch from request to answer, on virtual time: what a consumer gets, when, and what it is told otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.wire import MalformedMessage
from gateway.fetch.wire import VERSIONS
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import parse_headers
from tests.gateway.fetch.kio_fetch import read_answer
from tests.gateway.fetch.world import LOG_APPEND, NOW_MS, OneSession, World, batch_of, fetch_request, incoming, unavailable
from tests.virtual_loop import lived
from tests.waiting import virtual_time

each_version = pytest.mark.parametrize("version", VERSIONS)
HOUR_AGO_MS = NOW_MS - 3_600_000


def offsets(records: Any) -> list[int]:
    data = bytes(records)
    return [record.offset for header in parse_headers(data) for record in decode_records(data, header)]


@each_version
@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_batches_come_as_the_coordinator_numbered_them(version: int, is_own: bool, compression: Compression) -> None:
    async def story() -> None:
        world = World()
        written = [(0, batch_of(300, records=3)), (0, batch_of(90, seed=1)), (1, batch_of(5_000, records=2, compression=compression))]
        world.write("wal/1", written, is_own=is_own)
        world.write("wal/2", [(1, batch_of(70)), (0, batch_of(50, records=2))], kind=LOG_APPEND, is_own=is_own)
        zero, one = await world.partitions((0, 0), (1, 0), version=version)
        assert (zero.partition_index, zero.error_code, zero.high_watermark, zero.last_stable_offset) == (0, 0, 6, 6)
        assert (one.partition_index, one.error_code, one.high_watermark) == (1, 0, 3)
        assert version < 5 or (zero.log_start_offset, one.log_start_offset) == (0, 0)
        assert offsets(zero.records) == [0, 1, 2, 3, 4, 5]
        assert offsets(one.records) == [0, 1, 2]
        headers = parse_headers(bytes(zero.records))
        assert {header.partition_leader_epoch for header in headers} == {0}
        assert [header.timestamp_type for header in headers] == [0, 0, LOG_APPEND]
        assert headers[-1].max_timestamp_ms == NOW_MS
        assert world.stats.store_reads == (0 if is_own else 2)
        # The cached bytes are as they were: another reader gets the same again.
        again = await world.partitions((0, 0), (1, 0), version=version)
        assert again == [zero, one]
        assert world.stats.store_reads == (0 if is_own else 2)
        [middle] = await world.partitions((0, 4), version=version)
        assert offsets(middle.records) == [4, 5]

    lived(story())


def test_a_fetch_waits_until_there_is_enough_or_time_is_over() -> None:
    async def story() -> None:
        world = World()
        clock = asyncio.get_running_loop().time
        [nothing] = await world.partitions((0, 0), max_wait_ms=500)
        assert (clock(), nothing.error_code, bytes(nothing.records)) == (0.5, 0, b"")
        waiting = world.send(fetch_request((0, 0), (1, 0), max_wait_ms=60_000, min_bytes=250))
        await virtual_time(1)
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        await virtual_time(1)
        assert not waiting.done()
        world.write("wal/2", [(1, batch_of(100))], is_own=True)
        [topic] = read_answer(12, await waiting).responses
        assert [offsets(one.records) for one in topic.partitions] == [[0], [0]]
        assert clock() < 3
        # Numbers of strangers are bounded.
        world.log.finds.clear()
        await world.partitions((0, 0), max_wait_ms=2**31 - 1, min_bytes=-5, max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1)
        [([one], min_bytes, max_bytes, max_wait_ms)] = world.log.finds
        assert (min_bytes, max_bytes, max_wait_ms) == (0, world.limits.answer_bytes_max, world.limits.wait_ms_max)
        assert one.bytes_max == world.limits.answer_bytes_max
        [first] = await world.partitions((0, 0), max_wait_ms=-1, max_bytes=-1, partition_max_bytes=-1)
        assert offsets(first.records) == [0]

    lived(story())


def test_limits_of_bytes_hold_but_for_the_first_batch() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, b"".join(batch_of(1_000, seed=n) for n in range(4))), (1, batch_of(1_000)), (2, batch_of(5_000))])
        size = world.log.batches[world.log.id(0)][0].byte_size

        async def counts(*partitions: int, **limits: int) -> list[list[int]]:
            return [offsets(one.records) for one in await world.partitions(*((n, 0) for n in partitions), **limits)]

        assert await counts(0, 1, max_bytes=1) == [[0], []]
        assert await counts(0, 1, max_bytes=2 * size) == [[0, 1], []]
        assert await counts(0, 1, max_bytes=3 * size, partition_max_bytes=2 * size) == [[0, 1], [0]]
        assert await counts(0, 1, partition_max_bytes=2 * size - 1) == [[0], [0]]
        # A partition whose batch is larger than its limit must not starve behind others.
        assert await counts(0, 2, partition_max_bytes=10) == [[0], [0]]
        assert await counts(2, 0, max_bytes=10) == [[0], []]

    lived(story())


def test_many_answers_share_their_memory_and_get_smaller() -> None:
    async def story() -> None:
        world = World(answers_bytes=40_000, answer_bytes_max=20_000, answer_bytes_least=2_000)
        world.write("wal/1", [(0, b"".join(batch_of(900, seed=n) for n in range(60)))], is_own=True)
        asked = [world.send(fetch_request((0, 0), partition_max_bytes=10**6)) for _ in range(30)]
        await virtual_time(1)
        sizes = [sum(map(len, one.result())) for one in asked if one.done()]
        assert sizes[0] > 9_000 > sizes[4] > sizes[-1] > 900
        assert sum(sizes) < 42_000
        assert world.stats.answers_waiting == len(asked) - len(sizes) > 10
        # An answer that was sent makes room for the next.
        while asked:
            await asked.pop(0)
        assert world.stats.answers_waiting == 0

    lived(story())


def test_a_session_that_the_gateway_does_not_know_is_refused() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        for version in (version for version in VERSIONS if version >= 7):
            refused = await world.fetch((0, 0), version=version, session_id=5, session_epoch=1)
            assert (refused.error_code, refused.session_id, refused.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, ())
            for epoch in (0, -1):
                served = await world.fetch((0, 0), version=version, session_id=5, session_epoch=epoch)
                assert (served.error_code, served.session_id) == (0, 0)
                assert offsets(served.responses[0].partitions[0].records) == [0]

    lived(story())


@each_version
def test_what_cannot_be_read_is_told_beside_what_can(version: int) -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50)), (1, batch_of(50))], is_own=True)
        world.log.errors[2] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.log.errors[3] = ErrorCode.INVALID_REQUEST
        found = await world.partitions((0, 0), (1, 5), (7, 0), (-1, 0), (2, 0), (3, 0), version=version)
        codes = [one.error_code for one in found]
        assert codes == [
            ErrorCode.NONE,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ]
        assert [one.partition_index for one in found] == [0, 1, 7, -1, 2, 3]
        assert offsets(found[0].records) == [0]
        assert {one.high_watermark for one in found[1:]} == {-1}
        [unknown] = await world.partitions((0, 0), version=version, topic="others", topic_id=b"o" * 16)
        assert unknown.error_code == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID)
        world.log.errors = {0: ErrorCode.UNKNOWN_TOPIC_ID}
        [deleted] = await world.partitions((0, 0), version=version)
        assert deleted.error_code == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID)

    lived(story())


def test_leader_epochs_are_those_of_metadata() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        for epoch in (-1, 0):
            [one] = await world.partitions((0, 0), leader_epoch=epoch)
            assert (one.error_code, offsets(one.records)) == (0, [0])
        [newer] = await world.partitions((1, 0), leader_epoch=3, max_wait_ms=10_000)
        assert (newer.error_code, bytes(newer.records)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, b"")
        assert asyncio.get_running_loop().time() < 1, "an error does not wait"

    lived(story())


def test_rights_are_asked_for_before_anything_is_told() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        world.rights.denied = frozenset({"orders", "others"})
        for world.rights.is_known in (True, False):
            for version in (4, 12, 17):
                [one] = await world.partitions((0, 0), version=version)
                assert (one.error_code, bytes(one.records), one.high_watermark) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"", -1)
            [hidden] = await world.partitions((0, 0), topic="others")
            assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "whether it exists is none of the client's business"
        assert world.rights.asked == [["orders"]] * 3 + [["others"]]
        assert world.log.finds == []
        world.rights.fault = BrokerLost("the broker hung up")
        assert await world.send(fetch_request((0, 0))) is None

    lived(story())


def test_followers_are_not_served() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        [one] = await world.partitions((0, 0), replica_id=2)
        assert one.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        [debugging] = await world.partitions((0, 0), replica_id=-2)
        assert debugging.error_code == 0

    lived(story())


def test_a_damaged_request_closes_the_connection() -> None:
    async def story() -> None:
        world = World()
        request = incoming(fetch_request((0, 0)))
        with pytest.raises(MalformedMessage):
            world.taker.take(OneSession(), request._replace(data=request.data[:-3]), pytest.fail)

    lived(story())


@pytest.mark.parametrize("version", [4, 5, 6, 17])
def test_a_store_that_fails_fails_partitions_that_need_it(version: int) -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50)), (1, batch_of(50))])
        world.write("wal/2", [(1, batch_of(50, seed=1)), (2, batch_of(50))])
        world.store.faults["wal/2"] = unavailable()
        zero, one, two = await world.partitions((0, 0), (1, 0), (2, 0), version=version)
        assert [each.error_code for each in (zero, one)] == [0, 0]
        assert (offsets(zero.records), offsets(one.records), bytes(two.records)) == ([0], [0], b"")
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 6 else ErrorCode.KAFKA_STORAGE_ERROR
        assert two.error_code == code
        [next_one] = await world.partitions((1, 1), version=version)
        assert next_one.error_code == code
        world.store.faults.clear()
        healed = await world.partitions((1, 1), (2, 0), version=version)
        assert [(each.error_code, offsets(each.records)) for each in healed] == [(0, [1]), (0, [0])]
        world.objects.remove("wal/1")
        [cached] = await world.partitions((0, 0), version=version)
        assert cached.error_code == 0, "it is in the cache"
        world.write("wal/3", [(3, batch_of(50))])
        world.objects.remove("wal/3")
        [missing] = await world.partitions((3, 0), version=version)
        assert missing.error_code == code

    lived(story())


def test_a_store_that_hangs_is_not_waited_for_longer_than_a_client_waits() -> None:
    async def story() -> None:
        world = World(answers_bytes=250, answer_bytes_least=250)
        world.write("wal/1", [(0, batch_of(50))], is_own=True)
        world.write("wal/2", [(1, batch_of(50))])
        world.store.is_open.clear()
        zero, one = await world.partitions((0, 0), (1, 0))
        assert (zero.error_code, offsets(zero.records)) == (0, [0])
        assert one.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert asyncio.get_running_loop().time() == world.limits.read_timeout_s
        assert world.stats.reads_too_late == 1
        began_s = asyncio.get_running_loop().time()
        [zero] = await world.partitions((0, 0))
        assert offsets(zero.records) == [0]
        assert asyncio.get_running_loop().time() == began_s, "an answer that is over takes no memory of others"
        world.store.is_open.set()
        [one] = await world.partitions((1, 0))
        assert offsets(one.records) == [0]
        assert len(world.store.reads) == 1, "the read that was too late serves those who come later"

    lived(story())


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_damaged_batch_fails_its_partition_alone_after_what_is_before_it(damaged: int, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = World()
        batches = [batch_of(100, seed=n) for n in range(3)]
        data = bytearray(world.write("wal/1", [(0, b"".join(batches)), (1, batch_of(60))]))
        where = world.log.batches[world.log.id(0)][damaged]
        sound = bytes(data)
        data[where.byte_offset + 80] ^= 1
        world.objects.remove("wal/1")
        world.objects.put("wal/1", bytes(data))
        zero, one = await world.partitions((0, 0), (1, 0))
        assert (one.error_code, offsets(one.records)) == (0, [0])
        if damaged:
            assert (zero.error_code, zero.high_watermark, offsets(zero.records)) == (0, 3, list(range(damaged)))
            [zero] = await world.partitions((0, damaged))
        assert (zero.error_code, bytes(zero.records)) == (ErrorCode.CORRUPT_MESSAGE, b"")
        told = [record.getMessage() for record in caplog.records if "batch damaged" in record.getMessage()]
        assert len(told) == 1, "once, however often it is asked for"
        place = f"object=wal/1 range=[{where.byte_offset},+{where.byte_size})"
        assert f"topic=orders partition=0 offsets={damaged}..{damaged} {place}" in told[0]
        assert "CRC32C" in told[0]
        assert world.stats.damaged == (2 if damaged else 1)
        # The bytes may have been damaged on their way: they are read anew.
        world.objects.remove("wal/1")
        world.objects.put("wal/1", sound)
        [healed] = await world.partitions((0, damaged))
        assert offsets(healed.records)[0] == damaged

    lived(story())


def test_an_object_that_is_cut_fails_the_batches_behind_its_end() -> None:
    async def story() -> None:
        world = World()
        data = world.write("wal/1", [(0, batch_of(100)), (1, batch_of(60))])
        world.objects.remove("wal/1")
        world.objects.put("wal/1", data[:-1])
        zero, one = await world.partitions((0, 0), (1, 0))
        assert (zero.error_code, offsets(zero.records)) == (0, [0])
        assert one.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    lived(story())


def test_a_taker_that_is_closed_leaves_nothing_behind() -> None:
    async def story() -> None:
        world = World()
        world.write("wal/1", [(0, batch_of(50))])
        world.store.is_open.clear()
        unread = [world.send(fetch_request((0, 0))), world.send(fetch_request((1, 0), max_wait_ms=10_000))]
        await virtual_time(1)
        await world.taker.close()
        await world.reader.close()
        assert len(asyncio.all_tasks()) == 1
        assert not any(one.done() for one in unread)

    lived(story())


def test_a_reader_from_the_beginning_is_read_ahead_for_and_one_at_the_tail_is_not() -> None:
    async def story() -> None:
        world = World(block_worth_bytes=10**9, block_worth_reads=10**9)
        for number in range(40):
            world.write(f"wal/{number:02}", [(0, batch_of(1_000, seed=number)), (1, batch_of(1_000))], append_ms=HOUR_AGO_MS)
        offset, found = 0, []
        while offset < 40:
            before = len(world.store.reads)
            [one] = await world.partitions((0, offset), partition_max_bytes=2_300)
            found += offsets(one.records)
            offset = found[-1] + 1
            if offset > 4:
                assert len(world.store.reads) >= before
            await virtual_time(0.05)
        assert found == list(range(40))
        assert len(world.store.reads) == 40, "each range is read once"
        assert world.stats.ahead_reads > 30
        assert world.stats.cache_hits > 30
        tail = World()
        for number in range(10):
            tail.write(f"wal/{number:02}", [(0, batch_of(1_000, seed=number))])
        for offset in range(10):
            await tail.partitions((0, offset), partition_max_bytes=1_000)
        assert tail.stats.ahead_reads == 0
        assert all(fetches[0].bytes_max == 1_000 for fetches, *_ in tail.log.finds)

    lived(story())
