"""One export: reads from the table's own position to the ends of the log, commits, waits, and begins again.

Each pass asks the table where it is, so a killed export, and a commit without a known outcome, need no care. Invariant: the rows of a
commit are those from the table's position on, and the new position is after the last of them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator.client.errors import TimedOut, Unavailable
from coordinator.object_store import StoreUnavailable
from tables.errors import OtherContentError, RivalWriterError, TableError
from tables.export.columns import DATE, NotTextError, no_rows, table_rows
from tables.export.metrics import ExportState
from tables.export.source import PartitionBounds, RecordSource
from tables.export.target import ExportTarget, commit, next_offsets

LOG = logging.getLogger("tables.export")

DATES_MAX: Final = 200
"""How many dates one commit has: each is a file, and timestamps are what producers say."""
_NO_DATE: Final = -(1 << 31)
"""Rows without a date are a file, too."""
RETRY_S: Final = 5.0
FATAL: Final = (OtherContentError, RivalWriterError, NotTextError)


class DataLossError(TableError):
    """Retention deleted records before they were exported, or the log ends before the table does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a topic is exported. `commit_bytes` bounds what is in memory: as much of Arrow columns is a commit, or what `every_s` brings."""

    once: bool = False
    every_s: float = 60.0
    commit_bytes: int = 128 << 20
    is_maintaining: bool = False
    fail_on_data_loss: bool = True


@dataclass(slots=True)
class PendingRows:
    """Rows that are not committed yet, and the position before and after them."""

    before: dict[int, int | None]
    after: dict[int, int]
    rows: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    dates: set[int] = field(default_factory=set)
    since_s: float = field(default_factory=time.monotonic)

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Take rows in, which go on where each of their partitions is, up to the first one of a date too many; return the rest."""
        dates = pc.fill_null(rows.column(DATE).cast(pa.int32()), _NO_DATE).to_numpy()
        found, firsts = np.unique(dates, return_index=True)
        new = np.sort(firsts[~np.isin(found, list(self.dates))])
        room = DATES_MAX - len(self.dates)
        stop = len(rows) if len(new) <= room else int(new[room])
        self.dates.update(np.unique(dates[:stop]).tolist())
        self._add(rows.slice(0, stop))
        return rows.slice(stop)

    def _add(self, rows: pa.RecordBatch) -> None:
        partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
        for partition in np.unique(partitions):
            self.after[int(partition)] = int(offsets[partitions == partition].max()) + 1
        self.rows.append(rows)
        self.bytes += rows.nbytes

    @property
    def moves(self) -> dict[int, int]:
        """The partitions whose position moves."""
        return {partition: offset for partition, offset in self.after.items() if offset != self.before.get(partition)}

    def is_due(self, options: ExportOptions) -> bool:
        """Whether it should be committed, though more follows."""
        if not self.rows:
            return False
        is_large = self.bytes >= options.commit_bytes or len(self.dates) >= DATES_MAX
        return is_large or time.monotonic() - self.since_s >= options.every_s

    def next(self) -> PendingRows:
        """Return what follows this one."""
        return PendingRows(dict(self.after), dict(self.after))


