"""The server: addresses, headers, caching, events, a store that comes, goes and breaks, coordinators that are down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from cli.main import root
from cli.outcome import Exit
from spark_jobs.dashboard.app import STATIC, Dashboard
from spark_jobs.dashboard.cache import AnswerCache
from spark_jobs.dashboard.catalogue import PANELS
from spark_jobs.dashboard.database import Database, StoreUnreadableError
from spark_jobs.dashboard.events import Events
from spark_jobs.store.engine import DATABASE
from tests.spark.dashboard_store import NOW_MS, StoreMaker
from tests.waiting import stays


@pytest.fixture
def client(store: StoreMaker) -> Iterator[TestClient]:
    with TestClient(Dashboard(store.folder, clock_ms=lambda: NOW_MS).application()) as made:
        yield made


# ---- addresses


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_every_panel_has_its_address_and_is_documented(client: TestClient, panel) -> None:  # type: ignore[no-untyped-def]
    answer = client.get(f"/api/{panel.name}")
    assert answer.status_code == 200
    assert isinstance(answer.json(), dict)
    (listed,) = [one for one in client.get("/api").json()["endpoints"] if one["path"] == f"/api/{panel.name}"]
    assert listed["help"] == panel.help
    assert set(listed["parameters"]) == set(panel.parameters)


def test_everything_that_is_documented_answers(client: TestClient) -> None:
    for endpoint in client.get("/api").json()["endpoints"]:
        if endpoint["path"] != "/api/events" and not endpoint["help"].startswith("POST"):
            assert client.get(endpoint["path"]).status_code == 200, endpoint
    page = client.get("/api", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "/api/findings" in page.text


def test_the_page_and_all_its_files_are_served_and_come_from_here(client: TestClient) -> None:
    assert "/static/main.js" in client.get("/").text
    for path in STATIC.rglob("*.*"):
        address = f"/static/{path.relative_to(STATIC).as_posix()}"
        answer = client.get(address)
        assert answer.status_code == 200, address
        if path.suffix in (".html", ".css", ".js") and path.parent.name != "vendor":
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", ""), address
            assert "https://" not in answer.text, address
            assert "innerHTML" not in answer.text, address
    assert client.get("/favicon.ico").headers["content-type"] == "image/svg+xml"
    assert client.get("/static/../app.py").status_code == 404


def test_nothing_but_get_and_nothing_inline_and_nobody_elses_frame(client: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/api/overview").status_code == 405
    for address in ("/", "/api/overview", "/static/main.js", "/nowhere"):
        policy = client.get(address).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert client.get(address).headers["x-content-type-options"] == "nosniff"


def test_on_loopback_only_loopback_names_are_answered(store: StoreMaker) -> None:
    app = Dashboard(store.folder).application(hosts=("127.0.0.1", "localhost", "[::1]"))
    with TestClient(app) as client:
        for host, status in (
            ("localhost:9180", 200),
            ("127.0.0.1", 200),
            ("[::1]:9180", 200),
            ("evil.example", 421),
            ("evil.example:9180", 421),
        ):
            assert client.get("/healthz", headers={"Host": host}).status_code == status, host


def test_a_bad_question_is_answered_with_what_is_possible(client: TestClient) -> None:
    answer = client.get("/api/activity?range=1")
    assert (answer.status_code, answer.json()["error"]) == (400, "range must be one of 300, 3600, 86400 (seconds), not 1")


def test_an_unchanged_answer_travels_once(client: TestClient, store: StoreMaker) -> None:
    first = client.get("/api/findings")
    assert client.get("/api/findings", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    store.finding(0, 5, "offset-gap")
    assert client.get("/api/findings?limit=3", headers={"If-None-Match": first.headers["etag"]}).status_code == 200


def test_its_own_metrics_and_health(client: TestClient) -> None:
    client.get("/api/files")
    metrics = client.get("/metrics").text
    assert 'diskless_dashboard_requests_total{panel="files",status="200"} 1.0' in metrics
    assert 'diskless_dashboard_panel_seconds_count{panel="files"} 1.0' in metrics
    assert client.get("/healthz").json() == {"healthy": True, "store": "present"}


# ---- the store


def test_without_a_store_it_waits_and_shows_it_when_it_comes(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with TestClient(Dashboard(folder, clock_ms=lambda: NOW_MS).application()) as client:
        waiting = client.get("/api/overview").json()
        assert (waiting["state"], waiting["verdict"]["level"]) == ("empty", "unknown")
        assert client.get("/api/partitions").json()["count"] == 0
        assert not folder.exists()
        made = StoreMaker(folder)
        made.healthy()
        assert client.get("/api/overview").json()["verdict"]["level"] == "good"
        assert client.get("/api/partitions?limit=9").json()["count"] == 3
        made.close()


def test_numbers_move_with_the_store_and_it_is_never_written(client: TestClient, store: StoreMaker) -> None:
    assert client.get("/api/overview").json()["numbers"]["totals"]["files"]["digits"] == "300"
    store.totals(0, {"files": 12345678901234567890 % 2**62})
    expected = 12345678901234567890 % 2**62 + 180
    assert client.get("/api/overview").json()["numbers"]["totals"]["files"]["digits"] == str(expected)


async def test_the_reader_cannot_write(store: StoreMaker) -> None:
    database = Database(store.folder)
    with pytest.raises(StoreUnreadableError, match="readonly"):
        await database.read(lambda db: db.execute("delete from total"))
    assert (await database.read(lambda db: db.execute("select count(*) from total").fetchone()))[0] == 10
    await database.close()


async def test_the_version_changes_with_every_commit_and_with_the_file(store: StoreMaker) -> None:
    database = Database(store.folder)
    first = await database.version()
    assert await database.version() == first
    store.finding(0, 5, "offset-gap")
    second = await database.version()
    assert second != first
    store.close()
    for path in store.folder.glob(f"{DATABASE}*"):
        path.unlink()
    assert (await database.read(lambda db: db.execute("select count(*) from head").fetchone()))[0] == 0
    assert await database.version() not in (first, second)
    await database.close()


async def test_a_store_whose_tables_are_still_to_be_made_is_none(tmp_path: Path) -> None:
    database = Database(tmp_path)
    missing = await database.version()
    made = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    made.execute("pragma journal_mode = wal")  # all there is of the file before the job's first transaction
    assert (tmp_path / DATABASE).stat().st_size > 0
    assert (await database.read(lambda db: db.execute("select count(*) from head").fetchone()))[0] == 0
    assert await database.version() == missing
    StoreMaker(tmp_path).close()
    assert await database.version() != missing
    made.close()
    await database.close()


def test_a_damaged_store_is_a_verdict_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"this is no database" * 1000)
    with TestClient(Dashboard(tmp_path).application()) as client:
        overview = client.get("/api/overview").json()
        assert (overview["state"], overview["verdict"]["level"]) == ("unreadable", "bad")
        assert "not a database" in overview["verdict"]["sentence"]
        answer = client.get("/api/files")
        assert (answer.status_code, "not a database" in answer.json()["error"]) == (503, True)
        assert client.get("/healthz").status_code == 200


async def test_a_query_that_takes_too_long_is_ended(store: StoreMaker) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    database = Database(store.folder, query_seconds_max=0.05)
    with pytest.raises(StoreUnreadableError, match="was ended; ask for less"):
        await database.read(lambda db: db.execute(endless).fetchone())
    assert (await database.read(lambda db: db.execute("select 1").fetchone()))[0] == 1
    await database.close()


async def test_who_asks_while_an_answer_is_made_waits_for_it() -> None:
    now_s, made = 100.0, 0
    cache = AnswerCache(lambda: now_s)

    async def make() -> dict[str, int]:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return {"made": made}

    answers = await asyncio.gather(*(cache.get("key", "v1", make) for _ in range(5)))
    assert {answer.body for answer in answers} == {b'{"made":1}'}
    assert (await cache.get("key", "v1", make)).body == b'{"made":1}'
    assert (await cache.get("key", "v2", make)).body == b'{"made":2}'
    now_s += 10  # the store is the same, the time is not
    assert (await cache.get("key", "v2", make)).body == b'{"made":3}'


async def test_a_dear_answer_is_used_for_longer_and_says_how_old_it_is() -> None:
    now_s = 100.0
    cache = AnswerCache(lambda: now_s)

    async def make() -> dict[str, float]:
        nonlocal now_s
        now_s += 0.5
        return {"at": now_s}

    first = await cache.get("key", "v1", make)
    now_s += 9.9
    assert await cache.get("key", "v2", make) is first
    assert first.version == "v1"
    now_s += 0.2
    assert (await cache.get("key", "v2", make)).version == "v2"


# ---- events


@contextlib.asynccontextmanager
async def opened(events: Events, last_id: str = "") -> AsyncIterator[AsyncIterator[bytes]]:
    stream = events.stream(last_id)
    assert (await anext(stream)).startswith(b"retry: ")
    try:
        yield stream
    finally:
        await stream.aclose()  # type: ignore[attr-defined]


async def test_events_carry_the_overview_and_go_on_from_the_last_one() -> None:
    version, asked = "1", 0

    async def read_version() -> str:
        nonlocal asked
        asked += 1
        return version

    async def overview() -> dict[str, object]:
        return {"level": version}

    events = Events("boot", read_version, overview, look_every_s=0.001, changes_every_s=0.0)
    async with opened(events) as stream:
        first = (await anext(stream)).decode()
        identity = first.splitlines()[0].removeprefix("id: ")
        assert json.loads(first.splitlines()[2].removeprefix("data: ")) == {"level": "1", "version": "1"}
        # One that comes back with the newest id hears nothing until there is something new; another hears the newest at once.
        async with opened(events, identity) as again, opened(events, "boot-0") as other:
            assert (await anext(other)).decode() == first
            waiting = asyncio.ensure_future(anext(again))
            await asyncio.sleep(0)
            assert not waiting.done()
            version = "2"
            assert '"level":"2"' in (await waiting).decode()
            assert events.streams == 3
    assert events.streams == 0
    seen = asked
    await stays(lambda: asked <= seen + 1, "a page without listeners", 0.02)


async def test_closing_ends_streams() -> None:
    async def version() -> str:
        return "1"

    async def overview() -> dict[str, object]:
        return {}

    events = Events("boot", version, overview)
    async with opened(events) as stream:
        await anext(stream)
        rest = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        await events.close()
        assert await rest is None


# ---- the command


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (("--listen", "9180"), Exit.USAGE, "--listen takes HOST:PORT, an IPv6 address in brackets, not '9180'"),
        (("--listen", "127.0.0.1:70000"), Exit.USAGE, "--listen takes HOST:PORT"),
        (("--coordinators", "node-1:9193,http://node-2:9193"), Exit.USAGE, "in brackets, not 'http://node-2:9193'"),
    ],
)
def test_addresses_that_cannot_be_are_refused(tmp_path: Path, options: tuple[str, ...], status: Exit, told: str) -> None:
    result = CliRunner().invoke(root, ["dashboard", "--dir", str(tmp_path), *options], prog_name="diskless")
    assert (result.exit_code, told in result.stderr) == (status, True)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(root, ["dashboard", "--dir", str(tmp_path), "--listen", address], prog_name="diskless")
    assert (result.exit_code, f"cannot listen on {address}" in result.stderr) == (Exit.UNAVAILABLE, True)


# ---- acknowledging

TOKEN = "correct-horse"
KNOWN = {"ids": [1], "who": "ann", "reason": "restored, ticket 4711"}


@pytest.fixture
def writer(store: StoreMaker) -> Iterator[TestClient]:
    store.finding(0, 5, "offset-gap")
    store.finding(1, 9, "sequence-gap")
    app = Dashboard(store.folder, clock_ms=lambda: NOW_MS, token=TOKEN).application(hosts=("testserver",))
    with TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}) as made:
        yield made


def test_a_finding_is_acknowledged_with_who_when_and_why_and_reopened(writer: TestClient) -> None:
    def open_and_headline() -> tuple[str, str]:
        overview = writer.get("/api/overview").json()
        return overview["numbers"]["open_findings"]["digits"], overview["verdict"]["sentence"]

    assert open_and_headline() == ("2", "2 findings, the newest: sequence gap in orders-7 (coordinator 1, offset 9)")
    assert writer.get("/api/overview").json()["can_acknowledge"]
    answer = writer.post("/api/findings/acknowledge", json={**KNOWN, "ids": [2]})
    assert (answer.status_code, answer.json()) == (200, {"changed": 1})
    assert open_and_headline() == ("1", "1 finding, the newest: offset gap in orders-7 (coordinator 0, offset 5)")
    found = writer.get("/api/findings?limit=9").json()
    assert (found["count"], found["open"], [row["id"] for row in found["rows"]]) == (2, 1, [1, 2])
    assert found["rows"][1]["acknowledged"] == {"who": "ann", "reason": "restored, ticket 4711", "at_ms": NOW_MS}
    assert [row["id"] for row in writer.get("/api/findings?limit=1&offset=1").json()["rows"]] == [2]
    all_of_them = {"all": True, "who": "ann", "reason": "known"}
    assert writer.post("/api/findings/acknowledge", json=all_of_them).json() == {"changed": 1}
    assert open_and_headline()[1].startswith("Healthy")
    assert writer.post("/api/findings/reopen", json={**KNOWN, "reason": "again"}).json() == {"changed": 1}
    assert open_and_headline()[0] == "1"


def test_without_a_token_nothing_can_be_changed(client: TestClient, store: StoreMaker) -> None:
    store.finding(0, 5, "offset-gap")
    assert not client.get("/api/overview").json()["can_acknowledge"]
    assert client.post("/api/findings/acknowledge", json=KNOWN, headers={"Authorization": "Bearer x"}).status_code == 405
    assert store.db.execute("select count(*) from acknowledgement").fetchone()[0] == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer correct-hors"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": "Bearer \xe9".encode("latin-1")}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_who_may_not_change_anything(writer: TestClient, store: StoreMaker, headers: dict[str, str], status: int) -> None:
    answer = writer.post("/api/findings/acknowledge", content=json.dumps(KNOWN), headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == status, answer.text
    assert store.db.execute("select count(*) from acknowledgement").fetchone()[0] == 0
    own = {"Content-Type": "application/json", "Origin": "http://testserver"}
    assert writer.post("/api/findings/acknowledge", content=json.dumps(KNOWN), headers=own).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"[" * 100_000, 413),
        (b'{"ids": [], "who": "a", "reason": "b"}', 400),
        (b'{"ids": [1], "all": true, "who": "a", "reason": "b"}', 400),
        (b'{"ids": ["1"], "who": "a", "reason": "b"}', 400),
        (b'{"ids": [true], "who": "a", "reason": "b"}', 400),
        (b'{"ids": [99999999999999999999], "who": "a", "reason": "b"}', 400),
        (b'{"ids": [1], "who": "a"}', 400),
        (b'{"ids": [1], "who": "a", "reason": " "}', 400),
        (b'{"ids": [77], "who": "a", "reason": "b"}', 404),
    ],
)
def test_a_request_that_cannot_be_carried_out_says_why(writer: TestClient, store: StoreMaker, body: bytes, status: int) -> None:
    answer = writer.post("/api/findings/acknowledge", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)
    assert store.db.execute("select count(*) from acknowledgement").fetchone()[0] == 0


@pytest.mark.parametrize("text", ["", "short", "two words here", "\x00\x01\x02\x03\x04\x05\x06\x07\x08"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    found = CliRunner().invoke(root, ["dashboard", "--dir", str(tmp_path), "--token-file", str(file)])
    assert found.exit_code == Exit.USAGE, found.output
    assert "openssl rand" in found.output
