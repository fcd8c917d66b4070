"""A Delta table as the target of an export: the position is an app transaction for each partition, `diskless-<topic id>-<partition>`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tables.delta import DeltaContent, DeltaSink
from tables.export.columns import no_rows
from tables.export.target import KEPT_HOURS, MAINTAINED_EVERY_S, ExportedTopic, Position

MAINTAINED: Final = "diskless-maintained"
"""The number of the position that says when the table was last maintained, in seconds."""
_STATISTICS: Final = {"delta.dataSkippingStatsColumns": "partition,offset,timestamp"}
"""Keys and values would make the log of the table large, and no reader skips files by them."""


@dataclass(slots=True)
class DeltaTarget:
    """`ExportTarget` over a `DeltaSink`; options are those of delta-rs for the store of the table."""

    sink: DeltaSink
    topic: ExportedTopic

    @staticmethod
    def open(place: str, topic: ExportedTopic, options: Mapping[str, str], begin: Position) -> DeltaTarget:
        """Open the table, or make it with the position `begin`. Raises `OtherContentError`, `TableError`."""
        numbers = {_app_id(topic.topic_id, partition): offset for partition, offset in begin.items()}
        return DeltaTarget(DeltaSink.open(place, _content(topic), options, numbers), topic)

    @staticmethod
    def find(place: str, topic: ExportedTopic, options: Mapping[str, str]) -> DeltaTarget | None:
        """Open the table; None when there is none. Raises `OtherContentError`, `TableError`."""
        found = DeltaSink.find(place, _content(topic), options)
        return None if found is None else DeltaTarget(found, topic)

    @property
    def place(self) -> str:
        """See `ExportTarget`."""
        return self.sink.place

    def position(self, partitions: Iterable[int]) -> dict[int, int]:
        """See `ExportTarget`."""
        self.sink.refresh()
        numbers = {partition: self.sink.number(_app_id(self.topic.topic_id, partition)) for partition in partitions}
        return {partition: number for partition, number in numbers.items() if number is not None}

    def append(self, rows: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
        """See `ExportTarget`."""
        expected = {_app_id(self.topic.topic_id, partition): before.get(partition) for partition in after}
        moves = {_app_id(self.topic.topic_id, partition): offset for partition, offset in after.items()}
        self.sink.append(rows, expected, moves)

    def is_maintenance_due(self) -> bool:
        """See `ExportTarget`."""
        self.sink.refresh()
        return time.time() - (self.sink.number(MAINTAINED) or 0) >= MAINTAINED_EVERY_S

    def maintain(self) -> str:
        """See `ExportTarget`."""
        text = self.sink.compact(KEPT_HOURS)
        # A compaction of nothing leaves no trace in the table.
        self.sink.append([no_rows(self.topic.schema)], {}, {MAINTAINED: int(time.time())})
        return text


def _content(topic: ExportedTopic) -> DeltaContent:
    return DeltaContent(name=topic.name, identity=topic.identity, what="exports", schema=topic.schema, configuration=_STATISTICS)


def _app_id(topic_id: str, partition: int) -> str:
    return f"diskless-{topic_id}-{partition}"
