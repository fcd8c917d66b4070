"""Every metric of an export: name, kind, labels, help; and the state that is read at a scrape. Names begin with `diskless_export_`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator.adapters.metrics.registry import Sample
from coordinator.adapters.metrics.table import read_counter, read_gauge
from tables.export.source import PartitionBounds
from tables.reading.span import ReadCounts

PREFIX: Final = "diskless_export_"

TABLE: Final = (
    read_gauge("lag_records", "Records that the table does not have yet.", "topic", "partition"),
    read_gauge(
        "retention_seconds_left",
        "Time until retention.ms takes the next record to export, as of the last pass; none when the table has all.",
        "topic",
    ),
    read_gauge("last_caught_up_timestamp_seconds", "When the table last had what the log had; 0 before the first time.", "topic"),
    read_gauge("last_maintenance_timestamp_seconds", "When this process last joined files of the table; 0 if it did not.", "topic"),
    read_counter("rows_total", "Rows committed.", "topic"),
    read_counter("bytes_total", "Bytes of these rows, as Arrow columns.", "topic"),
    read_counter("commits_total", "Commits of the table.", "topic"),
    read_counter("commit_seconds_total", "Time that they took, the writing of their files included.", "topic"),
    read_counter("failures_total", "Passes that the service, its object store or the table ended, and that were repeated.", "topic"),
    read_counter("lost_records_total", "Records that retention deleted before they were exported.", "topic"),
    read_counter("damaged_batches_total", "Damaged batches that were left out.", "topic"),
)


@dataclass(slots=True)
class ExportState:
    """What an export has done since its start, and how far behind it is."""

    topic: str
    counts: ReadCounts
    rows: int = 0
    bytes: int = 0
    commits: int = 0
    commit_s: float = 0.0
    failures: int = 0
    is_failing: bool = False
    """Whether the last pass ended in an outage."""
    caught_up_s: float = 0.0
    maintained_s: float = 0.0
    seconds_left: float | None = None
    ends: dict[int, int] = field(default_factory=dict)
    position: dict[int, int] = field(default_factory=dict)

    def on_begin(self, position: Mapping[int, int], bounds: Sequence[PartitionBounds]) -> None:
        """A pass begins."""
        self.ends = {one.partition: one.end for one in bounds}
        self.position = dict(position)

    def on_commit(self, position: Mapping[int, int], rows: int, size: int, seconds: float) -> None:
        """Rows were committed."""
        self.position = dict(position)
        self.rows += rows
        self.bytes += size
        self.is_failing = False
        self.commits += 1
        self.commit_s += seconds

    def on_caught_up(self) -> None:
        """The table has what the log had when the pass began."""
        self.is_failing = False
        self.caught_up_s = time.time()

    def on_failure(self) -> None:
        """A pass ended in an outage, and will be repeated."""
        self.is_failing = True
        self.failures += 1

    def samples(self) -> Iterator[Sample]:
        """Return the metrics."""
        for partition, end in self.ends.items():
            yield Sample("lag_records", (self.topic, partition), max(0, end - self.position[partition]))
        if self.seconds_left is not None:
            yield Sample("retention_seconds_left", (self.topic,), self.seconds_left)
        values = {
            "last_caught_up_timestamp_seconds": self.caught_up_s,
            "last_maintenance_timestamp_seconds": self.maintained_s,
            "rows_total": self.rows,
            "bytes_total": self.bytes,
            "commits_total": self.commits,
            "commit_seconds_total": self.commit_s,
            "failures_total": self.failures,
            "lost_records_total": self.counts.deleted_offsets,
            "damaged_batches_total": self.counts.damaged_batches,
        }
        for name, value in values.items():
            yield Sample(name, (self.topic,), value)
