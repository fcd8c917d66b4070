"""The judge of clients of others: a good history has no contradiction, and each planted one is found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration_tests.faults.client_checker import check_clients
from integration_tests.faults.client_history import ClientHistory, Row, read_client_history, write_client_history

Rows = list[Row]


def written(number: int, partition: int, offset: int) -> Row:
    return {"who": "w", "at": number, "number": number, "partition": partition, "offset": offset}


def given(who: str, at: float, partition: int, offset: int, value: str) -> Row:
    return {"who": who, "group": "g", "at": at, "partition": partition, "offset": offset, "value": value}


def step(who: str, at: float, **fields: object) -> Row:
    return {"who": who, "group": "g", "at": at, **fields}


def good_rows() -> Rows:
    """A writer of four records; a member that commits one of partition 0 and loses it, another that is given the second again."""
    return [
        *(written(number, number % 2, number // 2) for number in range(4)),
        {"who": "w", "at": 9, "sent": 4},
        step("one", 1, assigned=[0, 1]),
        given("one", 2, 0, 0, "w 0"),
        step("one", 3, committing={"0": 1}),
        step("one", 3.1, committed={"0": 1}),
        given("one", 4, 0, 1, "w 2"),
        given("one", 4, 1, 0, "w 1"),
        given("one", 4, 1, 1, "w 3"),
        step("one", 5, committing={"0": 2}),
        step("one", 6, not_committed="the coordinator moved"),
        step("one", 6, revoked=[0]),
        step("two", 7, assigned=[0]),
        given("two", 8, 0, 1, "w 2"),
        *({"partition": number % 2, "offset": number // 2, "stored": f"w {number}"} for number in range(4)),
        {"shadow_ends": {"0": 0, "1": 0}},
    ]


def history_of(rows: Rows) -> ClientHistory:
    history = ClientHistory()
    for row in rows:
        history.take(row)
    return history


def test_a_group_lacks_what_was_acknowledged_until_it_is_given_also_where_no_offset_was_told() -> None:
    history = history_of([written(0, 0, 0), {**written(1, 0, 1), "offset": None}, given("one", 2, 0, 0, "w 0")])
    assert history.lacks(["g", "h"]) == {"g": 1, "h": 2}
    history.take(given("one", 3, 0, 1, "w 1"))
    assert history.lacks(["g"]) == {}


def without(rows: Rows, wanted: Callable[[Row], bool]) -> Rows:
    assert any(wanted(row) for row in rows)
    return [row for row in rows if not wanted(row)]


def changed(rows: Rows, wanted: Callable[[Row], bool], **fields: object) -> Rows:
    assert any(wanted(row) for row in rows)
    return [{**row, **fields} if wanted(row) else row for row in rows]


def is_second_of_two(row: Row) -> bool:
    return row.get("who") == "two" and "offset" in row


def test_a_good_history_has_no_contradiction(tmp_path: Path) -> None:
    history = history_of(good_rows())
    assert check_clients(history) == []
    write_client_history(tmp_path / "history", history)
    assert read_client_history(tmp_path / "history") == history


def test_a_record_may_be_acknowledged_without_its_offset() -> None:
    assert check_clients(history_of(changed(good_rows(), lambda row: row.get("number") == 2, offset=None))) == []


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (without(good_rows(), lambda row: row.get("stored") == "w 2"), "'w 2' was acknowledged at 0:1, where nothing is stored"),
        (
            changed(without(good_rows(), lambda row: row.get("stored") == "w 2"), lambda row: row.get("number") == 2, offset=None),
            "'w 2' was acknowledged in partition 0, where it is not",
        ),
        (changed(good_rows(), lambda row: row.get("stored") == "w 2", stored="w 0"), "'w 0' is stored 2 times"),
        (changed(good_rows(), lambda row: row.get("stored") == "w 2", stored="w 7"), "'w 7' is stored and was never sent"),
        ([*good_rows(), {"partition": 1, "offset": 3, "stored": "w 2"}], "partition 1 has no record between 2 and 3"),
        ([*good_rows(), {"partition": 1, "offset": 2, "stored": "w 2"}], "'w 2' at 1:2 comes after w 3"),
        ([*good_rows(), written(3, 1, 1)], "w: record 3 was acknowledged 2 times"),
        (without(good_rows(), lambda row: row.get("number") == 3), "w: 1 of 4 records have no outcome, the first is 3"),
        (without(good_rows(), lambda row: "sent" in row), "w did not come to its end"),
        ([*good_rows(), {"who": "w", "at": 9, "number": 3, "error": "timed out"}], "w: record 3: timed out"),
        ([*good_rows(), step("two", 9, error="no such topic")], "two was told of an error: no such topic"),
        (without(good_rows(), lambda row: row.get("value") == "w 3"), "group g was not given 1 records, the first is 1:1"),
        (without(good_rows(), lambda row: row.get("value") == "w 1"), "one began at 1:1, its group had committed 0 to 0"),
        (changed(good_rows(), is_second_of_two, offset=0, value="w 0"), "two began at 0:0, its group had committed 1 to 2"),
        (changed(good_rows(), is_second_of_two, value="w 0"), "two was given 'w 0' at 0:1, where 'w 2' is stored"),
        (without(good_rows(), lambda row: row.get("who") == "two" and "assigned" in row), "though it did not have the partition"),
        ([*good_rows(), given("one", 9, 1, 1, "w 3")], "one was given 1:1 after 1:1"),
        ([*good_rows(), given("two", 9, 0, 3, "w 9")], "two was given 0:3 after 0:1"),
        (
            changed(good_rows(), lambda row: "shadow_ends" in row, shadow_ends={"0": 0, "1": 5}),
            "the shadow's partition 1 has had 5 records",
        ),
    ],
)
def test_a_planted_contradiction_is_found(rows: Rows, text: str) -> None:
    assert text in "\n".join(check_clients(history_of(rows)))
