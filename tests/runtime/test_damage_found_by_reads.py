"""Damage that a read finds: a retriable answer at once, the database set aside, the replica built anew from the log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.core.commands import DescribeFiles, FetchPoint, FoundBatches, ListOffsets, OffsetQuery, WantedTopic
from coordinator.core.leadership.states import State
from coordinator.core.state.damage import StateCorrupt
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.answers.file_listing import FILE_STATES, FileListing
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.routing.applied import find_applied_batches
from tests.core.build import TOPIC, batch, commit, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

FILES = 40
SOON = Pauses(revive_s=(0.05, 1.0))
EVERYTHING = [FetchPoint(topic_id=TOPIC, partition=0, offset=0, max_bytes=1 << 30)]


def wal_of(folder: Path) -> Path:
    return folder / "partition-0.db-wal"


def truncate_wal(folder: Path) -> None:
    """What was written last is gone, under the open file."""
    assert wal_of(folder).stat().st_size > 0
    os.truncate(wal_of(folder), 0)


def garble(folder: Path) -> None:
    """Every page but the first of each file, and every frame, is overwritten."""
    for path in (folder / "partition-0.db", wal_of(folder)):
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(min(size, 16_384))
            file.write(b"\xa5" * (size - file.tell()))


DAMAGES = [truncate_wal, garble]


async def filled(started: Running) -> None:
    """Files of one partition, written to the database, in no memory but SQLite's."""
    await started.leads()
    [outcome] = await started.node.directory.create_topics([WantedTopic(topic_id=TOPIC, name="orders", num_partitions=1)], TIMEOUT_MS)
    assert outcome.error is ErrorCode.NONE
    for number in range(FILES):
        assert result_of(await started.ask(0, commit(f"f{number}", [batch(0, 3)]))).errors == [0]
    replica = started.node.replicas[0]
    await started.until(lambda: replica.view is not None and not replica.view.state.has_unwritten(), "the last flush")
    await started.until(lambda: replica.view is not None and not replica.view.state.frozen, "its end")


async def find(started: Running) -> FoundBatches:
    [found] = await started.node.router.find_batches(EVERYTHING, 1 << 30, 0, TIMEOUT_MS)
    return found


async def heals(started: Running) -> None:
    """The replica leads again, knows everything, and kept the damaged file."""
    await started.leads()
    found = await find(started)
    assert found.outcome.error is ErrorCode.NONE
    assert [one.object_key for one in found.batches] == [f"f{number}" for number in range(FILES)]
    log = started.node.keeper.failures[0]
    assert log.count >= 1
    assert log.evidence
    assert not started.fatal


@pytest.mark.parametrize("damage", DAMAGES)
async def test_find_batches_on_a_damaged_database(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await filled(started)
        damage(tmp_path)
        assert find_applied_batches(started.node.view, EVERYTHING, 1 << 30, 0) is None
        shard = started.node.replicas[0].view
        assert shard is not None
        assert shard.phase is State.FAILED
        found = await find(started)
        assert found.outcome.error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert not found.batches
        await heals(started)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_files_of_a_damaged_database_are_not_listed(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await filled(started)
        damage(tmp_path)
        with pytest.raises(NotReadable):
            FileListing(started.node, [0]).after("", 10, FILE_STATES)
        await heals(started)


STRICT_READS = [
    DescribeFiles(object_keys=["f3"]),
    ListOffsets(queries=[OffsetQuery(topic_id=TOPIC, partition=0, timestamp=1)]),
]


@pytest.mark.parametrize("read", STRICT_READS)
@pytest.mark.parametrize("damage", DAMAGES)
async def test_strict_reads_of_a_damaged_database_are_refused(
    tmp_path: Path, damage: Callable[[Path], None], read: DescribeFiles | ListOffsets
) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await filled(started)
        damage(tmp_path)
        answer = await started.node.replicas[0].ask(read, TIMEOUT_MS)
        assert [one.outcome.error for one in answer] == [ErrorCode.NOT_COORDINATOR]  # type: ignore[union-attr]
        await heals(started)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_repeated_commits_on_a_damaged_database_are_answered_once_it_is_rebuilt(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await filled(started)
        damage(tmp_path)
        # One group of several: none of them may be left without an answer.
        answers = []
        for name in ("new", "f7", "newer"):
            started.node.replicas[0].submit(commit(name, [batch(0, 3)]), TIMEOUT_MS, answers.append)
        await started.until(lambda: len(answers) == 3, "three answers")
        assert {error for answer in answers for error in result_of(answer).errors} <= {0, ErrorCode.NOT_COORDINATOR}
        assert result_of(answers[1]).errors == [ErrorCode.NOT_COORDINATOR]
        await started.leads()
        again = result_of(await started.ask(0, commit("f7", [batch(0, 3)])))
        assert (again.errors, again.base_offsets) == ([0], [21])


async def test_recognised_damage_is_logged_in_one_line_and_the_unforeseen_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await filled(started)

        def trip(state: object, error: Exception) -> None:
            raise error

        for error, has_traceback in ((StateCorrupt("page 7 of x.db is damaged"), False), (KeyError("file 7"), True)):
            caplog.clear()
            with pytest.raises(NotReadable):
                started.node.replicas[0].look(trip, error)
            [line] = [one for one in caplog.records if "what cannot be" in one.message]
            assert str(error) in line.message
            assert bool(line.exc_info) == has_traceback
            await heals(started)
