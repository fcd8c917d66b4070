"""No bytes make the scan or the merge fail, and none of them makes a counter wrong."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.codec import UnreadableEntry, decode_entry, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import LeadershipClaimed, PartitionCreated
from spark_jobs.scan.summary import CountRow, HeadRow, rows_of
from spark_jobs.store.engine import StorePlace, open_writer
from spark_jobs.store.sink import Store
from tests.records.examples import EXAMPLES
from tests.records.strategies import ANY_RECORD
from tests.spark.scan_logs import TOPIC, Entry, LogWriter, follow, rows, scan

NUMBERS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=24), st.none() | st.binary(max_size=60), NUMBERS), min_size=1, max_size=20))
def test_any_messages_are_scanned_and_merged(messages: list[tuple[bytes | None, bytes | None, int]]) -> None:
    summary = scan([Entry(offset, *message) for offset, message in enumerate(messages)], None)
    assert {row.name: row.value for row in rows_of(summary, CountRow)}["entries"] == len(messages)


@pytest.mark.parametrize("places", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_any_records_in_force_are_merged(place: StorePlace) -> None:
    """Every value that a record can hold, in a store that goes on: absurd offsets, sizes, times, ids."""
    counter = iter(range(10**6))

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.lists(ANY_RECORD, max_size=3), min_size=1, max_size=6), NUMBERS)
    def check(entries: list[list[object]], timestamp_ms: int) -> None:
        log = LogWriter()
        for records in entries:
            log.add(*records)  # type: ignore[arg-type]
        kpart = next(counter) % 1000
        with Store.open(place) as store:
            with closing(open_writer(place)) as db, db.writing():
                for table in ("head", "held_entry", "open_transaction"):
                    db.execute(f"delete from {table} where kpart = ?", (kpart,))
            log.entries[-1] = log.entries[-1]._replace(timestamp_ms=timestamp_ms)
            follow(store, log.entries, cuts=[3], now_ms=log.now_ms, kpart=kpart)
            assert store.heads()[kpart].next_offset == len(log.entries)

    check()


@pytest.mark.parametrize("seed", range(3))
def test_mutated_entries_are_either_read_or_quarantined(seed: int, place: StorePlace) -> None:
    chance = random.Random(seed)
    log = LogWriter()
    values = [encode_entry([record]) for record in EXAMPLES if not isinstance(record, LeadershipClaimed | PartitionCreated)]
    values += [encode_entry([log.file([(0, 9), (1, 9), (2, 30)])]) for _ in range(20)]
    unreadable = 0
    for _ in range(150):
        value = _mutated(chance, chance.choice(values))
        try:
            decode_entry(value)
        except UnreadableEntry:
            unreadable += 1
        log.seq += 1
        log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), value)
    assert unreadable > 20
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[40], arrow_cuts=[10, 30])
    totals = {str(name): value for name, value in rows(place, "select name, value from total")}
    assert totals["quarantined"] == unreadable
    assert totals["entries"] == len(log.entries)


def _mutated(chance: random.Random, value: bytes) -> bytes:
    data = bytearray(value)
    kind = chance.randrange(4)
    if kind == 0:
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == 1:
        del data[chance.randrange(len(data)) :]
    elif kind == 2:
        data += chance.randbytes(chance.randint(1, 4))
    return bytes(data)


def test_mutated_keys_are_void_or_count(tmp_path: Path) -> None:
    chance = random.Random(5)
    log = LogWriter()
    log.commit((0, 1))
    for _ in range(600):
        key, value = log.entries[chance.randrange(len(log.entries))].key or b"", log.entries[-1].value
        log.raw(_mutated(chance, key) if key else None, value)
    summary = scan(log.entries, None, range(0, 600, 37))
    (head,) = rows_of(summary, HeadRow)
    counts = {row.name: row.value for row in rows_of(summary, CountRow)}
    applied = sum(value for name, value in counts.items() if name.startswith("record.")) - counts["record.FeatureLevelSet"]
    void = sum(value for name, value in counts.items() if name.startswith("void."))
    assert applied + void + counts.get("quarantined", 0) == len(log.entries)
    assert (head.epoch, head.term) == (1, log.term)


def test_a_partition_of_absurdly_many_is_bounded(tmp_path: Path) -> None:
    log = LogWriter()
    log.add(PartitionCreated(topic_id=TOPIC, name="huge", first_partition=0, num_partitions=2**31 - 1, order_offset=9))
    with Store.open(tmp_path) as store:
        follow(store, log.entries)
    assert rows(tmp_path, "select rule, found from finding") == [("absurd-partition-count", 2**31 - 1)]
    assert rows(tmp_path, "select count(*) from partition") == [(3,)]