class Export:
    """One topic and its table."""

    def __init__(self, source: RecordSource, target: ExportTarget, schema: pa.Schema, options: ExportOptions, state: ExportState) -> None:
        self._source = source
        self._target = target
        self._schema = schema
        self._options = options
        self._state = state
        self._rng = random.Random()

    async def run(self, stopping: asyncio.Event) -> bool:
        """Export until `stopping` is set, or with `once` until the table has what the log had; return whether it was done.

        Outages of the service, of its object store and of the table end a single run, and are waited for by one that goes on. Raises what
        else `RecordSource` and `ExportTarget` do, and `DataLossError`.
        """
        while True:
            pause_s = self._options.every_s
            try:
                is_done = await self._pass(stopping)
                if not stopping.is_set():
                    await self._maintain()
            except (Unavailable, TimedOut, StoreUnavailable, TableError) as error:
                if self._options.once or isinstance(error, (*FATAL, DataLossError)):
                    raise
                self._state.on_failure()
                pause_s = min(pause_s, RETRY_S * (0.5 + self._rng.random()))
                LOG.warning("the export is tried again in %.1f s: %s", pause_s, error)
                is_done = False
            if stopping.is_set() or (self._options.once and is_done):
                return is_done
            await _wait(stopping, pause_s)

    async def _pass(self, stopping: asyncio.Event) -> bool:
        """Export what the log has now; return False when it was stopped before."""
        bounds = await self._source.bounds()
        known = await asyncio.to_thread(self._target.position, [one.partition for one in bounds])
        due = next_offsets(known, [one.partition for one in bounds])
        begin = {one.partition: self._begin(one, due[one.partition]) for one in bounds}
        self._state.on_begin(begin, bounds)
        self._state.seconds_left = min((await self._source.seconds_left(begin, bounds)).values(), default=None)
        chunk = PendingRows({one.partition: known.get(one.partition) for one in bounds}, begin)
        async with aclosing(self._source.read(begin, bounds)) as reading:
            while (batch := await _next_unless(stopping, reading)) is not None:
                rows = await asyncio.to_thread(table_rows, batch, self._schema)
                while len(rows):
                    rows = chunk.take(rows)
                    if chunk.is_due(self._options):
                        chunk = await self._commit(chunk)
        if not stopping.is_set():
            # Offsets without rows, which the reader was allowed to leave out, are behind the position, too.
            chunk.after.update({one.partition: max(one.end, begin[one.partition]) for one in bounds})
        if chunk.moves:
            await self._commit(chunk)
        if stopping.is_set():
            return False
        self._state.on_caught_up()
        return True

    def _begin(self, bounds: PartitionBounds, due: int) -> int:
        """Return where to read on in a partition. Raises `DataLossError`."""
        partition, start, end = bounds
        if due > end:
            raise DataLossError(
                f"{self._target.place}: partition {partition} is exported up to offset {due}, and the log ends at {end}: the log lost its "
                "end. Export it into another table"
            )
        if due >= start:
            return due
        lost = f"{start - due} records of partition {partition}, offsets {due} to {start - 1}, were deleted before they were exported"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{lost}; `--on-data-loss continue` goes on at offset {start}, and the table will not have them")
        LOG.warning("%s; the export goes on at offset %d", lost, start)
        self._source.counts.deleted(self._state.topic, partition, due, start)
        return start

    async def _commit(self, chunk: PendingRows) -> PendingRows:
        moves = chunk.moves
        before = {partition: offset for partition in moves if (offset := chunk.before[partition]) is not None}
        start_s = time.monotonic()
        await asyncio.to_thread(commit, self._target, chunk.rows or [no_rows(self._schema)], before, moves)
        rows = sum(len(one) for one in chunk.rows)
        self._state.on_commit(chunk.after, rows, chunk.bytes, time.monotonic() - start_s)
        LOG.debug("%d rows, %d bytes committed in %.3f s", rows, chunk.bytes, time.monotonic() - start_s)
        return chunk.next()

    async def _maintain(self) -> None:
        if self._options.is_maintaining and await asyncio.to_thread(self._target.is_maintenance_due):
            LOG.info("maintenance of %s: %s", self._target.place, await asyncio.to_thread(self._target.maintain))
            self._state.maintained_s = time.time()


async def _next_unless(stopping: asyncio.Event, reading: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return the next batch; None at the end, and when the export is to stop."""
    if stopping.is_set():
        return None
    following = asyncio.ensure_future(anext(reading, None))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
        return following.result() if following.done() else None
    finally:
        for task in (following, stopped):
            task.cancel()
        await asyncio.gather(following, stopped, return_exceptions=True)


async def _wait(stopping: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
