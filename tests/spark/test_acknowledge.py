"""Acknowledging findings: what is open follows, who said what stays, and findings without a row are not forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.store.acknowledge import (
    TEXT_MAX,
    AcknowledgeError,
    Choice,
    UnknownFindingError,
    acknowledge,
    open_count,
    open_without_row,
    reopen,
)
from spark_jobs.store.engine import StoreConnection, StorePlace
from tests.spark.dashboard_store import NOW_MS, StoreMaker


@pytest.fixture
def store(place: StorePlace, tmp_path: Path) -> Iterator[StoreMaker]:
    made = StoreMaker(tmp_path, place)
    for offset, rule in ((5, "offset-gap"), (6, "offset-gap"), (9, "sequence-gap")):
        made.finding(0, offset, rule)
    made.totals(0, {"findings": 3})
    yield made
    made.close()


def open_ids(db: StoreConnection) -> list[int]:
    return [row[0] for row in db.execute("select id from finding where acknowledgement is null order by id")]


def test_one_a_rule_and_all_are_acknowledged_once_each(store: StoreMaker) -> None:
    db = store.db
    assert acknowledge(db, Choice(ids=[2, 2]), who="ann", reason=" a known\nbug ", now_ms=NOW_MS) == 1
    assert open_ids(db) == [1, 3]
    assert acknowledge(db, Choice(rule="offset-gap"), who="bob", reason="same", now_ms=NOW_MS + 1) == 1
    assert acknowledge(db, Choice(), who="cyd", reason="rest", now_ms=NOW_MS + 2) == 1
    assert acknowledge(db, Choice(), who="cyd", reason="rest", now_ms=NOW_MS + 3) == 0
    assert (open_count(db), open_ids(db)) == (0, [])
    said = "select f.id, a.who, a.reason, a.at_ms from finding f join acknowledgement a on a.id = f.acknowledgement order by f.id"
    assert [tuple(row) for row in db.execute(said)] == [
        (1, "bob", "same", NOW_MS + 1),
        (2, "ann", "a known bug", NOW_MS),
        (3, "cyd", "rest", NOW_MS + 2),
    ]


def test_an_acknowledgement_that_is_taken_back_stays_in_the_journal(store: StoreMaker) -> None:
    db = store.db
    acknowledge(db, Choice(rule="offset-gap"), who="ann", reason="known", now_ms=NOW_MS)
    assert reopen(db, Choice(ids=[1, 3]), who="bob", reason="it is another", now_ms=NOW_MS + 1) == 1
    assert open_ids(db) == [1, 3]
    journal = "select action, who, reason, at_ms, findings from acknowledgement order by id"
    assert [tuple(row) for row in db.execute(journal)] == [
        ("acknowledge", "ann", "known", NOW_MS, 2),
        ("reopen", "bob", "it is another", NOW_MS + 1, 1),
    ]


def test_a_new_finding_is_open_though_all_were_acknowledged(store: StoreMaker) -> None:
    acknowledge(store.db, Choice(), who="ann", reason="known", now_ms=NOW_MS)
    store.finding(1, 7, "offset-gap")
    assert (open_count(store.db), open_ids(store.db)) == (1, [4])


def test_findings_that_got_no_row_are_open_until_all_are_acknowledged(store: StoreMaker) -> None:
    db = store.db
    store.totals(0, {"findings": 1000})
    store.totals(1, {"findings": 500})
    assert (open_count(db), open_without_row(db)) == (1500, 1497)
    acknowledge(db, Choice(rule="offset-gap"), who="ann", reason="known", now_ms=NOW_MS)
    acknowledge(db, Choice(rule="sequence-gap"), who="ann", reason="known", now_ms=NOW_MS)
    assert open_count(db) == 1497
    assert acknowledge(db, Choice(), who="ann", reason="known", now_ms=NOW_MS) == 1497
    assert open_count(db) == 0
    store.totals(1, {"findings": 502})
    assert open_count(db) == 2
    # Rows that are forgotten for being the oldest change nothing of it.
    db.execute("delete from finding where id = 1")
    assert open_count(db) == 2
    assert reopen(db, Choice(), who="ann", reason="no", now_ms=NOW_MS) == 2 + 1497
    assert open_count(db) == 2 + 1499


@pytest.mark.parametrize(("who", "reason", "told"), [("", "x", "a name is needed"), ("x", " \n", "a reason is needed")])
def test_a_name_and_a_reason_are_needed(store: StoreMaker, who: str, reason: str, told: str) -> None:
    with pytest.raises(AcknowledgeError, match=told):
        acknowledge(store.db, Choice(), who=who, reason=reason, now_ms=NOW_MS)
    assert open_count(store.db) == 3


def test_what_cannot_be_is_refused_and_changes_nothing(store: StoreMaker) -> None:
    with pytest.raises(UnknownFindingError, match="no finding 7, 9;"):
        acknowledge(store.db, Choice(ids=[1, 9, 7]), who="ann", reason="known", now_ms=NOW_MS)
    with pytest.raises(AcknowledgeError, match=f"{TEXT_MAX + 1} characters"):
        acknowledge(store.db, Choice(ids=[1]), who="ann", reason="x" * (TEXT_MAX + 1), now_ms=NOW_MS)
    with pytest.raises(AcknowledgeError, match="at most"):
        acknowledge(store.db, Choice(ids=range(1, 5000)), who="ann", reason="x", now_ms=NOW_MS)
    assert open_ids(store.db) == [1, 2, 3]
