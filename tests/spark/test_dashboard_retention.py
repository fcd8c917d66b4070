"""What the page says retention removes, and when, against the same rules written as a plain loop."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.model import RecordsDeleted, TopicConfigured
from simulation.fakes.shard_harness import START_MS
from spark_jobs.dashboard.nodes import read_answer
from spark_jobs.dashboard.panels.look import look
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.retention import BLOCKS_MAX, DAY_MS, UNKNOWN_LIMITS, RetentionLimits, share_of
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.scan.blocks import Batches
from spark_jobs.store.engine import StorePlace, open_reader, open_writer
from spark_jobs.store.sink import Store
from spark_jobs.store.statements import insert
from tests.spark.scan_logs import TOPIC, LogWriter, follow

NOW_MS = 10 * DAY_MS
WEEK = RetentionLimits(7 * DAY_MS, -1)
LIMITS = st.builds(RetentionLimits, st.one_of(st.none(), st.integers(-1, 9 * DAY_MS)), st.one_of(st.none(), st.integers(-1, 500)))
BATCHES = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 12 * DAY_MS)), min_size=1, max_size=12)


@given(BATCHES, LIMITS)
def test_what_goes_and_when_is_what_the_rules_say(batches: list[tuple[int, int]], limits: RetentionLimits) -> None:
    sizes, times = zip(*batches, strict=True)
    numbers = np.arange(len(batches))
    columns = (numbers, np.ones(len(batches), np.int64), np.array(sizes, np.int64), numbers, np.array(times, np.int64))
    share = share_of(Batches(*columns), limits, NOW_MS)
    left, due = list(batches), 0
    while limits.ms is not None and limits.ms >= 0 and left and left[0][1] < NOW_MS - limits.ms:
        due += left.pop(0)[0]
    while limits.size_bytes is not None and limits.size_bytes >= 0 and left and sum(size for size, _ in left[1:]) >= limits.size_bytes:
        due += left.pop(0)[0]
    assert (share.batches, share.size_bytes, share.due_bytes) == (len(batches), sum(sizes), due)
    if limits.ms is None or limits.ms < 0:
        assert (share.next_ms, share.last_ms, share.in_a_day_bytes) == (None, None, 0)
    else:
        going = [max(times[: at + 1]) + limits.ms for at in range(len(batches))]
        assert (share.next_ms, share.last_ms) == (going[0], going[-1])
        assert share.in_a_day_bytes == sum(size for size, at in zip(sizes, going, strict=True) if at <= NOW_MS + DAY_MS)
    if limits.size_bytes is None or limits.size_bytes < 0 or not left:
        assert share.room_bytes is None
    else:
        more = share.room_bytes
        assert more is not None
        for added, goes in ((more, True), (more - 1, False)):
            assert (sum(size for size, _ in left[1:]) + added >= limits.size_bytes) is goes


@pytest.fixture
def filled(place: StorePlace) -> StorePlace:
    log = LogWriter()
    log.commit((0, 4), (1, 1))
    log.commit((0, 2))
    log.add(RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=4))
    log.add(TopicConfigured(topic_id=TOPIC, names=["retention.bytes", "retention.ms"], values=["1000", "hostile"]))
    with Store.open(place) as store:
        follow(store, log.entries, cuts=[3], now_ms=START_MS + 1000)
    return place


def facts(place: StorePlace, name: str, limits: RetentionLimits = WEEK) -> dict[str, Any]:
    with closing(open_reader(place)) as db:
        answer = look(db, PanelQuery(look=name), Sight(now_ms=START_MS + 2000, retention=limits))
    return {one["name"]: one["value"] for one in answer["facts"]}


def test_pages_say_what_is_live_what_was_deleted_and_what_goes_next(filled: StorePlace) -> None:
    known = facts(filled, "partition/orders/0")
    assert known["Retention by time"] == "7 days, as the service has it"
    assert known["Retention by size"] == "1\u202f000 bytes a partition, set for the topic"
    assert known["Live batches"] == "4"
    assert known["Deleted"] == 20
    assert known["Objects of its live batches"] == "2"
    # 20 of the deleted batches, and 5 of each object that no batch has.
    assert known["Dead bytes in these objects, freed with their last batch"] == 30
    assert known["Next goes by time"] <= known["Last goes by time"]
    # 60 bytes were written in the hour, and 40 are live: of 1000 that are kept, 970 are missing until the first 10 go.
    assert known["Next goes by size after so much more"] == 970
    assert known["So much is written, as in the last hour, in"] == "16 h"
    whole = facts(filled, "topic/orders")
    assert whole["Live data"] == known["Live data"] + facts(filled, "partition/orders/1")["Live data"]


def test_without_nodes_the_limits_of_the_service_are_not_known(filled: StorePlace) -> None:
    known = facts(filled, "partition/orders/0", UNKNOWN_LIMITS)
    assert known["Retention by time"].startswith("not known: no node")
    assert "Next goes by time" not in known


def test_more_than_a_page_can_count_is_left_to_the_command(filled: StorePlace) -> None:
    with closing(open_writer(filled)) as db, db.writing():
        more = insert("run_block", "kpart", "topic_id", "partition", "first_offset", "end_offset", "runs")
        db.executemany(more, [(0, TOPIC, 0, 1_000_000 + number, 0, b"") for number in range(BLOCKS_MAX)])
    for name in ("topic/orders", "partition/orders/0"):
        assert facts(filled, name)["Live data, and when it goes"] == "diskless topics usage orders --by-partition"


def test_nodes_tell_what_they_keep_by_default() -> None:
    told = read_answer("diskless_coordinator_retention_default_seconds 604800\ndiskless_coordinator_retention_default_bytes -1\n")
    assert told.retention == WEEK
    assert read_answer("diskless_coordinator_retention_default_seconds -1\n").retention == RetentionLimits(-1, None)
    assert read_answer("").retention == UNKNOWN_LIMITS
