"""Objects of WAL files: uploaded once, and read back only as what was written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.client.records import wal_objects
from coordinator.client.records.wal_objects import RANGE_GAP_BYTES, BatchOf, WrongObject, read_object, read_ranges, retained_ms_of, upload
from coordinator.object_store import ObjectMissing, ObjectStore, StoreError, grouped_ranges
from coordinator.protocol.find_batches import BatchLocation
from records.compression import Compression
from records.record_batch import Record, StoredRecord, TimestampType, encode_batch, parse_headers
from tests.objectstore.failing_store import FailingStore

LOG_APPEND_MS = 77_000


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    (tmp_path / "objects").mkdir()
    return open_store(f"file://{tmp_path}/objects")


async def read_batches(store: ObjectStore, partition: str, batches: Sequence[BatchLocation]) -> list[list[StoredRecord]]:
    return [records async for _, records in wal_objects.read_batches(store, named(partition, batches))]


def named(partition: str, batches: Sequence[BatchLocation]) -> list[BatchOf]:
    topic, _, index = partition.rpartition("-")
    return [BatchOf(topic, int(index), one) for one in batches]


def batch(*values: bytes, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch([Record(timestamp_ms=1_000 + place, value=value) for place, value in enumerate(values)], compression=compression)


def located(
    key: str, data: bytes, *, base_offset: int = 0, timestamp_type: TimestampType = TimestampType.CREATE_TIME
) -> list[BatchLocation]:
    """Where the batches of an object are, with offsets from `base_offset` on."""
    found = []
    for header in parse_headers(data):
        last = base_offset + header.last_offset_delta
        where = (header.byte_offset, header.size_bytes, base_offset, last)
        found.append(BatchLocation(1, key, 2, *where, LOG_APPEND_MS, header.max_timestamp_ms, timestamp_type))
        base_offset = last + 1
    return found


def test_retention_counts_from_the_newest_record_or_else_from_the_commit() -> None:
    [dated] = located("a", batch(b"1", b"2"))
    assert retained_ms_of(dated) == 1_001
    assert retained_ms_of(dated._replace(batch_max_timestamp=-1)) == LOG_APPEND_MS
    assert retained_ms_of(dated._replace(timestamp_type=TimestampType.LOG_APPEND_TIME)) == LOG_APPEND_MS


async def test_an_upload_happens_once_and_never_overwrites(store: ObjectStore, tmp_path: Path) -> None:
    wal = tmp_path / "a.wal"
    wal.write_bytes(b"content")
    assert await upload(store, "wal/a", wal, 7) is True
    assert await upload(store, "wal/a", b"CONTENT", 7) is False
    assert await store.get("wal/a") == b"content"


async def test_another_object_under_the_key_is_an_error(store: ObjectStore) -> None:
    await store.put("wal/x", b"something else")
    with pytest.raises(WrongObject, match="wal/x holds 14 bytes, the file has 7"):
        await upload(store, "wal/x", b"content", 7)
    assert await store.get("wal/x") == b"something else"


async def test_a_large_file_is_put_in_parts(store: ObjectStore) -> None:
    data = bytes(range(256)) * (20 * 4096)
    assert await upload(store, "wal/large", data, len(data)) is True
    assert await store.get("wal/large") == data


async def test_batches_of_several_objects_come_in_the_order_asked_for(store: ObjectStore) -> None:
    first, second = batch(b"a", b"b") + batch(b"c"), batch(b"d", compression=Compression.ZSTD) + batch(b"e", b"f")
    await store.put("wal/1", first)
    await store.put("wal/2", second)
    one, two = located("wal/1", first, base_offset=10), located("wal/2", second, base_offset=13)
    found = await read_batches(store, "orders-3", [two[1], one[0], two[0], one[1]])
    assert [[(record.offset, record.value) for record in records] for records in found] == [
        [(14, b"e"), (15, b"f")],
        [(10, b"a"), (11, b"b")],
        [(13, b"d")],
        [(12, b"c")],
    ]
    assert await read_batches(store, "orders-3", []) == []


async def test_records_have_the_time_that_the_topic_asks_for(store: ObjectStore) -> None:
    data = batch(b"a", b"b")
    await store.put("wal/1", data)
    [created] = await read_batches(store, "orders-3", located("wal/1", data))
    [appended] = await read_batches(store, "orders-3", located("wal/1", data, timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert [record.timestamp_ms for record in created] == [1_000, 1_001]
    assert [record.timestamp_ms for record in appended] == [LOG_APPEND_MS, LOG_APPEND_MS]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
async def test_whichever_byte_is_damaged_no_wrong_record_is_read(store: ObjectStore, compression: Compression) -> None:
    data = batch(b"first", b"second", compression=compression)
    [where] = located("wal/1", data, base_offset=40)
    await store.put("wal/1", data)
    [sound] = await read_batches(store, "orders-3", [where])
    for place in range(len(data)):
        await store.put("wal/1", data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        # Base offset and leader epoch, which the coordinator assigns, are neither covered by the checksum nor used.
        if place < 8 or 12 <= place < 16:
            assert await read_batches(store, "orders-3", [where]) == [sound]
            continue
        with pytest.raises(WrongObject, match=rf"^orders-3 offsets 40 to 41: wal/1 \[0, \+{len(data)}\): "):
            await read_batches(store, "orders-3", [where])


async def test_a_batch_that_is_not_the_coordinators_is_refused(store: ObjectStore) -> None:
    data = batch(b"a", b"b", b"c")
    await store.put("wal/1", data)
    [where] = located("wal/1", data)
    with pytest.raises(WrongObject, match=r"orders-3 offsets 0 to 1: wal/1 .* the coordinator says"):
        await read_batches(store, "orders-3", [where._replace(last_offset=1)])
    await store.put("wal/1", data + data)
    with pytest.raises(WrongObject, match="the coordinator says"):
        await read_batches(store, "orders-3", [where._replace(byte_size=2 * len(data))])


async def test_an_object_that_is_missing_or_cut_is_named(store: ObjectStore) -> None:
    data = batch(b"a")
    with pytest.raises(ObjectMissing, match=r"orders-3 offsets 0 to 0: wal/1 .* is this the store"):
        await read_batches(store, "orders-3", located("wal/1", data))
    await store.put("wal/1", data[:-1])
    with pytest.raises(StoreError, match="orders-3 offsets 0 to 0: wal/1 "):
        await read_batches(store, "orders-3", located("wal/1", data))


class RangesStore(FailingStore):
    """Notes the ranges that are read."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.ranges: list[tuple[int, int]] = []

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        self.ranges += ranges
        return await super().get_ranges(key, ranges)


