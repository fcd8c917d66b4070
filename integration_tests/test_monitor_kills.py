"""`diskless monitor run` killed at every moment, stopped, and run twice at once: nothing is lost and nothing counts twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cli.dev.process import stand_still
from cli.outcome import Exit
from integration_tests.dashboard_browser import DashboardProcess
from integration_tests.made_load import LogProducer
from integration_tests.made_log import MadeLog
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess, alive
from integration_tests.test_monitor_verify import Ended, diskless
from integration_tests.waiting import holds_within, wait_until
from spark_jobs.store.engine import PostgresPlace, open_writer
from tests.spark.postgres_server import running_postgres

KPARTS = 4
BATCHES_PER_FILE = 10
FILES_PER_S = 60
TRIGGER = ("--trigger-interval", "0.5")
KILLS = ("worker", "driver", "worker", "jvm", "daemon")
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]  # half a dozen starts of Spark or more in each


@contextmanager
def load(producer: LogProducer, log: MadeLog) -> Iterator[None]:
    """Files all the time while the block runs; what was made is written when it is left."""
    done = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            producer.write_at(log, FILES_PER_S, done.is_set)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(START_TIMEOUT_S)
        assert not failed
        assert not thread.is_alive()


def assert_exact(monitor: MonitorProcess, log: MadeLog) -> None:
    """What the folder says is what was made, to the record."""
    for name, value in log.totals.items():
        assert monitor.total(name) == value, name
    for name in ("findings", "quarantined"):
        assert monitor.total(name) == 0, name


@pytest.fixture
def log_and_producer(bootstrap: str, unique_name: Callable[[str], str]) -> tuple[MadeLog, LogProducer]:
    """A topic with the beginning of a made log."""
    log = MadeLog.of(KPARTS, BATCHES_PER_FILE)
    producer = LogProducer(bootstrap, unique_name("metadata"))
    producer.create_topic(KPARTS)
    producer.write(log.beginning())
    producer.flush()
    return log, producer


def test_whatever_is_killed_at_whatever_moment_every_entry_counts_once(
    log_and_producer: tuple[MadeLog, LogProducer], bootstrap: str, data_folder: Path
) -> None:
    log, producer = log_and_producer
    moments = random.Random(5)
    with MonitorProcess(bootstrap, producer.topic, data_folder) as monitor:
        with load(producer, log):
            monitor.start_ready(*TRIGGER)
            for victim in KILLS:
                if victim in ("worker", "daemon"):
                    _kill_worker(monitor, victim, moments)
                else:
                    _kill_and_restart(monitor, victim, moments)
            _kill_between_the_two_commits(monitor)
            monitor.start_ready(*TRIGGER)  # Spark gives it the same micro-batch again
            monitor.wait_total("entries", monitor.total("entries") + 1)
            assert monitor.terminate() == 0, monitor.said()
            shutil.rmtree(monitor.folder / "spark" / "checkpoint")
            monitor.start_ready(*TRIGGER)
            monitor.wait_total("entries", monitor.total("entries") + 1)
        monitor.wait_total("entries", log.totals["entries"])
        status = monitor.terminate()
        assert status == 0, monitor.said()
        assert_exact(monitor, log)
        monitor.run_once()  # nothing is there; nothing changes
        assert_exact(monitor, log)


def _kill_worker(monitor: MonitorProcess, victim: str, moments: random.Random) -> None:
    """The query goes on, also without the process that makes workers (they are not its children any more then)."""
    wait_until(lambda: _kill_one(monitor.workers(), victim, moments), "Python workers", START_TIMEOUT_S)
    monitor.wait_total("entries", monitor.total("entries") + FILES_PER_S // 2)
    assert not monitor.has_ended(), monitor.said()


def _kill_one(found: list[int], victim: str, moments: random.Random) -> bool:
    """SIGKILL to the daemon or one of its workers; False when there is none, or it has just ended by itself."""
    if len(found) < 2:
        return False
    try:
        os.kill(found[0] if victim == "daemon" else moments.choice(found[1:]), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _kill_and_restart(monitor: MonitorProcess, victim: str, moments: random.Random) -> None:
    family = monitor.family()
    jvm = monitor.jvm()
    assert jvm is not None
    _spend(moments.random())
    if victim == "jvm":
        os.kill(jvm, signal.SIGKILL)
        assert monitor.wait_ended() == 1
        assert "Spark's JVM was ended by signal 9" in monitor.ended_with_one_message()
    else:
        monitor.process.kill()
    monitor.start(*TRIGGER)  # at once: the old JVM may still be there
    wait_until(lambda: not any(alive(pid) for pid in family), "everything of the killed job to end")
    before = monitor.total("entries")
    wait_until(lambda: monitor.total("entries") > before, "numbers again", START_TIMEOUT_S)


def _spend(seconds: float) -> None:
    """A random moment is no condition: let the time pass."""
    threading.Event().wait(seconds)


def _kill_between_the_two_commits(monitor: MonitorProcess) -> None:
    """SIGKILL when the database has a micro-batch that Spark's checkpoint does not have."""
    checkpoint = monitor.folder / "spark" / "checkpoint"
    jvm = monitor.jvm()
    assert jvm is not None
    with closing(sqlite3.connect(monitor.folder / "monitor.db", timeout=START_TIMEOUT_S, isolation_level=None)) as database:
        _stop_between_the_two_commits(database, jvm)
    os.kill(jvm, signal.SIGKILL)
    monitor.process.kill()
    assert _newest(checkpoint / "offsets") == _newest(checkpoint / "commits") + 1


