"""How a run of a query ends when Spark's JVM does."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.session import RunningSpark
from spark_jobs.streaming import QueryFailedError, Stream, StreamRun

STREAM = Stream(
    name="test",
    kafka={},
    topic="t",
    partitions=1,
    starts={},
    scratch=Path("scratch"),
    once=False,
    trigger_interval_s=1.0,
    max_entries_per_batch=1,
    stop_wait_s=0.0,
)


class LostRun(StreamRun):
    """The connection to the JVM is lost at once."""

    def _start(self) -> StreamingQuery:
        raise Py4JNetworkError("connection lost")


class EndingJvm:
    """A JVM that SIGTERM ended; `on_wait` happens while its end is waited for."""

    def __init__(self, on_wait: threading.Event) -> None:
        self._on_wait = on_wait

    def wait(self, timeout_s: float) -> int:
        self._on_wait.set()
        return -15

    def poll(self) -> int:
        return -15


def lost_run(on_wait: threading.Event) -> LostRun:
    spark = cast(RunningSpark, SimpleNamespace(jvm=EndingJvm(on_wait), is_alive=lambda: False, log_file=Path("jvm.log")))
    return LostRun(STREAM, spark, take=lambda frame, number: None, look=lambda: None, on_failed=lambda: None)


def test_a_signal_that_reaches_the_jvm_first_is_a_stop_all_the_same() -> None:
    stopping = threading.Event()
    assert not lost_run(stopping).run(stopping, lambda: None)


def test_a_jvm_that_ends_without_a_stop_is_a_failure() -> None:
    with pytest.raises(QueryFailedError, match="ended by signal 15"):
        lost_run(threading.Event()).run(threading.Event(), lambda: None)
