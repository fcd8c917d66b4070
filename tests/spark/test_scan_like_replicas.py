"""The scan agrees with replicas on the state that follows from a log; which entries count: see `test_readers_agree`."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from spark_jobs.store.sink import Store
from tests.spark.scan_logs import Life, findings, follow, rows

VERDICTS = ("accepted", "duplicate", "sequence_gap", "new_epoch_gap", "fenced", "wrong_span", "no_room")


def test_a_healthy_log_of_real_coordinators_gives_their_state_and_no_finding(tmp_path: Path) -> None:
    names: set[str] = set()
    for seed in range(100, 106):
        names |= _compare(seed, tmp_path / str(seed))
    assert {"record.PartitionReleased", "record.PartitionAdopted", "record.ProducersAdopted"} <= names


def _name(topic_id: object, partition: object) -> bytes:
    assert isinstance(topic_id, bytes)
    assert isinstance(partition, int)
    return topic_id + partition.to_bytes(4)


def _compare(seed: int, folder: Path) -> set[str]:
    """Returns the names of the totals."""
    life = Life(seed)
    entries = life.run(120)
    with Store.open(folder) as store:
        follow(store, entries, cuts=range(0, len(entries), 17))
    assert findings(folder) == [], seed
    assert rows(folder, "select * from quarantine") == []
    replica = life.follower()
    hot = replica.view.state.hot
    partitions = {
        hot.partitions.keys[row]: (hot.partitions.log_start.cells[row], hot.partitions.high_watermark.cells[row])
        for row in hot.partitions.rows.rows().tolist()
    }
    query = "select topic_id, partition, start_offset, next_offset from partition"
    assert {_name(topic, partition): (start, end) for topic, partition, start, end in rows(folder, query)} == partitions
    query = "select topic_id, partition, stretch_base, newest_move, released_to from partition where newest_move >= 0"
    stretches = {
        key: (one.base_offset, one.newest_move, None if one.released is None else one.released.to_coordinator)
        for key, one in hot.stretches.items()
    }
    assert {_name(topic, partition): tuple(state) for topic, partition, *state in rows(folder, query)} == stretches
    known = {
        (hot.partitions.keys[hot.producers.owner.cells[at]], hot.producers.producer.cells[at]): (
            hot.producers.epoch.cells[at], (next(hot.producers.remembered(at)).last_sequence + 1) & 0x7FFFFFFF,
            hot.producers.last_append.cells[at],
        )
        for at in hot.producers.rows.rows().tolist()
    }  # fmt: skip
    query = "select topic_id, partition, producer_id, epoch, next_sequence, last_append_ms from producer"
    assert {(_name(topic, partition), one): tuple(state) for topic, partition, one, *state in rows(folder, query)} == known
    files = {row.object_key: (row.batch_count, row.live_batches) for row in replica.view.state.files_after("", 10**6)}
    assert {key: (count, live) for key, count, live in rows(folder, "select object_key, batches, live_batches from file")} == files
    topics = {(topic_id, topic.name) for topic_id, topic in hot.topics.items()}
    assert set(rows(folder, "select topic_id, name from topic where deleted_ms is null")) == topics
    voids = {str(name): value for name, value in rows(folder, "select name, value from total where name like 'void.%'")}
    assert voids == {f"void.{reason}": count for reason, count in replica.view.void_entries.items()}
    return {str(name) for (name,) in rows(folder, "select name from total")}


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
                accepted = [one for one in record.batches if one.verdict == 0]
                count("batches", len(accepted))
                count("records", sum(one.record_count for one in accepted))
                count("bytes", sum(one.byte_size for one in accepted))
                count("file_bytes", record.file_size * is_counted)
                live_bytes[record.object_key] = sum(one.byte_size for one in accepted)
                for one in record.batches:
                    if one.verdict:
                        count(f"other.{VERDICTS[one.verdict]}")
    assert totals == {name: value for name, value in expected.items() if value}
    assert expected["void.stale"] > 0
    sums = rows(tmp_path, "select sum(files), sum(batches), sum(records), sum(bytes), sum(file_bytes), sum(entries) from activity_second")
    assert sums == [tuple(expected[name] for name in ("files", "batches", "records", "bytes", "file_bytes", "entries"))]
    by_partition = rows(tmp_path, "select sum(batches), sum(records), sum(bytes) from activity_partition")
    assert by_partition == [(expected["batches"], expected["records"], expected["bytes"])]
