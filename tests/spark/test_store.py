"""The store: one transaction per micro-batch, replays that change nothing, the life of files, retention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import model
from spark_jobs.scan import SUMMARY_DDL, SUMMARY_SCHEMA
from spark_jobs.scan.blocks import pack, pack_batches, unpack
from spark_jobs.scan.summary import FindingRow, HeadRow, LinkRow, batches_of, rows_of
from spark_jobs.store.engine import STORE_ERRORS, StorePlace
from spark_jobs.store.merge_migrations import STEPS_KEPT
from spark_jobs.store.sink import LogMismatchError, StaleHeadsError, Store
from tests.records.examples import EXAMPLES
from tests.spark.planted_violations import travelled
from tests.spark.scan_logs import TOPIC, LogWriter, content, findings, follow, rows, scan

COUNTS = st.integers(0, 2**31 - 1)
TIMES = st.one_of(st.integers(0, 2**31), st.integers(0, 2**62))


def a_log() -> LogWriter:
    log = LogWriter()
    for _ in range(8):
        log.commit((0, 2), (1, 1))
        log.produce(log.next.get((TOPIC, 2), 0), partition=2)
    return log


def test_entries_that_come_again_change_nothing_but_their_counter(place: StorePlace) -> None:
    log = a_log()
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[5])
        before = content(place)
        follow(store, log.entries, cuts=[3, 7])
        after = content(place)
    totals = {name: value for name, _, value in after["total"]}
    assert totals.pop("replayed") == len(log.entries)
    assert totals == {name: value for name, _, value in before["total"]}
    assert {**after, "total": []} == {**before, "total": []}


def test_a_summary_of_old_heads_is_refused_and_changes_nothing(place: StorePlace) -> None:
    log = a_log()
    with Store.open(place) as store, Store.open(place) as second:
        heads = second.heads()
        summary = scan(log.entries, None)
        follow(store, log.entries[:6])
        before = content(place)
        with pytest.raises(StaleHeadsError, match="another monitor"):
            second.merge(summary, heads, {0: 99}, log.now_ms)
        assert content(place) == before
        follow(second, log.entries[6:])
    assert findings(place) == []


def test_a_merge_that_fails_half_way_leaves_everything_as_it_was(place: StorePlace) -> None:
    log = a_log()
    with Store.open(place) as store:
        follow(store, log.entries[:6])
        before = content(place)
        heads = store.heads()
        summary = scan(log.entries[6:], heads[0])
        nameless = pa.array([None] * summary.num_rows, pa.string())
        broken = summary.set_column(summary.column_names.index("text"), "text", nameless)
        with pytest.raises(STORE_ERRORS):
            store.merge(broken, heads, {}, log.now_ms)
        assert content(place) == before
        store.merge(summary, heads, {}, log.now_ms)
    assert findings(place) == []


def test_the_database_belongs_to_one_log(place: StorePlace) -> None:
    with Store.open(place) as store:
        store.adopt_log("meta", "id-1", 4)
        store.adopt_log("meta", "id-1", 6)
        with pytest.raises(LogMismatchError, match="id-2"):
            store.adopt_log("meta", "id-2", 4)
    assert rows(place, "select topic, topic_id, partitions from log") == [("meta", "id-1", 6)]


def state_of(place: StorePlace, key: str, kpart: int = 0) -> tuple[object, ...]:
    query = "select state, live_batches, live_bytes from file where object_key = ? and kpart = ?"
    (row,) = rows(place, query, key, kpart)
    return row


def test_a_file_of_one_owner_is_live_then_deletable_then_removed(place: StorePlace) -> None:
    log = LogWriter()
    log.commit((0, 2), (1, 1))
    with Store.open(place) as store:
        follow(store, log.entries)
        assert state_of(place, "wal/000001") == ("live", 3, 30)
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=3))
        follow(store, log.entries)
        assert state_of(place, "wal/000001") == ("live", 2, 20)
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=4))
        log.now_ms += 500
        log.add(model.TopicDeleted(topic_id=TOPIC, order_offset=1))
        follow(store, log.entries)
        assert state_of(place, "wal/000001") == ("deletable", 0, 0)
        assert rows(place, "select state_since_ms from file") == [(log.now_ms,)]
        assert rows(place, "select count(*) from run_block") == [(0,)]
        log.add(model.FilesRemoved(object_keys=["wal/000001"]))
        follow(store, log.entries)
        assert state_of(place, "wal/000001") == ("removed", 0, 0)
        log.add(model.TombstonesExpired(keys_before_ms=log.now_ms + 1, topics_before_ms=log.now_ms + 1))
        follow(store, log.entries)
    assert rows(place, "select * from file") == []
    assert findings(place) == []


@pytest.mark.parametrize("order", ["0011", "0101", "1100", "1010"])
def test_a_file_of_two_owners_is_handed_over_and_deleted_by_the_last(order: str, place: StorePlace) -> None:
    """Partitions of the metadata topic are read at different speeds: the end is the same."""
    logs = [LogWriter(), LogWriter()]
    for log in logs:
        log.commit((0, 1), owner_ids=[0, 1])
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2))
    middle = [len(log.entries) for log in logs]
    logs[0].add(model.FilesHandedOver(object_keys=["wal/000001"], next_owner_ids=[1]))
    logs[1].add(model.FilesRemoved(object_keys=["wal/000001"]))
    with Store.open(place) as store:
        seen = [0, 0]
        for kpart in map(int, order):
            stop = middle[kpart] if not seen[kpart] else len(logs[kpart].entries)
            follow(store, logs[kpart].entries[seen[kpart] : stop], kpart=kpart)
            seen[kpart] = stop
    assert [state_of(place, "wal/000001", kpart)[0] for kpart in (0, 1)] == ["removed", "removed"]
    assert findings(place) == []


def test_an_empty_file_waits_for_its_turn(place: StorePlace) -> None:
    logs = [LogWriter(), LogWriter()]
    for kpart, log in enumerate(logs):
        log.commit((0, 1), owner_ids=[0, 1])
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2))
        with Store.open(place) as store:
            follow(store, log.entries, kpart=kpart)
        assert state_of(place, "wal/000001", kpart)[0] == "waiting"
    logs[0].add(model.FilesHandedOver(object_keys=["wal/000001"], next_owner_ids=[1]))
    with Store.open(place) as store:
        follow(store, logs[0].entries)
    assert [state_of(place, "wal/000001", kpart)[0] for kpart in (0, 1)] == ["waiting", "deletable"]
    assert rows(place, "select next_owner from file where kpart = 0") == [(1,)]


def test_a_file_of_several_owners_is_one_object_with_its_bytes_once(place: StorePlace) -> None:
    logs = [LogWriter() for _ in range(3)]
    with Store.open(place) as store:
        for kpart, log in enumerate(logs):
            log.commit((kpart, 2), owner_ids=[1, 0, 2], file_size=105, object_key="wal/shared")
            log.commit((kpart, 1), owner_ids=[kpart], file_size=15, object_key=f"wal/own-{kpart}")
            log.commit((kpart, 1), owner_ids=[], file_size=7, object_key=f"wal/nobodys-{kpart}")
            follow(store, log.entries, kpart=kpart)
    totals = {str(name): value for name, value in rows(place, "select name, sum(value) from total group by name")}
    assert (totals["files"], totals["file_bytes"]) == (1 + 3 + 3, 105 + 3 * 15 + 3 * 7)
    assert (totals["batches"], totals["record.FileCommitted"]) == (3 * 4, 9)
    assert rows(place, "select sum(files), sum(file_bytes), sum(multi_owner_files) from activity_second") == [(7, 171, 1)]
    assert rows(place, "select sum(files), sum(file_bytes), sum(batches) from activity_uploader") == [(7, 171, 12)]
    sizes = "select sum(count) from histogram where name = ?"
    assert rows(place, sizes, "file_bytes") == [(7,)]
    assert rows(place, sizes, "batches_per_file") == [(9,)], "a coordinator knows only its own batches of a file"
    assert rows(place, "select kpart, files from activity_second where multi_owner_files > 0") == [(1, 3)], "its first owner counts it"


def test_keys_that_were_never_committed_are_shown_as_fenced(place: StorePlace) -> None:
    log = LogWriter()
    log.add(model.FilesFenced(object_keys=["wal/a", "wal/b"], created_ms=[log.now_ms, -1]))
    with Store.open(place) as store:
        follow(store, log.entries)
    assert [state_of(place, key)[0] for key in ("wal/a", "wal/b")] == ["fenced", "fenced"]


def test_batches_are_found_in_many_small_blocks_and_in_large_ones(place: StorePlace) -> None:
    log = LogWriter()
    for _ in range(300):
        log.commit((0, 3))
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[*range(0, 40, 2), 200])
        log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=6 * 100 + 3))
        follow(store, log.entries)
    assert rows(place, "select sum(live_batches), sum(case when state = 'deletable' then 1 else 0 end) from file") == [(300 * 3 - 301, 100)]
    assert rows(place, "select live_batches, live_bytes from file where object_key = 'wal/000101'") == [(2, 20)]


def test_old_activity_is_forgotten_and_totals_stay(place: StorePlace) -> None:
    log = a_log()
    with Store.open(place) as store:
        follow(store, log.entries)
        assert rows(place, "select count(*) > 0 from activity_partition") == [(1,)]
        store.merge(scan([], store.heads()[0]), store.heads(), {}, log.now_ms + 3 * 3_600_000)
        assert rows(place, "select count(*) from activity_partition union all select count(*) from activity_second") == [(0,), (0,)]
        assert rows(place, "select count(*) > 0 from activity_topic") == [(1,)]
        store.merge(scan([], store.heads()[0]), store.heads(), {}, log.now_ms + 25 * 3_600_000)
    for table in ("activity_topic", "activity_uploader", "histogram"):
        assert rows(place, f"select count(*) from {table}") == [(0,)]
    assert rows(place, "select value from total where name = 'files'") == [(16,)]


def test_what_is_too_old_to_be_kept_is_never_written(place: StorePlace) -> None:
    with Store.open(place) as store:
        follow(store, a_log().entries, now_ms=1_900_000_000_000)
    assert rows(place, "select count(*) from activity_second union all select count(*) from activity_topic") == [(0,), (0,)]


def test_the_lag_and_the_freshness_of_a_micro_batch_are_noted(place: StorePlace) -> None:
    log = a_log()
    with Store.open(place) as store:
        heads = store.heads()
        store.merge(scan(log.entries, None), heads, {0: len(log.entries) + 30, 1: 12}, log.entries[0].timestamp_ms + 700, scan_ms=5)
    assert rows(place, "select entries, batches, scan_ms, lag_entries from micro_batch") == [(len(log.entries), 32, 5, 42)]
    assert rows(place, "select upper, count from histogram where name = 'freshness_ms'") == [(1024, 1)]
    assert rows(place, "select log_end - next_offset from head") == [(30,)]


def test_it_is_known_since_when_a_partition_waits_and_what_operators_did(place: StorePlace) -> None:
    log, times = LogWriter(), list[int]()

    def step(record: model.Record | None = None) -> None:
        log.now_ms += 1000
        times.append(log.now_ms)
        if record is None:
            log.await_partition(3)
        else:
            log.add(record)

    where = {"topic_id": TOPIC, "partition": 3}
    begun = model.DisklessLogInitialized(**where, base_offset=50, prefix_start_offset=20, leader_epoch=1, producers=[])
    for record in (None, begun, model.DisklessLogReset(**where, leader_epoch=2), model.DisklessLogReset(**where, leader_epoch=3)):
        step(record)
    known = "select diskless_base, prefix_start, leader_epoch, last_append_ms from partition where partition = 3"
    with Store.open(place) as store:
        follow(store, log.entries)
        assert rows(place, known) == [(-1, -1, 3, times[2])]  # reset once more it goes on waiting
        told = len(log.entries)
        step(replace(begun, leader_epoch=4))
        step(model.DisklessLogRepaired(**where, base_offset=40, leader_epoch=4))
        follow(store, log.entries[told:])
    assert rows(place, known) == [(40, 20, 4, times[4])]
    steps = "select step, base_before, base_after, leader_epoch, append_ms from migration_step order by entry_offset"
    assert rows(place, steps) == [("reset", 50, -1, 2, times[2]), ("reset", -1, -1, 3, times[3]), ("repair", 50, 40, 4, times[5])]


def test_the_newest_steps_of_operators_are_kept(place: StorePlace) -> None:
    log = LogWriter()
    log.await_partition(3)
    for epoch in range(STEPS_KEPT + 5):
        log.now_ms += epoch % 2
        log.add(model.DisklessLogReset(topic_id=TOPIC, partition=3, leader_epoch=epoch))
    with Store.open(place) as store:
        follow(store, log.entries)
    assert rows(place, "select count(*), min(leader_epoch), max(leader_epoch) from migration_step") == [(STEPS_KEPT, 5, STEPS_KEPT + 4)]


def test_every_record_type_is_taken_over(place: StorePlace) -> None:
    log = LogWriter()
    for record in EXAMPLES[1:]:
        log.add(record)
    # Those among the examples contradict a log so short.
    log.commit((0, 1))
    log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2))
    log.add(model.FilesHandedOver(object_keys=["wal/000001"], next_owner_ids=[1]))
    travelled(log)
    log.add(model.TransactionBegan(name="empty", num_chunks=0))
    log.add(model.TransactionEnded(num_chunks=0))
    with Store.open(place) as store:
        follow(store, log.entries, cuts=range(len(log.entries)))
    counted = {name for (name,) in rows(place, "select name from total where name like 'record.%'")}
    # A restore counts at the beginning of a log alone.
    assert counted == {f"record.{type(record).__name__}" for record in EXAMPLES if not isinstance(record, model.Restored)}
    assert rows(place, "select * from quarantine") == []
    for table in ("claim", "node", "node_directory", "replica_directory", "feature", "snapshot", "topic"):
        assert rows(place, f"select count(*) > 0 from {table}") == [(1,)], table
    assert rows(place, "select rack, endpoints, schema_level_max from node") == [
        ("", "CLIENT://node-1.example:9192,INTERNAL://10.0.0.1:9193", 1)
    ]


def test_a_drain_of_a_node_is_known_until_it_ends_and_is_no_start(place: StorePlace) -> None:
    log = LogWriter()
    node = next(one for one in EXAMPLES if isinstance(one, model.NodeRegistered))
    for drain in (0, 2):
        log.add(replace(node, node_id=5, drain=drain))
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[1])
        assert rows(place, "select drain from node where node_id = 5") == [(2,)]
    assert len(rows(place, "select * from happening where node_id = 5")) == 1


def test_starts_of_nodes_are_noted_once_and_another_version_is_a_deployment(place: StorePlace) -> None:
    log = LogWriter()
    node = next(one for one in EXAMPLES if isinstance(one, model.NodeRegistered))
    starts = [
        log.add(replace(node, node_id=5, incarnation_id=incarnation, schema_level_max=level, rack=rack))
        for incarnation, level, rack in ((b"a" * 16, 3, ""), (b"a" * 16, 3, "moved"), (b"b" * 16, 3, ""), (b"c" * 16, 4, ""))
    ]
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[2])
    noted = rows(place, "select entry_offset, kind, level from happening where node_id = 5 order by entry_offset")
    assert noted == [(starts[0], "start", 3), (starts[2], "start", 3), (starts[3], "deployment", 4)]
    assert rows(place, "select count(*) > 0 from happening where kind = 'level'") == [(1,)]


# ---- formats


@given(st.integers(0, 2**40), st.lists(st.tuples(COUNTS, COUNTS, st.integers(0, 2**33), TIMES), min_size=1, max_size=40))
def test_frames_are_read_back_as_they_were_written(base: int, batches: list[tuple[int, int, int, int]]) -> None:
    counts, sizes, times = (np.array([batch[which] for batch in batches], np.int64) for which in (0, 1, 3))
    files = np.cumsum(np.array([batch[2] for batch in batches], np.int64))
    frame = pack(base, counts, sizes, files, times)
    found = unpack(frame + frame)
    starts = base + np.cumsum(counts + 1) - (counts + 1)
    wanted = {"base_offset": starts, "records": counts + 1, "size_bytes": sizes, "file": files, "time_ms": times}
    for name, column in wanted.items():
        assert getattr(found, name).tolist() == column.tolist() * 2
    again = unpack(pack_batches(found))
    assert again.base_offset.tolist() == found.base_offset.tolist()
    assert again.file.tolist() == found.file.tolist()
    assert again.time_ms.tolist() == found.time_ms.tolist()


def test_rows_of_a_summary_are_read_back_and_the_schema_is_that_of_spark() -> None:
    head = HeadRow(1, 7, 3, 3, 9, 8, None, None, None, "{}")
    link = LinkRow(1, 5, 6, TOPIC, 2, 0, 4, 8, 0, 3, 8, 30, 7, 9, b"frame")
    finding = FindingRow(1, 6, "offset-gap", "text", expected=3)
    table = pa.Table.from_batches(list(batches_of([head, link, finding, link])), SUMMARY_SCHEMA)
    assert rows_of(table, HeadRow) == [head]
    assert rows_of(table, LinkRow) == [link, link]
    assert rows_of(table, FindingRow) == [finding]
    words = {"string": "string", "int32": "int", "int64": "long", "binary": "binary"}
    spark = ", ".join(f"{field.name} {words[str(field.type)]}" for field in SUMMARY_SCHEMA)
    assert spark == SUMMARY_DDL
