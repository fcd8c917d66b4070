"""The contract of a state store, for the SQLite database and its twin in memory: a replica that writes, restarts and reads
again is the replica that never did."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.adapters.sqlite.reader import NAMES_MAX
from coordinator.core.commands import OK, OffsetQuery
from coordinator.core.reads.queries import list_offset
from coordinator.core.state.replica_state import ShardState
from records.model import FilesFenced, PartitionAdopted, PartitionReleased, RecordsDeleted, TombstonesExpired, TopicDeleted
from simulation.fakes.state_store import MemoryStateStore, MemoryStateStores
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica, Store, answers, header
from tests.sqlite.small_records import OTHER_TOPIC, TOPIC, base_of, covered, created, deleted, file, live, started

OpenStore = Callable[[], Store]


@pytest.fixture(params=["sqlite", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    stores = StateDatabases(tmp_path, boot_id="boot") if request.param == "sqlite" else MemoryStateStores()
    return lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)


def memory_replica() -> Replica:
    store = MemoryStateStore()
    return Replica(lambda: store)


@pytest.mark.parametrize("seed", range(16))
def test_flush_points_and_restarts_change_neither_answers_nor_digest(open_store: OpenStore, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 1000), files_per_record=rng.choice([0.5, 0.8]))
    entries = []
    subject, plain = Replica(open_store), memory_replica()
    flush_chance = rng.choice([0.05, 0.3, 0.8])
    in_flight = False
    for offset in range(120):
        record = model.next_record()
        entries.append(record)
        subject.apply([record], offset)
        plain.apply([record], offset)
        if rng.random() < 0.3:
            subject.state.trim_step(rows_max=rng.choice([1, 3, 1000]))
        if in_flight and rng.random() < 0.5:
            subject.state.written()
            in_flight = False
        elif not in_flight and rng.random() < flush_chance:
            subject.freeze_and_write()
            in_flight = True
        if rng.random() < 0.05:
            subject.restart(clean=rng.random() < 0.5)
            in_flight = False
            for again in range(subject.state.applied_offset + 1, offset + 1):
                subject.apply([entries[again]], again)
        if offset % 30 == 29:
            check_equal(subject, plain, model)
    if in_flight:
        subject.state.written()
    assert subject.digest() == plain.digest()
    subject.restart()
    check_equal(subject, plain, model)
    assert subject.digest() == plain.digest()
    subject.store.close(clean=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_time_finds_the_first_batch_that_a_look_at_all_of_them_finds(open_store: OpenStore, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 2000), files_per_record=0.8)
    replica = Replica(open_store)
    for offset in range(80):
        replica.apply([model.next_record()], offset)
        if rng.random() < 0.1:
            replica.flush()
    state, table = replica.state, replica.state.hot.partitions
    for row in table.rows.rows().tolist():
        if table.first_offset.cells[row] < 0:
            continue  # a classic partition that is pending answers no times
        key, log_start = table.keys[row], table.log_start.cells[row]
        batches = [batch for run in state.runs_from(row, log_start) for batch in run.rows().tolist() if batch[0] + batch[1] > log_start]
        times = [effective_time(state, batch) for batch in batches]
        for time in sorted({0, *times, *(time + 1 for time in times), (1 << 63) - 1}):
            if not 0 <= time < 1 << 63:
                continue
            hit = next((at for at, found in enumerate(times) if found >= time), None)
            expected = (OK, -1, -1) if hit is None else (OK, times[hit], max(log_start, batches[hit][0]))
            found = list_offset(state, OffsetQuery(key[:16], int.from_bytes(key[16:], "big"), time))
            assert (found.outcome, found.timestamp, found.offset) == expected
    replica.store.close(clean=True)


def effective_time(state: ShardState, batch: tuple[int, ...]) -> int:
    """The time of a row of `ROW`: its file's, if it has that."""
    *_, file_id, _, timestamp, _, kind = batch
    if not kind:
        return timestamp
    name = state.file_name(file_id)
    assert name is not None
    return name.append_time_ms


def test_names_of_files_are_the_same_however_few_are_kept(open_store: OpenStore) -> None:
    replica = started(open_store)
    keys = [f"k{number}" for number in range(NAMES_MAX + 3)]
    for offset, key in enumerate(keys, 1):
        replica.apply([file(key, {0: 1}, base=offset - 1)], offset)
    replica.flush()
    for _ in range(2):
        names = [replica.state.file_name(offset) for offset in range(len(keys) + 2)]
        assert [None if name is None else name.object_key for name in names] == [None, *keys, None]
    replica.store.close(clean=True)


def test_counters_leave_out_a_flush_the_loop_does_not_know_of(open_store: OpenStore) -> None:
    # The state takes the losses of the frozen generation away itself: doing it twice would declare a live file dead.
    replica = started(open_store)
    replica.apply([file("a", {0: 4})], 1)
    replica.flush()
    replica.apply([deleted(0, 2)], 2)
    replica.trim()
    replica.freeze_and_write()
    assert live(replica, "a") == 2
    replica.state.written()
    assert live(replica, "a") == 2
    assert replica.state.cold.files_after("", 10)[0].live_batches == 2


