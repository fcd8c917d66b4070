"""Another connection locks a state database: nothing is taken for damage, no term ends, and commits go on for as long as memory lasts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.app.telemetry import node_samples
from coordinator.core.commands import Answer
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.telemetry import NoTelemetry
from tests.core.build import batch, commit, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.data_directories import over
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.waiting import stays

LONGER_THAN_A_WAIT_S = 0.6
"""The wait of a writer for a lock ends meanwhile, and so does the pause behind it."""


class Terms(NoTelemetry):
    """Counts the changes of state of all replicas."""

    def __init__(self) -> None:
        self.changes: list[State] = []

    def state_changed(self, partition: int, before: State, after: State) -> None:
        self.changes.append(after)


@contextmanager
def locked(path: Path, *statements: str) -> Iterator[None]:
    """Another connection has executed these statements."""
    stranger = apsw.Connection(str(path))
    try:
        for statement in statements or ("BEGIN IMMEDIATE",):
            stranger.execute(statement).fetchall()
        yield
    finally:
        stranger.close(True)


def database(folder: Path, partition: int = 0) -> Path:
    return folder / f"partition-{partition}.db"


def backlog(started: Running) -> int:
    view = started.node.replicas[0].view
    assert view is not None
    return view.backlog_batches


async def written(started: Running) -> None:
    """Wait until everything that is applied is in the database."""
    replica = started.node.replicas[0]
    await started.until(
        lambda: replica.view is not None and replica.writer.written_offset == replica.view.applied_offset, "everything to be written"
    )


def locks_told(started: Running) -> bool:
    """Whether the metrics and the description of the coordinator, which doctor reads, tell of a lock; both or none."""
    [described] = Descriptions(started.node).coordinators([0])
    [sample] = [one for one in node_samples(started.node, loop_ms) if one.name == "state_locked_seconds"]
    assert (described.state_locked_since_ms >= 0) == (sample.value > 0)
    return sample.value > 0


async def commit_one(started: Running, key: str, batches: int = 1) -> set[int]:
    answer = result_of(await started.ask(0, commit(key, [batch(0, 1) for _ in range(batches)])))
    return set(map(int, answer.errors))


def nothing_failed(started: Running, folder: Path) -> None:
    assert started.node.keeper.failures[0].count == 0
    assert not list(folder.glob("*.failed-*"))
    assert not started.fatal


async def test_commits_go_on_while_a_stranger_holds_the_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coordinator.replica")
    terms, kafka = Terms(), in_memory(partitions=1)
    async with running(kafka, StateDatabases(tmp_path), telemetry=terms) as started:
        await started.leads()
        await started.ask(0, place())
        await written(started)
        changes, lock = list(terms.changes), started.node.replicas[0].state_lock
        with locked(database(tmp_path)):
            assert await commit_one(started, "first") == {0}
            await started.until(lambda: lock.is_held, "the lock to be met")
            for number in range(3):
                assert await commit_one(started, f"f{number}") == {0}
                await stays(lambda: backlog(started), "the backlog", LONGER_THAN_A_WAIT_S)
            assert locks_told(started)
        await written(started)
        assert not lock.is_held
        assert not locks_told(started)
        assert terms.changes == changes
        nothing_failed(started, tmp_path)
    told = [one.getMessage() for one in caplog.records if "locked partition=0" in one.getMessage()]
    assert sum("state database is locked" in one for one in told) == 1
    assert sum("state database is unlocked" in one for one in told) == 1
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        assert await started.high_watermark(0) == 4
        nothing_failed(started, tmp_path)


async def test_commits_wait_once_memory_is_full_and_time_out_like_any_other(tmp_path: Path) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), flush_backlog_max=10) as started:
        await started.leads()
        await started.ask(0, place())
        await written(started)
        replica, answers = started.node.replicas[0], list[Answer]()
        with locked(database(tmp_path)):
            assert await commit_one(started, "many", 20) == {0}
            await started.until(lambda: replica.state_lock.is_held, "the lock to be met")
            replica.submit(commit("patient", [batch()]), TIMEOUT_MS, answers.append, 1)
            late = await replica.ask(commit("late", [batch()]), 300)
            assert result_of(late).errors == [ErrorCode.REQUEST_TIMED_OUT]
            assert "locked the state database" in (result_of(late).messages[0] or "")
            assert not answers
            assert await started.node.replicas[0].ask(commit("late", [batch()]), 300) == late
        await started.until(lambda: bool(answers), "the commit that waited")
        assert result_of(answers[0]).errors == [0]
        assert await started.high_watermark(0) == 21
        nothing_failed(started, tmp_path)


async def test_a_follower_reads_no_further_once_memory_is_full(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    for folder in ("leader", "follower"):
        (tmp_path / folder).mkdir()
    async with running(kafka, StateDatabases(tmp_path / "leader")) as leader:
        await leader.leads()
        await leader.ask(0, place())
        async with running(kafka, StateDatabases(tmp_path / "follower"), name="2", node_id=2, flush_backlog_max=10) as follower:
            await follower.until(lambda: follower.node.replicas.follows(0), "the replica")
            await written(follower)
            lock = follower.node.replicas[0].state_lock
            with locked(database(tmp_path / "follower")):
                number = 0
                while not lock.is_held:
                    assert await commit_one(leader, f"before-{number}") == {0}
                    number += 1
                for more in range(50):
                    assert await commit_one(leader, f"f{more}", 5) == {0}
                await stays(lambda: lock.is_held and backlog(follower) < 50 * 5, "the bound of the backlog", LONGER_THAN_A_WAIT_S)
                assert await commit_one(follower, "elsewhere") == {ErrorCode.NOT_COORDINATOR}  # at once: it leads nothing
            view = leader.node.replicas[0].view
            assert view is not None
            await follower.until(
                lambda: (here := follower.node.replicas[0].view) is not None and here.applied_offset >= view.applied_offset, "the end"
            )
            await written(follower)
            nothing_failed(follower, tmp_path / "follower")


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_start_waits_for_the_end_of_an_exclusive_lock(tmp_path: Path, partition: int) -> None:
    kafka = in_memory(partitions=2)
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        await started.ask(0, place())
        assert await commit_one(started, "a") == {0}
    with locked(database(tmp_path, partition), "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
        async with running(kafka, StateDatabases(tmp_path)) as started:
            await started.until(lambda: started.node.replicas.follows(partition), "the replica")
            await started.until(lambda: started.node.replicas[partition].state_lock.is_held, "the lock to be met")
            await stays(lambda: not started.fatal, "the node", LONGER_THAN_A_WAIT_S)
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        assert await started.high_watermark(0) == 1
        nothing_failed(started, tmp_path)


async def test_a_start_goes_on_when_the_exclusive_lock_ends(tmp_path: Path) -> None:
    kafka = in_memory(partitions=2)
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        await started.ask(0, place())
        assert await commit_one(started, "a") == {0}
    with locked(database(tmp_path), "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
        unlocked = running(kafka, StateDatabases(tmp_path))
        started = await unlocked.__aenter__()
        await started.until(lambda: started.node.replicas.follows(0) and started.node.replicas[0].state_lock.is_held, "the lock to be met")
    try:
        await started.leads()
        assert await started.high_watermark(0) == 1
        nothing_failed(started, tmp_path)
    finally:
        await unlocked.__aexit__(None, None, None)


async def test_a_start_with_several_databases_of_a_partition_waits_for_a_locked_one(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    for folder in ("one", "two"):
        async with over(kafka, tmp_path / folder) as started:
            await started.leads()
            if folder == "one":
                await started.ask(0, place())
            assert await commit_one(started, folder) == {0}
    with locked(database(tmp_path / "two"), "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
        both = over(kafka, tmp_path / "one", tmp_path / "two")
        started = await both.__aenter__()
        await stays(lambda: not started.node.replicas.count and not started.fatal, "a node without replicas", LONGER_THAN_A_WAIT_S)
    try:
        await started.leads()
        assert await started.high_watermark(0) == 2
        nothing_failed(started, tmp_path / "two")
    finally:
        await both.__aexit__(None, None, None)


async def test_a_node_stops_under_a_lock_and_reads_the_rest_from_the_log_at_its_next_start(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        await started.ask(0, place())
        await written(started)
        stranger = locked(database(tmp_path))
        with stranger:
            assert await commit_one(started, "a") == {0}
            await started.until(lambda: started.node.replicas[0].state_lock.is_held, "the lock to be met")
            await started.node.stop(hand_over=False)
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
        assert await started.high_watermark(0) == 1
        nothing_failed(started, tmp_path)
