"""Metrics scrapes, status calls, descriptions and reads thrown in at random change nothing of what a cluster does.

A seed is lived twice, the second time with somebody who looks between any two callbacks of the processes' loops. Both lives write the same
entries at the same offsets, answer the same, and end with the same state.
"""

from __future__ import annotations

import random

import pytest

from coordinator.app.telemetry import node_samples
from coordinator.core.commands import FetchPoint
from coordinator.core.file_state import FileState
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.answers.file_listing import FileListing
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node.node import Node
from coordinator.runtime.routing.applied import find_applied_batches
from simulation.run import Run
from simulation.scenario import Scenario

KINDS = ("lag", "expire", "pause", "produce", "slow", "lose_all")
"""Faults that damage no database: a read that finds damage fails its replica, as it must."""
LOOKS_AT_ONCE_MAX = 12


class Onlooker:
    """Looks at all nodes of a run, at random moments and between callbacks that run at the same moment."""

    def __init__(self, run: Run, seed: int) -> None:
        self.looks = 0
        self._run = run
        self._rng = random.Random(f"onlooker {seed}")
        self._come_back()

    def _come_back(self) -> None:
        self._run.world.call_later(self._rng.expovariate(40), self._look, self._rng.randrange(LOOKS_AT_ONCE_MAX))

    def _look(self, times: int) -> None:
        for process in self._run.processes.values():
            if process.node is not None and self._rng.random() < 0.3:
                self.looks += 1
                self._look_at(process.node)
        if times:
            self._run.world.call_soon(self._look, times - 1)
        else:
            self._come_back()

    def _look_at(self, node: Node) -> None:
        list(node_samples(node, lambda: 10**13))
        descriptions = Descriptions(node)
        descriptions.coordinators([])
        descriptions.nodes()
        node.describe()
        for placement in descriptions.all_placements():
            descriptions.topic(placement)
            points = [FetchPoint(topic_id=placement.topic_id, partition=0, offset=self._rng.randrange(20), max_bytes=500)]
            find_applied_batches(node.view, points, 1000, 0)
        for partition in node.replicas.ids():
            try:
                FileListing(node, [partition]).after("", self._rng.randrange(1, 20), set(FileState))
            except NotReadable:
                continue


def live(seed: int, *, is_watched: bool) -> tuple[object, int]:
    """One life: its story, its logs, what the replicas wrote in the end; and how often somebody looked."""
    run = Run(Scenario.random(seed, 2.0, kinds=KINDS), is_detailed=True)
    onlooker = Onlooker(run, seed) if is_watched else None
    try:
        run.live()
        logs = [log.entries() for log in run.kafka.logs]
        digests = {
            (node_id, replica.partition): (replica.writer.written_offset, replica.writer.digest.to_bytes())
            for node_id, process in run.processes.items()
            for replica in (() if process.node is None else process.node.replicas.followed())
        }
        told = (run.judge.violation, run.story.trace_hash, run.story.text(), run.judge.answers, logs, digests)
    finally:
        run.story.is_over = True
        run.time.on_error = lambda _loop, _context: None
        run.time.close()
        run.close()
    return told, 0 if onlooker is None else onlooker.looks


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_watched_is_the_same_run(seed: int) -> None:
    alone, _ = live(seed, is_watched=False)
    watched, looks = live(seed, is_watched=True)
    assert looks > 100
    assert watched == alone