def test_an_expired_tombstone_stays_expired_and_a_later_one_stays(open_store: OpenStore) -> None:
    fenced, expired = FilesFenced(object_keys=["k"], created_ms=[50]), TombstonesExpired(keys_before_ms=100, topics_before_ms=100)
    for flush_after in (0, 1, 2):
        replica = Replica(open_store)
        base = replica.state.applied_offset + 1
        for number, record in enumerate((fenced, expired, fenced)):
            replica.apply([record], base + number)
            assert (replica.state.find_tombstone("k") is None) == (record is expired)
            if number == flush_after:
                replica.flush()
                assert (replica.state.find_tombstone("k") is None) == (record is expired)
        replica.flush()
        replica.restart()
        assert replica.state.find_tombstone("k") is not None
        replica.apply([expired], base + 3)
        replica.flush()
        replica.restart()
        assert replica.state.find_tombstone("k") is None
        replica.store.close(clean=True)


def test_batches_that_were_written_together_are_counted_out_together(open_store: OpenStore) -> None:
    """Each write of the state then has the counts of few files, though a file has batches of many partitions."""
    replica = started(open_store, partitions=5)
    for number in range(3):
        replica.apply([file(f"f{number}", dict.fromkeys(range(5), 70), base=70 * number)], number + 1)
        replica.flush()
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 4)
    counts = []
    while replica.state.trim_step(rows_max=1):
        counts.append([live(replica, f"f{number}") for number in range(3)])
    assert [sum(0 < count < 350 for count in step) for step in counts] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert [live(replica, f"f{number}") for number in range(3)] == [0, 0, 0]


def test_a_reused_row_shows_nothing_of_the_partition_before(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {0: 50})], 1)
    replica.flush()
    assert replica.store.reader().run_covering(0, 0) is not None
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 2)
    replica.flush()
    replica.trim()
    replica.flush()
    assert replica.store.reader().run_covering(0, 0) is None
    replica.apply([created(OTHER_TOPIC, 2)], 3)
    replica.apply([file("b", {0: 1}, topic=OTHER_TOPIC)], 4)
    replica.flush()
    assert replica.state.hot.partitions.find(OTHER_TOPIC, 0) == 0
    assert covered(replica.store.reader(), 0) == (0, 0)


def test_a_partition_that_came_back_is_there_after_a_restart_though_its_earlier_stretch_is_not_trimmed(open_store: OpenStore) -> None:
    # Partition 1 is deleted, so that the one which comes back gets a row before that of its earlier stretch.
    replica = started(open_store)
    replica.apply([dataclasses.replace(created(OTHER_TOPIC, 1), order_offset=2)], 1)
    replica.apply([file("a", {0: 3}, topic=OTHER_TOPIC)], 2)
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=3)], 3)
    replica.trim()
    replica.flush()
    where = {"topic_id": OTHER_TOPIC, "partition": 0}
    replica.apply([PartitionReleased(**where, move_id=1, to_coordinator=2, time_ms=1)], 4)
    replica.apply([RecordsDeleted(**where, new_log_start_offset=3)], 5)
    replica.apply([PartitionAdopted(**where, name="t", move_id=2, start_offset=4, base_offset=9, earlier=[])], 6)
    replica.flush()
    replica.restart()
    assert replica.state.hot.partitions.find(OTHER_TOPIC, 0) == 0
    replica.apply([file("b", {0: 2}, topic=OTHER_TOPIC, base=9)], 7)
    replica.trim()
    replica.flush()
    replica.restart()
    row = replica.state.hot.partitions.find(OTHER_TOPIC, 0)
    assert row is not None
    partitions = replica.state.hot.partitions
    assert [column.cells[row] for column in (partitions.log_start, partitions.high_watermark)] == [4, 11]
    assert [live(replica, key) for key in "ab"] == [0, 2]


def test_trimming_a_dead_partition_goes_on_where_it_was(open_store: OpenStore) -> None:
    replica = started(open_store)
    for offset in (1, 2):
        replica.apply([file(f"f{offset}", {0: 70}, base=(offset - 1) * 70)], offset)
        replica.flush()
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 3)
    replica.flush()
    assert replica.state.trim_step(rows_max=1)
    replica.flush()
    done = dict(replica.state.trimming)
    assert done
    replica.restart()
    assert replica.state.trimming == done
    replica.trim()
    assert [live(replica, key) for key in ("f1", "f2")] == [0, 0]
    replica.flush()
    assert [live(replica, key) for key in ("f1", "f2")] == [0, 0]
    replica.restart()
    stored = replica.store.load()
    assert stored is not None
    assert stored.partitions == []


