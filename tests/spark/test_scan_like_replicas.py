"""The scan agrees with replicas: on which entries count, and on the state that follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.leadership.fence import Fence
from coordinator.testing.shard_harness import World
from records.codec import decode_entry, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import FileCommitted, LeadershipClaimed, NoOp
from spark_jobs.scan.force import VOID_REASONS
from spark_jobs.scan.summary import CountRow, HeadRow, rows_of
from spark_jobs.store.sink import Store
from tests.spark.scan_logs import Entry, Life, findings, follow, rows, scan

KEYS = st.builds(EntryKey, st.integers(0, 4), st.integers(1, 3), st.integers(0, 4))
MESSAGES = st.tuples(
    st.one_of(st.none(), st.just(b"stray"), KEYS.map(encode_key), KEYS.map(encode_key), KEYS.map(encode_key)),
    st.one_of(
        st.just(encode_entry([NoOp()])),
        st.builds(
            lambda epoch, term: encode_entry([LeadershipClaimed(epoch=epoch, term=term, node_id=1, rack="", endpoints=[])]),
            st.integers(1, 4),
            st.integers(1, 3),
        ),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, max_size=40), st.integers(1, 40))
def test_the_same_entries_are_void_for_the_same_reasons(messages: list[tuple[bytes | None, bytes]], cut: int) -> None:
    world = World()
    replica = world.add_replica()
    claims = [(None, b"")]
    for key, value in messages:
        if key is not None and len(key) == 20 and key.endswith(bytes(8)):
            # Nearly every claim has a body of its own key, so that logs get beyond the first.
            epoch, term = int.from_bytes(key[:4]), int.from_bytes(key[4:12])
            claim = LeadershipClaimed(epoch=epoch, term=term, node_id=1, rack="", endpoints=[])
            value = encode_entry([claim]) if len(claims) % 5 else value
        elif isinstance(decode_entry(value)[0], LeadershipClaimed):
            value = encode_entry([NoOp()])  # a replica stops at a claim inside a term
        claims.append((key, value))
        world.append(key, value)
    if not world.log:
        return
    replica.read()
    assert replica.shard.failure is None
    entries = [Entry(offset, *message, world.now_ms) for offset, message in enumerate(world.log)]
    summary = scan(entries, None, [cut])
    (head,) = rows_of(summary, HeadRow)
    assert Fence(head.epoch or 0, head.term or 0, head.seq or 0) == replica.shard.fence
    counts = {row.name: row.value for row in rows_of(summary, CountRow)}
    assert {reason: counts.get(f"void.{reason}", 0) for reason in VOID_REASONS} == {
        reason: replica.shard.void_entries[reason] for reason in VOID_REASONS
    }


def test_a_healthy_log_of_real_coordinators_gives_their_state_and_no_finding(tmp_path: Path) -> None:
    for seed in range(100, 106):
        _compare(seed, tmp_path / str(seed))


def _name(topic_id: object, partition: object) -> bytes:
    assert isinstance(topic_id, bytes)
    assert isinstance(partition, int)
    return topic_id + partition.to_bytes(4)


def _compare(seed: int, folder: Path) -> None:
    life = Life(seed)
    entries = life.run(120)
    with Store.open(folder) as store:
        follow(store, entries, cuts=range(0, len(entries), 17))
    assert findings(folder) == [], seed
    assert rows(folder, "select * from quarantine") == []
    replica = life.follower()
    hot = replica.shard.state.hot
    partitions = {
        key: (hot.partitions.log_start.cells[row], hot.partitions.high_watermark.cells[row]) for key, row in hot.partitions.index.items()
    }
    query = "select topic_id, partition, start_offset, next_offset from partition"
    assert {_name(topic, partition): (start, end) for topic, partition, start, end in rows(folder, query)} == partitions
    known = {
        (hot.partitions.keys[row], producer_id): (
            hot.producers.epoch.cells[at], (hot.producers.last_sequence(at) + 1) & 0x7FFFFFFF, hot.producers.last_append.cells[at],
        )
        for row, of_partition in hot.producers.index.items()
        for producer_id, at in of_partition.items()
    }  # fmt: skip
    query = "select topic_id, partition, producer_id, epoch, next_sequence, last_append_ms from producer"
    assert {(_name(topic, partition), one): tuple(state) for topic, partition, one, *state in rows(folder, query)} == known
    files = {row.object_key: (row.batch_count, row.live_batches) for row in replica.shard.state.files_after("", 10**6)}
    assert {key: (count, live) for key, count, live in rows(folder, "select object_key, batches, live_batches from file")} == files
    topics = {(topic_id, topic.name) for topic_id, topic in hot.topics.items()}
    assert set(rows(folder, "select topic_id, name from topic where deleted_ms is null")) == topics
    voids = {str(name): value for name, value in rows(folder, "select name, value from total where name like 'void.%'")}
    assert voids == {f"void.{reason}": count for reason, count in replica.shard.void_entries.items()}


@pytest.mark.parametrize("seed", [7, 8])
def test_totals_are_those_of_a_plain_replay(seed: int, tmp_path: Path) -> None:
    life = Life(seed)
    entries = life.run(100)
    with Store.open(tmp_path) as store:
        follow(store, entries, cuts=[11, 50, 51])
    totals = {str(name): value for name, value in rows(tmp_path, "select name, value from total")}
    expected: dict[str, int] = {"entries": len(entries)}

    def count(name: str, value: int = 1) -> None:
        expected[name] = expected.get(name, 0) + value

    epoch = term = seq = 0
    live_bytes: dict[str, int] = {}
    for entry in entries:
        key = entry.key or b""
        parts = (int.from_bytes(key[:4]), int.from_bytes(key[4:12]), int.from_bytes(key[12:])) if len(key) == 20 else None
        if parts is None or (parts[2] and parts != (epoch, term, seq + 1)) or (not parts[2] and parts[0] != epoch + 1):
            count("void.foreign" if parts is None else "void.stale")
            continue
        records = decode_entry(entry.value or b"")
        epoch, term, seq = parts
        for record in records:
            count(f"record.{type(record).__name__}")
            if isinstance(record, FileCommitted):
                is_counted = record.owner_ids[:1] in ([], [0])  # a file of several owners is counted by its first
                count("files", is_counted)
                count("batches", len(record.byte_size))
                count("records", sum(record.record_count_minus_one) + len(record.byte_size))
                count("bytes", sum(record.byte_size))
                count("file_bytes", record.file_size * is_counted)
                live_bytes[record.object_key] = sum(record.byte_size)
                for code in record.other_code:
                    count(f"other.{code}")
    assert totals == {name: value for name, value in expected.items() if value}
    assert expected["void.stale"] > 0
    sums = rows(tmp_path, "select sum(files), sum(batches), sum(records), sum(bytes), sum(file_bytes), sum(entries) from activity_second")
    assert sums == [tuple(expected[name] for name in ("files", "batches", "records", "bytes", "file_bytes", "entries"))]
    by_partition = rows(tmp_path, "select sum(batches), sum(records), sum(bytes) from activity_partition")
    assert by_partition == [(expected["batches"], expected["records"], expected["bytes"])]
