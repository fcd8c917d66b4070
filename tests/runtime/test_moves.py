"""A replica that moves into another data directory: it goes on meanwhile, and whatever fails leaves it in one of the two."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.runtime.directories.port import MoveRefused, ReplicaPlace
from tests.core.build import place
from tests.runtime.data_directories import QUICK, commits, databases, delete, homes, over
from tests.runtime.nodes import Running, in_memory
from tests.waiting import stays


def place_of(started: Running, partition: int) -> ReplicaPlace:
    return next(one for one in started.node.keeper.directories.places() if one.partition == partition)


async def begin_with_files(started: Running, count: int) -> None:
    """Lead, and commit files whose state is written."""
    await started.leads()
    await started.ask(0, place())
    for number in range(count):
        await commits(started, 0, f"file-{number}")
    replica = started.node.replicas[0]
    await started.until(lambda: replica.writer.written_offset >= count, "a write of the database")


def record(started: Running, partition: int) -> None:
    """Record assignments as partition 0 does, as soon as a copy is written."""
    keeper = started.node.keeper.directories

    def changed() -> None:
        for one in keeper.places():
            if one.partition == partition and one.moving_to is not None and one.moving_applied_offset >= 0:
                keeper.assignment_recorded(partition, one.moving_to)

    keeper.on_changed = changed


async def test_a_replica_moves_while_commits_go_on(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(in_memory(partitions=1), a, b) as started:
        await begin_with_files(started, 20)
        record(started, 0)
        former = started.node.replicas[0]
        started.node.keeper.directories.move(0, str(b))
        assert place_of(started, 0).moving_to == started.node.keeper.directories.directories()[1].directory_id
        number = 20
        while started.node.replicas[0] is former or homes(started)[0] != "b" or not started.node.replicas.led():
            await commits(started, 0, f"file-{number}")
            number += 1
        await started.until(lambda: place_of(started, 0).moving_to is None, "the end of the move")
        await started.until(lambda: not databases(a), "the end of the former database")
        assert databases(b) == ["partition-0.db"]
        for again in range(number):  # each is answered as the first time
            await commits(started, 0, f"file-{again}")
        assert await started.high_watermark(0) == 2 * number
        assert not list(tmp_path.glob("*/*.moving*"))
        assert started.node.keeper.failures[0].count == 0
        assert not started.fatal
    async with over(started.kafka, a, b) as later:
        await later.leads()
        assert homes(later) == {0: "b"}
        assert await later.high_watermark(0) == 2 * number


async def test_a_move_waits_for_its_assignment_and_not_for_ever(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(in_memory(partitions=1), a, b, log_dir_failure_timeout_ms=400) as started:
        await begin_with_files(started, 3)
        started.node.keeper.directories.on_changed = lambda: None  # partition 0 is told with the next look only
        started.node.keeper.directories.move(0, str(b))
        await started.until(lambda: place_of(started, 0).moving_applied_offset >= 0, "the copy")
        started.node.keeper.directories.assignment_recorded(0, b"another directory")
        assert started.node.keeper.directories.move_step(0) == "assign"
        await stays(lambda: homes(started) == {0: "a"}, "the home", 0.1)
        await started.until(lambda: homes(started) == {0: "b"}, "the end of the patience")
        await started.leads()


async def test_moves_that_cannot_be_are_refused_by_name(tmp_path: Path) -> None:
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    async with over(in_memory(partitions=1), a, b, c) as started:
        await begin_with_files(started, 1)
        keeper = started.node.keeper.directories
        for partition, path, message in (
            (0, "/nowhere", f"no directory of data.dirs; those that are online: {a}, {b}, {c}"),
            (0, str(a), "it is there"),
            (7, str(b), "its replica is not loaded"),
        ):
            with pytest.raises(MoveRefused, match=message):
                keeper.move(partition, path)
        delete(c)
        await started.until(lambda: keeper.directories()[2].offline_reason is not None, "the failure of a directory")
        with pytest.raises(MoveRefused, match=r"it is offline \(.*No such file"):
            keeper.move(0, str(c))
        keeper.move(0, str(b))
        with pytest.raises(MoveRefused, match=f"it is being moved to {b}; wait for the end"):
            keeper.move(0, str(b))


@pytest.mark.parametrize("step", ["copy", "assign"])
@pytest.mark.parametrize("side", ["a", "b"])
async def test_a_directory_that_fails_during_a_move_leaves_a_working_replica(tmp_path: Path, side: str, step: str) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(in_memory(partitions=1), a, b, log_dir_failure_timeout_ms=300, pauses=QUICK) as started:
        await begin_with_files(started, 5)
        keeper = started.node.keeper.directories
        keeper.move(0, str(b))
        await started.until(lambda: keeper.move_step(0) in (step, None), "the step")
        delete(tmp_path / side)
        other = "b" if side == "a" else "a"
        await started.until(lambda: homes(started) == {0: other} and keeper.move_step(0) is None, "a home in the other directory")
        await started.leads()
        await commits(started, 0, "file-0")
        await commits(started, 0, "after")
        assert await started.high_watermark(0) == 12
        assert not started.fatal


async def test_a_copy_that_a_crash_left_is_removed_and_never_used(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with over(in_memory(partitions=1), a, b) as started:
        await begin_with_files(started, 2)
    copy = b / "partition-0.db.moving"
    copy.write_bytes((a / "partition-0.db").read_bytes())
    async with over(started.kafka, b, a) as later:
        await later.leads()
        assert homes(later) == {0: "a"}
        assert not copy.exists()