def test_what_is_trimmed_between_other_changes_is_stored_in_the_digest(open_store: OpenStore) -> None:
    # The digest of a partition's batches is taken away as a whole when its topic goes: it must know of every trim.
    subject, plain = started(open_store), started(lambda: MemoryStateStore())
    for replica in (subject, plain):
        replica.apply([file("a", {0: 9})], 1)
        replica.apply([deleted(0, 4)], 2)
    subject.flush()
    subject.trim()
    subject.flush()
    subject.restart()
    for replica in (subject, plain):
        replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 3)
    assert subject.digest() == plain.digest()


def test_purging_takes_every_run(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {0: 70})], 1)
    replica.flush()
    reader = replica.store.reader()
    assert covered(reader, 0) == (0, 69)
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 2)
    replica.trim()
    flush = replica.packer.pack(replica.state.freeze(header(replica.state)))
    assert flush.partitions_purged == [0]
    replica.store.write(dataclasses.replace(flush, trimmed=[]))
    replica.state.written()
    assert covered(reader, 0) is None
    replica.apply([created(OTHER_TOPIC, 1)], 3)
    replica.apply([file("b", {0: 1}, topic=OTHER_TOPIC)], 4)
    replica.flush()
    assert covered(reader, 0) == (0, 0)


def test_runs_below_the_trimmed_offset_are_deleted(open_store: OpenStore) -> None:
    replica = started(open_store)
    for offset in (1, 2, 3):
        replica.apply([file(f"f{offset}", {0: 70}, base=(offset - 1) * 70)], offset)
        replica.flush()
    reader = replica.store.reader()
    assert covered(reader, 0) == (0, 69)
    replica.apply([deleted(0, 100)], 4)
    replica.trim()
    replica.flush()
    assert covered(reader, 0) == (70, 139)
    assert covered(reader, 140) == (140, 209)
    assert covered(reader, 210) is None


def test_runs_are_found_by_time_though_times_go_back_and_forth(open_store: OpenStore) -> None:
    replica = started(open_store)
    for offset, time in enumerate((500, 900, 300, 900, 700), 1):
        replica.apply([file(f"f{offset}", {0: 70}, base=(offset - 1) * 70, time_ms=time)], offset)
        replica.flush()
    reader = replica.store.reader()
    reaching = [[base_of(reader.run_reaching(0, at, time)) for at in (0, 80, 150)] for time in (0, 301, 800, 901)]
    assert reaching == [[0, 70, 140], [0, 70, 210], [70, 70, 210], [None, None, None]]
    assert [base_of(reader.max_run(0, at)) for at in (0, 139, 140, 300, 350)] == [70, 70, 210, 280, None]
    assert reader.run_reaching(7, 0, 0) is None


def test_files_come_in_key_order(open_store: OpenStore) -> None:
    replica = started(open_store)
    for offset, key in enumerate(("c", "a", "b", "d"), 1):
        replica.apply([file(key, {0: 1}, base=offset - 1)], offset)
    replica.flush()
    reader = replica.store.reader()
    assert [row.object_key for row in reader.files_after("", 3)] == ["a", "b", "c"]
    assert [(row.object_key, row.file_id) for row in reader.files_after("b", 3)] == [("c", 1), ("d", 4)]


def kept(replica: Replica, *keys: str) -> list[bool]:
    """Whether the results of these files are still there; everything else about them must be."""
    rows = [replica.state.find_file(key) for key in keys]
    return [row is not None and row.content_hash == b"c" * 16 and len(row.record) > 0 for row in rows]


def test_results_of_old_commits_go_and_their_files_stay(open_store: OpenStore) -> None:
    replica, plain = started(open_store), started(lambda: MemoryStateStore())
    for offset, key in enumerate(("a", "b", "c"), 1):
        for one in (replica, plain):
            one.apply([file(key, {0: 1}, base=offset - 1, time_ms=1000 * offset)], offset)
    replica.flush(results_before_ms=2000)
    assert kept(replica, "a", "b", "c") == [False, True, True]
    replica.restart()
    assert kept(replica, "a", "b", "c") == [False, True, True]
    assert [live(replica, key) for key in ("a", "b", "c")] == [1, 1, 1]
    replica.flush(results_before_ms=3000)
    assert kept(replica, "a", "b", "c") == [False, False, True]
    assert replica.digest() == plain.digest()


def check_equal(subject: Replica, plain: Replica, model: LogModel) -> None:
    subject.trim()
    plain.trim()
    expected = answers(plain.state, model)
    found = answers(subject.state, model)
    for question, answer in expected.items():
        assert found[question] == answer, question
    for key, count in model.live.items():
        assert live(subject, key) == count, key


def test_files_of_which_nothing_was_accepted_are_written_alone(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.flush()
    replica.apply([file("nothing", {})], 10)
    replica.flush()
    replica.restart()
    assert live(replica, "nothing") == 0


def test_a_step_of_trimming_looks_at_few_partitions_however_many_a_deleted_topic_had(open_store: OpenStore) -> None:
    replica = started(open_store, partitions=1000)
    replica.apply([TopicDeleted(topic_id=TOPIC, order_offset=2)], 10)
    steps = 1
    while replica.state.trim_step(rows_max=100):
        steps += 1
    assert steps == 100
    replica.flush()
    assert not replica.state.dead
