"""An export: each record once, in the order of offsets, whatever ends it, and clear errors where that cannot be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator.client.errors import Unavailable
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import StoreUnavailable
from tables.errors import RivalWriterError, TableError
from tables.export.columns import ValueType
from tables.export.delta import DeltaTarget
from tables.export.job import DataLossError, Export, ExportOptions
from tables.export.metrics import TABLE, ExportState
from tables.export.source import PartitionBounds, TopicGoneError
from tables.export.standing import standings
from tables.export.target import ExportedTopic, Position, next_offsets
from tests.tables.fake_log import FakeLog
from tests.waiting import until

TOPIC = ExportedTopic(name="orders", topic_id="one", cluster_id="here", value_type=ValueType.BINARY)
ONCE = ExportOptions(once=True)


@dataclass
class Exporting:
    """A log, and the exports of it into one table."""

    place: Path
    log: FakeLog = field(default_factory=FakeLog)
    state: ExportState = field(init=False)

    def target(self) -> DeltaTarget:
        return DeltaTarget.open(str(self.place), TOPIC, {}, {one: self.log.starts.get(one, 0) for one in range(len(self.log.partitions))})

    def export(self, options: ExportOptions = ONCE, target: object | None = None) -> Export:
        self.state = ExportState("orders", self.log.counts)
        return Export(self.log, target or self.target(), TOPIC.schema, options, self.state)

    async def once(self, options: ExportOptions = ONCE) -> None:
        assert await self.export(options).run(asyncio.Event())

    def rows(self) -> list[tuple[int, int, str]]:
        rows = DeltaTable(self.place).to_pyarrow_table().to_pylist()
        return sorted((row["partition"], row["offset"], row["value"].decode()) for row in rows)

    def expected(self) -> list[tuple[int, int, str]]:
        return [
            (partition, offset, value.decode())
            for partition, values in enumerate(self.log.partitions)
            for offset, value in enumerate(values)
            if offset >= self.log.starts.get(partition, 0)
        ]

    def versions(self) -> int:
        return DeltaTable(self.place).version()

    def samples(self) -> dict[tuple[str, tuple[object, ...]], float]:
        return {(one.name, one.labels[1:]): one.value for one in self.state.samples()}


@pytest.fixture
def exporting(tmp_path: Path) -> Exporting:
    return Exporting(tmp_path / "table")


async def test_a_run_exports_what_the_log_has_and_the_next_one_goes_on(exporting: Exporting) -> None:
    exporting.log.add(0, 10)
    exporting.log.add(1, 4)
    await exporting.once()
    assert exporting.rows() == exporting.expected()
    assert exporting.versions() == 1
    await exporting.once()
    assert exporting.versions() == 1
    exporting.log.add(1, 7)
    await exporting.once()
    assert exporting.rows() == exporting.expected()
    row = DeltaTable(exporting.place).to_pyarrow_table(filters=[("partition", "=", 0), ("offset", "=", 9)]).to_pylist()[0]
    assert row == {**exporting.log.row(0, 9), "date": exporting.log.row(0, 9)["timestamp"].date()}


async def test_new_partitions_begin_at_0(exporting: Exporting) -> None:
    exporting.log.add(0, 3)
    await exporting.once()
    exporting.log.partitions.append([])
    exporting.log.add(2, 5)
    await exporting.once()
    assert exporting.rows() == exporting.expected()
    exporting.log.partitions.append([])
    await exporting.once()
    assert exporting.target().position(range(5)) == {0: 3, 1: 0, 2: 5, 3: 0}


async def test_a_new_table_begins_where_the_log_does(exporting: Exporting) -> None:
    exporting.log.starts[0] = 6
    exporting.log.add(0, 10)
    await exporting.once()
    assert exporting.rows() == exporting.expected()
    assert exporting.log.counts.deleted_offsets == 0


async def test_commits_are_as_large_as_is_wanted(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    await exporting.once(replace(ONCE, commit_bytes=1))
    assert exporting.versions() == 10
    assert exporting.rows() == exporting.expected()
    assert exporting.samples()["commits_total", ()] == 10
    assert exporting.samples()["rows_total", ()] == 30


@pytest.mark.parametrize("batch_rows", [10, 410])
async def test_many_dates_are_many_commits(exporting: Exporting, batch_rows: int) -> None:
    """Timestamps are what producers say, and each date is a file: also those of one batch are shared out."""
    exporting.log.seconds_apart, exporting.log.batch_rows = 86_400, batch_rows
    exporting.log.add(0, 410)
    await exporting.once()
    assert exporting.rows() == exporting.expected()
    commits = sorted((exporting.place / "_delta_log").glob("*.json"))
    assert [sum('"add"' in line for line in commit.read_text().splitlines()) for commit in commits] == [0, 200, 200, 10]


async def follow(exporting: Exporting, options: ExportOptions, work: Callable[[], Awaitable[None]], target: object | None = None) -> bool:
    """Export while `work` is done, then stop it; returns whether it had caught up."""
    stopping = asyncio.Event()
    running = asyncio.create_task(exporting.export(options, target).run(stopping))
    await work()
    stopping.set()
    return await running


async def test_a_following_export_takes_what_comes_until_it_is_stopped(exporting: Exporting) -> None:
    exporting.target()

    async def work() -> None:
        for count in (5, 12):
            exporting.log.add(0, count)
            await until(lambda: exporting.rows() == exporting.expected(), "the table to have all")

    await follow(exporting, ExportOptions(every_s=0.01), work)
    assert exporting.rows() == exporting.expected()


async def test_a_stopped_export_keeps_what_it_has_read_and_says_that_more_is_left(exporting: Exporting) -> None:
    exporting.log.add(0, 300)
    stopping = asyncio.Event()
    exporting.log.on_batch = stopping.set
    assert not await exporting.export().run(stopping)
    rows = exporting.rows()
    assert 0 < len(rows) < 300
    assert rows == exporting.expected()[: len(rows)]
    exporting.log.on_batch = lambda: None
    await exporting.once()
    assert exporting.rows() == exporting.expected()


async def test_an_export_that_ends_between_commits_leaves_no_row_twice(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    exporting.log.add(1, 30)
    exporting.log.trouble = [StoreUnavailable("the store did not answer")]
    with pytest.raises(StoreUnavailable):
        await exporting.once(replace(ONCE, commit_bytes=1))
    await exporting.once()
    assert exporting.rows() == exporting.expected()


async def test_outages_are_waited_for_and_counted(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    exporting.target()
    exporting.log.trouble = [
        StoreUnavailable("the store did not answer"),
        Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader"),
        TableError("the table's store did not answer"),
    ]

    async def work() -> None:
        await until(lambda: exporting.rows() == exporting.expected(), "the table to have all")

    await follow(exporting, ExportOptions(every_s=0.01), work)
    assert exporting.samples()["failures_total", ()] == 3
    assert not exporting.state.is_failing


async def test_a_second_export_ends(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    first, second = exporting.target(), exporting.target()

    @dataclass
    class Late:
        """Has its position before the other export commits."""

        target: DeltaTarget
        place: str = "here"

        def position(self, partitions: Sequence[int]) -> dict[int, int]:
            found = self.target.position(partitions)
            if found[0] == 0:
                asyncio.run(exporting.export(target=first).run(asyncio.Event()))
            return found

        def append(self, rows: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
            self.target.append(rows, before, after)

    with pytest.raises(RivalWriterError, match=r"another process writes .*; stop one of them"):
        await exporting.export(ExportOptions(every_s=0.01), Late(second)).run(asyncio.Event())
    assert exporting.rows() == exporting.expected()


async def test_what_retention_deleted_ends_the_export_or_is_left_out(exporting: Exporting) -> None:
    exporting.log.add(0, 10)
    await exporting.once()
    exporting.log.add(0, 20)
    exporting.log.starts[0] = 15
    told = "5 records of partition 0, offsets 10 to 14, were deleted before they were exported; `--on-data-loss continue` goes on at"
    with pytest.raises(DataLossError, match=told):
        await exporting.export(ExportOptions(every_s=0.01)).run(asyncio.Event())
    await exporting.once(replace(ONCE, fail_on_data_loss=False))
    assert [offset for _, offset, _ in exporting.rows()] == [*range(10), *range(15, 30)]
    assert exporting.samples()["lost_records_total", ()] == 5
    exporting.log.starts[0] = 30
    await exporting.once()


async def test_what_was_deleted_is_counted_once_though_the_pass_is_repeated(exporting: Exporting) -> None:
    exporting.log.add(0, 10)
    await exporting.once()
    exporting.log.add(0, 20)
    exporting.log.starts[0] = 15
    exporting.log.trouble = [StoreUnavailable("no answer"), StoreUnavailable("no answer")]

    async def work() -> None:
        await until(lambda: len(exporting.rows()) == 25, "the table to have all")

    await follow(exporting, ExportOptions(every_s=0.01, fail_on_data_loss=False), work)
    assert exporting.samples()["failures_total", ()] == 2
    assert exporting.samples()["lost_records_total", ()] == 5


async def test_all_that_was_deleted_moves_the_position_without_rows(exporting: Exporting) -> None:
    exporting.log.add(0, 10)
    exporting.target()
    exporting.log.starts[0] = 10
    await exporting.once(replace(ONCE, fail_on_data_loss=False))
    assert exporting.target().position([0]) == {0: 10}
    await exporting.once()


async def test_what_reads_leave_out_is_behind_the_position_too(exporting: Exporting) -> None:
    exporting.log.add(0, 12)
    exporting.log.damaged = {(0, offset) for offset in (4, 9, 10, 11)}
    await exporting.once()
    assert [offset for _, offset, _ in exporting.rows()] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert exporting.target().position([0]) == {0: 12}


async def test_a_log_that_lost_its_end_is_refused(exporting: Exporting) -> None:
    exporting.log.add(0, 10)
    await exporting.once()
    del exporting.log.partitions[0][5:]
    with pytest.raises(DataLossError, match="partition 0 is exported up to offset 10, and the log ends at 5: the log lost its end"):
        await exporting.once()


async def test_a_deleted_topic_ends_a_following_export(exporting: Exporting) -> None:
    exporting.log.is_gone = True
    with pytest.raises(TopicGoneError):
        await exporting.export(ExportOptions(every_s=0.01)).run(asyncio.Event())


async def test_maintenance_runs_when_it_is_due(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    await exporting.once(replace(ONCE, commit_bytes=1))
    exporting.log.add(0, 1)
    await exporting.once(replace(ONCE, is_maintaining=True))
    assert len(DeltaTable(exporting.place).file_uris()) == 2  # one for each date
    assert exporting.samples()["last_maintenance_timestamp_seconds", ()] == pytest.approx(time.time(), abs=60)
    assert exporting.rows() == exporting.expected()


async def test_metrics_tell_lag_and_the_time_that_retention_leaves(exporting: Exporting) -> None:
    exporting.log.add(0, 30)
    exporting.log.left = {0: 7200.0, 1: 3600.0}
    exporting.log.trouble = [StoreUnavailable("no answer")]
    with pytest.raises(StoreUnavailable):
        await exporting.once()
    samples = exporting.samples()
    assert samples["lag_records", (0,)] == 30
    assert samples["lag_records", (1,)] == 0
    assert samples["retention_seconds_left", ()] == 3600
    assert samples["last_caught_up_timestamp_seconds", ()] == 0
    exporting.log.left = {}
    await exporting.once()
    samples = exporting.samples()
    assert samples["lag_records", (0,)] == 0
    assert ("retention_seconds_left", ()) not in samples
    assert samples["last_caught_up_timestamp_seconds", ()] == pytest.approx(time.time(), abs=60)
    assert {name for name, _ in samples} == {metric.name for metric in TABLE} - {"retention_seconds_left"}


def test_standings_tell_lag_and_loss() -> None:
    bounds = [PartitionBounds(0, 5, 20), PartitionBounds(1, 0, 4), PartitionBounds(2, 3, 3)]
    [behind, done, new] = standings(next_offsets({0: 2, 1: 4}, range(3)), bounds, {0: 7.5})
    assert (behind.lag, behind.lost, behind.seconds_left) == (15, 3, 7.5)
    assert (done.lag, done.lost, done.seconds_left) == (0, 0, None)
    assert (new.next_offset, new.lag, new.lost) == (0, 0, 3)
