"""Pages of partitions that moved: where each is and since when, its stretches, and numbers that are of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from records.model import RecordsDeleted, SeededProducerBatch
from spark_jobs.dashboard.panels.look import look
from spark_jobs.dashboard.panels.marks import marks
from spark_jobs.dashboard.panels.partitions import ORDERS as SORTS
from spark_jobs.dashboard.panels.partitions import partitions
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.retention import RetentionLimits
from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.dashboard.panels.topics import topics
from spark_jobs.store.engine import StoreConnection, StorePlace, open_reader
from spark_jobs.store.sink import Store
from tests.spark.planted_violations import adopted, adopted_producers
from tests.spark.scan_logs import follow
from tests.spark.test_dashboard_look import facts, links, table
from tests.spark.test_store_moves import ORDERS, Service


@pytest.fixture
def db(place: StorePlace) -> Iterator[StoreConnection]:
    """Partition 0 has gone to coordinator 2 and on to coordinator 0, partition 2 has left for coordinator 1 and is not there yet."""
    service = Service()
    logs = service.logs
    service.move(1, 0, 1, 2)
    service.commit(2, (0, 2), (2, 3))
    service.order(2, 0, 2, 0)
    service.release(2, 0, 2, 0)
    seed = SeededProducerBatch(producer_id=5, producer_epoch=2, base_sequence=0, last_sequence=1, base_offset=4, timestamp_ms=-1)
    logs[0].add(adopted(logs[0], 2, 0, 6, 0, ORDERS), adopted_producers(seed, topic_id=ORDERS))
    service.done(2, 0)
    logs[0].starts[(ORDERS, 0)] = 2
    logs[0].add(RecordsDeleted(topic_id=ORDERS, partition=0, new_log_start_offset=2))
    logs[1].add(RecordsDeleted(topic_id=ORDERS, partition=0, new_log_start_offset=2))
    service.commit(0, (0, 3))
    service.order(3, 2, 2, 1)
    service.release(3, 2, 2, 1)
    with Store.open(place) as store:
        for kpart in range(3):
            follow(store, logs[kpart].entries, kpart=kpart, now_ms=1)
    with closing(open_reader(place)) as opened:
        yield opened


def seen(db: StoreConnection, name: str) -> Json:
    return look(db, PanelQuery(look=name), SIGHT)


SIGHT = Sight(now_ms=2_000_000_000_000, retention=RetentionLimits(-1, 1000))


def test_a_page_says_where_a_partition_is_and_what_each_coordinator_has_of_it(db: StoreConnection) -> None:
    answer = seen(db, "partition/orders/0")
    known = facts(answer)
    assert (known["Coordinator"], known["There since it moved"], "Leaves for" in known) == ("coordinator 0", 2, False)
    assert [known[name] for name in ("Log start", "High watermark", "Batches", "Records", "Data committed")] == ["2", "12", "6", "12", 60]
    assert [row[:6] for row in table(answer, "Stretches")] == [
        ["coordinator 1", "0", "2", "1", 10, "1"],
        ["coordinator 2", "2", "6", "2", 20, "2"],
        ["coordinator 0", "6", "12", "3", 30, "2"],
    ]
    assert [row[7] for row in table(answer, "Stretches")] == ["coordinator 2", "coordinator 0", None]
    # The batch in coordinator 1 is deleted. By size the owner's 30 bytes count alone: 970 more are kept until the first 10 go.
    assert [row[0] for row in table(answer, "Live batches")] == ["2", "4", "6", "8", "10"]
    assert [known[name] for name in ("Live batches", "Live data", "Deleted", "Objects of its live batches")] == ["5", 50, 10, "2"]
    assert known["Next goes by size after so much more"] == 980
    assert {"coordinator/1", "coordinator/2", "producer/5"} <= links(answer)
    leaving = facts(seen(db, "partition/orders/2"))
    assert (leaving["Coordinator"], leaving["Leaves for"], leaving["Batches"]) == ("coordinator 2", "coordinator 1", "3")
    still = seen(db, "partition/orders/1")
    assert "There since it moved" not in facts(still)
    assert [one["title"] for one in still["tables"] if one["title"] == "Stretches"] == []


def test_a_topic_counts_a_partition_once_and_all_that_it_has(db: StoreConnection) -> None:
    answer = seen(db, "topic/orders")
    known = facts(answer)
    assert [known[name] for name in ("Partitions", "Batches", "Live data", "Data committed")] == ["3", "10", 90, 100]
    assert [(row[0], row[3], row[7], row[8]) for row in table(answer, "Partitions")] == [
        ("orders-0", "6", "coordinator 0", 50),
        ("orders-1", "1", "coordinator 1", 10),
        ("orders-2", "3", "coordinator 2", 30),
    ]
    (row,) = topics(db, PanelQuery(limit=5), SIGHT)["rows"]
    assert (row["partitions"], row["batches"], row["records"], row["bytes"]) == (3, "10", "20", "100")
    away = facts(seen(db, "coordinator/2"))
    assert ("Partitions of users" in away, away["Partitions that moved away"]) == (True, "2")
    assert "Partitions that moved away" not in facts(seen(db, "coordinator/0"))


@pytest.mark.parametrize("sort", SORTS)
def test_the_table_of_partitions_has_one_row_of_each(db: StoreConnection, sort: str) -> None:
    for question in (PanelQuery(sort=sort, limit=9), PanelQuery(sort=sort, limit=9, topic="orders"), PanelQuery(search="orders", limit=9)):
        answer = partitions(db, question, SIGHT)
        rows = {row["partition"]: row for row in answer["rows"]}
        assert (answer["count"], len(answer["rows"]), answer["skew"]["partitions"]) == (3, 3, 3)
        assert [(row["coordinator"], row["batches"], row["moved_ms"], row["moving_to"]) for _, row in sorted(rows.items())] == [
            (0, "6", 2, None), (1, "1", None, None), (2, "3", 3, 1),
        ]  # fmt: skip
    if sort in ("batches", "records", "bytes"):
        assert [row["partition"] for row in partitions(db, PanelQuery(sort=sort, limit=9), SIGHT)["rows"]] == [0, 2, 1]


def test_moves_are_marks_and_what_their_entries_did(db: StoreConnection) -> None:
    (done_ms,) = {row[0] for row in db.execute("select max(moved_ms) from move").fetchall()}
    found = marks(db, PanelQuery(range_s=3600, to_s=done_ms // 1000 + 1), SIGHT)["rows"]
    (mark,) = (row for row in found if row["kind"] == "move")
    assert (mark["text"], mark["at_ms"]) == ("2 partitions moved to another coordinator", done_ms)
    did = [row[2] for row in table(seen(db, f"entry/0@{mark['offset']}"), "What these entries did")]
    assert "partition 0 of a topic moves from coordinator 2 to 0" in did
