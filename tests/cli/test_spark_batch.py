"""Commands that read the log with Spark while its beginning is being deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cli.outcome import Failed
from cli.spark.batch import TRIES_MAX, spark_errors, while_pruned
from spark_jobs.monitor.topic import TopicWatch
from spark_jobs.session import Engine, open_spark


@dataclass
class Watch:
    """Tells where one partition begins, each time further on, if it moves."""

    moves: bool
    at: int = 5
    asked: list[int] = field(default_factory=list)
    topic: str = "log"

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        self.at += self.moves
        return dict.fromkeys(partitions, self.at)

    def ends(self, partitions: Sequence[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, self.at + 10)


class Work:
    """Fails so often, and notes what it was given."""

    def __init__(self, failures: int) -> None:
        self._left = failures
        self.given: list[tuple[dict[int, int], bool]] = []

    def __call__(self, log_starts: Mapping[int, int], is_again: bool) -> str:
        self.given.append((dict(log_starts), is_again))
        self._left -= 1
        if self._left >= 0:
            raise PySparkException("Some data may have been lost")
        return "done"


def test_a_work_whose_entries_were_deleted_is_done_again_from_where_the_log_begins_now() -> None:
    work = Work(1)
    assert while_pruned(cast(TopicWatch, Watch(moves=True)), 1, work) == "done"
    assert work.given == [({0: 6}, False), ({0: 7}, True)]


@pytest.mark.parametrize(("moves", "tries"), [(False, 1), (True, TRIES_MAX)])
def test_another_error_or_a_log_that_is_always_quicker_is_told(moves: bool, tries: int) -> None:
    work = Work(99)
    with pytest.raises(PySparkException, match="Some data"):
        while_pruned(cast(TopicWatch, Watch(moves=moves)), 1, work)
    assert len(work.given) == tries


STACK = "\n\tat org.apache.spark.rdd.RDD.collect(RDD.scala:1048)\n\tat java.lang.Thread.run(Thread.java:1583)"
FAILED = f": org.apache.spark.SparkException: failed{STACK}"
TEXT = f"An error occurred while calling o1.load.\n{FAILED}\nCaused by: java.io.IOException: disk full{STACK}"


@pytest.mark.parametrize("error", [Py4JError(TEXT), PySparkException(TEXT)], ids=lambda error: type(error).__name__)
def test_a_failure_of_spark_is_one_line_and_its_whole_text_is_kept(error: Exception) -> None:
    with pytest.raises(Failed) as raised, spark_errors():
        raise error
    told, _, file = str(raised.value).partition("; its whole text: ")
    assert told == "Spark: IOException: disk full"
    assert "RDD.scala:1048" in Path(file).read_text()
    Path(file).unlink()


def test_a_spark_that_does_not_start_is_one_line_and_its_log_is_kept(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nprintf 'java.net.BindException: no port\\n\\tat java.base/sun.nio.ch.Net.bind(Net.java:1)\\n'\nexit 3\n")
    java.chmod(0o755)
    with pytest.raises(Failed) as raised, spark_errors(), open_spark("test", Engine(java=java, jars=(), scratch=tmp_path / "s")):
        pass
    told, _, file = str(raised.value).partition("; what it printed: ")
    assert told == "Spark's JVM ended with status 3 while it started: BindException: no port"
    assert "Net.java:1" in Path(file).read_text()
    Path(file).unlink()
