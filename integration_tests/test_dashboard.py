"""The page in a real browser: its states, keyboard, reload, lost connection, themes, hostile names, on stores made for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Route, sync_playwright

from cli.dev.ports import lease_ports
from integration_tests.dashboard_browser import DashboardProcess, axe_source, looked_at, open_chromium
from integration_tests.waiting import wait_until
from simulation.fakes.certificates import Authority
from tables.export.metrics import ExportState
from tables.export.source import PartitionBounds
from tables.reading.span import ReadCounts
from tests.spark.dashboard_store import CLICKS, EVIL, EVIL_NAME, ORDERS, StoreMaker
from tests.spark.test_dashboard_exports import metrics_of, served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = open_chromium(playwright)
        yield made
        made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreMaker]:
    made = StoreMaker(tmp_path / "monitor")
    made.healthy(time.time_ns() // 1_000_000, watched_for_ms=3_600_000)
    yield made
    made.close()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[DashboardProcess]:
    made = DashboardProcess(tmp_path / "monitor", tmp_path)
    yield made
    made.close()


def fill(store: StoreMaker) -> None:
    """Something in every panel."""
    now_ms = time.time_ns() // 1_000_000
    minute = now_ms // 60_000
    for back in range(3):
        for topic_id, batches in ((ORDERS, 600), (CLICKS, 900)):
            store.row("activity_topic", minute=minute - back, topic_id=topic_id, batches=batches, records=batches, bytes=batches * 100)
        store.row("activity_uploader", minute=minute - back, uploader=1, files=100, batches=500, bytes=500_000, file_bytes=550_000)
        for name, upper in (("file_bytes", 1 << 20), ("batches_per_file", 16), ("freshness_ms", 1024), ("fill_percent", 90)):
            store.row("histogram", name=name, minute=minute - back, upper=upper, count=10)
    store.row("broker", broker_id=1, rack="rack-1", host="broker-1.example")
    location = {"location": "snapshots/0/45", "digest": bytes(16)}
    store.row(
        "snapshot", kpart=0, entry_offset=50, mark_offset=40, end_offset=45, epoch=3, size_bytes=9, append_ms=now_ms - 20_000, **location
    )
    for number, state in enumerate(("live", "deletable", "waiting", "removed")):
        key = {"object_key": f"wal/{number}", "owners": "[0]", "state": state, "state_since_ms": now_ms - 60_000}
        sizes = {"file_bytes": 1_000_000, "batches": 10, "live_batches": 5, "live_bytes": 40_000}
        store.row("file", file_number=number + 1, kpart=0, entry_offset=number, append_ms=now_ms - 60_000, uploader=1, **key, **sizes)
    store.finding(1, 1234, "sequence-gap", message="sequence 8 does not follow 5", producer_id=4711, seen_ms=now_ms)
    store.row("quarantine", kpart=0, entry_offset=9, error="unknown fingerprint", size_bytes=3, first_bytes=b"<b>", seen_ms=now_ms)
    store.row("note", kpart=0, entry_offset=1, text="the log begins here", seen_ms=now_ms)
    parts = [{"kpart": 0, "offset": 9, "agree": False, "difference": "a file", "digest": "ab", "rows": [{"kind": "file", "id": 1}]}]
    store.row("job", name="last_verify", value=json.dumps({"at_ms": now_ms, "partitions": parts, "not_compared": []}))
    store.row("job", name="last_objects", value=json.dumps({"at_ms": now_ms, "missing_files": 1, "missing": [{"object_key": "wal/0"}]}))


def test_an_empty_folder_says_how_to_start_and_fills_by_itself(browser: Browser, dashboard: DashboardProcess, tmp_path: Path) -> None:
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.wait_text("#start", "diskless monitor run")
        assert page.locator("#verdict").get_attribute("data-level") == "unknown"
        assert not page.locator("#tiles").is_visible()
        made = StoreMaker(tmp_path / "monitor")
        made.healthy(time.time_ns() // 1_000_000, watched_for_ms=3_600_000)
        watched.wait_exact("#tile-files .exact", "300")
        watched.wait_text("#sentence", "files/s, audit clean over 201 entries")
        assert not page.locator("#start").is_visible()
        made.totals(0, {"records": 2**62 + 1})
        watched.wait_exact("#tile-records .exact", str(2**62 + 1 + 12000))
        made.close()
        watched.assert_quiet()


def test_exports_are_shown_with_lag_and_retention(browser: Browser, store: StoreMaker, tmp_path: Path) -> None:
    now_s = time.time()
    state = ExportState(EVIL_NAME, ReadCounts(), caught_up_s=now_s, seconds_left=36_000.0)
    state.on_begin({0: 10}, [PartitionBounds(0, 0, 1_234)])
    authority, token = Authority(tmp_path), tmp_path / "token"
    token.write_text("a-token-of-more-than-24-characters\n")
    secured = served(metrics_of(state), authority.issue("export"), token.read_text().strip())
    with secured as address, closing(lease_ports(1)[0]) as silent:
        how = ["--exports-token-file", str(token), "--exports-ca-file", str(authority.ca_file)]
        dashboard = DashboardProcess(tmp_path / "monitor", tmp_path, exports=[address, f"127.0.0.1:{silent.port}"], options=how)
        try:
            dashboard.start()
            with looked_at(browser) as watched:
                page = watched.open(dashboard.address)
                page.locator("#panel-exports").scroll_into_view_if_needed()
                watched.wait_text("#panel-exports tbody tr:nth-child(1)", EVIL_NAME)
                watched.wait_text("#panel-exports tbody tr:nth-child(1)", "catches up")
                watched.wait_text("#panel-exports tbody tr:nth-child(1)", "1\u202f224")
                watched.wait_text("#panel-exports tbody tr:nth-child(1)", "in 10\u00a0h")
                watched.wait_text("#panel-exports tbody tr:nth-child(2)", "does not answer")
                watched.assert_quiet()
        finally:
            dashboard.close()


def test_findings_are_shown_with_detail_and_survive_a_reload(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    store.finding(1, 1234, "offset-gap", message="offsets 5 to 5 are missing")
    store.row("quarantine", kpart=0, entry_offset=9, error="unknown fingerprint", size_bytes=3, first_bytes=b"<b>", seen_ms=1)
    for number in range(60):
        store.partition(EVIL, number, 10 + number)
    store.topic(EVIL, EVIL_NAME, 60)
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.wait_text("#sentence", "1 finding, the newest: offset gap in orders-7 (coordinator 1, offset 1\u202f234)")
        assert page.locator("#verdict").get_attribute("data-level") == "bad"
        page.click("#verdict")
        assert page.evaluate("document.activeElement.id") == "panel-findings"
        watched.wait_text("#panel-findings .findings details[open]", "diskless log dump --partition 1 --from 1232 --max 3")
        page.click("#panel-findings .findings details[open] a.look")
        watched.wait_text("#panel-look", "diskless log explain 1@1234")
        assert page.evaluate("new URLSearchParams(location.hash.slice(1)).get('look')") == "entry/1@1234"
        page.click("#look-close")
        watched.wait_text("#panel-quarantine", "unknown fingerprint")

        page.click("[data-range='3600']")
        page.fill("#search", "orders-1")
        page.wait_for_function("() => document.querySelectorAll('#panel-partitions tbody tr').length === 1")
        page.fill("#search", "img src")
        page.wait_for_function("() => document.querySelectorAll('#panel-partitions tbody tr').length === 15")
        page.click("[aria-label='next page']")
        watched.wait_text("#panel-partitions .pager", "30 of 60 partitions")
        page.click("#panel-partitions tbody a.look")
        page.click("#panel-look button:has-text('Only this topic')")  # the hostile one
        page.locator("#panel-activity").scroll_into_view_if_needed()  # what nobody sees is not asked for
        watched.wait_text("#panel-activity .note", "By topic")

        before = page.evaluate("location.hash")
        page.reload()
        page.wait_for_selector("#link[data-state=live]")
        assert page.evaluate("location.hash") == before
        assert page.input_value("#topic") == EVIL_NAME
        assert page.input_value("#search") == "img src"
        assert page.locator("[data-range='3600']").get_attribute("aria-pressed") == "true"

        # Names from the log are text and nothing else.
        page.locator("#panel-partitions").scroll_into_view_if_needed()
        watched.wait_text("#panel-partitions tbody", EVIL_NAME)
        assert page.locator("main img, main script").count() == 0
        assert page.title() != "1"
        watched.assert_quiet()


def test_findings_that_are_drawn_before_the_first_news_can_be_acknowledged(browser: Browser, store: StoreMaker, tmp_path: Path) -> None:
    store.finding(1, 7, "offset-gap", message="offset 7 is missing")
    token_file = tmp_path / "token"
    token_file.write_text("correct-horse-battery\n")
    dashboard = DashboardProcess(tmp_path / "monitor", tmp_path, token_file=token_file).start()
    held: list[Route] = []
    try:
        with looked_at(browser) as watched:
            page = watched.page
            page.route("**/api/events*", lambda route: held.append(route))  # Playwright takes no builtin
            page.goto(dashboard.address)
            page.locator("#panel-findings").scroll_into_view_if_needed()
            page.wait_for_selector("#finding-1")
            assert page.locator("#finding-1 button[data-key=acknowledge-1]").count() == 0
            for route in held:
                route.continue_()
            page.wait_for_selector("#finding-1 button[data-key=acknowledge-1]", state="attached")
    finally:
        dashboard.close()


def test_a_finding_is_acknowledged_on_the_page_with_the_token_alone(browser: Browser, store: StoreMaker, tmp_path: Path) -> None:
    for offset in (7, 9):
        store.finding(1, offset, "offset-gap", message=f"offset {offset} is missing")
    token_file = tmp_path / "token"
    token_file.write_text("correct-horse-battery\n")
    dashboard = DashboardProcess(tmp_path / "monitor", tmp_path, token_file=token_file).start()
    try:
        with looked_at(browser) as watched:
            page = watched.open(dashboard.address)
            watched.wait_text("#sentence", "2 findings, the newest: offset gap in orders-7 (coordinator 1, offset 9)")
            page.locator("#panel-findings").scroll_into_view_if_needed()
            page.click("#finding-2 summary")
            page.click("#finding-2 button[data-key=acknowledge-2]")
            for name, value in (("reason", "restored, <b>ticket</b> 4711"), ("who", "ann"), ("token", "wrong-horse")):
                page.fill(f"#acknowledge [name={name}]", value)
            page.keyboard.press("Enter")
            watched.wait_text("#acknowledge .failure", "the token is missing or wrong")
            page.fill("#acknowledge [name=token]", "correct-horse-battery")
            page.keyboard.press("Enter")
            watched.wait_text("#sentence", "1 finding, the newest: offset gap in orders-7 (coordinator 1, offset 7)")
            assert page.locator("#acknowledge").count() == 0
            watched.wait_text("#findings-state", "1 finding to look at, 1 acknowledged")
            watched.wait_text("#finding-2 .facts", "by ann: restored, <b>ticket</b> 4711")
            page.click("#findings-state button")  # all the others; name and token are known by now
            page.fill("#acknowledge [name=reason]", "the same")
            page.keyboard.press("Enter")
            watched.wait_text("#sentence", "Healthy")
            watched.wait_text("#findings-state", "Nothing new, 2 acknowledged")
            assert page.text_content("#tile-audit strong") == "clean"
            if not page.locator("#finding-1 details").evaluate("one => one.open"):
                page.click("#finding-1 summary")
            page.click("#finding-1 button[data-key=reopen-1]")
            page.fill("#acknowledge [name=reason]", "it happened again")
            page.keyboard.press("Enter")
            watched.wait_text("#sentence", "1 finding, the newest: offset gap in orders-7 (coordinator 1, offset 7")
            watched.wrong = [line for line in watched.wrong if "401" not in line]  # what the browser says of the wrong token
            watched.assert_quiet()
    finally:
        dashboard.close()
    said = store.db.execute("select action, who, reason from acknowledgement order by id").fetchall()
    assert said == [
        ("acknowledge", "ann", "restored, <b>ticket</b> 4711"),
        ("acknowledge", "ann", "the same"),
        ("reopen", "ann", "it happened again"),
    ]


def test_a_lost_connection_is_shown_and_resumes(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.wait_exact("#tile-files .exact", "300")
        dashboard.kill()
        watched.wait_text("#lost", "Connection lost")
        assert page.locator("#link").get_attribute("data-state") == "lost"
        assert page.locator("#tile-files .exact").get_attribute("data-exact") == "300", "what was known stays"
        store.totals(0, {"files": 1000})
        dashboard.start()
        watched.wait_exact("#tile-files .exact", "1180")
        page.wait_for_selector("#link[data-state=live]")
        assert not page.locator("#lost").is_visible()
        # A clean stop does not wait for open pages, which would be for ever.
        assert dashboard.terminate() == 0
        watched.assert_quiet(but_lost=True)


def test_everything_can_be_reached_by_keyboard(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.wait_exact("#tile-files .exact", "300")
        watched.see_all()
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        seen: list[str] = []
        hidden: list[str] = []
        for _ in range(150):
            page.keyboard.press("Tab")
            said = page.evaluate(
                """() => { const one = document.activeElement;
                  if (one === document.body) return null;
                  const style = getComputedStyle(one);
                  const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
                  return [one.closest("[id]")?.id ?? "", shown]; }"""
            )
            if said is None:
                break
            seen.append(said[0])
            hidden += [] if said[1] else [said[0]]
        assert hidden == [], "focus is always visible"
        assert {"verdict", "ranges", "topic", "theme", "help", "sections", "search", "panel-partitions", "panel-monitor"} <= set(seen)

        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        assert page.locator("#shortcuts").evaluate("one => one.open")
        page.keyboard.press("Escape")
        assert not page.locator("#shortcuts").evaluate("one => one.open")
        page.keyboard.press("3")
        assert page.locator("[data-range='86400']").get_attribute("aria-pressed") == "true"
        page.keyboard.press("s")
        assert page.locator("[data-split=coordinator]").get_attribute("aria-pressed") == "true"
        for _ in range(4):
            page.keyboard.press("j")
        assert page.evaluate("document.activeElement.id") == "panel-findings"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        page.keyboard.type("3?")  # in a field they are letters
        assert page.input_value("#search") == "3?"
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement === document.body")

        page.keyboard.press("p")
        watched.wait_text("#link-text", "held")
        store.totals(0, {"files": 5})
        with page.expect_response("**/api/overview"):
            page.evaluate("fetch('/api/overview')")
        assert page.locator("#tile-files .exact").get_attribute("data-exact") == "300"
        page.keyboard.press("p")
        watched.wait_exact("#tile-files .exact", "185")
        watched.assert_quiet()


def test_migrations_are_followed_from_waiting_to_diskless(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        page.locator("#panel-migrations").scroll_into_view_if_needed()
        watched.wait_text("#panel-migrations .note", "No migration is under way.")
        now_ms = time.time_ns() // 1_000_000
        store.topic(EVIL, EVIL_NAME, 30)
        for number in range(30):
            store.migrated(EVIL, number, -1, now_ms - 300_000)
        watched.wait_text("#panel-migrations .note", "1 topic has partitions that take no batches")
        watched.wait_text("#panel-migrations", "5\u00a0min")
        page.click("#panel-migrations [aria-label='last page']")
        watched.wait_text("#panel-migrations .pager", "30 of 30 partitions")
        watched.wait_text("#panel-migrations", f"{EVIL_NAME}-29")
        store.migrated(CLICKS, 10, -1, now_ms)
        for number in range(30):
            store.migrated(EVIL, number, 1_234_567 + number, now_ms, prefix_start=20, leader_epoch=3)
        watched.wait_text("#panel-migrations .pager", "of 1 partitions")  # the page that was looked at is no more
        page.click("#panel-migrations [aria-label='first page']")
        watched.wait_text("#panel-migrations", "clicks-10")
        store.migrated(CLICKS, 10, 0, now_ms, leader_epoch=0)
        step = {"step": "repair", "base_before": 7_654_321, "base_after": 1_234_567, "leader_epoch": 3, "append_ms": now_ms}
        store.row("migration_step", kpart=0, entry_offset=77, topic_id=EVIL, partition=0, **step)
        watched.wait_text("#panel-migrations .note", "No migration is under way. 2 topics with 31 partitions were migrated.")
        watched.wait_text("#panel-migrations", f"{EVIL_NAME}-0")
        watched.assert_quiet()


def test_light_and_dark_and_no_width_makes_it_scroll_sideways(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    store.finding(1, 1234, "offset-gap", message="x" * 400, object_key="k" * 300)
    dashboard.start()
    paper = "getComputedStyle(document.body).backgroundColor"
    with looked_at(browser, dark=True) as watched:
        page = watched.open(dashboard.address)
        watched.wait_exact("#tile-files .exact", "300")
        dark = page.evaluate(paper)
        page.keyboard.press("t")
        light = page.evaluate(paper)
        assert light != dark
        page.reload()
        page.wait_for_selector("#link[data-state=live]")
        assert page.evaluate(paper) == light, "the choice is kept"
        watched.assert_quiet()
    for width in (360, 800, 1920):
        with looked_at(browser, width=width) as watched:
            page = watched.open(dashboard.address)
            assert page.evaluate(paper) == light
            watched.see_all()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            watched.assert_quiet()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_fault_in_the_page(browser: Browser, dashboard: DashboardProcess, store: StoreMaker, dark: bool) -> None:
    fill(store)
    store.life(time.time_ns() // 1_000_000 - 20_000)  # grey tiles and bands, too
    dashboard.start()
    with looked_at(browser, dark=dark) as watched:
        watched.open(dashboard.address)
        watched.see_all()
        watched.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert watched.violations(axe_source()) == []


def test_a_monitor_that_died_leaves_no_number_that_looks_like_now(browser: Browser, dashboard: DashboardProcess, tmp_path: Path) -> None:
    died_ms = time.time_ns() // 1_000_000 - 30_000
    store = StoreMaker(tmp_path / "monitor")
    store.healthy(died_ms)
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.wait_text("#sentence", "No sign of the monitor for")
        watched.see_all()
        for tile in ("files", "batches", "records", "bytes", "audit"):
            assert page.locator(f"#tile-{tile}").get_attribute("data-old") is not None, tile
        texts = {name: page.text_content(f"#tile-{name}") or "" for name in ("files", "audit")}
        until = page.evaluate("ms => new Date(ms).toTimeString().slice(0, 8)", died_ms)
        assert "5/s, " in texts["files"]
        assert f"300 in all until {until}" in texts["files"]
        assert (f"until {until}" in texts["audit"], "was clean" in texts["audit"]) == (True, True)
        watched.wait_text("#panel-findings", f"The audit found nothing until {until}")
        watched.wait_text("#panel-activity .note", "Grey: the log did not exist, not watched.")
        assert "not watched from" in (page.get_attribute("#panel-activity .canvas", "aria-label") or "")
        assert "5" in (page.text_content("#panel-activity .legend b") or ""), "the last value that is known"
        assert page.locator("#panel-leadership .unknown").count() >= 2
        assert {cell.text_content() for cell in page.locator("#panel-partitions tbody td:nth-child(2)").all()} == {"\u2013"}
        store.life(time.time_ns() // 1_000_000 + 3_600_000)  # another one read on, and there was nothing to read
        watched.wait_text("#tile-files", "0/s")
        assert page.locator("#tile-files").get_attribute("data-old") is None
        watched.wait_text("#tile-audit strong", "clean")
        watched.assert_quiet()
    store.close()


def test_a_range_is_dragged_or_clicked_and_kept_in_the_address(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    fill(store)
    store.row("happening", kpart=0, entry_offset=3, append_ms=time.time_ns() // 1_000_000 - 50_000, kind="start", node_id=2, level=3)
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        watched.see_all()
        watched.wait_text("#panel-marks .legend", "1 start of a node")
        page.evaluate("scrollTo(0, 0)")
        over = page.locator("#panel-activity .u-over").first
        box = over.bounding_box()
        assert box is not None
        at = {share: box["x"] + box["width"] * share for share in (0.2, 0.4, 0.8, 0.9)}
        middle = box["y"] + box["height"] / 2

        def range_s() -> float:
            times = "['to', 'from'].map((name) => Date.parse(new URLSearchParams(location.hash.slice(1)).get(name)))"
            return float(page.evaluate(f"{times}.reduce((to, from) => (to - from) / 1000)"))

        page.mouse.move(at[0.2], middle)
        page.mouse.down()
        page.mouse.move(at[0.8], middle, steps=4)
        page.mouse.up()
        page.wait_for_function("location.hash.includes('from=')")
        assert range_s() == pytest.approx(180, abs=5)
        assert page.locator("#ranges [aria-pressed=true]").count() == 0
        assert "\u2013" in (page.text_content("#fixed") or "")

        with page.expect_response("**/api/activity?from=**"):
            page.reload()
        watched.see_all()
        page.evaluate("scrollTo(0, 0)")
        page.mouse.click(at[0.4], middle)
        assert range_s() == pytest.approx(180, abs=5), "one click is no range"
        page.mouse.click(at[0.9], middle)
        assert range_s() == pytest.approx(90, abs=5)
        page.mouse.click(at[0.4], middle)
        page.keyboard.press("Escape")  # forgets it
        page.mouse.click(at[0.9], middle)
        assert range_s() == pytest.approx(90, abs=5)

        page.click("#earlier")
        assert range_s() == pytest.approx(90, abs=5)
        page.click("#fixed")
        page.fill("#range-form [name=from]", "2026-01-02T02:00:00")
        page.fill("#range-form [name=to]", "2026-01-02T03:00:00")
        page.click("#range-form [type=submit]")
        watched.wait_text("#fixed", "2026-01-02 02:00:00 \u2013 03:00:00")
        watched.wait_text("#panel-activity .note", "Grey: the log did not exist.")
        page.keyboard.press("2")
        assert page.evaluate("location.hash") == "#range=3600"
        watched.assert_quiet()


def test_things_are_found_and_lead_to_each_other(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    fill(store)
    store.topic(EVIL, EVIL_NAME, 1)
    store.partition(EVIL, 0, 7)
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        page.keyboard.press("g")
        page.keyboard.type("clicks-0")
        page.keyboard.press("Enter")
        watched.wait_text("#panel-look h2", "Partition clicks-0")
        page.click("#panel-look a:has-text('coordinator 0')")
        watched.wait_text("#panel-look h2", "Coordinator 0")
        watched.wait_text("#panel-look", "Terms")
        page.click("#panel-look a:has-text('node 1')")
        watched.wait_text("#panel-look", "node-0:9192")
        page.fill("#find", "wal/0")
        page.press("#find", "Enter")
        watched.wait_text("#panel-look", "By coordinator")
        page.fill("#find", "<img")
        page.press("#find", "Enter")
        watched.wait_text("#panel-look h2", EVIL_NAME)
        assert watched.violations(axe_source()) == []
        page.reload()
        watched.wait_text("#panel-look h2", EVIL_NAME)
        page.click("#look-close")
        assert not page.locator("#panel-look").is_visible()
        watched.assert_quiet()


class MetricsOfANode:
    """Something that answers /metrics on a real socket as a node would, until it is closed."""

    def __init__(self, node_id: int, leading: int) -> None:
        self.failures = self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                text = f'diskless_coordinator_node_info{{node_id="{node_id}",rack="",version="1"}} 1\n'
                text += "".join(f'diskless_coordinator_leading{{partition="{one}"}} {int(one == leading)}\n' for one in (0, 1))
                text += f'diskless_coordinator_file_delete_failures_total{{partition="0"}} {self.failures}\n'
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(text)))
                handler.end_headers()
                handler.wfile.write(text.encode())
                self.asked += 1

            def log_message(handler, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; may be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Incident(NamedTuple):
    """Something that happens to a healthy service: what is said of it, where the first click leads, and what the second one shows there."""

    happens: Callable[[StoreMaker, list[MetricsOfANode]], object]
    sentence: str
    first_place: str
    second_click: str
    shown: str
    is_watched: bool = True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


INCIDENTS = {
    "node": Incident(
        lambda _, nodes: nodes[1].close(), "does not answer",
        "#panel-look", "a.look:has-text('coordinator 1')", "node 2 (does not answer)",
    ),
    "kafka": Incident(
        lambda store, _: store.life(_now_ms() + 3_600_000, kafka_ms=_now_ms() - 12_000, kafka_error="no answer within 4 s"),
        "Kafka has not answered the monitor for",
        "#panel-monitor", "summary:has-text('partitions of the log')", "no answer within 4 s", is_watched=False,
    ),
    "monitor": Incident(
        lambda store, _: store.life(_now_ms() - 12_000), "No sign of the monitor for",
        "#panel-monitor", "summary:has-text('partitions of the log')", "Last sign of life", is_watched=False,
    ),
    "gap": Incident(
        lambda store, _: store.finding(1, 55, "sequence-gap", message="8 does not follow 5", seen_ms=_now_ms()),
        "1 finding, the newest: sequence gap in orders-7 (coordinator 1, offset 55)",
        "#panel-findings", "a.look:has-text('offset 55')", "diskless log explain 1@55",
    ),
    "store": Incident(
        lambda _, nodes: setattr(nodes[0], "failures", 3), "The object store failed node 1",
        "#panel-look", "a.look:has-text('coordinator 0')", "node 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_is_the_first_sentence_and_two_clicks_away(browser: Browser, store: StoreMaker, tmp_path: Path, name: str) -> None:
    incident = INCIDENTS[name]
    nodes = [MetricsOfANode(node_id, leading=node_id - 1) for node_id in (1, 2)]
    dashboard = DashboardProcess(tmp_path / "monitor", tmp_path, [node.address for node in nodes]).start()
    try:
        with looked_at(browser) as watched:
            page = watched.open(dashboard.address)
            watched.wait_text("#sentence", "Healthy")
            wait_until(lambda: all(node.asked > 1 for node in nodes), "the dashboard to ask every node")
            incident.happens(store, nodes)
            page.wait_for_function("text => document.querySelector('#sentence').textContent.includes(text)", arg=incident.sentence)
            page.wait_for_selector("#verdict[data-level=bad]")
            watched.see_all()
            # Nothing contradicts it.
            assert (page.locator("#tile-files[data-old]").count() == 0) == incident.is_watched
            assert (page.text_content("#tile-audit strong") == "clean") == (incident.is_watched and name != "gap")
            if not incident.is_watched:
                page.locator("#panel-findings").scroll_into_view_if_needed()
                watched.wait_text("#panel-findings", "The audit found nothing until")
            if name == "node":
                page.locator("#panel-leadership").scroll_into_view_if_needed()  # what nobody sees is not asked for
                watched.wait_text("#panel-leadership .legend li:nth-child(2)", "does not answer")
                lane = page.locator("#panel-leadership [role=listitem]").nth(1)
                assert "led it and does not answer" in (lane.get_attribute("aria-label") or "")
            page.evaluate("scrollTo(0, 0)")
            page.click("#verdict")
            page.wait_for_function("one => document.querySelector(one).contains(document.activeElement)", arg=incident.first_place)
            page.click(f"{incident.first_place} {incident.second_click}")
            watched.wait_text("main", incident.shown)
            watched.assert_quiet()
    finally:
        dashboard.close()
        for node in nodes if name != "node" else nodes[:1]:
            node.close()


def test_a_print_has_every_panel_though_nobody_scrolled(browser: Browser, dashboard: DashboardProcess, store: StoreMaker) -> None:
    dashboard.start()
    with looked_at(browser) as watched:
        page = watched.open(dashboard.address)
        cards = "[...document.querySelectorAll('section.card[id^=panel-]:not([hidden])')]"
        page.wait_for_function(f"() => {cards}.every((one) => 'ready' in one.dataset)")
        page.emulate_media(media="print")
        assert "Loading" not in page.inner_text("body")
        assert page.inner_text(".second").split("\n") == ["5 min"], "of the controls, only the range is printed"
        watched.assert_quiet()
