"""The state of a metadata log, folded from its beginning by the service's own core.

Says of each entry whether it contradicts the log before it, and what it changed. What is folded goes into a state database in a
temporary folder, so that a long log needs no more memory than a replica.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from cli.log.entries import LogMessage
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.events import EntriesRead
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.shard import Shard
from coordinator.core.state.lookups import OFFSET_END
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.core.view import ShardView
from records.committed_files.codec import FileCommitted
from records.log import Fence
from records.model import DisklessLogInitialized, DisklessLogRepaired, DisklessLogReset, PartitionAdopted, Record, RecordsDeleted

CLUSTER, TOPIC_ID = "folded", bytes(16)
WRITTEN_BATCHES = 100_000
"""Batches that are kept in memory before they are written."""


class Bounds(NamedTuple):
    """The first offset of a user partition and the one after its last."""

    log_start: int
    high_watermark: int


class FoldedReplica:
    """One metadata partition; use it as a context manager. Messages come in order from offset 0 on."""

    def __init__(self, partition: int, written_batches: int = WRITTEN_BATCHES) -> None:
        """Whenever the memory has so many batches, they are written into a state database."""
        self._written_batches = written_batches
        self._folder = tempfile.TemporaryDirectory(prefix="diskless-log-")
        self._store = StateDatabases(Path(self._folder.name)).open(partition, CLUSTER, TOPIC_ID)
        self._packer = Packer()
        self._shard = Shard(
            partition=partition,
            partition_count=partition + 1,
            node_id=-1,
            rack="",
            endpoints=[],
            limits=Limits(),
            state=ShardState(cold=self._store.reader()),
            fence=Fence(),
            claim=None,
            certain_end=OFFSET_END,
        )
        self._view = ShardView(self._shard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._store.close(clean=False)
        self._folder.cleanup()

    @property
    def failure(self) -> str | None:
        """Why replicas of this version cannot go on, None while they can."""
        return self._view.failure

    def take(self, message: LogMessage) -> str | None:
        """Fold the next message; returns how it contradicts the log before it, None when it does not."""
        if self._view.failure is not None:
            return None
        before = self._view.contradiction
        self._shard.feed(EntriesRead([ReadEntry(message.offset, message.timestamp_ms, message.key, message.value)]), 0)
        if self._view.unwritten_batches >= self._written_batches:
            self._write()
        found = self._view.contradiction
        return None if found is None or found is before else found.reason

    def bounds(self, topic_id: bytes, partition: int) -> Bounds | None:
        """Where a user partition begins and ends now, None when it does not exist."""
        bounds = self._view.bounds(topic_id, partition)
        return None if bounds is None else Bounds(*bounds)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic that has partitions here."""
        topic = self._view.state.hot.topics.get(topic_id)
        return None if topic is None else topic.name

    def _write(self) -> None:
        header = replace(self._shard.header(CLUSTER, TOPIC_ID), last_entry_hash=bytes(16))
        self._store.write(self._packer.pack(self._shard.freeze(header)))
        self._shard.written()


def touched_partitions(records: Sequence[Record]) -> list[tuple[bytes, int]]:
    """The user partitions, by topic id and number, whose offsets records of an entry may change; each once, in their order."""
    touched: dict[tuple[bytes, int], None] = {}
    for record in records:
        match record:
            case FileCommitted():
                for batch in record.accepted:
                    touched[batch.topic_id, batch.partition] = None
            case RecordsDeleted() | DisklessLogInitialized() | DisklessLogReset() | DisklessLogRepaired() | PartitionAdopted():
                touched[record.topic_id, record.partition] = None
            case _:
                pass
    return list(touched)
