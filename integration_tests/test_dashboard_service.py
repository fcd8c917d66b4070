"""The whole way: commits to a real service, the real monitor, the real page. The numbers are those that were committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from coordinator.client.client import DisklessClient
from coordinator.kafka.names import topic_id_text
from integration_tests.dashboard_browser import DashboardProcess, looked_at, open_chromium
from integration_tests.honest_client import RECORDS, SIZE_BYTES, Topic, commit_request
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.service import Service
from integration_tests.waiting import wait_until

FILES = (1, 7, 3, 12, 5)  # batches of each file
MORE = (4, 9)


@pytest.fixture
def running(service: Service, tmp_path: Path) -> Iterator[tuple[Service, MonitorProcess, DashboardProcess]]:
    """Two nodes, the monitor, the dashboard."""
    service.start(2)
    coordinators = [node.http.removeprefix("http://").rstrip("/") for node in service.nodes.values()]
    with MonitorProcess(service.bootstrap, service.topic, tmp_path) as monitor:
        dashboard = DashboardProcess(monitor.folder, tmp_path, coordinators)
        monitor.start("--trigger-interval", "0.2")
        try:
            dashboard.start()
            wait_until(lambda: monitor.has_ended() or "ready topic=" in monitor.said(), "the line `ready`", START_TIMEOUT_S)
            yield service, monitor, dashboard
        finally:
            dashboard.close()


def commit(service: Service, name: str, files: tuple[int, ...]) -> None:
    """Commit files to partition 0 of a topic, in a thread: the browser's library keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _commit(service.addresses, name, files)).result()


async def _commit(addresses: list[str], name: str, files: tuple[int, ...]) -> None:
    """The topic is made if need be."""
    async with DisklessClient(addresses) as client:
        known = {topic.name: topic.topic_id for topic in await client.admin.list_topics()}
        topic_id = known.get(name) or (await client.admin.create_topic(name, 3)).topic_id
        for batches in files:
            file = commit_request(Topic(topic_id=topic_id, owner_id=0), batches=batches)
            (await client.commit_file(file.object_key, file.file_size, file.batches)).raise_for_errors()


@pytest.mark.timeout(600)  # Spark, two nodes and a browser start in it
def test_the_page_shows_what_was_committed_to_the_record(running: tuple[Service, MonitorProcess, DashboardProcess]) -> None:
    service, monitor, dashboard = running
    commit(service, "orders", FILES)
    commit(service, "clicks", (2,))
    batches = sum(FILES) + 2
    with sync_playwright() as playwright, looked_at(open_chromium(playwright)) as watched:
        page = watched.open(dashboard.address)

        def assert_totals(files: int, batches: int) -> None:
            watched.wait_exact("#tile-files .exact", str(files), START_TIMEOUT_S)
            watched.wait_exact("#tile-batches .exact", str(batches))
            watched.wait_exact("#tile-records .exact", str(batches * RECORDS))
            watched.wait_exact("#tile-bytes .exact", str(batches * SIZE_BYTES))

        assert_totals(len(FILES) + 1, batches)
        page.wait_for_selector("#verdict[data-level=good]")
        page.wait_for_function("() => document.querySelector('#tile-audit strong').textContent === 'clean'")
        assert monitor.total("findings") == 0

        page.locator("#panel-partitions").scroll_into_view_if_needed()
        page.fill("#search", "orders-0")
        page.wait_for_function("() => document.querySelectorAll('#panel-partitions tbody tr').length === 1")
        expected = ["orders-0", *(str(one) for one in (sum(FILES), sum(FILES) * RECORDS, sum(FILES) * RECORDS))]
        # Name, batches, records, high watermark; a panel is asked for anew some seconds after the head of the page.
        page.wait_for_function(
            """wanted => {
              const cells = [...document.querySelectorAll("#panel-partitions tbody td")];
              const texts = cells.map((one) => one.textContent.replace(/\u202f/g, ""));
              return JSON.stringify([0, 2, 3, 6].map((place) => texts[place])) === JSON.stringify(wanted);
            }""",
            arg=expected,
        )

        # Live: what is committed while the page is open arrives by itself, exactly once.
        commit(service, "orders", MORE)
        assert_totals(len(FILES) + 1 + len(MORE), batches + sum(MORE))
        watched.wait_text("#panel-partitions tbody", str((sum(FILES) + sum(MORE)) * RECORDS))

        # What only the service knows: that a process goes away.
        service.nodes[2].kill()
        watched.wait_text("#problems, #sentence", "does not answer")
        watched.assert_quiet()


def test_topic_ids_are_written_as_everywhere_else() -> None:
    from spark_jobs.dashboard.panels.rows import topic_text

    assert topic_text(bytes(range(16))) == topic_id_text(bytes(range(16)))
