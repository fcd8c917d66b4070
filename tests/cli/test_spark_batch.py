"""Commands that read the log with Spark while its beginning is being deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from pyspark.errors import PySparkException

from cli.spark_batch import TRIES_MAX, while_pruned
from spark_jobs.monitor.topic import TopicWatch


@dataclass
class Watch:
    """Tells where one partition begins, each time further on, if it moves."""

    moves: bool
    at: int = 5
    asked: list[int] = field(default_factory=list)

    def starts(self, partitions: Sequence[int]) -> dict[int, int]:
        self.at += self.moves
        return dict.fromkeys(partitions, self.at)


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
