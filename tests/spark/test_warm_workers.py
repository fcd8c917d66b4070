"""Idle workers are used in time, again and again, and not while micro-batches use them."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.errors import PySparkException

from spark_jobs.monitor.warm_workers import WarmWorkers

WAIT_S = 60.0


@pytest.mark.parametrize("error", [None, PySparkException("no executor"), OSError("no JVM")])
def test_idle_workers_are_used_again_and_again_whatever_becomes_of_it(error: Exception | None) -> None:
    uses = threading.Semaphore(0)

    def use() -> None:
        uses.release()
        if error is not None:
            raise error

    with WarmWorkers(use, idle_s=0.001):
        assert all(uses.acquire(timeout=WAIT_S) for _ in range(3))


def test_workers_that_are_used_are_left_alone() -> None:
    used_s: list[float] = []
    idle, idle_s = threading.Event(), 0.2

    def use() -> None:
        used_s.append(time.monotonic())
        idle.set()

    with WarmWorkers(use, idle_s) as workers:
        told_s = time.monotonic()
        workers.used()
        assert idle.wait(WAIT_S)
    assert used_s[0] >= told_s + idle_s


def test_the_thread_ends_with_the_block() -> None:
    with WarmWorkers(lambda: None, idle_s=WAIT_S):
        [thread] = [one for one in threading.enumerate() if one.name == "warm-workers"]
    thread.join(WAIT_S / 2)
    assert not thread.is_alive()
