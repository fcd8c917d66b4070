"""The pages of things, and the search for them, over a log that was really scanned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records.model import SnapshotCommitted
from simulation.fakes.shard_harness import START_MS
from spark_jobs.dashboard.panels.look import look
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.search import search
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import DATABASE
from spark_jobs.store.sink import Store
from tests.spark.scan_logs import LogWriter, follow

GAP_AT = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two files, a term of another node, and a file with a gap of a producer at offset 8."""
    log = LogWriter()
    log.commit((0, 2), (1, 1))
    log.commit((0, 3))
    log.claim(node_id=2)
    log.add(
        SnapshotCommitted(mark_offset=1, end_offset=3, epoch=1, size_bytes=9, location="snapshots/0", digest=bytes(16), sha256=bytes(32))
    )
    log.commit((0, 1))
    log.produce(0, partition=1, producer_id=4711)
    assert log.produce(900, partition=1, producer_id=4711) == GAP_AT
    made = tmp_path_factory.mktemp("monitor")
    with Store.open(made) as store:
        follow(store, log.entries, cuts=[4], now_ms=START_MS + 1000)
    return made


@pytest.fixture
def db(folder: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(folder / DATABASE)
    opened.row_factory = sqlite3.Row
    yield opened
    opened.close()


def seen(db: sqlite3.Connection, name: str) -> dict[str, Any]:
    return look(db, PanelQuery(look=name), Sight(now_ms=START_MS + 2000, silent_ms={2: START_MS}))


def facts(answer: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in answer["facts"]}


def table(answer: dict[str, Any], title: str) -> list[list[Any]]:
    (found,) = (one for one in answer["tables"] if one["title"].startswith(title))
    return [[cell["value"] for cell in row] for row in found["rows"]]


def links(answer: dict[str, Any]) -> set[str]:
    """Every page that an answer leads to."""
    cells = [cell for one in answer["tables"] for row in one["rows"] for cell in row]
    return {cell["look"] for cell in [*answer["facts"], *cells] if "look" in cell}


def test_a_partition_shows_its_offsets_its_leader_and_the_files_of_its_live_batches(db: sqlite3.Connection) -> None:
    answer = seen(db, "partition/orders/0")
    known = facts(answer)
    assert (known["High watermark"], known["Batches"], known["Coordinator"]) == ("12", "6", "coordinator 0")
    assert known["Leader"] == "node 2 (does not answer)"
    batches = table(answer, "Live batches")
    assert [row[0] for row in batches] == ["0", "2", "4", "6", "8", "10"]
    keys = [row[0] for row in db.execute("select object_key from file order by file_number")]
    assert [row[3] for row in batches] == [keys[0]] * 2 + [keys[1]] * 3 + [keys[2]]
    (minute,) = table(answer, "Last hour")
    assert minute[-1] == "12"


def test_an_entry_shows_what_it_and_its_neighbours_did_and_the_command_that_decodes_it(db: sqlite3.Connection) -> None:
    answer = seen(db, f"entry/0@{GAP_AT}")
    assert facts(answer)["Decoded, with the replica's view"] == f"diskless log explain 0@{GAP_AT}"
    assert facts(answer)["Leader then"] == "node 2 (does not answer)"
    did = [row[2] for row in table(answer, "What these entries did")]
    assert did[:2] == ["file wal/000003 with 1 batches", "file wal/000004 with 1 batches"]
    [[rule, _, entry, _]] = table(answer, "Findings")
    assert (rule, entry) == ("sequence gap", f"coordinator 0, offset {GAP_AT}")
    assert {"coordinator/0", "node/2", f"entry/0@{GAP_AT - 1}", "file/wal/000004"} <= links(answer)


def test_coordinators_nodes_topics_files_and_producers_lead_to_each_other(db: sqlite3.Connection) -> None:
    assert [row[2] for row in table(seen(db, "coordinator/0"), "Terms")] == ["node 2 (does not answer)", "node 1"]
    node = seen(db, "node/2")
    assert (facts(node)["State"], facts(node)["Led last"]) == ("does not answer", "coordinator 0")
    assert facts(seen(db, "node/1"))["Leads"] == "no coordinator"
    topic = seen(db, "topic/orders")
    assert (facts(topic)["Partitions"], len(table(topic, "Partitions"))) == ("3", 3)
    file = seen(db, "file/wal/000001")
    assert facts(file)["Uploader"] == "3"
    db.execute("update file set uploader = -1")
    assert facts(seen(db, "file/wal/000001"))["Uploader"] == "not named by who committed it"
    assert table(file, "By coordinator")[0][:2] == ["coordinator 0", "live"]
    assert [row[1] for row in table(seen(db, "producer/4711"), "Producers")] == ["orders-1"]
    for answer in (node, topic, file, seen(db, "coordinator/0")):
        for name in links(answer):
            assert seen(db, name)["missing"] == "", name


@pytest.mark.parametrize(
    "name", ["", "x/1", "topic/nothing", "partition/orders/99", "partition/orders", "partition/orders/0x", "coordinator/9", "node/-1",
             "file/a", "producer/1", "entry/0", "entry/9@1", f"entry/0@{'9' * 40}", "partition/orders/" + "9" * 40]
)  # fmt: skip
def test_what_is_not_there_is_said_to_be_so(db: sqlite3.Connection, name: str) -> None:
    answer = seen(db, name)
    assert answer["missing"]
    assert (answer["facts"], answer["tables"]) == ([], [])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("rder", "topic/orders"), ("orders-1", "partition/orders/1"), ("wal/000002", "file/wal/000002"), ("4711", "producer/4711"),
        ("0@8", "entry/0@8"), ("Node 2", "node/2"), ("coordinator 0", "coordinator/0"),
    ],
)  # fmt: skip
def test_a_search_finds_what_a_text_names(db: sqlite3.Connection, text: str, first: str) -> None:
    found = search(db, PanelQuery(search=text), Sight(now_ms=0))["rows"]
    assert found[0]["look"] == first
    assert seen(db, first)["missing"] == ""
    assert search(db, PanelQuery(search="%"), Sight(now_ms=0)) == {"rows": []}
