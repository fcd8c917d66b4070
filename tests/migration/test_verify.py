"""The proof of a migrated partition finds every way in which a reader may be wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

import pytest

from coordinator.client.errors import OffsetOutOfRange
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectMissing, StoreDenied, StoreError, StoreUnavailable
from migration.hybrid import HybridOffset
from migration.verify import PartitionProof, prove
from records.record_batch import StoredRecord
from simulation.fakes.classic import InMemoryClassicPartition
from simulation.fakes.diskless_logs import InMemoryDisklessLogs

TOPIC = b"classic-topic-id"
FIRST, START, END = 2, 8, 12
GONE = OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")
ABORTED = {4, 5}
"""Offsets of the prefix without a record for readers."""

Records = list[StoredRecord]


def record(offset: int) -> StoredRecord:
    return StoredRecord(offset=offset, timestamp_ms=1_000 + offset, key=None, value=b"%d" % offset, headers=())


def whole() -> Records:
    return [record(offset) for offset in range(FIRST, END) if offset not in ABORTED]


class ListedRecords:
    """A reader and a witness of one partition that give what they hold."""

    def __init__(self, records: Records, *, error: Exception | None = None) -> None:
        self._records = records
        self._error = error

    async def offset_for(self, partition: int, timestamp: int) -> HybridOffset:
        return HybridOffset(FIRST)

    async def read(self, partition: int, *, offset: int) -> AsyncGenerator[StoredRecord]:
        for one in self._records:
            yield one
        if self._error is not None:
            raise self._error

    async def records(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[StoredRecord]:
        for one in self._records:
            if start_offset <= one.offset < end_offset:
                yield one


async def proof_of(
    read: Records, *, is_cut: bool = False, batches: Sequence[int] = (START,), log_start: int = 0, error: Exception = GONE
) -> PartitionProof:
    classic, logs = InMemoryClassicPartition(topic_id=TOPIC), InMemoryDisklessLogs()
    for count in batches:
        classic.write(None, count)
    classic.log_start_offset = log_start
    await logs.init_diskless_log(TOPIC, 0, start_offset=START, prefix_start=FIRST, leader_epoch=0, producers=())
    logs.commit(TOPIC, 0, END - START)
    return await prove(logs, ListedRecords(read, error=error if is_cut else None), ListedRecords(whole()), classic)


async def test_a_whole_log_has_no_finding() -> None:
    proof = await proof_of(whole())
    assert (proof.finding, proof.prefix_records, proof.suffix_records) == ("", START - FIRST - len(ABORTED), END - START)
    assert (proof.first_offset, proof.start_offset, proof.end_offset) == (FIRST, START, END)


def without(offset: int) -> Callable[[Records], Records]:
    return lambda records: [one for one in records if one.offset != offset]


def doubled(offset: int) -> Callable[[Records], Records]:
    return lambda records: [one for record_ in records for one in [record_] * (2 if record_.offset == offset else 1)]


def swapped(offset: int) -> Callable[[Records], Records]:
    other = {offset: offset + 1, offset + 1: offset}
    return lambda records: [record(other.get(one.offset, one.offset)) for one in records]


def changed(**fields: object) -> Callable[[Records], Records]:
    return lambda records: [replace(one, **fields) if one.offset == 3 else one for one in records]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (without(FIRST), "the record at 2 is not read; 3 follows"),
        (without(6), "the record at 6 is not read; 7 follows"),
        (without(START - 1), "the record at 7 is not read"),
        (without(START), "offset 8 is not read; 9 follows"),
        (without(10), "offset 10 is not read; 11 follows"),
        (without(END - 1), "offsets 11 to 11 are not read"),
        (lambda records: records[:2], "the record at 6 is not read"),
        (doubled(3), "offset 3 is read where 4 or a later one is due"),
        (doubled(START), "offset 8 is read where 9 or a later one is due"),
        (swapped(2), "the record at 2 is not read; 3 follows"),
        (swapped(START - 1), "the record at 7 is not read"),
        (swapped(9), "offset 9 is not read; 10 follows"),
        (lambda records: sorted([*records, record(4)], key=lambda one: one.offset), "the record at 6 is not read; 4 follows"),
        (changed(value=b"other"), "the record at 3 is read with another value"),
        (changed(key=b"k", timestamp_ms=0), "the record at 3 is read with another timestamp_ms and key"),
        (changed(headers=(("h", b""),)), "the record at 3 is read with another headers"),
    ],
)
async def test_every_damage_is_found(damage: Callable[[Records], Records], finding: str) -> None:
    assert (await proof_of(damage(whole()))).finding == finding


async def test_records_that_stand_past_the_start_are_found() -> None:
    assert "offsets 8 to 9 of the classic log are read by nobody" in (await proof_of(whole(), batches=(START, 2))).finding


async def test_a_start_inside_of_a_batch_is_found() -> None:
    assert "offsets 8 to 9 of the classic log are read by nobody" in (await proof_of(whole(), batches=(START - 3, 5))).finding


async def test_a_classic_log_that_begins_behind_the_start_is_looked_at() -> None:
    finding = (await proof_of(whole(), batches=(START, 2, 2), log_start=START + 2)).finding
    assert "offsets 10 to 11 of the classic log are read by nobody" in finding


async def test_nothing_is_known_of_what_was_deleted_behind_the_start() -> None:
    assert (await proof_of(whole(), batches=(START, 2), log_start=START + 2)).finding == ""


@pytest.mark.parametrize("error", [ObjectMissing("wal/a is missing"), StoreError("wal/a ends before byte 7")])
async def test_a_missing_or_cut_object_is_a_finding(error: StoreError) -> None:
    assert (await proof_of(whole()[:2], is_cut=True, error=error)).finding == str(error)


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), StoreDenied("no right")])
async def test_a_store_that_cannot_be_read_now_is_no_finding(error: StoreError) -> None:
    with pytest.raises(type(error)):
        await proof_of(whole()[:2], is_cut=True, error=error)


async def test_records_that_are_deleted_meanwhile_are_no_damage_of_the_log() -> None:
    proof = await proof_of(whole()[:2], is_cut=True)
    assert proof.finding == "records were deleted while they were read (gone): verify again"