def _stop_between_the_two_commits(database: sqlite3.Connection, jvm: int) -> None:
    """SIGSTOP the JVM, which writes the checkpoint, while the driver waits for the database's write lock, and let it have that.

    The driver needs no JVM once it has a summary to merge. It may not have come that far; then it gets more time.
    """
    for held_s in (0.5, 1, 2, 4, 8, 16):  # the driver waits half a minute for the lock
        database.execute("begin immediate")
        heads = _heads(database)
        _spend(held_s)
        stand_still(jvm)
        database.execute("rollback")
        if holds_within(5, lambda: _heads(database) != heads):  # noqa: B023 - called here only
            return
        os.kill(jvm, signal.SIGCONT)
    raise AssertionError("the driver never waited for the database")


def _heads(database: sqlite3.Connection) -> list[tuple[int, int]]:
    return list(database.execute("select kpart, next_offset from head order by kpart"))


def _newest(folder: Path) -> int:
    return max((int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=-1)


def test_a_stop_under_load_is_clean_a_second_monitor_is_refused_and_once_ends(
    log_and_producer: tuple[MadeLog, LogProducer], bootstrap: str, data_folder: Path
) -> None:
    log, producer = log_and_producer
    with MonitorProcess(bootstrap, producer.topic, data_folder) as monitor:
        with load(producer, log):
            monitor.start_ready(*TRIGGER, "--metrics-port", "0")
            monitor.wait_total("files", 100)
            second = subprocess.run(monitor.command(), capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S)
            assert second.returncode == 1
            assert f"another monitor (pid {monitor.process.pid}) writes {monitor.folder}" in second.stderr
            metrics = monitor.scrape()
            assert metrics["diskless_monitor_up"] == 1
            assert metrics["diskless_monitor_batches_total"] == metrics["diskless_monitor_files_total"] * BATCHES_PER_FILE > 0
            family = monitor.family()
            status = monitor.terminate()
            assert status == 0, monitor.said()
            # Spark's Python processes see that the JVM is gone, and end, a moment later.
            wait_until(lambda: not any(alive(pid) for pid in family), "everything of the job to end")

        fresh = MonitorProcess(bootstrap, producer.topic, data_folder / "fresh")
        fresh.folder.parent.mkdir()
        fresh.run_once("--max-entries", "700")  # cut into other micro-batches
        assert_exact(fresh, log)

        # A signal to every process at once, as a service manager sends it, is no failure either.
        with load(producer, log):
            monitor.start_ready(*TRIGGER)
            monitor.wait_total("entries", monitor.total("entries") + 1)
            for pid in monitor.family():
                with suppress(ProcessLookupError):  # the end of those before it may be its end
                    os.kill(pid, signal.SIGTERM)
            assert monitor.wait_ended() == 0, monitor.said()
            # One that comes while it starts ends it at once.
            monitor.start(*TRIGGER)
            wait_until(lambda: monitor.jvm() is not None, "the JVM")
            assert monitor.terminate() == 0, monitor.said()
        monitor.run_once()
        assert_exact(monitor, log)


def test_a_lost_postgres_is_waited_for_and_whatever_ends_every_entry_counts_once(
    log_and_producer: tuple[MadeLog, LogProducer], bootstrap: str, data_folder: Path
) -> None:
    log, producer = log_and_producer
    with (
        running_postgres() as postgres,
        MonitorProcess(bootstrap, producer.topic, data_folder, place := postgres.place()) as monitor,
        closing(DashboardProcess(data_folder / "none", data_folder, options=["--store", place.url])) as page,
    ):

        def verdict() -> Any:
            with urllib.request.urlopen(f"{page.address}api/overview", timeout=START_TIMEOUT_S) as answer:
                return json.load(answer)["verdict"]

        def goes_on() -> None:
            monitor.wait_total("entries", monitor.total("entries") + FILES_PER_S)

        def wait_lost(times: int) -> None:
            wait_until(lambda: monitor.said().count("the database is waited for") == times, "the loss to be seen", START_TIMEOUT_S)

        def said_by(*command: str) -> Ended:
            return diskless("monitor", *command, "--store", place.url)

        with load(producer, log):
            monitor.start_ready(*TRIGGER)
            goes_on()
            other = MonitorProcess(bootstrap, producer.topic, data_folder / "other", place)
            other.folder.parent.mkdir()
            assert other.start().wait_ended() == Exit.FAILURE
            assert f"another monitor writes {place.url}" in other.ended_with_one_message()
            _kill_in_a_merge(monitor, place)
            monitor.start_ready(*TRIGGER)
            goes_on()
            page.start()
            for losses, how in enumerate((signal.SIGQUIT, signal.SIGINT), 1):
                postgres.stop(how)
                assert "cannot be read" in said_by("status").err
                wait_lost(losses)
                wait_until(lambda: "The store cannot be read" in verdict()["sentence"], "the page to say so")
                postgres.start()
                goes_on()
                assert not monitor.has_ended(), monitor.said()
            # Its sign of life is in the database: no folder of the monitor is needed.
            wait_until(lambda: verdict()["level"] == "good", "the monitor to be well", START_TIMEOUT_S)
            wait_until(lambda: said_by("status").status == Exit.OK, "the monitor to be well", START_TIMEOUT_S)
            postgres.stop()
            wait_lost(3)
            assert monitor.terminate() == 0, monitor.said()
            assert monitor.start("--once").wait_ended() == Exit.UNAVAILABLE
            assert "the monitor's database cannot be used" in monitor.ended_with_one_message()
            postgres.start()
        monitor.run_once()
        assert_exact(monitor, log)
        assert (said_by("findings", "list").status, said_by("quarantine").status) == (Exit.OK, Exit.OK)


def _kill_in_a_merge(monitor: MonitorProcess, place: PostgresPlace) -> None:
    """SIGKILL while the transaction of a micro-batch waits for another writer's."""
    waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'diskless monitor'"
    with closing(open_writer(place)) as other, other.writing():
        wait_until(lambda: other.execute(waits).fetchone()[0] > 0, "the monitor to merge", START_TIMEOUT_S)
        monitor.process.kill()
