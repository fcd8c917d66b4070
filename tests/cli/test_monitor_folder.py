"""`monitor status` and `monitor findings` over made folders: exit statuses, and what acknowledging changes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from tests.spark.dashboard_store import StoreMaker

WATCHED_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreMaker]:
    made = StoreMaker(tmp_path)
    made.healthy(now_ms(), watched_for_ms=WATCHED_MS)
    yield made
    made.close()


def run(store: StoreMaker, *words: str) -> Result:
    return CliRunner().invoke(root, ["monitor", *words, "--dir", str(store.folder)], prog_name="diskless")


def job(name: str, **values: object) -> Callable[[StoreMaker], None]:
    return lambda store: store.row("job", name=name, value=json.dumps({"at_ms": 1, **values}))


def life(**values: object) -> Callable[[StoreMaker], None]:
    return lambda store: store.life(now_ms() + WATCHED_MS, **values)


def test_a_healthy_folder_is_status_0(store: StoreMaker) -> None:
    found = run(store, "status", "-o", "json")
    assert found.exit_code == Exit.OK, found.output
    said = json.loads(found.stdout)
    assert said["verdict"].startswith("Healthy")
    assert (said["problems"], said["findings"], said["last_verify"]) == ([], {}, None)


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        (
            lambda store: store.finding(0, 5, "offset-gap"),
            Exit.AUDIT,
            "1 finding, the newest: offset gap in orders-7 (coordinator 0, offset 5)",
        ),
        (lambda store: store.totals(0, {"quarantined": 2}), Exit.AUDIT, "2 entries could not be read"),
        (job("last_verify", partitions=[{"kpart": 1, "agree": False}]), Exit.AUDIT, "Log and service disagree (coordinator 1)"),
        (job("last_objects", missing_files=1), Exit.AUDIT, "1 file with live batches is not in the object store"),
        (
            lambda store: store.row("open_transaction", kpart=0, name="move", entry_offset=9, append_ms=now_ms() - 600_000),
            Exit.AUDIT,
            "A transaction has been open for 10 min",
        ),
        (lambda store: store.life(now_ms() - 60_000), Exit.UNAVAILABLE, "No sign of the monitor for 60 s"),
        (life(kafka_ms=1), Exit.UNAVAILABLE, "Kafka has not answered the monitor for"),
        (life(is_following=False), Exit.UNAVAILABLE, "The monitor is starting"),
        (life(ended_ms=1), Exit.UNAVAILABLE, "The monitor was stopped"),
        (life(ended_ms=1, failure="disk full"), Exit.UNAVAILABLE, "The monitor ended with an error"),
        (life(ended_ms=1, failure="disk full", is_once=True), Exit.UNAVAILABLE, "disk full"),
        (life(ended_ms=1, is_once=True), Exit.OK, "The monitor read the log once and ended"),
        (job("last_objects", missing_files=0), Exit.OK, "Healthy"),
        (lambda store: store.row("open_transaction", kpart=0, name="move", entry_offset=9, append_ms=now_ms()), Exit.OK, "Healthy"),
    ],
)
def test_the_status_says_whether_anybody_has_to_look(
    store: StoreMaker, change: Callable[[StoreMaker], None], status: Exit, told: str
) -> None:
    change(store)
    found = run(store, "status", "-o", "json")
    assert (found.exit_code, told in found.output) == (status, True), found.output


def test_what_was_found_comes_before_a_monitor_that_is_dead_and_both_are_said(store: StoreMaker) -> None:
    store.finding(0, 5, "offset-gap")
    store.life(now_ms() - 60_000)
    found = run(store, "status")
    assert found.exit_code == Exit.AUDIT
    last = found.stderr.splitlines()[-1]
    assert "1 finding" in last
    assert "No sign of the monitor" in last


def test_an_acknowledged_finding_is_listed_and_no_longer_a_status(store: StoreMaker) -> None:
    for offset, rule in ((5, "offset-gap"), (6, "offset-gap"), (9, "log-lost")):
        store.finding(0, offset, rule)
    assert run(store, "findings", "list").exit_code == Exit.AUDIT
    done = run(store, "findings", "ack", "1", "--reason", "restored", "--by", "ann")
    assert (done.exit_code, "1 finding acknowledged" in done.output) == (Exit.OK, True), done.output
    assert "2 findings, the newest: log lost in orders-7 (coordinator 0, offset 9)" in run(store, "status").output
    assert "2 findings acknowledged" in run(store, "findings", "ack", "--all", "--reason", "known").output
    assert "nothing to do" in run(store, "findings", "ack", "--all", "--reason", "known").output
    assert run(store, "status").exit_code == Exit.OK
    listed = run(store, "findings", "list", "-o", "json")
    assert listed.exit_code == Exit.OK
    rows = json.loads(listed.stdout)
    assert [row["id"] for row in rows] == [3, 2, 1]
    assert rows[2]["acknowledged"].endswith(" by ann: restored")
    assert run(store, "findings", "list", "--open", "-o", "json").stdout.strip() == "[]"
    again = run(store, "findings", "unack", "--rule", "offset-gap", "--reason", "it happened again")
    assert "2 findings are open again" in again.output
    assert run(store, "status").exit_code == Exit.AUDIT
    store.finding(0, 12, "offset-gap")
    assert "3 findings, the newest: offset gap in orders-7 (coordinator 0, offset 12)" in run(store, "status").output


def test_a_finding_of_a_whole_topic_is_named_without_a_partition(store: StoreMaker) -> None:
    store.finding(0, 5, "deleted-topic", partition=None)
    (row,) = json.loads(run(store, "findings", "list", "-o", "json").stdout)
    assert row["topic_partition"] == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["ack", "1"], Exit.USAGE, "--reason"),
        (["ack", "--reason", "x"], Exit.USAGE, "say which findings"),
        (["ack", "1", "--all", "--reason", "x"], Exit.USAGE, "say which findings"),
        (["ack", "--rule", "offset-gop", "--reason", "x"], Exit.USAGE, "there is no rule offset-gop"),
        (["ack", "1", "--reason", " "], Exit.USAGE, "a reason is needed"),
        (["ack", "1", "--reason", "x", "--by", ""], Exit.USAGE, "a name is needed"),
        (["ack", "0", "--reason", "x"], Exit.USAGE, "0"),
        (["ack", "77", "--reason", "x"], Exit.NOT_FOUND, "there is no finding 77"),
        (["unack", "99999999999999999999", "--reason", "x"], Exit.USAGE, "99999999999999999999"),
    ],
)
def test_what_cannot_be_acknowledged_says_why(store: StoreMaker, words: list[str], status: Exit, told: str) -> None:
    store.finding(0, 5, "offset-gap")
    found = run(store, "findings", *words)
    assert (found.exit_code, told in found.output) == (status, True), found.output
    assert store.db.execute("select count(*) from acknowledgement").fetchone()[0] == 0


def test_a_folder_without_a_monitor_is_not_found(tmp_path: Path) -> None:
    for words in (["status"], ["findings", "list"], ["findings", "ack", "1", "--reason", "x"]):
        assert CliRunner().invoke(root, ["monitor", *words, "--dir", str(tmp_path)]).exit_code == Exit.NOT_FOUND
