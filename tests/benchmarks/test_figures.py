"""What benchmarks make of their figures: profiles from stacks, slopes, tables, counts per batch."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from benchmarks.bed import Row, table, wait_for
from benchmarks.loop_profile import LOOP_ITSELF, shares_of
from benchmarks.process_cost import resident_bytes, thread_cpu
from benchmarks.scaling_parts import slope_row
from benchmarks.standard import at_speed, standard_shapes
from benchmarks.warmth import Disturbance, compiler_seconds, disturbance, wait_until_idle
from cli.bench.counters import LogCounts, cpu_seconds

LOOP = "thread (1): MainThread;main (/x/app/__main__.py:1);Runner.run (/python/asyncio/runners.py:118)"


@pytest.mark.parametrize(("busy_samples", "of_the_loop", "total"), [(10, 3, 10), (8, 1, 8), (5, 0, 7), (20, 3, 10)])
def test_a_profile_knows_the_event_loop_only_and_counts_every_function_once(busy_samples: int, of_the_loop: int, total: int) -> None:
    stacks = "\n".join(
        (
            f"{LOOP};feed (/home/me/src/coordinator/core/shard.py:10);decide (/home/me/src/coordinator/core/files/commit.py:5) 6",
            f"{LOOP};feed (/home/me/src/coordinator/core/shard.py:11);feed (/home/me/src/coordinator/core/shard.py:12) 1",
            f"{LOOP} 3",
            "thread (2): state-writer;write (/home/me/src/coordinator/adapters/sqlite/writer.py:1) 90",
        )
    )
    shares = {one.function: (one.alone, one.inclusive) for one in shares_of(stacks, busy_samples)}
    expected = {
        "decide (coordinator/core/files/commit.py)": (6 / total, 6 / total),
        LOOP_ITSELF: (of_the_loop / total, of_the_loop / total),
        "feed (coordinator/core/shard.py)": (1 / total, 7 / total),
    }
    # Samples of a loop that waits are not time it needs.
    assert shares == {name: share for name, share in expected.items() if share[0]}
    assert shares_of("", busy_samples) == []


def test_slopes_are_per_unit_of_the_first_column() -> None:
    rows: list[Row] = [{"partitions": n, "seconds": 2.0 + n * 1e-5, "flat": 4.0} for n in (10_000, 100_000, 1_000_000)]
    line = slope_row(rows, 100_000, "100 000")
    assert line["partitions"] == "slope per 100 000"
    assert line["seconds"] == pytest.approx(1.0)
    assert line["flat"] == pytest.approx(0.0)


def test_a_table_is_markdown_with_its_columns_aligned() -> None:
    rows: list[Row] = [{"shape": "a", "rate": 123_456}, {"shape": "bcd", "rate": 1.234, "other": float("nan")}]
    lines = table(rows, ("shape", "rate", "other")).splitlines()
    assert lines == [
        "| shape |    rate | other |",
        "| ----- | ------: | ----: |",
        "| a     | 123,456 |     - |",
        "| bcd   |    1.23 |     - |",
    ]


def test_the_standard_shapes_are_those_of_the_design() -> None:
    shapes = {shape.name: shape for shape in standard_shapes()}
    assert len(shapes) == 14
    assert {(shape.batches, shape.partitions) for shape in shapes.values()} >= {(100, 1), (320, 5), (640, 2), (800, 2), (1600, 1)}
    assert shapes["1000x100@20000"].files_per_s * 1000 == 20_000
    assert shapes["24-brokers"].files_per_s == 96
    assert shapes["3-brokers"].window_s(2.0) > shapes["24-brokers"].window_s(2.0) == 2.0


def test_bytes_per_batch_are_a_difference() -> None:
    before = LogCounts(appended_bytes=1000, batches=100)
    assert LogCounts(appended_bytes=2500, batches=200).bytes_per_batch_since(before) == 15
    assert before.bytes_per_batch_since(before) == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the counters read /proc")
def test_the_main_threads_cpu_is_told_from_the_others() -> None:
    before = thread_cpu(os.getpid())

    def burn() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    used = thread_cpu(os.getpid()).since(before)
    assert used.others_s >= 0.15 > used.main_s
    assert cpu_seconds(os.getpid()) >= used.total_s
    assert resident_bytes(os.getpid()) > 1 << 20


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="ticks only")
def test_the_threads_of_librdkafka_are_told_from_the_others() -> None:
    """They are threads of this process, so this process has used at least as much."""
    before = thread_cpu(os.getpid())
    producer = Producer({"bootstrap.servers": "its own", "test.mock.num.brokers": 1, "log_level": 0})
    producer.list_topics(timeout=10)
    used = thread_cpu(os.getpid()).since(before)
    assert used.clients_s > 0
    assert producer.flush(10) == 0


def test_what_compiled_and_what_was_stolen_are_counted_by_the_second() -> None:
    before = Disturbance(at_s=10.0, compiler_s=1.0, stolen_s=2.0)
    after = Disturbance(at_s=14.0, compiler_s=3.0, stolen_s=2.0 + 4 * 0.25 * (os.cpu_count() or 1))
    assert after.compiler_cores_since(before) == pytest.approx(0.5)
    assert after.stolen_share_since(before) == pytest.approx(0.25)
    assert disturbance(os.getpid()).compiler_s == 0.0


def test_compiling_threads_are_known_by_their_names() -> None:
    ended = threading.Event()

    def compile_something() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("C2 CompilerThre", encoding="ascii")
        while not ended.is_set():
            pass

    thread = threading.Thread(target=compile_something)
    thread.start()
    try:
        wait_for(lambda: compiler_seconds(os.getpid()) > 0, "the thread to be counted")
        # A process that stands still is idle: one look that finds it busy is enough.
        wait_for(lambda: not wait_until_idle([os.getpid()], timeout_s=0.1), "the process to be busy")
    finally:
        ended.set()
        thread.join()
    wait_for(lambda: compiler_seconds(os.getpid()) == 0, "the thread to be gone")


def test_half_a_machine_has_half_the_load_and_twice_the_time() -> None:
    for whole in standard_shapes():
        half = at_speed(whole, 0.5)
        assert half.files_per_s == whole.files_per_s / 2
        if whole.aim is None or half.aim is None:
            assert whole.aim is half.aim
            continue
        assert half.aim.to_sqlite == whole.aim.to_sqlite
        assert half.aim.bytes_per_batch == whole.aim.bytes_per_batch
        for name in ("p50_ms", "p99_ms", "added_p50_ms"):
            assert getattr(half.aim, name) == 2 * getattr(whole.aim, name)
    assert [at_speed(shape, 1.0) for shape in standard_shapes()] == standard_shapes()
