"""Commits wait for a state database that is far behind, but not for ever: its disk may hang."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator.core.commands import Answer
from coordinator.runtime.pauses import Pauses
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.waiting import stays

FOR_EVER_S = 3600.0


class Disk:
    """Keeps the thread that writes state databases busy until it is released."""

    def __init__(self) -> None:
        self.is_free = threading.Event()


@asynccontextmanager
async def behind_a_busy_disk(backlog_s: float) -> AsyncIterator[tuple[Running, Disk]]:
    """A leader whose writes wait for a disk, and of which ten batches are too many unwritten ones."""
    disk = Disk()
    async with running(in_memory(partitions=1), MemoryStateStores(), flush_backlog_max=10, pauses=Pauses(backlog_s=backlog_s)) as started:
        await started.leads()
        await started.ask(0, place())
        view = started.node.replicas[0].view
        assert view is not None
        await started.until(lambda: not view.backlog_batches, "the first writes")
        started.ports.writer.submit(disk.is_free.wait)
        try:
            yield started, disk
        finally:
            disk.is_free.set()


def submit(started: Running, key: str, batches: int, answers: list[Answer]) -> None:
    started.node.replicas[0].submit(commit(key, [batch(0, 1) for _ in range(batches)]), TIMEOUT_MS, answers.append, 1)


async def test_commits_wait_until_something_is_written() -> None:
    answers: list[Answer] = []
    async with behind_a_busy_disk(FOR_EVER_S) as (started, disk):
        submit(started, "many", 10, answers)
        await started.until(lambda: len(answers) == 1, "the commit that the disk has room for")
        for number in range(3):
            submit(started, f"late-{number}", 1, answers)
            # Several ticks of the node, in which the groups before are acknowledged.
            await stays(lambda: len(answers) == 1, "the only answer", 0.25)
        disk.is_free.set()
        await started.until(lambda: len(answers) == 4, "the commits that waited")
    assert [set(result_of(answer).errors) for answer in answers] == [{0}] * 4


async def test_a_disk_that_hangs_only_slows_commits_down() -> None:
    answers: list[Answer] = []
    async with behind_a_busy_disk(0.01) as (started, _disk):
        submit(started, "many", 10, answers)
        await started.until(lambda: len(answers) == 1, "the first commit")
        for number in range(3):
            submit(started, f"late-{number}", 1, answers)
            await started.until(lambda wanted=number + 2: len(answers) == wanted, "a commit behind a disk that hangs")
    assert [set(result_of(answer).errors) for answer in answers] == [{0}] * 4
