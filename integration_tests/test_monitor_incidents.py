"""Two incidents with a real leader and a real object store, in a real browser: a sequence gap in the log, and a store that refuses.

The first sentence names each within ten seconds, nothing on the page contradicts it, and two clicks lead to the entry or the object. The
incidents of `test_dashboard` are of stores made for it; nodes, monitor and Kafka are killed in `test_monitor_watch`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import sync_playwright

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from integration_tests.dashboard_browser import DashboardProcess, Watched, axe_source, looked_at, open_chromium
from integration_tests.faults.forging import LIES
from integration_tests.faults.log_faults import Forger
from integration_tests.gateway.failing_s3 import FailingS3, Fault
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.page_news import PageNews
from integration_tests.s3 import RealS3, find_gateway
from integration_tests.service import Service
from integration_tests.uploader import Uploader
from integration_tests.waiting import WAIT_S, wait_until
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import encode_key
from spark_jobs.dashboard.verdict import grouped

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]  # two nodes, Spark and a browser start in it

TOLD_WITHIN_S = 10.0
COORDINATOR = 1
QUICK = {"file.delete.grace.ms": "1000", "file.commit.max.age.ms": "20000", "file.cleaner.interval.ms": "200"}
WAYS = {
    "light": ("light", 1280, "screen"),
    "dark": ("dark", 1280, "screen"),
    "phone": ("light", 390, "screen"),
    "print": ("light", 1280, "print"),
}
PICTURES = os.environ.get("DISKLESS_TEST_PICTURES", "")
"""A folder for pictures of each incident: light, dark, on a phone, printed."""


def forge_a_gap(service: Service) -> tuple[float, int, str]:
    """Write a file whose sequence leaves some out, in the leader's name; return when, its offset and the partition's name."""
    with Forger(service.bootstrap, service.topic, COORDINATOR) as forger:
        for seed in range(200):
            assert forger.catch_up(time.monotonic() + WAIT_S)
            due, fold = forger.reader.next_key, forger.reader.fold
            [value] = LIES["a wrong sequence"](fold, Random(seed))
            [record] = decode_entry(value)
            assert due is not None
            assert isinstance(record, FileCommitted)
            [batch] = record.batches
            known = fold.producers[(batch.topic_id, batch.partition), batch.producer_id]
            if batch.base_sequence != known.last_sequence + 2:
                continue
            offset, written_s = forger.next_offset, time.monotonic()
            forger.write([(encode_key(due), value)])
            assert forger.catch_up(time.monotonic() + WAIT_S)
            # The leader may have written an entry of that key first.
            if any(void.offset == offset for void in forger.reader.read.contradictions):
                return written_s, offset, f"orders-{batch.partition}"
    raise AssertionError("the leader was faster each time")


def assert_first(page: PageNews, since_s: float, text: str) -> None:
    """The first sentence says it in time."""
    told = page.wait(lambda one: text in one.text and one.level == "bad", text, since_s=since_s)
    assert told.time_s - since_s <= TOLD_WITHIN_S, f"{told} after {told.time_s - since_s:.1f} s"


def take_pictures(watched: Watched, name: str) -> None:
    """Light, dark, on a phone and printed, for people; in every one of them the page has no fault that axe knows."""
    page = watched.page
    for way, (scheme, width, media) in WAYS.items():
        page.emulate_media(color_scheme=scheme, media=media)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        assert watched.violations(axe_source()) == [], (name, way)
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / f"{name}-{way}.png", full_page=True)
    page.emulate_media(color_scheme="light", media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})


def click_twice(watched: Watched, first_place: str, second: str, shown: str) -> None:
    """The first click, on the sentence, leads to a place of the page; the second, there, to what the incident is about."""
    page = watched.page
    page.evaluate("scrollTo(0, 0)")
    page.click("#verdict")
    page.wait_for_function("one => document.querySelector(one).contains(document.activeElement)", arg=first_place)
    page.click(f"{first_place} {second}")
    watched.wait_text("#panel-look", shown)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[FailingS3, dict[str, str]]]:
    """A real S3 behind something that refuses when it is told, and the settings of nodes that use it."""
    with RealS3(find_gateway(), tmp_path / "s3") as s3, FailingS3(s3) as failing:
        options = {**s3.options(), "endpoint": failing.endpoint}
        settings = {f"object.store.option.{name.replace('_', '.')}": value for name, value in options.items()}
        yield failing, {"object.store.url": s3.url("service"), **settings}


async def delete_everything(addresses: list[str], topic: str) -> None:
    """Delete all records of a topic, so that its objects are to be deleted."""
    async with DisklessClient(addresses) as client:
        described = await client.describe_topic(topic)
        points = [(PartitionId(described.topic_id, one.partition), -1) for one in described.partitions]
        for one in await client.admin.delete_records(points):
            one.raise_for_error()


def test_a_gap_in_the_log_and_a_store_that_refuses_are_told_within_ten_seconds_and_two_clicks_away(
    kafka: Kafka, data_folder: Path, tmp_path: Path, store: tuple[FailingS3, dict[str, str]]
) -> None:
    failing, settings = store
    with ExitStack() as stack:
        service = stack.enter_context(Service(kafka.bootstrap, data_folder, partitions=2, properties={**QUICK, **settings})).start(2)
        uploader = Uploader(service, folder=tmp_path / "s3" / "objects" / "objects" / "service")
        stack.callback(uploader.stop)
        monitor = stack.enter_context(MonitorProcess(service.bootstrap, service.topic, tmp_path))
        coordinators = [one.http.removeprefix("http://") for one in service.nodes.values()]
        dashboard = DashboardProcess(monitor.folder, tmp_path, coordinators, options=["--kafka-bootstrap-server", service.bootstrap])
        stack.callback(dashboard.close)
        monitor.start("--trigger-interval", "0.5")
        dashboard.start()
        wait_until(lambda: monitor.has_ended() or "ready topic=" in monitor.said(), "the line `ready`", START_TIMEOUT_S)
        page = PageNews(dashboard.address)
        page.wait(lambda one: one.level == "good" and "files/s" in one.text, "that it is healthy")
        playwright = stack.enter_context(sync_playwright())
        watched = stack.enter_context(looked_at(open_chromium(playwright)))
        watched.open(dashboard.address)
        watched.wait_text("#sentence", "Healthy")

        happened_s, offset, partition = forge_a_gap(service)
        where = f"in {partition} (coordinator {COORDINATOR}, offset {grouped(offset)})"
        assert_first(page, happened_s, f"sequence gap {where}")
        watched.wait_text("#sentence", where)
        watched.see_all()
        assert watched.page.get_attribute("#tile-audit", "data-level") == "bad"
        assert "clean" not in (watched.page.text_content("#tiles") or "")
        click_twice(watched, "#panel-findings", f"a.look:has-text('offset {grouped(offset)}')", "diskless log explain --metadata-topic")
        for shown in ("Field by field", "key.epoch", "records[0].layout_", "file.batches[0]"):
            watched.wait_text("#panel-look", shown)
        take_pictures(watched, "gap")
        watched.page.click("#look-close")

        wait_until(lambda: uploader.committed > 50, "files", WAIT_S)
        uploader.stop()
        failing.faults = [Fault.REFUSED]
        with ThreadPoolExecutor(1) as thread:  # the browser's library keeps a loop running in this one
            thread.submit(asyncio.run, delete_everything(service.addresses, uploader.topic)).result()
        wait_until(lambda: failing.seen[Fault.REFUSED] > 0, "the store to refuse", WAIT_S)
        # A call is repeated before it counts as failed.
        wait_until(lambda: any(node.metric("file_delete_failures_total") for node in service.nodes.values()), "a failure", WAIT_S)
        assert_first(page, time.monotonic(), "The object store failed node")
        watched.wait_text("#sentence", "The object store failed node")
        watched.see_all()
        click_twice(watched, "#panel-look", "a.look:has-text('wal/')", "By coordinator")
        take_pictures(watched, "store")
        watched.page.click("#look-close")

        failing.faults = [Fault.NONE]
        page.wait(lambda one: "object store" not in " ".join(one.problems), "that the store serves", since_s=time.monotonic())
        watched.assert_quiet()
