"""The store in PostgreSQL: it says what the one in SQLite says, of any log and on every panel, and keeps the promises of its adapter."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import generate_latest
from starlette.testclient import TestClient

from cli.main import root
from cli.outcome import Exit
from records import model
from spark_jobs.dashboard.app import Dashboard
from spark_jobs.dashboard.catalogue import PANELS
from spark_jobs.dashboard.database import Database, StoreUnreadableError
from spark_jobs.dashboard.panels.overview import facts, overview
from spark_jobs.dashboard.panels.query import PanelQuery, parse_query
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.monitor.endpoint import JobMetrics
from spark_jobs.monitor.facts import record_job
from spark_jobs.monitor.report import NoMonitorError, open_report
from spark_jobs.store.engine import PostgresError, PostgresPlace, StoreConnection, StorePlace, open_reader, open_writer
from spark_jobs.store.sink import Store
from spark_jobs.store.statements import upsert
from tests.spark.dashboard_store import CLICKS, EVIL, EVIL_NAME, NOW_MS, NOW_S, ORDERS, StoreMaker
from tests.spark.planted_violations import PLANTS, Plant
from tests.spark.postgres_server import GUARDED, PostgresServer
from tests.spark.scan_logs import Entry, Life, LogWriter, content, follow
from tests.spark.test_scan_cuts import HostileWriter


@pytest.fixture
def place(postgres: PostgresServer) -> PostgresPlace:
    """An empty schema."""
    return postgres.place()


# ---- like SQLite


def check_alike(place: StorePlace, folder: Path, entries: list[Entry], chance: random.Random) -> None:
    for one, cuts in ((folder, []), (place, [chance.randrange(len(entries)) for _ in range(8)])):
        with Store.open(one) as store:
            follow(store, entries, cuts=cuts)
    assert content(place) == content(folder)


@pytest.mark.parametrize("seed", range(3))
def test_a_log_is_judged_alike_whole_in_sqlite_and_cut_in_postgres(place: PostgresPlace, tmp_path: Path, seed: int) -> None:
    entries = HostileWriter(2000 + seed).write(40) if seed else Life(seed).run(60)
    check_alike(place, tmp_path, entries, random.Random(seed))


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTS, ids=[plant.__name__ for plant in PLANTS])
def test_every_violation_is_found_alike(plant: Plant, place: PostgresPlace, tmp_path: Path) -> None:
    log = LogWriter(partitions=3)
    log.commit((0, 2), (1, 2))
    plant(log)
    log.add(model.NoOp())
    check_alike(place, tmp_path, log.entries, random.Random(plant.__name__))


FILES = ((0, "[0]", 5, "live"), (0, "[0, 1]", 40, "live"), (1, "[0, 1]", 500, "live"), (0, "[0]", 0, "deletable"), (1, "[1]", 0, "waiting"))


def fill(store: StoreMaker) -> None:
    """Rows for every panel."""
    log = HostileWriter(7).write(60)
    with Store.open(store.place) as opened:
        follow(opened, log, now_ms=log[-1].timestamp_ms + 1000)
    store.healthy()
    store.topic(EVIL, EVIL_NAME, 3)
    for number, base in enumerate((-1, -1, 40)):
        store.migrated(EVIL, number, base, (NOW_MS - 90_000) * (number != 1))
    store.row("migration_step", kpart=0, entry_offset=5, topic_id=EVIL, partition=1, step="reset", base_before=7, base_after=-1,
              leader_epoch=2, append_ms=NOW_MS - 60_000)  # fmt: skip
    minute = NOW_S // 60
    for number, topic_id in enumerate((ORDERS, CLICKS, EVIL)):
        sums = {"batches": 60 * number, "records": 600, "bytes": 6_000_000_000}
        store.row("activity_topic", minute=minute - 2, topic_id=topic_id, **sums)
        store.row("activity_partition", minute=minute - 1, topic_id=topic_id, partition=0, **sums)
        store.row("activity_uploader", minute=minute - 2, uploader=number, files=3, batches=5 - number, bytes=18, file_bytes=20)
        store.row("histogram", name="file_bytes", minute=minute - 1, upper=1 << number, count=3 - number)
    store.row("broker", broker_id=1, rack="a", host="one")
    for number, (kpart, owners, live, state) in enumerate(FILES, 1):
        key = "wal/shared" if "," in owners else f"wal/{number}"
        sizes = {"file_bytes": 1000, "batches": 9, "live_batches": live, "live_bytes": live, "owners": owners}
        times = {"append_ms": NOW_MS - number, "state_since_ms": NOW_MS - number}
        store.row("file", file_number=number, kpart=kpart, object_key=key, entry_offset=number, uploader=1, state=state, **sizes, **times)
    where = {"mark_offset": 8, "end_offset": 7, "epoch": 1, "size_bytes": 1, "location": "x", "digest": bytes(range(32))}
    store.row("snapshot", kpart=1, entry_offset=9, append_ms=NOW_MS - 4000, **where)
    store.row("happening", kpart=0, entry_offset=8, append_ms=NOW_MS - 2000, kind="level", node_id=None, level=3)
    store.row("open_transaction", kpart=0, name="move", entry_offset=9, append_ms=NOW_MS - 120_000)
    store.row("unread_span", kpart=0, from_ms=NOW_MS - 30_000, to_ms=NOW_MS - 20_000)
    for offset in range(3):
        store.finding(1, offset, "offset-gap", object_key="k\0␀")
        store.row("note", kpart=0, entry_offset=offset, text="note", seen_ms=NOW_MS)
        store.row("micro_batch", merged_ms=NOW_MS - offset, entries=1, batches=2, scan_ms=None, merge_ms=4, lag_entries=5)
    store.row("quarantine", kpart=1, entry_offset=9, error="cut", size_bytes=1, first_bytes=b"x\0", seen_ms=NOW_MS)


QUERIES = [
    {},
    *({"range": one, "split": split} for one in ("3600", "86400") for split in ("total", "coordinator", "topic")),
    {"topic": "orders", "limit": "1", "offset": "1"},
    *(
        {"search": one}
        for one in ("ORD", "orders-1", "wal/", "no such", "%_\\", "orders-7", "1@3", "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}")
    ),
    *({"sort": one} for one in ("rate", "batches", "records", "bytes", "offset", "name", "last")),
    *(
        {"look": one}
        for one in ("topic/orders", "partition/orders/0", "coordinator/0", "node/1", "file/wal/shared", "producer/1", "entry/0@5")
    ),
    *({"look": f"{one}/no such"} for one in ("topic", "partition", "coordinator", "node", "file", "producer", "entry")),
]


def test_every_panel_says_the_same_of_both(place: PostgresPlace, tmp_path: Path) -> None:
    stores = [StoreMaker(tmp_path / "a"), StoreMaker(tmp_path / "b", place)]
    for store in stores:
        fill(store)
    sight = Sight(now_ms=NOW_MS, life=None, silent_ms={2: NOW_MS - 5000})
    answers = 0
    with closing(open_reader(stores[0].place)) as sqlite, closing(open_reader(place)) as postgres:

        def alike(answer: Callable[[StoreConnection], object]) -> None:
            nonlocal answers
            assert answer(postgres) == answer(sqlite)
            answers += 1

        for panel in PANELS:
            for asked in QUERIES:
                if asked.keys() <= {*panel.parameters}:
                    query = parse_query(asked)
                    alike(lambda db: json.loads(json.dumps(panel.answer(db, query, sight))))  # noqa: B023
        alike(lambda db: facts(db, sight))
        alike(lambda db: overview(db, sight))
    assert answers > 50
    for store in stores:
        store.close()


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_every_panel_answers_of_a_store_without_rows(made: PostgresPlace, panel) -> None:  # type: ignore[no-untyped-def]
    with closing(open_reader(made)) as db:
        assert isinstance(json.loads(json.dumps(panel.answer(db, PanelQuery(look="topic/orders"), Sight(now_ms=NOW_MS)))), dict)


@pytest.fixture(scope="module")
def made(postgres: PostgresServer) -> Iterator[PostgresPlace]:
    """A store without rows."""
    made = postgres.place()
    Store.open(made).close()
    return made


# ---- commands and page

TOKEN = "a-token-of-more-than-24-characters"


@pytest.fixture
def both(place: PostgresPlace, tmp_path: Path) -> Iterator[list[StoreMaker]]:
    """The same rows in SQLite and in PostgreSQL, of a monitor that lives."""
    made = [StoreMaker(tmp_path / "a"), StoreMaker(tmp_path / "b", place)]
    now_ms = time.time_ns() // 1_000_000
    for store in made:
        store.healthy(now_ms, watched_for_ms=3_600_000)
        for offset in (5, 6):
            store.finding(0, offset, "offset-gap", seen_ms=now_ms)
        store.totals(0, {"findings": 4})
        store.row("quarantine", kpart=1, entry_offset=9, error="cut", size_bytes=1, first_bytes=b"x\0", seen_ms=now_ms)
    yield made
    for store in made:
        store.close()


def test_commands_say_the_same_of_both(both: list[StoreMaker]) -> None:
    for words, status in (
        (["status", "-o", "json"], Exit.AUDIT),
        (["findings", "list", "-o", "jsonl"], Exit.AUDIT),
        (["findings", "ack", "2", "--by", "ann", "--reason", "known"], Exit.OK),
        (["findings", "ack", "99", "--by", "ann", "--reason", "known"], Exit.NOT_FOUND),
        (["findings", "list", "--open", "-o", "json"], Exit.AUDIT),
        (["findings", "ack", "--all", "--by", "ann", "--reason", "known"], Exit.OK),
        (["findings", "unack", "--rule", "offset-gap", "--by", "bob", "--reason", "again"], Exit.OK),
        (["quarantine", "-o", "json"], Exit.OK),
        (["status"], Exit.AUDIT),
    ):
        said = []
        for store in both:
            given = ["--store", store.place.url] if isinstance(store.place, PostgresPlace) else []
            given = given or ["--dir", str(store.folder)]
            done = CliRunner().invoke(root, ["monitor", *words, *given], prog_name="diskless")
            assert done.exit_code == status, done.output
            said.append(re.sub(r"\d\d:\d\d:\d\d", "TIME", done.output))
        assert said[0] == said[1], words


def test_the_page_says_the_same_of_both_and_acknowledges_in_both(both: list[StoreMaker]) -> None:
    now_ms = time.time_ns() // 1_000_000
    said: list[object] = []
    for store in both:
        dashboard = Dashboard(store.place, clock_ms=lambda: now_ms, token=TOKEN)
        with TestClient(dashboard.application(), headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert client.get("/healthz").json()["store"] == "present"
            before = client.get("/api/overview").json()
            assert before.pop("folder") == str(store.place)
            acknowledged = client.post("/api/findings/acknowledge", json={"ids": [1], "who": "ann", "reason": "known"})
            said.append([before, acknowledged.json(), client.get("/api/findings").json(), client.get("/api/overview").json()["verdict"]])
    assert said[0] == said[1]
    assert str(said[0]).count("'changed': 1") == 1


def test_metrics_say_the_same_of_both(both: list[StoreMaker]) -> None:
    said = []
    for store in both:
        lines = generate_latest(JobMetrics(store.place, lambda: {0: 150, 1: 150}).registry).decode().splitlines()
        said.append([line for line in lines if line.startswith("diskless_") and "_created" not in line])
    assert said[0] == said[1]
    assert 'diskless_monitor_findings_open{rule="offset-gap"} 2.0' in said[0]


def test_the_password_comes_from_a_file(postgres: PostgresServer, tmp_path: Path) -> None:
    with closing(open_writer(PostgresPlace(postgres.url))) as db:
        db.execute(f"create database {GUARDED}")
        db.execute("create role keeper superuser login password 'open sesame'")
    url = postgres.url.replace("//postgres@/postgres?", f"//keeper@/{GUARDED}?")
    file = tmp_path / "password"
    file.write_text("open sesame\n")
    StoreMaker(tmp_path, PostgresPlace(url, "open sesame")).close()
    listed = ["monitor", "quarantine", "--dir", str(tmp_path), "--store", url]
    done = CliRunner().invoke(root, [*listed, "--store-password-file", str(file)], prog_name="diskless")
    assert (done.exit_code, "nothing is in quarantine" in done.output) == (Exit.OK, True), done.output
    file.write_text("wrong\n")
    done = CliRunner().invoke(root, [*listed, "--store-password-file", str(file)], prog_name="diskless")
    assert (done.exit_code, "password authentication failed" in done.output) == (Exit.FAILURE, True), done.output


def test_a_store_that_cannot_be_reached_or_named_is_an_error_that_says_so(tmp_path: Path) -> None:
    def run(*given: str) -> tuple[int, str]:
        done = CliRunner().invoke(root, ["monitor", "findings", "list", "--dir", str(tmp_path), *given], prog_name="diskless")
        return done.exit_code, done.output

    status, told = run("--store", "postgresql:///postgres?host=/nowhere")
    assert (status, "cannot be read" in told, "/nowhere" in told) == (Exit.FAILURE, True, True)
    for url, said in (("http://host", "must be postgresql://"), ("postgresql://a:secret@host/db", "has a password")):
        status, told = run("--store", url)
        assert (status, said in told, "secret" in told) == (Exit.USAGE, True, False)
    assert run("--store-password-file", "x")[0] == Exit.USAGE
    unnamed = CliRunner().invoke(root, ["monitor", "findings", "list"], prog_name="diskless", env={"DISKLESS_MONITOR_DIR": ""})
    assert (unnamed.exit_code, "pass its folder as --dir, or --store" in unnamed.output) == (Exit.USAGE, True)
    assert run("--store", "postgresql://host/db", "--store-password-file", str(tmp_path / "none"))[0] == Exit.USAGE


# ---- the adapter


def test_texts_come_back_as_they_were_and_are_compared_by_their_bytes(place: PostgresPlace) -> None:
    texts = ["", "a", "B", "\0", "␀", "a\0b", "␀0", "\0␀\0", "ä", "Z", "\U0010ffff", "%_\\'\""]
    Store.open(place).close()
    with closing(open_writer(place)) as db, db.writing():
        db.executemany(upsert("job", "name", "name", "value"), [(text, text) for text in texts])
        for text in texts:
            assert db.execute("select value from job where name = ?", (text,)).fetchall() == [(text,)]
        assert [row[0] for row in db.execute("select name from job where name >= 'B' order by name")][:3] == ["B", "Z", "a"]


def test_totals_are_exact_beyond_64_bits(place: PostgresPlace) -> None:
    Store.open(place).close()
    with closing(open_writer(place)) as db:
        for _ in range(3):
            db.execute("insert into total (name, kpart, value) values ('bytes', 0, ?) on conflict (name, kpart)"
                       " do update set value = total.value + excluded.value", (2**63 - 1,))  # fmt: skip
    with open_report(place) as report:
        assert report.totals()["bytes"] == 3 * (2**63 - 1)


def test_one_monitor_holds_a_store_and_its_schema_alone(postgres: PostgresServer) -> None:
    places = [postgres.place(), postgres.place()]
    with Store.open(places[0]) as first, Store.open(places[0]) as second, Store.open(places[1]) as other:
        assert (first.hold(), second.hold(), other.hold()) == (True, False, True)
    with Store.open(places[0]) as third:
        assert third.hold()


def test_a_writer_waits_for_another_and_gives_up_after_a_time(place: PostgresPlace) -> None:
    Store.open(place).close()
    with closing(open_writer(place)) as first, closing(open_writer(place, 0.05)) as second:
        with first.writing(), pytest.raises(PostgresError, match="lock timeout"), second.writing():
            pass
        with second.writing():
            pass


async def test_a_reader_sees_the_tables_when_they_come_and_cannot_write(place: PostgresPlace) -> None:
    database = Database(place)
    missing = await database.version()
    assert (await database.read(lambda db: db.execute("select count(*) from head").fetchone()))[0] == 0
    assert await database.version() == missing
    Store.open(place).close()
    first = await database.version()
    assert first != missing
    record_job(place, pid=1)
    assert await database.version() not in (first, missing)
    with pytest.raises(StoreUnreadableError, match="read-only"):
        await database.read(lambda db: db.execute("delete from job"))
    assert (await database.read(lambda db: db.execute("select count(*) from job").fetchone()))[0] == 1
    await database.close()


async def test_a_reader_whose_connection_was_cut_reads_again(made: PostgresPlace) -> None:
    database = Database(made)
    first = await database.version()
    (pid,) = await database.read(lambda db: db.execute("select pg_backend_pid()").fetchone())
    with closing(open_writer(made)) as db:
        db.execute(f"select pg_terminate_backend({pid}, 60000)")
    with pytest.raises(StoreUnreadableError, match="cannot be read"):
        await database.version()
    assert await database.version() != first
    await database.close()


async def test_a_query_that_takes_too_long_is_ended(made: PostgresPlace) -> None:
    database = Database(made, query_seconds_max=0.05)
    with pytest.raises(StoreUnreadableError, match="was ended; ask for less"):
        await database.read(lambda db: db.execute("select pg_sleep(60)").fetchone())
    assert (await database.read(lambda db: db.execute("select 1").fetchone()))[0] == 1
    await database.close()


async def test_a_store_of_another_version_and_one_that_cannot_be_reached_are_told_apart(made: PostgresPlace) -> None:
    database = Database(made)
    with pytest.raises(StoreUnreadableError, match="another version"):
        await database.read(lambda db: db.execute("select no_such from head").fetchone())
    await database.close()
    database = Database(PostgresPlace("postgresql:///postgres?host=/nowhere"))
    with pytest.raises(StoreUnreadableError, match=r"cannot be read: .*nowhere"):
        await database.version()
    await database.close()


def test_a_database_without_tables_is_no_monitors(place: PostgresPlace) -> None:
    with pytest.raises(NoMonitorError, match="has no tables of a monitor"), open_report(place):
        pass


def test_only_databases_in_utf8_are_taken(postgres: PostgresServer) -> None:
    with closing(open_writer(PostgresPlace(postgres.url))) as db:
        db.execute("create database plain encoding 'SQL_ASCII' template template0")
    with pytest.raises(PostgresError, match="encoding SQL_ASCII"):
        open_writer(PostgresPlace(postgres.url.replace("/postgres?", "/plain?")))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://host/db", "must be postgresql://"),
        ("host=/tmp dbname=x", "must be postgresql://"),
        ("postgresql://user:secret@host/db", "has a password"),
        ("postgresql://host/db?password=secret", "has a password"),
        ("postgresql://host/db?sslmode=require&sslpassword=secret", "has a password"),
    ],
)
def test_other_urls_and_passwords_in_them_are_refused(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        PostgresPlace(url)


def test_a_password_is_not_printed() -> None:
    place = PostgresPlace("postgresql://user@host/db", "secret")
    assert "secret" not in f"{place} {place!r}"
