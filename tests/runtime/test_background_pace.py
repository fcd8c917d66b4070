"""What can wait is done in proportion to commits, and without a limit when there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.commands import DescribedFile, DescribeFiles, WantedTopic
from coordinator.core.committed import AppliedCounts, CommitCounts
from coordinator.runtime.files.pace import (
    BATCHES_PER_BATCH,
    FILES_PER_FILE,
    LOOK_S,
    BackgroundPace,
    PaceRules,
)
from tests.core.build import TOPIC, batch, commit, delete_records
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, replicas_of, running

BATCHES_PER_FILE = 10
RULES = PaceRules()


class Committing:
    """Replicas with counts, and a clock; `pass_s` commits at a rate, as leader or elsewhere."""

    def __init__(self) -> None:
        self.counts = [(CommitCounts(), AppliedCounts()), (CommitCounts(), AppliedCounts())]
        views = [SimpleNamespace(commit_counts=led, applied_counts=applied) for led, applied in self.counts]
        self.replicas = replicas_of(SimpleNamespace(partition=at, view=view) for at, view in enumerate([*views, None]))
        self.pace = BackgroundPace(self.replicas, RULES)
        self.now_s = 0.0

    def pass_s(self, seconds: float, files_per_s: float = 0.0, *, is_leading: bool = True) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += LOOK_S
            for led, applied in self.counts:
                files = round(files_per_s * LOOK_S / len(self.counts))
                led.commits += files * is_leading
                applied.files += files
                applied.batches += files * BATCHES_PER_FILE
            self.pace.look(self.now_s)


def test_without_commits_nothing_is_held_back() -> None:
    node = Committing()
    assert (node.pace.files_per_s, node.pace.batches_per_s) == (inf, inf)
    node.pass_s(5)
    assert (node.pace.files_per_s, node.pace.batches_per_s) == (inf, inf)


@pytest.mark.parametrize("files_per_s", [20, 400, 5_000, 40_000])
def test_the_pace_follows_commits_and_has_a_least_one(files_per_s: int) -> None:
    node = Committing()
    node.pass_s(3, files_per_s)
    batches_per_s = BATCHES_PER_FILE * files_per_s
    assert node.pace.files_per_s == pytest.approx(max(RULES.files_per_s_min, FILES_PER_FILE * files_per_s), rel=0.01)
    assert node.pace.batches_per_s == pytest.approx(max(RULES.batches_per_s_min, BATCHES_PER_BATCH * batches_per_s), rel=0.01)


def test_commits_of_other_nodes_hold_a_node_back() -> None:
    node = Committing()
    node.pass_s(3, 40_000, is_leading=False)
    assert not node.pace.is_free
    assert node.pace.files_per_s == RULES.files_per_s_min
    assert node.pace.batches_per_s == pytest.approx(BATCHES_PER_BATCH * BATCHES_PER_FILE * 40_000, rel=0.01)


def test_the_last_commit_counts_for_a_second() -> None:
    node = Committing()
    node.pass_s(LOOK_S, 100)
    node.pass_s(RULES.window_s / 2)
    assert node.pace.files_per_s == RULES.files_per_s_min
    node.pass_s(RULES.window_s)
    assert node.pace.files_per_s == inf


def test_a_replica_that_was_made_anew_counts_from_0() -> None:
    node = Committing()
    node.pass_s(2, 40_000)
    led, applied = node.counts[0]
    led.commits = applied.files = applied.batches = 0
    node.pass_s(LOOK_S)
    assert node.pace.files_per_s == inf
    node.pass_s(2, 20)
    assert node.pace.files_per_s == RULES.files_per_s_min


@asynccontextmanager
async def deleted_behind_a_commit(folder: Path, per_s: int, partitions: int) -> AsyncIterator[Running]:
    """A node that counts out at most so many batches a second: those of partitions whose records were deleted a moment ago."""
    pace = PaceRules(window_s=60.0, batches_per_s_min=per_s)
    async with running(in_memory(partitions=1), StateDatabases(folder), topic_partitions=1, pace=pace) as started:
        await started.leads()
        await started.node.directory.create_topics([WantedTopic(topic_id=TOPIC, name="orders", num_partitions=partitions)], TIMEOUT_MS)
        replica = started.node.replicas[0]
        await started.ask(0, commit("wal/a", [batch(partition) for partition in range(partitions)]))
        await started.until(lambda: replica.writer.written_batches > 0, "the commit to be written")
        await replica.ask(delete_records(*((partition, -1) for partition in range(partitions))), TIMEOUT_MS)
        yield started


async def test_deleted_batches_are_counted_out_slowly_while_commits_come(tmp_path: Path) -> None:
    async with deleted_behind_a_commit(tmp_path, per_s=4_000, partitions=40) as started:
        begun_s = asyncio.get_running_loop().time()
        view = started.node.replicas[0].view
        assert view is not None
        await started.until(lambda: not view.is_trimming, "the batches to be counted out")
        # Three steps of seventeen partitions at most, a quarter of a second between two of them.
        assert asyncio.get_running_loop().time() - begun_s > 0.4


async def test_a_read_that_waits_for_the_counts_does_not_wait_for_the_pace(tmp_path: Path) -> None:
    async with deleted_behind_a_commit(tmp_path, per_s=2_000, partitions=1_000) as started:
        begun_s = asyncio.get_running_loop().time()
        [described] = cast(list[DescribedFile], await started.node.replicas[0].ask(DescribeFiles(object_keys=["wal/a"]), TIMEOUT_MS))
        assert not described.has_live_batches
        # Of sixty steps, half a second between two of them, all but the first follow each other at once.
        assert asyncio.get_running_loop().time() - begun_s < 15
