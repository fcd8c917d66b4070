"""What the page says within seconds when monitor, Spark, node or Kafka is killed, and whether its files are those of the store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from cli.dev.kafka import KafkaCluster
from cli.outcome import Exit
from integration_tests.dashboard_browser import DashboardProcess, Watched, looked_at, open_chromium
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.page_news import PageNews, Sentence
from integration_tests.service import Service
from integration_tests.uploader import Uploader
from integration_tests.waiting import wait_until

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]  # Kafka, two nodes and, three times, Spark start in it

TOLD_WITHIN_S = 10.0
SEEN_S = 5.0


@pytest.fixture
def kafka(kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """A broker of this test's own, which it kills."""
    return kafka_cluster()


@pytest.fixture
def service(kafka: KafkaCluster, data_folder: Path) -> Iterator[Service]:
    with Service(kafka.bootstrap, data_folder, partitions=4) as made:
        yield made.start(2)


@pytest.fixture
def uploader(service: Service) -> Iterator[Uploader]:
    made = Uploader(service)
    yield made
    made.stop()


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


def on_the_page(address: str) -> tuple[int, int, int, int]:
    """Files and bytes of the totals, and of what the object store is said to hold."""
    overview, files = get(f"{address}api/overview"), get(f"{address}api/files")
    totals = (overview["numbers"] or {}).get("totals", {})
    counted = [int(totals[name]["digits"]) if totals else 0 for name in ("files", "file_bytes")]
    return counted[0], counted[1], files["stored"]["files"], files["stored"]["file_bytes"]


def status(monitor: MonitorProcess) -> int:
    """How `diskless monitor status` ends."""
    command = [sys.executable, "-m", "cli.program", "monitor", "status", "--dir", str(monitor.folder)]
    return subprocess.run(command, capture_output=True, check=False, timeout=START_TIMEOUT_S).returncode


def assert_told(page: PageNews, killed_s: float, is_wanted: Callable[[Sentence], bool], what: str) -> Sentence:
    """The page says it in time, and calls nothing quiet that was not seen for some seconds."""
    told = page.wait(is_wanted, what, since_s=killed_s)
    assert told.time_s - killed_s <= TOLD_WITHIN_S, f"{what} after {told.time_s - killed_s:.1f} s"
    unseen = [sentence.text for sentence in page.since(killed_s + SEEN_S) if sentence.time_s <= told.time_s]
    assert "quiet" not in " ".join(unseen)
    return told


@pytest.fixture
def watched() -> Iterator[Watched]:
    with sync_playwright() as playwright, looked_at(open_chromium(playwright)) as made:
        yield made


def assert_on_screen(watched: Watched, sentence: str, panel: str, shown: str, *, is_known: bool) -> None:
    """What the browser shows says so first, a click leads to it, and no tile says otherwise."""
    page = watched.page
    page.wait_for_function("text => document.querySelector('#sentence').textContent.includes(text)", arg=sentence)
    page.wait_for_function("known => known !== document.querySelector('#tile-audit').hasAttribute('data-old')", arg=is_known)
    assert ("was clean" in (page.text_content("#tile-audit") or "")) != is_known
    page.click("#verdict")
    if not page.locator("#panel-look").is_visible():
        watched.wait_text(panel, shown)


def test_every_kill_is_told_within_ten_seconds_and_files_are_those_of_the_store(
    kafka: KafkaCluster, service: Service, uploader: Uploader, watched: Watched, tmp_path: Path
) -> None:
    coordinators = [node.http.removeprefix("http://").rstrip("/") for node in service.nodes.values()]
    with MonitorProcess(service.bootstrap, service.topic, tmp_path) as monitor:
        monitor.start_ready("--trigger-interval", "0.5")
        dashboard = DashboardProcess(monitor.folder, tmp_path, coordinators)
        try:
            dashboard.start()
            page = PageNews(dashboard.address)

            def is_healthy(sentence: Sentence) -> bool:
                return sentence.level == "good" and " files/s, audit clean" in sentence.text

            page.wait(is_healthy, "that it is healthy")
            watched.open(dashboard.address)
            wait_until(lambda: status(monitor) == Exit.OK, "`monitor status` to end with 0", START_TIMEOUT_S)

            killed_s = time.monotonic()
            service.nodes[2].kill()
            one_down = f"ode 2 ({coordinators[1]}) does not answer"
            assert_told(page, killed_s, lambda one: one_down in one.text and one.level == "bad", "that a node is down")
            assert_on_screen(watched, "does not answer", "#panel-leadership", "does not answer", is_known=True)
            if not watched.page.locator("#panel-look").is_visible():
                watched.page.click("#panel-leadership a.look:has-text('node 2')")
            watched.wait_text("#panel-look", "does not answer")
            watched.page.click("#look-close")
            service.nodes[2].start()
            service.wait_shared()
            page.wait(is_healthy, "that it is healthy", since_s=time.monotonic())

            killed_s = time.monotonic()
            monitor.process.kill()
            told = assert_told(page, killed_s, lambda one: one.text.startswith("No sign of the monitor for"), "that the monitor is dead")
            assert told.level == "bad"
            assert "what follows is not watched, and the nodes decide" in told.text
            assert_on_screen(watched, "No sign of the monitor for", "#panel-monitor", "Last sign of life", is_known=False)
            assert status(monitor) == Exit.UNAVAILABLE
            monitor.start_ready("--trigger-interval", "0.5")
            page.wait(is_healthy, "that it is healthy", since_s=time.monotonic())

            jvm = monitor.jvm()
            assert jvm is not None
            killed_s = time.monotonic()
            os.kill(jvm, signal.SIGKILL)
            reason = "Spark's JVM was ended by signal 9"
            assert_told(
                page, killed_s, lambda one: "The monitor ended with an error" in one.text and reason in one.text, "why the job ended"
            )
            assert monitor.wait_ended() == 1

            # What was committed meanwhile is read; then the page, the log and the folder say the same.
            config = service.nodes[1].folder / "coordinator.properties"
            checks = ["--verify-every", "10s", "--verify-server", ",".join(service.addresses), "--objects-every", "10s"]
            monitor.start_ready("--trigger-interval", "0.5", *checks, "--config", str(config))
            uploader.stop()
            stopped_ms = time.time_ns() // 1_000_000
            stored = uploader.stored()
            assert stored[0] == uploader.committed
            wait_until(lambda: on_the_page(dashboard.address) == stored * 2, f"the page to count {stored}", START_TIMEOUT_S)
            assert monitor.total("record.FileCommitted") > stored[0], "files had several owners"

            # The jobs that the monitor runs itself find the same: no object missing, log and replicas agree.
            def outcome(name: str) -> dict[str, Any]:
                return get(f"{dashboard.address}api/{name}").popitem()[1] or {"at_ms": 0}

            for name in ("objects", "agreement"):
                wait_until(lambda name=name: outcome(name)["at_ms"] > stopped_ms, f"the monitor to run {name}", 2 * START_TIMEOUT_S)  # type: ignore[misc]
            assert outcome("objects")["missing_files"] == 0
            assert outcome("agreement")["agree"], outcome("agreement")

            killed_s = time.monotonic()
            kafka.kill(1)
            told = assert_told(
                page, killed_s, lambda one: one.text.startswith("Kafka has not answered the monitor for"), "that Kafka is gone"
            )
            assert told.level == "bad"
            assert_on_screen(watched, "Kafka has not answered the monitor for", "#panel-monitor", "Kafka says", is_known=False)
        finally:
            dashboard.close()
