"""Offsets by time, to the record, from batches in a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.client.errors import SERVED, Refusal
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import MAX_TIMESTAMP
from coordinator.object_store import ObjectStore
from coordinator.protocol.find_batches import BatchLocation
from gateway.offsets.exact import ByTime, ExactOffsets
from gateway.offsets.wire import Told
from records.record_batch import Record, encode_batch

PARTITION = PartitionId(bytes([4] * 16), 2)
BASE = 100
TIMES = [50, 10, 70, 30, 70, 20]


class OneBatch:
    """A batch at offset 100 in the store."""

    def __init__(
        self, size_bytes: int, *, kind: int = 0, log_start: int = 0, error: ErrorCode = ErrorCode.NONE, key: str = "wal/a"
    ) -> None:
        self._location = BatchLocation(1, key, 2, 5, size_bytes, BASE, BASE + len(TIMES) - 1, 999, 70, kind)
        self._log_start = log_start
        self._refusal = Refusal(ErrorCode(error), "told") if error else SERVED

    async def find_batches(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int = 0, timeout_ms: int | None = None
    ) -> list[PartitionBatches]:
        found = []
        for _ in fetches:
            has_room = not found or fetch_bytes_max > 0
            fetch_bytes_max -= self._location.byte_size
            batches = (self._location,) if self._refusal == SERVED and has_room else ()
            found.append(PartitionBatches(refusal=self._refusal, log_start_offset=self._log_start, high_watermark=200, batches=batches))
        return found


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    (tmp_path / "objects").mkdir()
    return open_store(f"file://{tmp_path / 'objects'}")


@pytest.fixture
async def size_bytes(store: ObjectStore) -> int:
    batch = encode_batch([Record(value=b"v", timestamp_ms=time) for time in TIMES])
    await store.put("wal/a", b"other" + batch)
    return len(batch)


@pytest.mark.parametrize(
    ("asked", "log_start", "expected"),
    [
        (0, 0, (50, 100)),
        (50, 0, (50, 100)),
        (51, 0, (70, 102)),
        (60, 103, (70, 104)),
        (20, 103, (30, 103)),
        (71, 0, (70, 105)),  # the header of the batch said more than its records: the coordinator's answer stays
        (MAX_TIMESTAMP, 0, (70, 102)),
        (MAX_TIMESTAMP, 103, (70, 104)),
    ],
)
async def test_the_record_is_found_in_its_batch(
    store: ObjectStore, size_bytes: int, asked: int, log_start: int, expected: tuple[int, int]
) -> None:
    exact = ExactOffsets(OneBatch(size_bytes, log_start=log_start), store)
    listed = [ByTime(PARTITION, asked, 70, 105)] * 2
    assert await exact.refine(listed, 5_000) == [Told(ErrorCode.NONE, *expected, 0)] * 2


async def test_with_append_times_nothing_is_read(store: ObjectStore) -> None:
    exact = ExactOffsets(OneBatch(1, kind=1, log_start=101), store)
    assert await exact.refine([ByTime(PARTITION, 5, 999, 105)], 5_000) == [Told(ErrorCode.NONE, 999, 101, 0)]


async def test_what_cannot_be_read_is_told(store: ObjectStore, size_bytes: int) -> None:
    for logs, error in (
        (OneBatch(size_bytes, key="wal/gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OneBatch(size_bytes - 1), ErrorCode.KAFKA_STORAGE_ERROR),
        (OneBatch(size_bytes, error=ErrorCode.OFFSET_OUT_OF_RANGE), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        assert await ExactOffsets(logs, store).refine([ByTime(PARTITION, 5, 70, 105)], 5_000) == [Told(error)]
