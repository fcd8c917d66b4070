"""A stream as Spark calls it: one process on the driver is asked about positions, and others, with copies of the reader, read tasks.

Spark asks for the end of the next batch, keeps it in the checkpoint, and asks for its tasks (`progress`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow

from tables.source.access import open_client, open_objects
from tables.source.executor import classic_parts, read_task
from tables.source.lookup import Lookup
from tables.source.offsets import read_positions
from tables.source.options import SourceOptions
from tables.source.progress import StreamProgress

if TYPE_CHECKING:
    import pyarrow

    from tables.source.lag import GroupOffsets

T = TypeVar("T")


class DisklessStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module's text."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: _Driver | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        return self._run(self._progress.begin()).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options. It has one number, so `minOffsetsPerTrigger` is looked up where a batch ends."""
        if self._options.max_per_trigger:
            return ReadMaxRows(self._options.max_per_trigger)
        return ReadMinRows(self._options.min_per_trigger) if self._options.min_per_trigger else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends. Its start is the end of the last batch, which is done."""
        done = read_positions(start)
        if self._options.group_id:
            # Spark's own call for that, `commit`, comes when the next batch begins, and never for the last one of `availableNow`.
            self._on_driver.group.commit(done.offsets)
        is_limited = not isinstance(limit, ReadAllAvailable)
        return self._run(self._progress.end_of_batch(done, is_limited=is_limited)).as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs when a batch was last planned."""
        latest = self._progress.latest
        return None if latest is None else latest.as_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix partitions and ends: what comes later is left to the next run."""
        self._run(self._progress.fix_ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch."""
        return [InputPartition(task) for task in self._run(self._progress.tasks(read_positions(start), read_positions(end)))]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read a task."""
        return read_task(self._options, partition.value or ())

    def stop(self) -> None:
        """Close connections."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    @property
    def _on_driver(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    @property
    def _progress(self) -> StreamProgress:
        return self._on_driver.progress

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._on_driver.runner.run(coroutine)


class _Driver:
    """What a reader has on the driver alone: connections, and an event loop that they belong to."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._group: GroupOffsets | None = None
        self.runner = asyncio.Runner()
        store = open_objects(options.access)
        self._client = open_client(options.access, store)
        self.progress = StreamProgress(options, Lookup(self._client, store, classic_parts(options)))

    @property
    def group(self) -> GroupOffsets:
        """The group that offsets are committed for."""
        if self._group is None:
            from tables.source.lag import GroupOffsets

            self._group = GroupOffsets(self._options)
        return self._group

    def close(self) -> None:
        """Close connections."""
        self.runner.run(self._client.close())
        self.runner.close()