async def test_batches_that_lie_close_together_are_one_range(store: ObjectStore) -> None:
    one, large = batch(b"a"), batch(bytes(RANGE_GAP_BYTES))
    data = one + one + large + one + one
    places = located("wal/1", data)
    await store.put("wal/1", data)
    counting, size = RangesStore(store), len(one)
    near = named("orders-3", [places[1], places[0], places[1]])
    assert await read_object(counting, near) == [one, one, one]
    assert counting.ranges == [(0, 2 * size)]
    counting.ranges.clear()
    far = named("orders-3", [places[4], places[0], places[3]])
    assert await read_object(counting, far) == [one, one, one]
    assert counting.ranges == [(0, size), (2 * size + len(large), 2 * size)]


@pytest.mark.parametrize(
    ("ranges", "groups"),
    [
        ([], []),
        ([(0, 5), (5, 9)], [[(0, 5), (5, 9)]]),
        ([(0, 5), (8, 9)], [[(0, 5), (8, 9)]]),
        ([(0, 5), (9, 10)], [[(0, 5)], [(9, 10)]]),
        ([(0, 15), (2, 4), (16, 19)], [[(0, 15), (2, 4), (16, 19)]]),
        ([(0, 15), (15, 21)], [[(0, 15)], [(15, 21)]]),
        ([(0, 99), (99, 100)], [[(0, 99)], [(99, 100)]]),
    ],
)
def test_ranges_are_grouped_by_gaps_and_size(ranges: list[tuple[int, int]], groups: list[list[tuple[int, int]]]) -> None:
    assert grouped_ranges(ranges, 3, 20) == groups


async def test_ranges_are_read_as_they_are_and_below_all_checks(store: ObjectStore) -> None:
    one, other = batch(b"a"), batch(b"b", b"c")
    await store.put("wal/1", one + other)
    await store.put("wal/2", one[:-1] + b"x")
    wanted = named("orders-3", [*located("wal/1", one + other), *located("wal/2", one)])
    assert [(where, data) async for where, data in read_ranges(store, wanted)] == list(
        zip(wanted, [one, other, one[:-1] + b"x"], strict=True)
    )
    with pytest.raises(ObjectMissing, match=r"orders-3 offsets 0 to 0: wal/3"):
        [data async for data in read_ranges(store, named("orders-3", located("wal/3", one)))]
