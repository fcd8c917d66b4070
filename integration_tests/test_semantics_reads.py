"""ListOffsets, FindBatches, DeleteRecords and DescribeFiles through the wire, on a real log.

Which offsets and batches are found, and what a budget admits, are tables in `tests/core/test_reads.py`.
"""

from __future__ import annotations

import uuid

import pytest

from integration_tests.wire import (
    INVALID_REQUEST,
    OFFSET_OUT_OF_RANGE,
    OK,
    RESOURCE_NOT_FOUND,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_VERSION,
    Batch,
    Topic,
    Wire,
    new_key,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
NONE_FOUND = (OK, -1, -1)


def nowhere() -> Topic:
    return Topic(uuid.uuid4().bytes, "nowhere", (0,))


# ---- ListOffsets


@pytest.mark.parametrize("api_key", [97, 10097])
async def test_list_offsets(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic()
    # Offsets 0-2, 3-4, 5-9, 10, 11-13: timestamps go up and down, and the greatest stands twice.
    for count, timestamp in ((3, 1_000), (2, 5_000), (5, 2_000), (1, 5_000), (3, 3_000)):
        await wire.commit(Batch(topic, count=count, timestamp=timestamp))
    expected = {
        LATEST: (OK, -1, 14),
        EARLIEST: (OK, -1, 0),
        MAX_TIMESTAMP: (OK, 5_000, 4),
        EARLIEST_LOCAL: (OK, -1, 0),
        LATEST_TIERED: NONE_FOUND,
        0: (OK, 1_000, 0),
        1_000: (OK, 1_000, 0),
        1_001: (OK, 5_000, 3),
        5_000: (OK, 5_000, 3),
        5_001: NONE_FOUND,
        2**63 - 1: NONE_FOUND,
        -6: (UNSUPPORTED_VERSION, -1, -1),
        -(2**63): (UNSUPPORTED_VERSION, -1, -1),
    }
    assert await wire.offsets(topic, *expected, api_key=api_key) == list(expected.values())


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_is_an_invalid_request(wire: Wire, timeout_ms: int) -> None:
    topic = await wire.new_topic()
    await wire.commit(Batch(topic))
    assert await wire.offsets(topic, LATEST, timeout_ms=timeout_ms) == [(INVALID_REQUEST, -1, -1)]
    assert await wire.truncate((topic, 0, -1), timeout_ms=timeout_ms) == [(INVALID_REQUEST, -1)]
    assert await wire.find((topic, 0, 0), timeout_ms=timeout_ms) == [(INVALID_REQUEST, -1, -1, ())]
    assert await wire.files("x", timeout_ms=timeout_ms) == [(INVALID_REQUEST, False)]
    assert await wire.ends(topic) == (0, 1)


# ---- DeleteRecords


@pytest.mark.parametrize("api_key", [96, 10096])
async def test_delete_records(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic()
    await wire.commit(*(Batch(topic, count=10) for _ in range(3)))

    async def to(offset: int) -> tuple[int, int]:
        (answer,) = await wire.truncate((topic, 0, offset), api_key=api_key)
        return answer

    assert await to(0) == (OK, 0)
    assert await to(14) == (OK, 14)
    # The batch that holds the new start stays, whole.
    (found,) = await wire.find((topic, 0, 14))
    assert found[:3] == (OK, 14, 30)
    assert found.ranges == [(10, 19), (20, 29)]
    # At or below the start: success, unchanged.
    assert [await to(offset) for offset in (14, 13, 0)] == [(OK, 14)] * 3
    assert [await to(offset) for offset in (-2, 31, 2**62, -(2**62))] == [(OFFSET_OUT_OF_RANGE, -1)] * 4
    assert await to(30) == (OK, 30)
    await wire.commit(Batch(topic, count=5))
    assert await to(-1) == (OK, 35)
    assert await wire.find((topic, 0, 35)) == [(OK, 35, 35, ())]
    assert await wire.ends(topic) == (35, 35)


async def test_delete_records_of_several_partitions_one_by_one(wire: Wire) -> None:
    topic = await wire.new_topic(6)
    await wire.commit(*(Batch(topic, n, count=4) for n in range(6)))
    points = [(topic, 5, 2), (nowhere(), 0, 1), (topic, 0, 9), (topic, 5, 3), (topic, 1, -1), (topic, 5, 1)]
    expected = [(OK, 2), (UNKNOWN_TOPIC_ID, -1), (OFFSET_OUT_OF_RANGE, -1), (OK, 3), (OK, 4), (OK, 3)]
    assert await wire.truncate(*points) == expected
    assert [await wire.ends(topic, n) for n in (0, 1, 5)] == [(0, 4), (4, 4), (3, 4)]


# ---- FindBatches


async def ten_batches(wire: Wire, partitions: int = 1) -> Topic:
    """Ten batches of 10 records and 100 bytes in each partition, every batch in a file with its neighbours."""
    topic = await wire.new_topic(partitions)
    for _ in range(5):
        await wire.commit(*(Batch(topic, partition, count=10) for partition in range(partitions) for _ in range(2)))
    return topic


def ranges(first: int, last: int) -> list[tuple[int, int]]:
    """The ranges of the batches number `first` to `last` of `ten_batches`."""
    return [(10 * n, 10 * n + 9) for n in range(first, last + 1)]


@pytest.mark.parametrize("api_key", [98, 10098])
async def test_find_batches_tells_everything_about_a_batch(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic()
    key = new_key()
    before = await wire.commit(
        Batch(topic, count=2, size=70, timestamp=123), Batch(topic, size=30, timestamp=99, is_append_time=True), key=key
    )
    (found,) = await wire.find((topic, 0, 0), api_key=api_key)
    assert found[:3] == (OK, 0, 3)
    one, two = found.batches
    assert (one.object_key, one.magic, one.byte_offset, one.byte_size) == (key, 2, 0, 70)
    assert (one.base_offset, one.last_offset, one.batch_max_timestamp, one.timestamp_type) == (0, 1, 123, 0)
    assert (two.object_key, two.magic, two.byte_offset, two.byte_size) == (key, 2, 70, 30)
    assert (two.base_offset, two.last_offset, two.batch_max_timestamp, two.timestamp_type) == (2, 2, 99, 1)
    # The append time is told of both, the producer's time too.
    assert one.log_append_timestamp == two.log_append_timestamp == before[1].time > 0
    assert one.batch_id != two.batch_id


async def test_the_budget_counts_in_request_order_over_coordinators(wire: Wire) -> None:
    topic = await ten_batches(wire, 6)
    order = [topic.partition_at(c, nth) for c, nth in ((2, 0), (0, 0), (2, 1), (1, 0))]

    async def counts(*limits: int, offset: int = 0, max_bytes: int = 1 << 30, max_batches: int = 0) -> list[int]:
        points = [(topic, partition, offset, limit) for partition, limit in zip(order, limits, strict=True)]
        found = await wire.find(*points, max_bytes=max_bytes, max_batches=max_batches)
        assert [one[:3] for one in found] == [(OK, 0, 100)] * 4
        return [len(one.batches) for one in found]

    many = 1 << 30
    assert await counts(many, many, many, many, max_bytes=1_250) == [10, 3, 0, 0]
    assert await counts(250, 0, 150, many, max_bytes=600) == [3, 0, 2, 1]
    assert await counts(many, many, many, many, max_batches=2) == [2, 2, 2, 2]
    # Something was admitted already, so a limit of 0 admits nothing more.
    assert await counts(0, 0, 0, 0) == [1, 0, 0, 0]
    # Nothing at the end of the log counts as admitted.
    assert await counts(0, 0, 0, 0, offset=100) == [0, 0, 0, 0]


async def test_errors_and_empty_partitions_do_not_use_up_the_budget(wire: Wire) -> None:
    topic = await ten_batches(wire)
    empty = await wire.new_topic()
    found = await wire.find((nowhere(), 0, 0), (topic, 7, 0), (empty, 0, 0), (topic, 0, 200), (topic, 0, 30, 0), max_bytes=0)
    assert [one.error for one in found] == [UNKNOWN_TOPIC_ID, 3, OK, OFFSET_OUT_OF_RANGE, OK]
    assert [one.ranges for one in found] == [[], [], [], [], ranges(3, 3)]


# ---- DescribeFiles


@pytest.mark.parametrize("api_key", [100, 10100])
async def test_describe_files_that_are_live_empty_and_unknown(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic(6)
    live, half, empty = new_key(), new_key(), new_key()
    await wire.commit(Batch(topic, count=5), key=empty)
    await wire.commit(Batch(topic, count=5), Batch(topic, count=5), key=half)
    await wire.commit(Batch(topic, count=5), key=live)
    assert await wire.truncate((topic, 0, 14)) == [(OK, 14)]
    unknown = new_key()
    expected = [(RESOURCE_NOT_FOUND, False), (OK, False), (OK, True), (OK, True), (RESOURCE_NOT_FOUND, False)]
    assert await wire.files(unknown, empty, half, live, "", api_key=api_key) == expected
    # The last record of the batch goes, and with it the batch.
    assert await wire.truncate((topic, 0, 15)) == [(OK, 15)]
    assert await wire.files(half, live, api_key=api_key) == [(OK, False), (OK, True)]


async def test_a_file_is_live_while_any_coordinator_has_live_batches(wire: Wire) -> None:
    topic = await wire.new_topic(6)
    here, there = topic.partition_at(0), topic.partition_at(1)
    key = new_key()
    await wire.commit(Batch(topic, here), Batch(topic, there), key=key)
    assert await wire.truncate((topic, here, -1)) == [(OK, 1)]
    assert await wire.files(key) == [(OK, True)]
    assert await wire.truncate((topic, there, -1)) == [(OK, 1)]
    assert await wire.files(key) == [(OK, False)]
