"""What can wait is done in proportion to commits, and without a limit when there are none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.commands import WantedTopic
from coordinator.core.committed import CommitCounts
from coordinator.runtime import background_pace
from coordinator.runtime.background_pace import (
    BATCHES_PER_BATCH,
    BATCHES_PER_S_MIN,
    FILES_PER_FILE,
    FILES_PER_S_MIN,
    LOOK_S,
    WINDOW_S,
    BackgroundPace,
)
from tests.core.build import TOPIC, batch, commit, delete_records
from tests.runtime.nodes import TIMEOUT_MS, in_memory, running

PARTITIONS = 40
BATCHES_PER_FILE = 10


class Committing:
    """Replicas with counts, and a clock; `pass_s` commits at a rate."""

    def __init__(self) -> None:
        self.counts = [CommitCounts(), CommitCounts()]
        self.replicas: dict[int, Any] = {at: SimpleNamespace(view=SimpleNamespace(commit_counts=one)) for at, one in enumerate(self.counts)}
        self.replicas[2] = SimpleNamespace(view=None)
        self.pace = BackgroundPace(self.replicas)
        self.now_s = 0.0

    def pass_s(self, seconds: float, files_per_s: float = 0.0) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += LOOK_S
            for one in self.counts:
                one.commits += round(files_per_s * LOOK_S / len(self.counts))
                one.batches += round(files_per_s * LOOK_S / len(self.counts)) * BATCHES_PER_FILE
            self.pace.look(self.now_s)


def test_without_commits_nothing_is_held_back() -> None:
    node = Committing()
    assert (node.pace.seconds_for_files(50), node.pace.seconds_for_batches(1_000)) == (0, 0)
    node.pass_s(5)
    assert (node.pace.seconds_for_files(50), node.pace.seconds_for_batches(1_000)) == (0, 0)


@pytest.mark.parametrize("files_per_s", [20, 400, 5_000, 40_000])
def test_the_pace_follows_commits_and_has_a_least_one(files_per_s: int) -> None:
    node = Committing()
    node.pass_s(3, files_per_s)
    files = 1 / node.pace.seconds_for_files(1)
    batches = 1 / node.pace.seconds_for_batches(1)
    assert files == pytest.approx(max(FILES_PER_S_MIN, FILES_PER_FILE * files_per_s), rel=0.01)
    assert batches == pytest.approx(max(BATCHES_PER_S_MIN, BATCHES_PER_BATCH * BATCHES_PER_FILE * files_per_s), rel=0.01)
    assert node.pace.seconds_for_files(50) == pytest.approx(50 / files)


def test_the_last_commit_counts_for_a_second() -> None:
    node = Committing()
    node.pass_s(LOOK_S, 100)
    node.pass_s(WINDOW_S / 2)
    assert node.pace.seconds_for_files(50) == 50 / FILES_PER_S_MIN
    node.pass_s(WINDOW_S)
    assert node.pace.seconds_for_files(50) == 0


def test_a_replica_that_was_made_anew_counts_from_0() -> None:
    node = Committing()
    node.pass_s(2, 40_000)
    node.counts[0].commits = node.counts[0].batches = 0
    node.pass_s(LOOK_S)
    assert node.pace.seconds_for_files(1) == 0
    node.pass_s(2, 20)
    assert node.pace.seconds_for_files(1) == pytest.approx(1 / FILES_PER_S_MIN)


async def test_deleted_batches_are_counted_out_slowly_while_commits_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_pace, "WINDOW_S", 60.0)
    monkeypatch.setattr(background_pace, "BATCHES_PER_S_MIN", 4_000)
    loop = asyncio.get_running_loop()
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), topic_partitions=1) as started:
        await started.leads()
        await started.node.directory.create_topics([WantedTopic(topic_id=TOPIC, name="orders", num_partitions=PARTITIONS)], TIMEOUT_MS)
        await started.ask(0, commit("wal/a", [batch(partition) for partition in range(PARTITIONS)]))
        await started.until(lambda: started.node.replicas[0].writer.written_batches > 0, "the commit to be written")
        begun_s = loop.time()
        await started.node.replicas[0].ask(delete_records(*((partition, -1) for partition in range(PARTITIONS))), TIMEOUT_MS)
        view = started.node.replicas[0].view
        assert view is not None
        await started.until(lambda: not view.is_trimming, "the batches to be counted out")
        # Three steps of seventeen partitions at most, a quarter of a second between two of them.
        assert loop.time() - begun_s > 0.45
