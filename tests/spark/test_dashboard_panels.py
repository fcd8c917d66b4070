"""Each panel over a made store: what it says is what is in the tables, cut, sorted and named."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from spark_jobs.dashboard.catalogue import PANELS, PagePanel
from spark_jobs.dashboard.panels.activity import activity
from spark_jobs.dashboard.panels.agreement import agreement, objects
from spark_jobs.dashboard.panels.files import files
from spark_jobs.dashboard.panels.findings import UNKNOWN, findings
from spark_jobs.dashboard.panels.histograms import histograms, quantile
from spark_jobs.dashboard.panels.leadership import leadership
from spark_jobs.dashboard.panels.look import look
from spark_jobs.dashboard.panels.marks import MARKS_MAX, marks
from spark_jobs.dashboard.panels.migrations import migrations
from spark_jobs.dashboard.panels.monitor import monitor
from spark_jobs.dashboard.panels.overview import facts, overview
from spark_jobs.dashboard.panels.partitions import partitions
from spark_jobs.dashboard.panels.quarantine import hex_dump, quarantine
from spark_jobs.dashboard.panels.query import BadQueryError, PanelQuery, parse_query
from spark_jobs.dashboard.panels.retention import RetentionLimits
from spark_jobs.dashboard.panels.rows import topic_text
from spark_jobs.dashboard.panels.search import search
from spark_jobs.dashboard.panels.sight import LOST, NO_LOG, NOT_KEPT, NOT_READ, NOT_YET, Sight
from spark_jobs.dashboard.panels.snapshots import snapshots
from spark_jobs.dashboard.panels.topics import topics
from spark_jobs.dashboard.panels.uploaders import uploaders
from spark_jobs.dashboard.verdict import Level, PageProblem, judge
from spark_jobs.monitor.life import LIFE_FILE, read_life
from spark_jobs.store.rules import RULES
from tests.spark.dashboard_store import CLICKS, EVIL, EVIL_NAME, NOW_MS, NOW_S, ORDERS, StoreMaker

MINUTE = NOW_S // 60


@pytest.fixture
def db(store: StoreMaker) -> sqlite3.Connection:
    store.db.row_factory = sqlite3.Row
    return store.db


def seen(db: sqlite3.Connection, now_ms: int, **more: object) -> Sight:
    """What is known at a time, with the sign of life beside the store."""
    (file,) = (row[2] for row in db.execute("pragma database_list") if row[1] == "main")
    return Sight(now_ms=now_ms, life=read_life(Path(file).parent, db), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
@pytest.mark.parametrize("range_s", [300, 3600, 86400])
def test_every_panel_answers_json_of_an_empty_store(tmp_path: Path, panel: PagePanel, range_s: int) -> None:
    empty = StoreMaker(tmp_path / "empty")
    empty.db.row_factory = sqlite3.Row
    assert isinstance(json.loads(json.dumps(panel.answer(empty.db, PanelQuery(range_s=range_s), seen(empty.db, NOW_MS)))), dict)
    empty.close()


# ---- overview and verdict


def test_totals_are_exact_beyond_what_sqlite_can_sum(store: StoreMaker, db: sqlite3.Connection) -> None:
    most = 2**63 - 1
    for kpart in (0, 1):
        store.totals(kpart, {"bytes": most})
    assert overview(db, seen(db, NOW_MS))["totals"]["bytes"]["digits"] == str(2 * most)


def test_rates_are_those_of_the_last_ten_complete_seconds(db: sqlite3.Connection) -> None:
    assert overview(db, seen(db, NOW_MS))["rates"] == {"files": 5.0, "batches": 41.0, "records": 410.0, "bytes": 41000.0}


def test_what_is_not_watched_keeps_its_last_numbers_and_says_until_when(store: StoreMaker, db: sqlite3.Connection) -> None:
    later = overview(db, seen(db, NOW_MS + 60_000))
    assert (later["rates"]["files"], later["known_until_ms"], later["is_current"]) == (5.0, NOW_MS, False)
    audited = findings(db, PanelQuery(), seen(db, NOW_MS + 60_000))
    assert (audited["count"], audited["known_until_ms"], audited["is_current"]) == (0, NOW_MS, False)
    hot = partitions(db, PanelQuery(sort="batches"), seen(db, NOW_MS + 60_000))
    assert {row["batches_per_s"] for row in hot["rows"]} == {None}
    store.life(NOW_MS + 60_000)
    assert overview(db, seen(db, NOW_MS + 60_000))["rates"]["files"] == 0, "it is watched, and nothing comes"


def test_a_step_of_which_something_is_not_known_has_no_value(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row("unread_span", kpart=0, from_ms=NOW_MS - 30_000, to_ms=NOW_MS - 25_500)
    answer = activity(db, PanelQuery(), seen(db, NOW_MS + 20_000))
    first_ms = answer["first_s"] * 1000
    assert [tuple(span.values()) for span in answer["unknown"]] == [
        (first_ms, NOW_MS - 100_000, NO_LOG),
        (NOW_MS - 30_000, NOW_MS - 25_500, LOST),
        (NOW_MS, NOW_MS + 20_000, NOT_READ),
    ]
    (line,) = answer["lines"]
    values = {answer["first_s"] + place: value for place, value in enumerate(line["rates"]["files"])}
    assert {second - NOW_S for second, value in values.items() if value is None} == {*range(-280, -100), *range(-30, -25), *range(20)}
    assert (values[NOW_S - 100], values[NOW_S - 25], values[NOW_S - 1]) == (0.0, 5.0, 5.0)
    db.execute("delete from unread_span")
    day = activity(db, PanelQuery(range_s=86400), seen(db, NOW_MS))
    assert day["lines"][0]["rates"]["files"].count(None) == 719, "only the step in which the log began is known"


def test_a_partition_that_is_not_read_yet_makes_what_is_known_older(store: StoreMaker, db: sqlite3.Connection) -> None:
    until = {0: NOW_MS, 1: NOW_MS - 15_000}
    store.life(NOW_MS, read_until_ms=until, ends={0: 100, 1: 5000})
    store.head(1, 101, age_ms=20_000)
    assert overview(db, seen(db, NOW_MS))["known_until_ms"] == NOW_MS - 15_000
    store.life(NOW_MS, read_until_ms=until, ends={0: 100, 1: 5000, 2: 7})
    assert overview(db, seen(db, NOW_MS))["known_until_ms"] == NOW_MS - 100_000, "nothing was read of partition 2"
    store.head(0, 100)
    store.db.execute("update head set from_offset = 5, from_ms = ? where kpart = 0", (NOW_MS - 50_000,))
    spans = activity(db, PanelQuery(), seen(db, NOW_MS))["unknown"]
    assert (NOW_MS - 100_000, NOW_MS - 50_000, NOT_READ) in [tuple(span.values()) for span in spans]


def test_any_range_is_answered_from_what_is_kept_of_it(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 10 * 3_600_000
    store.life(now_ms)
    store.row("activity_uploader", minute=MINUTE - 1, uploader=1, files=300, batches=2460, bytes=18, file_bytes=20)
    answer = activity(db, PanelQuery(range_s=120, to_s=NOW_S), seen(db, now_ms))
    assert (answer["first_s"], answer["end_s"], answer["step_s"], answer["unknown"][0]["why"]) == (NOW_S - 120, NOW_S, 60, NO_LOG)
    assert answer["lines"][0]["rates"]["files"] == [0.0, 5.0]
    split = activity(db, PanelQuery(range_s=120, to_s=NOW_S, split="coordinator"), seen(db, now_ms))
    assert NOT_KEPT in {span["why"] for span in split["unknown"]}
    assert {value for line in split["lines"] for value in line["rates"]["files"]} == {None}
    coming = activity(db, PanelQuery(range_s=120, to_s=NOW_S + 36_060), seen(db, now_ms))
    assert coming["unknown"] == [{"from_ms": now_ms, "to_ms": now_ms + 60_000, "why": NOT_YET}]
    assert leadership(db, PanelQuery(range_s=60, to_s=NOW_S), seen(db, now_ms))["to_ms"] == NOW_MS


def verdict_of(db: sqlite3.Connection, now_ms: int = NOW_MS, more: tuple[PageProblem, ...] = ()) -> tuple[Level, str, list[str]]:
    found = judge(facts(db, seen(db, now_ms)), more, now_ms)
    return found.level, found.sentence, [problem.panel for problem in found.problems]


def test_a_healthy_store_is_said_to_be_so_with_its_numbers(db: sqlite3.Connection) -> None:
    level, sentence, problems = verdict_of(db)
    assert (level, problems) == (Level.GOOD, [])
    assert sentence == "Healthy: 5.0 files/s, audit clean over 201 entries, 0.8 s behind"


def test_a_monitor_that_follows_and_has_merged_nothing_is_waited_for(tmp_path: Path) -> None:
    empty = StoreMaker(tmp_path)
    empty.db.row_factory = sqlite3.Row
    empty.life(NOW_MS)
    assert verdict_of(empty.db) == (Level.UNKNOWN, "Waiting for the monitor: it has merged nothing of the log yet", ["monitor"])
    empty.close()


def test_a_quiet_log_with_signs_of_life_is_healthy(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.life(NOW_MS + 3_599_000)
    assert verdict_of(db, NOW_MS + 3_600_000)[:2] == (
        Level.GOOD,
        "Healthy and quiet: last file 60 min ago, audit clean over 201 entries",
    )


def test_a_monitor_without_signs_of_life_is_bad_and_a_stopped_one_is_a_warning(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 300_000
    assert verdict_of(db, now_ms) == (Level.BAD, "No sign of the monitor for 5 min: what follows is not watched", ["monitor"])
    store.life(NOW_MS, ended_ms=NOW_MS + 1000)
    assert verdict_of(db, now_ms) == (Level.WARNING, "The monitor was stopped 4 min ago: what follows is not watched", ["monitor"])
    store.life(NOW_MS, ended_ms=NOW_MS + 1000, is_once=True)
    assert verdict_of(db, now_ms)[:2] == (
        Level.WARNING,
        "The monitor read the log once and ended 4 min ago: what follows is not watched",
    )
    store.life(NOW_MS, ended_ms=NOW_MS + 1000, failure="Spark's JVM was ended by signal 9")
    assert verdict_of(db, now_ms) == (
        Level.BAD,
        "The monitor ended with an error 4 min ago: Spark's JVM was ended by signal 9",
        ["monitor"],
    )
    store.life(now_ms - 1000, is_following=False, kafka_ms=0)
    assert verdict_of(db, now_ms) == (Level.UNKNOWN, "The monitor is starting: the log is not watched yet", ["monitor"])
    store.life(now_ms - 1000)
    assert verdict_of(db, now_ms)[0] is Level.GOOD


def test_a_store_without_any_sign_of_life_is_not_watched(store: StoreMaker, db: sqlite3.Connection) -> None:
    (store.folder / LIFE_FILE).unlink()
    assert verdict_of(db, NOW_MS + 60_000)[1] == "No sign of the monitor for 60 s: what follows is not watched"
    (store.folder / LIFE_FILE).write_text("{")
    assert verdict_of(db, NOW_MS + 60_000)[0] is Level.BAD


def test_a_kafka_that_does_not_answer_the_monitor_is_bad_within_seconds(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 8000
    store.life(now_ms - 500, kafka_ms=NOW_MS, kafka_error="no answer within 4 s")
    assert verdict_of(db, now_ms) == (Level.BAD, "Kafka has not answered the monitor for 8.0 s: what follows is not watched", ["monitor"])


def test_what_the_service_counts_contradicts_a_monitor_that_sees_nothing(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 30_000
    store.life(now_ms)

    def said(service_commits_per_s: float | None) -> tuple[Level, str]:
        found = judge(facts(db, seen(db, now_ms)), (), now_ms, service_commits_per_s)
        return found.level, found.sentence

    assert said(None)[1].startswith("Healthy and quiet: last file 31 s ago")
    assert said(0.0)[0] is Level.GOOD
    assert said(250.0) == (Level.WARNING, "The nodes decide 250 requests/s, and the monitor has seen no file for 31 s")
    store.life(now_ms - 7000)
    assert said(250.0) == (
        Level.BAD,
        "No sign of the monitor for 7.0 s: what follows is not watched, and the nodes decide 250 requests/s",
    )


def test_nothing_is_said_of_now_that_was_seen_some_seconds_ago(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 30_000
    store.life(now_ms - 500, kafka_ms=now_ms - 4000)
    assert verdict_of(db, now_ms)[:2] == (Level.GOOD, "Healthy when last looked at, 4.0 s ago: audit clean until then, 201 entries")


def test_entries_that_wait_are_told_instead_of_quiet(store: StoreMaker, db: sqlite3.Connection) -> None:
    now_ms = NOW_MS + 30_000
    store.life(now_ms, ends={0: 107, 1: 101}, read_until_ms={0: now_ms - 2000, 1: now_ms})
    assert verdict_of(db, now_ms)[1] == "Healthy: audit clean over 201 entries, 7 entries to read"
    store.life(now_ms, ends={0: 107, 1: 101}, read_until_ms={0: now_ms - 12_000, 1: now_ms})
    assert verdict_of(db, now_ms)[:2] == (Level.WARNING, "The monitor is 12 s behind (7 entries)")


@pytest.mark.parametrize("behind_ms", [9_999, 10_000, 10_001, 11_000])
def test_the_verdict_is_good_exactly_while_the_tiles_are_current(store: StoreMaker, db: sqlite3.Connection, behind_ms: int) -> None:
    now_ms = NOW_MS + 30_000
    store.life(now_ms, ends={0: 100, 1: 102}, read_until_ms={0: now_ms, 1: now_ms - behind_ms})
    is_current = overview(db, seen(db, now_ms))["is_current"]
    assert is_current == (behind_ms <= 10_000)
    assert (verdict_of(db, now_ms)[0] is Level.GOOD) == is_current


def test_a_partition_of_the_log_that_was_not_begun_is_behind_too(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.life(NOW_MS, ends={0: 100, 1: 101, 2: 7})
    assert verdict_of(db)[:2] == (Level.WARNING, "The monitor is 100 s behind (7 entries)")


def test_findings_come_first_and_name_the_newest(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row("quarantine", kpart=1, entry_offset=9, error="cut", size_bytes=1, first_bytes=b"x", seen_ms=NOW_MS)
    store.finding(1, 1234, "offset-gap")
    store.finding(0, 7, "sequence-gap")
    level, sentence, problems = verdict_of(db)
    assert (level, problems) == (Level.BAD, ["findings", "quarantine"])
    assert sentence == "2 findings, the newest: sequence gap in orders-7 (coordinator 0, offset 7), and 1 more to look at"


def test_a_cause_is_named_before_the_entries_that_are_out_of_order_since(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.finding(1, 55, "sequence-gap")
    for offset in (56, 57):
        store.finding(1, offset, "void-carries-live-term", topic_id=None, partition=None)
    assert verdict_of(db)[1] == "3 findings, above all: sequence gap in orders-7 (coordinator 1, offset 55)"


def test_lag_open_transactions_disagreement_and_missing_leaders_are_told(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.head(1, 101, lag=5000, age_ms=30_000)
    store.life(NOW_MS, ends={0: 100, 1: 5101, 2: 50}, read_until_ms={0: NOW_MS, 1: NOW_MS - 30_000})
    store.head(2, 50, epoch=0)
    store.row("open_transaction", kpart=0, name="move", entry_offset=9, append_ms=NOW_MS - 120_000)
    store.row("job", name="last_verify", value=json.dumps({"agree": False, "partitions": [{"kpart": 1, "agree": False}]}))
    level, sentence, problems = verdict_of(db)
    assert level is Level.BAD
    assert sentence.startswith("No leader known for 1 coordinator (first: 2)")
    assert problems == ["leadership", "agreement", "snapshots", "monitor"]


def test_a_term_whose_claim_was_pruned_has_a_leader(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.head(2, 50)
    assert verdict_of(db)[2] == []


def test_a_verify_that_compared_nothing_is_no_disagreement(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row(
        "job", name="last_verify", value=json.dumps({"agree": False, "partitions": [], "not_compared": [{"kpart": 1, "agree": None}]})
    )
    assert verdict_of(db)[0] is Level.GOOD


def test_files_that_are_missing_in_the_bucket_are_lost_data(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row("job", name="last_objects", value=json.dumps({"missing_files": 2}))
    assert verdict_of(db) == (Level.BAD, "2 files with live batches are not in the object store: data is lost", ["objects"])


def test_problems_of_others_count(db: sqlite3.Connection) -> None:
    other = PageProblem(level=Level.WARNING, text="One of two processes does not answer", panel="leadership")
    assert verdict_of(db, more=(other,)) == (Level.WARNING, other.text, ["leadership"])


# ---- activity


def test_activity_adds_up_and_splits_by_coordinator(db: sqlite3.Connection) -> None:
    together = activity(db, PanelQuery(), seen(db, NOW_MS))
    assert together["step_s"] == 1
    assert [line["label"] for line in together["lines"]] == ["all coordinators"]
    assert together["sums"]["files"]["digits"] == str(60 * 5)
    assert len(together["lines"][0]["rates"]["files"]) == 300
    assert together["lines"][0]["rates"]["batches"][-1] == 41.0
    split = activity(db, PanelQuery(split="coordinator"), seen(db, NOW_MS))
    assert {line["label"]: line["sums"]["batches"] for line in split["lines"]} == {
        "coordinator 1": str(60 * 21),
        "coordinator 0": str(60 * 20),
    }
    hour = activity(db, PanelQuery(range_s=3600), seen(db, NOW_MS))
    assert hour["step_s"] == 10
    assert hour["lines"][0]["rates"]["files"][-1] == 5.0


def test_activity_by_topic_shows_the_busiest_and_adds_up_the_rest(store: StoreMaker, db: sqlite3.Connection) -> None:
    for number in range(20):
        store.row("activity_topic", minute=MINUTE - 2, topic_id=bytes([number]) * 16, batches=600 * (number + 1), records=1, bytes=1)
    answer = activity(db, PanelQuery(split="topic"), seen(db, NOW_MS))
    assert len(answer["lines"]) == 8
    assert topic_text(bytes([19]) * 16) in {line["label"] for line in answer["lines"]}
    assert answer["lines"][-1]["label"] == "13 others"
    assert answer["sums"]["batches"]["value"] == 600 * sum(range(1, 21))
    assert sum(int(line["sums"]["batches"]) for line in answer["lines"]) == 600 * sum(range(1, 21))
    assert all("files" not in line["rates"] for line in answer["lines"])


def test_activity_of_one_topic_and_of_a_day(store: StoreMaker, db: sqlite3.Connection) -> None:
    for topic_id, batches in ((ORDERS, 60), (CLICKS, 120)):
        store.row("activity_topic", minute=MINUTE - 3, topic_id=topic_id, batches=batches, records=7, bytes=9)
    store.row("activity_uploader", minute=MINUTE - 3, uploader=1, files=5, batches=180, bytes=18, file_bytes=20)
    only = activity(db, PanelQuery(topic="orders"), seen(db, NOW_MS))
    assert [(line["label"], line["sums"]["batches"]) for line in only["lines"]] == [("orders", "60")]
    assert [line["label"] for line in activity(db, PanelQuery(topic="nobody"), seen(db, NOW_MS))["lines"]] == ["nothing"]
    day = activity(db, PanelQuery(range_s=86400), seen(db, NOW_MS))
    assert {unit: total["value"] for unit, total in day["sums"].items()} == {"files": 5, "batches": 180, "records": 14, "bytes": 18}


# ---- tables


def test_partitions_are_searched_sorted_and_paged(store: StoreMaker, db: sqlite3.Connection) -> None:
    def names(**question: object) -> list[str]:
        return [f"{row['topic']}-{row['partition']}" for row in partitions(db, PanelQuery(**question), seen(db, NOW_MS))["rows"]]  # type: ignore[arg-type]

    assert names(sort="batches") == ["clicks-0", "orders-0", "orders-1"]
    assert names(sort="name") == ["clicks-0", "orders-0", "orders-1"]
    assert names(search="RDER", sort="batches") == ["orders-0", "orders-1"]
    assert names(search="orders-1") == ["orders-1"]
    assert names(search="%") == []
    assert names(topic="orders", search="clicks") == []
    assert names(sort="batches", limit=1, offset=1) == ["orders-0"]
    assert partitions(db, PanelQuery(topic="orders", limit=1), seen(db, NOW_MS))["count"] == 2
    store.row("activity_partition", minute=MINUTE - 1, topic_id=ORDERS, partition=1, batches=120, records=1, bytes=60)
    assert names(sort="rate") == ["orders-1", "orders-0", "clicks-0"]
    assert names(sort="rate", limit=1) == ["orders-1"]
    hottest = partitions(db, PanelQuery(), seen(db, NOW_MS))
    assert hottest["rows"][0]["batches_per_s"] == 2.0
    assert hottest["skew"] == {
        "minute": MINUTE - 1,
        "is_current": True,
        "active": 1,
        "partitions": 3,
        "top1": 1.0,
        "top10": 1.0,
        "half": 1,
    }


def test_topics_are_summed_over_their_partitions(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row("topic", topic_id=CLICKS, name="clicks", partitions=1, deleted_ms=NOW_MS)
    answer = topics(db, PanelQuery(), seen(db, NOW_MS))
    assert [(row["topic"], row["batches"], row["records"], row["deleted_ms"]) for row in answer["rows"]] == [
        ("clicks", "1400", "14000", NOW_MS),
        ("orders", "1000", "10000", None),
    ]
    assert [row["topic"] for row in topics(db, PanelQuery(search="ord"), seen(db, NOW_MS))["rows"]] == ["orders"]


def test_leadership_has_the_term_before_the_range_and_ends_it_at_the_next_claim(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.claim(0, 4, 2, 60, NOW_MS - 1000)
    store.claim(1, 2, 2, 0, NOW_MS - 10_000_000)
    answer = leadership(db, PanelQuery(), seen(db, NOW_MS))
    assert [[(term["node_id"], term["to_ms"]) for term in one["terms"]] for one in answer["coordinators"]] == [
        [(1, NOW_MS - 1000), (2, None)],
        [(2, NOW_MS - 100_000), (2, None)],
    ]
    assert (answer["changes"], answer["changes_total"]) == (3, 4)
    assert [node["rack"] for node in answer["nodes"]] == ["rack-0", "rack-1"]


def test_marks_tell_what_happened_in_the_range_the_newest_first(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.claim(0, 4, 2, 60, NOW_MS - 1000)
    for offset, kind in enumerate(("start", "deployment", "level")):
        store.row("happening", kpart=0, entry_offset=offset, append_ms=NOW_MS - 2000 - offset, kind=kind, node_id=2, level=3)
    where = {"kpart": 1, "entry_offset": 9, "mark_offset": 8, "end_offset": 7, "epoch": 1, "size_bytes": 1, "location": "x", "digest": b""}
    store.row("snapshot", append_ms=NOW_MS - 5000, **where)
    store.finding(1, 70, "offset-gap", seen_ms=NOW_MS)
    store.finding(1, 71, "offset-gap", seen_ms=NOW_MS - 400_000)
    answer = marks(db, PanelQuery(), seen(db, NOW_MS))
    assert [row["text"] for row in answer["rows"]] == [
        "offset gap found at coordinator 1, offset 70",
        "node 2 leads coordinator 0, epoch 4",
        "node 2 started",
        "node 2 started and reads schema level 3, as it did not before",
        "schema level 3 is in force",
        "snapshot of coordinator 1 up to offset 7",
        "node 1 leads coordinator 0, epoch 3",
        "node 2 leads coordinator 1, epoch 3",
    ]
    assert [row["kind"] for row in marks(db, PanelQuery(range_s=10, to_s=NOW_S - 3), seen(db, NOW_MS))["rows"]] == ["snapshot"]
    for offset in range(MARKS_MAX):
        store.claim(0, 5 + offset, 2, 100 + offset, NOW_MS - 900)
    many = marks(db, PanelQuery(), seen(db, NOW_MS))
    assert (len(many["rows"]), many["is_cut"]) == (MARKS_MAX, True)


def test_histograms_add_up_minutes_in_the_range(store: StoreMaker, db: sqlite3.Connection) -> None:
    for minute, upper, count in ((MINUTE - 1, 10, 5), (MINUTE - 5, 10, 4), (MINUTE - 1, 100, 1), (MINUTE - 6, 1, 99)):
        store.row("histogram", name="batches_per_file", minute=minute, upper=upper, count=count)
    one = histograms(db, PanelQuery(), seen(db, NOW_MS))["histograms"][0]
    assert (one["count"], one["buckets"]) == (10, [{"upper": 10, "count": 9}, {"upper": 100, "count": 1}])
    assert one["quantiles"] == {"p50": 10, "p95": 100, "p99": 100}


@pytest.mark.parametrize(("buckets", "share", "expected"), [([], 0.5, None), ([(1, 0), (2, 3)], 0.01, 2), ([(1, 1), (2, 1)], 0.5, 1)])
def test_quantile_of_buckets(buckets: list[tuple[int, int]], share: float, expected: int | None) -> None:
    assert quantile(buckets, share) == expected


def test_files_by_state_nearly_empty_ones_and_hand_overs(store: StoreMaker, db: sqlite3.Connection) -> None:
    for number, (state, size, live) in enumerate([("live", 100, 100), ("live", 1000, 100), ("waiting", 50, 0), ("removed", 10, 0)]):
        store.row(
            "file",
            file_number=number,
            kpart=0,
            object_key=f"key-{number}",
            entry_offset=number,
            append_ms=NOW_MS,
            file_bytes=size,
            live_bytes=live,
            owners="[0, 1]",
            next_owner=1,
            state=state,
            state_since_ms=NOW_MS - 5000,
        )
    answer = files(db, PanelQuery(), seen(db, NOW_MS))
    assert {one["state"]: one["files"] for one in answer["states"]} == {"live": 2, "waiting": 1, "deletable": 0, "removed": 1, "fenced": 0}
    assert answer["empty"] == {"files": 1, "file_bytes": 50, "live_bytes": 0, "oldest_ms": NOW_MS - 5000}
    assert answer["nearly_empty"] == {"percent": 10, "files": 1, "file_bytes": 1000, "live_bytes": 100}
    assert [(one["object_key"], one["age_ms"], one["owners"]) for one in answer["hand_overs"]] == [("key-2", 5000, [0, 1])]
    assert [one["object_key"] for one in answer["emptiest"]] == ["key-1"]


def test_a_file_of_several_coordinators_is_one_in_the_state_nearest_to_life(store: StoreMaker, db: sqlite3.Connection) -> None:
    shared = {
        "all-live": ("live", "live", "live"),
        "half-live": ("waiting", "live", "waiting"),
        "at-last-owner": ("waiting", "waiting", "deletable"),
        "never-here": ("fenced", "live", "live"),
        "gone": ("removed", "removed", "removed"),
    }
    for number, (key, kpart, state) in enumerate((key, kpart, state) for key, all_ in shared.items() for kpart, state in enumerate(all_)):
        store.row(
            "file",
            file_number=number,
            kpart=kpart,
            object_key=key,
            entry_offset=number,
            append_ms=NOW_MS,
            file_bytes=0 if state == "fenced" else 1000,
            live_bytes=100 if state == "live" else 0,
            owners="[]" if state == "fenced" else "[0, 1, 2]",
            state=state,
            state_since_ms=NOW_MS,
        )
    answer = files(db, PanelQuery(), seen(db, NOW_MS))
    states = {one["state"]: (one["files"], one["file_bytes"], one["live_bytes"]) for one in answer["states"]}
    assert states == {"live": (3, 3000, 600), "deletable": (1, 1000, 0), "waiting": (0, 0, 0), "removed": (1, 1000, 0), "fenced": (0, 0, 0)}
    stored = {"files": 4, "file_bytes": 4000, "live_bytes": 600}
    assert answer["stored"] == {**stored, "oldest_ms": NOW_MS}
    assert answer["empty"] == {"files": 1, "file_bytes": 1000, "live_bytes": 0, "oldest_ms": NOW_MS}


def test_emptiness_of_a_file_is_judged_over_all_its_coordinators(store: StoreMaker, db: sqlite3.Connection) -> None:
    known = [("full", 0, 50), ("full", 1, 950), ("empty", 0, 30), ("empty", 1, 40)]
    for number, (key, kpart, live) in enumerate(known):
        store.row(
            "file",
            file_number=number,
            kpart=kpart,
            object_key=key,
            entry_offset=number,
            append_ms=NOW_MS,
            file_bytes=1000,
            live_bytes=live,
            owners="[0, 1]",
            state="live",
            state_since_ms=NOW_MS,
        )
    answer = files(db, PanelQuery(), seen(db, NOW_MS))
    assert answer["nearly_empty"] == {"percent": 10, "files": 1, "file_bytes": 1000, "live_bytes": 70}
    assert [(one["object_key"], one["live_bytes"]) for one in answer["emptiest"]] == [("empty", 70)]


def test_uploaders_by_rack_and_the_share_of_files_of_several_owners(store: StoreMaker, db: sqlite3.Connection) -> None:
    for uploader, rack in ((1, "a"), (2, "a")):
        store.row("broker", broker_id=uploader, rack=rack, host="h")
    for uploader in (1, 2, 3):
        store.row("activity_uploader", minute=MINUTE - 1, uploader=uploader, files=2, batches=4, bytes=100, file_bytes=110)
    answer = uploaders(db, PanelQuery(), seen(db, NOW_MS))
    assert [(rack["rack"], rack["uploaders"], rack["bytes"]) for rack in answer["racks"]] == [("a", 2, 200), ("", 1, 100)]
    assert (answer["files"], answer["multi_owner_files"]) == (60 * 5, 60 * 2)
    for to_s, wanted in ((NOW_S, 6), (NOW_S - 1, 6), (NOW_S - 60, 0), (NOW_S + 59, 6), (NOW_S + 60, 0)):
        shown = uploaders(db, PanelQuery(range_s=60, to_s=to_s), seen(db, NOW_MS))["uploaders"]
        assert sum(one["files"] for one in shown) == wanted, "minutes that the range touches, and no others"


def test_migrations_show_what_waits_the_longest_first_and_what_operators_did(store: StoreMaker, db: sqlite3.Connection) -> None:
    nothing = {"count": 0, "migrated": {"topics": 0, "partitions": 0}, "topics": [], "steps": []}
    assert {**migrations(db, PanelQuery(), seen(db, NOW_MS)), "partitions": None} == {**nothing, "partitions": None}

    store.topic(EVIL, EVIL_NAME, 2)
    for partition in (0, 1):
        store.migrated(ORDERS, 10 + partition, 500, NOW_MS, prefix_start=20, leader_epoch=3)
    for topic_id, partition, base, age_ms in ((CLICKS, 10, -1, 5000), (EVIL, 0, -1, 9000), (EVIL, 1, 0, 0)):
        store.migrated(topic_id, partition, base, NOW_MS - age_ms, leader_epoch=4 if base == 0 else -1)
    store.migrated(CLICKS, 11, -1, NOW_MS - 7000, leader_epoch=8)
    answer = migrations(db, PanelQuery(), seen(db, NOW_MS))
    assert (answer["count"], answer["migrated"]) == (2, {"topics": 1, "partitions": 2})
    assert answer["topics"] == [
        {"topic": EVIL_NAME, "partitions": 2, "pending": 1, "initialised": 1, "waiting_ms": 9000},
        {"topic": "clicks", "partitions": 2, "pending": 2, "initialised": 0, "waiting_ms": 7000},
    ]
    shown = [
        (one["topic"], one["partition"], one["state"], one["was_reset"], one["start_offset"], one["waiting_ms"])
        for one in answer["partitions"]["rows"]
    ]
    assert shown == [
        (EVIL_NAME, 0, "pending", False, None, 9000),
        ("clicks", 11, "pending", True, None, 7000),
        ("clicks", 10, "pending", False, None, 5000),
        (EVIL_NAME, 1, "initialised", False, 0, None),
    ]
    page = migrations(db, PanelQuery(limit=1, offset=1), seen(db, NOW_MS))["partitions"]
    assert (page["count"], [one["partition"] for one in page["rows"]]) == (4, [11])

    store.migrated(CLICKS, 10, -1, 0)  # taken over from a snapshot, which does not say since when
    answer = migrations(db, PanelQuery(), seen(db, NOW_MS))
    assert [one["waiting_ms"] for one in answer["partitions"]["rows"]] == [None, 9000, 7000, None]

    for age_ms, step, before, after in ((3000, "reset", 500, -1), (1000, "repair", 700, 650), (2000, "reset", None, -1)):
        step_row = {"step": step, "base_before": before, "base_after": after, "leader_epoch": 9, "append_ms": NOW_MS - age_ms}
        store.row("migration_step", kpart=1, entry_offset=5, topic_id=ORDERS, partition=age_ms // 1000, **step_row)
    steps = migrations(db, PanelQuery(), seen(db, NOW_MS))["steps"]
    told = [(one["partition"], one["step"], one["start_before"], one["start_after"], one["age_ms"]) for one in steps]
    assert told == [(1, "repair", 700, 650, 1000), (2, "reset", None, None, 2000), (3, "reset", 500, None, 3000)]


def test_snapshots_are_the_newest_and_transactions_are_those_open(store: StoreMaker, db: sqlite3.Connection) -> None:
    for offset in (10, 20):
        store.row(
            "snapshot",
            kpart=0,
            entry_offset=offset,
            end_offset=offset - 1,
            size_bytes=5,
            location="s3://x",
            digest=b"\xab",
            append_ms=NOW_MS,
        )
    store.row("open_transaction", kpart=1, name="move", entry_offset=9, append_ms=NOW_MS - 10)
    answer = snapshots(db, PanelQuery(), seen(db, NOW_MS))
    assert [(one["snapshots"], one["end_offset"], one["entries_since"], one["digest"]) for one in answer["coordinators"]] == [
        (2, 19, 81, "ab"),
        (0, None, None, ""),
    ]
    assert answer["open_transactions"] == [{"coordinator": 1, "name": "move", "offset": 9, "age_ms": 10}]


def test_a_finding_says_where_what_it_means_and_how_to_look(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.finding(1, 1234, "offset-gap")
    store.finding(1, 1, "from-the-future", topic_id=None, partition=None)
    store.row("note", kpart=1, entry_offset=3, text="a term was adopted", seen_ms=NOW_MS)
    answer = findings(db, PanelQuery(), seen(db, NOW_MS))
    second, first = answer["rows"]
    assert first["topic"] == "orders"
    assert first["meaning"] == RULES["offset-gap"]
    assert first["command"] == "diskless log dump --partition 1 --from 1232 --max 3 -o yaml"
    assert (second["meaning"], second["topic"]) == (UNKNOWN, None)
    assert second["command"] == "diskless log dump --partition 1 --from 0 --max 2 -o yaml"
    assert [note["text"] for note in answer["notes"]] == ["a term was adopted"]
    store.totals(0, {"findings": 99_000})
    assert findings(db, PanelQuery(limit=1), seen(db, NOW_MS))["count"] == 99_000


def test_quarantine_shows_hex_and_counts_what_was_not_kept(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.row("quarantine", kpart=1, entry_offset=9, error="cut", size_bytes=20, first_bytes=b"<b>" + bytes(17), seen_ms=NOW_MS)
    store.totals(1, {"quarantined": 3})
    answer = quarantine(db, PanelQuery(), seen(db, NOW_MS))
    assert (answer["count"], answer["kept"]) == (3, 1)
    assert answer["rows"][0]["hex"] == hex_dump(b"<b>" + bytes(17))
    assert hex_dump(b"<b>" + bytes(17)).splitlines()[0] == "0000  3c 62 3e" + " 00" * 13 + "  <b>............."


def test_monitor_shows_heads_and_every_total(store: StoreMaker, db: sqlite3.Connection) -> None:
    store.head(1, 101, lag=7)
    store.row("micro_batch", id=1, merged_ms=NOW_MS, entries=1, batches=2, scan_ms=3, merge_ms=4, lag_entries=7)
    answer = monitor(db, PanelQuery(), seen(db, NOW_MS))
    assert [one["lag_entries"] for one in answer["heads"]] == [0, 7]
    assert answer["totals"]["files"] == {"value": 300, "digits": "300"}
    assert answer["micro_batches"][0]["lag_entries"] == 7
    assert answer["job"]["pid"] == "1"


def test_results_of_batch_jobs_are_passed_on_and_garbage_is_said_to_be_that(store: StoreMaker, db: sqlite3.Connection) -> None:
    assert agreement(db, PanelQuery(), seen(db, NOW_MS)) == {"last_verify": None}
    store.row("job", name="last_verify", value='{"agree": true, "partitions": []}')
    store.row("job", name="last_objects", value="[]")
    assert agreement(db, PanelQuery(), seen(db, NOW_MS)) == {"last_verify": {"agree": True, "partitions": []}}
    assert objects(db, PanelQuery(), seen(db, NOW_MS)) == {"last_objects": {"unreadable": "job.last_objects is not a JSON object"}}


# ---- questions


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"range": "7"}, "range must be one of 300, 3600, 86400"),
        ({"range": "x"}, "range must be a whole number"),
        ({"split": "'; drop"}, "split must be one of total, coordinator, topic"),
        ({"limit": "201"}, "limit must be 1 to 200"),
        ({"offset": "-1"}, "offset must be a whole number"),
        ({"search": "x" * 301}, "search may have 300 characters"),
    ],
)
def test_a_bad_question_is_told_what_is_possible(parameters: dict[str, str], told: str) -> None:
    with pytest.raises(BadQueryError, match=told):
        parse_query(parameters)


# ---- cost

LARGE = ("activity_second", "activity_topic", "activity_partition", "activity_uploader", "histogram", "micro_batch", "finding", "file")
LOOKS = ("topic/orders", "partition/orders/0", "coordinator/0", "node/1", "file/wal/0", "producer/5", "entry/0@5")


def scanned(sql: str, step: str) -> str:
    """The table that a step of a plan reads as a whole; empty for none. Plans name tables as the statement does."""
    if not step.startswith("SCAN "):
        return ""
    name = step.split()[1]
    named = re.search(rf"\b(?:from|join) (\w+) (?:as )?{name}\b", sql)
    return name if named is None else named[1]


@pytest.mark.parametrize("range_s", [300, 3600, 86400])
def test_no_panel_reads_a_table_of_history_as_a_whole(store: StoreMaker, db: sqlite3.Connection, range_s: int) -> None:
    store.row(
        "file", file_number=1, kpart=0, object_key="wal/0", entry_offset=5, append_ms=NOW_MS, owners="[0,1]", state="live", state_since_ms=1
    )
    store.row("producer", kpart=0, topic_id=ORDERS, partition=0, producer_id=5, epoch=0, next_sequence=1, last_append_ms=NOW_MS)
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    facts(db, seen(db, NOW_MS))
    overview(db, seen(db, NOW_MS))
    for panel in PANELS:
        for split in ("total", "coordinator", "topic"):
            panel.answer(db, PanelQuery(range_s=range_s, split=split), seen(db, NOW_MS))
    for name in LOOKS:
        assert not look(db, PanelQuery(look=name), seen(db, NOW_MS, retention=RetentionLimits(1000, 1000)))["missing"], name
    search(db, PanelQuery(search="wal/"), seen(db, NOW_MS))
    db.set_trace_callback(None)
    assert len(asked) > 30
    plans = {sql: [row[3] for row in db.execute(f"explain query plan {sql}")] for sql in asked if sql.lower().startswith("select")}
    # Counting findings and files, and walking a few rows from one end of a table, are no such thing.
    allowed = re.compile(r"^select count\(\*\)|order by id( desc)? limit|max\(second\)|group by rule|group by state$", re.IGNORECASE)
    whole = [(sql, step) for sql, steps in plans.items() for step in steps if scanned(sql, step) in LARGE and not allowed.search(sql)]
    assert whole == []
