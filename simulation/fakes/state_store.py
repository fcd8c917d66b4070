"""A state store in memory: what was written survives `close` as a file would, as long as the object is kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, replace
from functools import partial
from itertools import chain, starmap
from operator import sub

from coordinator.adapters.sqlite.errors import DamagedRow
from coordinator.adapters.sqlite.proofs import file_of, run_of, run_proof, tombstone_of
from coordinator.adapters.sqlite.snapshot_rows import Misfit, check_partition, header_of, refused_as_bad
from coordinator.adapters.sqlite.stored import RowsOf, partition_of
from coordinator.adapters.sqlite.writer import partition_columns
from coordinator.core.state.damage import StateCorrupt, StateFailed
from coordinator.core.state.frozen import PartitionRow, ProducerRow
from coordinator.core.state.packing import Flush, TopicRow, hash_stored_file
from coordinator.core.state.proof import StoredRows, Unproven, directory_proof, prove
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import NO_FILES, FileName, FileRow, FileTotals, Header, RunRow, Tombstone
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows
from records.state_digest import hash_record, hash_tombstone
from simulation.fakes.stored_tables import MemoryPinnedState, Row, rows_of_tables


class MemoryStateStore:
    """A `StateStore` and its own `ColdStore`: plain dictionaries, and runs kept as they were written."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self._partitions: dict[int, tuple[PartitionRow, int]] = {}
        self._producers: dict[int, ProducerRow] = {}
        self._topics: dict[bytes, TopicRow] = {}
        self._directory: tuple[str, bytes] | None = None
        self._runs: dict[int, list[RunRow]] = {}
        self._files: dict[int, FileRow] = {}
        self._ids: dict[str, int] = {}
        self._tombstones: dict[str, Tombstone] = {}
        self._unconfirmed_losses: dict[int, int] = {}
        self._loaded_files = NO_FILES

    # ---- StateStore

    def load(self) -> Stored | None:
        """Read the written tables, proven; None when nothing was written. Raises `StateCorrupt`."""
        if self.header is None:
            return None
        self._unconfirmed_losses = {}
        self._loaded_files = self._file_totals()
        rows = StoredRows(
            header=self.header,
            partitions=[self._partitions[row] for row in sorted(self._partitions)],
            producers=[self._producers[row] for row in sorted(self._producers)],
            topics=[self._topics[topic_id] for topic_id in sorted(self._topics)],
            directory=self._directory,
            runs=[run for row in sorted(self._runs) for run in self._runs[row]],
            files=[self._files[file_id] for file_id in sorted(self._files)],
            tombstones=list(self._tombstones.values()),
        )
        try:
            return prove(rows)
        except Unproven as unproven:
            raise StateCorrupt(f"the state in memory is damaged ({unproven})") from unproven

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Take over one flush."""
        self._unconfirmed_losses = dict(flush.live_lost)
        for row in flush.producers_dropped:
            self._producers.pop(row, None)
        self._producers.update({producer.row: producer for producer in flush.producers.rows()})
        for topic_id in flush.topics_forgotten:
            self._topics.pop(topic_id, None)
        self._topics.update({topic.topic_id: topic for topic in flush.topics})
        self._partitions.update({row.row: (row, proof) for row, proof in flush.partitions})
        if flush.directory is not None:
            self._directory = (flush.directory, directory_proof(flush.directory))
        self._write_files(flush)
        self._write_tombstones(flush)
        for run in flush.runs:
            self._runs.setdefault(run.partition_row, []).append(run)
        self._trim(flush)
        self.header = flush.header

    def _write_files(self, flush: Flush) -> None:
        removed = set(flush.files_removed)
        for file_id in removed & self._files.keys():
            del self._ids[self._files.pop(file_id).object_key]
        for file in flush.files.rows():
            if file.file_id not in removed:
                self._files[file.file_id] = file
                self._ids[file.object_key] = file.file_id
        for file_id, file in self._files.items():
            if file.append_time_ms < flush.results_before_ms:
                self._files[file_id] = file._replace(record=b"")
        for file_id, lost in flush.live_lost.items():
            if file_id in self._files:
                row = self._files[file_id]
                live = row.live_batches - lost
                self._files[file_id] = row._replace(live_batches=live, emptied_ms=-1 if live else flush.emptied_ms)

    def _write_tombstones(self, flush: Flush) -> None:
        before_ms = flush.tombstones_expired_before_ms
        self._tombstones = {key: stone for key, stone in self._tombstones.items() if not 0 <= stone.created_ms < before_ms}
        self._tombstones.update({stone.object_key: stone for stone in flush.tombstones.rows()})

    def _trim(self, flush: Flush) -> None:
        for row, to in flush.trimmed:
            self._runs[row] = [run for run in self._runs.get(row, []) if run.last >= to]
        for row in flush.partitions_purged:
            self._runs.pop(row, None)
            del self._partitions[row]

    def flip(self, chance: float) -> None:
        """Change one number of what was written, as a bit that flips on a disk does; `chance` picks which.

        Twice is not back again: a process may be killed twice before it starts.
        """
        header = self.header
        if header is None:
            return

        def flip_header() -> None:
            self.header = replace(header, log_time_ms=header.log_time_ms + (1 << 20))

        def flip_partition(row: int) -> None:
            stored, proof = self._partitions[row]
            self._partitions[row] = (stored._replace(high_watermark=stored.high_watermark + (1 << 7)), proof)

        def flip_producer(row: int) -> None:
            self._producers[row] = self._producers[row]._replace(epoch=self._producers[row].epoch + 1)

        def flip_file(file_id: int) -> None:
            self._files[file_id] = self._files[file_id]._replace(file_size=self._files[file_id].file_size + (1 << 3))

        flips: list[Callable[[], None]] = [flip_header]
        flips += [partial(flip_partition, row) for row in self._partitions]
        flips += [partial(flip_producer, row) for row in self._producers]
        flips += [partial(flip_file, file_id) for file_id in self._files]
        flips[int(chance * len(flips))]()

    def pin(self) -> MemoryPinnedState:
        """Keep the rows as they are now. Raises `StateFailed` when nothing was written."""
        if self.header is None:
            raise StateFailed("nothing was written to the state in memory yet: pin it after a write")
        runs = enumerate(chain.from_iterable(self._runs[row] for row in sorted(self._runs)), 1)
        rows: dict[str, Sequence[Row]] = {
            "topic": [astuple(topic) for topic in self._topics.values()],
            "partition": [partition_columns(*partition) for partition in self._partitions.values()],
            "run": [(number, *run, run_proof(number, run)) for number, run in runs],
            "file": [_file_columns(file) for file in self._files.values()],
            "producer": list(self._producers.values()),
            "tombstone": [(*stone, hash_tombstone(*stone)) for stone in self._tombstones.values()],
            "directory": [] if self._directory is None else [(1, *self._directory)],
        }
        return MemoryPinnedState(self.header, rows)

    def fill(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        """Take the rows of a snapshot into an empty store; returns the state, proven. Raises `BadSnapshot`."""
        with refused_as_bad(head):
            self.header = header_of(head)
            rows_of = rows_of_tables(rows, rest)
            try:
                self._take(rows_of)
                stored = self.load()
            except (DamagedRow, StateCorrupt) as damaged:
                raise Misfit(f"its rows are not those that its head describes: {damaged}") from damaged
        assert stored is not None
        return stored

    def _take(self, rows_of: RowsOf) -> None:
        self._partitions = {partition.row: (partition, proof) for partition, proof in starmap(partition_of, rows_of("partition"))}
        self._producers = {producer.row: producer for producer in starmap(ProducerRow, rows_of("producer"))}
        self._topics = {topic.topic_id: topic for topic in starmap(TopicRow, rows_of("topic"))}
        self._directory = next(((content, proof) for _, content, proof in rows_of("directory")), None)
        for run in (run_of(row[0], row[1:]) for row in rows_of("run")):
            self._runs.setdefault(run.partition_row, []).append(run)
        self._files = {file.file_id: file for file in map(file_of, rows_of("file"))}
        self._ids = {file.object_key: file.file_id for file in self._files.values()}
        self._tombstones = {stone.object_key: stone for stone in map(tombstone_of, rows_of("tombstone"))}

    def reader(self) -> MemoryStateStore:
        """Reads need no connection of their own here."""
        return self

    def close(self, *, clean: bool = True) -> None:
        """Do nothing: memory needs no clean close."""

    # ---- ColdStore

    def written(self) -> None:
        """The state knows that the last flush was written."""
        self._unconfirmed_losses = {}

    def run_covering(self, partition_row: int, offset: int) -> RunRow | None:
        """The first run whose last offset is at or after `offset`."""
        return next(iter(self._runs_from(partition_row, offset)), None)

    def run_reaching(self, partition_row: int, from_offset: int, timestamp_ms: int) -> RunRow | None:
        """The first run that ends at or after `from_offset` and has a batch at or after a time, by `max_timestamp`."""
        return next((run for run in self._runs_from(partition_row, from_offset) if run.max_timestamp >= timestamp_ms), None)

    def max_run(self, partition_row: int, from_offset: int) -> RunRow | None:
        """The first run with the greatest `max_timestamp` among those that end at or after `from_offset`."""
        return max(self._runs_from(partition_row, from_offset), key=lambda run: run.max_timestamp, default=None)

    def file_by_key(self, object_key: str) -> FileRow | None:
        """A written file by its key."""
        file_id = self._ids.get(object_key)
        row = None if file_id is None else self._files.get(file_id)
        return None if row is None else row._replace(live_batches=row.live_batches + self._unconfirmed_losses.get(row.file_id, 0))

    def files_by_key(self, object_keys: Sequence[str]) -> list[FileRow]:
        """Return the written files among those with some keys, in any order."""
        return [row for row in map(self.file_by_key, object_keys) if row is not None]

    def file_name(self, file_id: int) -> FileName | None:
        """A written file by the offset of its entry."""
        row = self._files.get(file_id)
        return None if row is None else FileName(row.object_key, row.append_time_ms)

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        """Files in key order after a key ('' = from the start)."""
        keys = sorted(key for key in self._ids if key > object_key)[:limit]
        return [row for row in map(self.file_by_key, keys) if row is not None]

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> list[FileRow]:
        """Files with `emptied_ms` below `before_ms`, ordered by it and the file id, behind that pair."""
        empty = sorted((row.emptied_ms, row.file_id, row.object_key) for row in self._files.values() if 0 <= row.emptied_ms < before_ms)
        found = (self.file_by_key(key) for at, file_id, key in empty if (at, file_id) > after)
        return [row for row in found if row is not None][:limit]

    def file_changes(self) -> FileTotals:
        """How the files changed that are stored, since the store was loaded."""
        return FileTotals(*map(sub, self._file_totals(), self._loaded_files))

    def _file_totals(self) -> FileTotals:
        live = [row.file_size for row in self._files.values() if row.live_batches]
        empty = [row.file_size for row in self._files.values() if not row.live_batches]
        return FileTotals(live=len(live), empty=len(empty), bytes_live=sum(live), bytes_empty=sum(empty))

    def tombstone(self, object_key: str) -> Tombstone | None:
        """A written tombstone by its key."""
        return self._tombstones.get(object_key)

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        """Tombstones in key order after a key ('' = from the start)."""
        return [self._tombstones[key] for key in sorted(key for key in self._tombstones if key > object_key)[:limit]]

    def _runs_from(self, partition_row: int, offset: int) -> list[RunRow]:
        runs = self._runs.get(partition_row, [])
        return runs[bisect_left(runs, offset, key=lambda run: run.last) :]


class MemoryStateStores:
    """The `StateStores` port in memory: one store per metadata partition, kept until it is set aside or its log changes."""

    def __init__(self) -> None:
        self._stores: dict[int, tuple[str, bytes, MemoryStateStore]] = {}
        self._copies: dict[int, tuple[str, bytes, MemoryStateStore]] = {}
        self.set_aside_count = 0

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> MemoryStateStore:
        """The store of a metadata partition; a new one when there is none or it belongs to another log."""
        known = self._stores.get(partition)
        if known is None or known[:2] != (cluster_id, topic_id):
            known = self._stores[partition] = (cluster_id, topic_id, MemoryStateStore())
        return known[2]

    def build(self, partition: int, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        """Make the store of a metadata partition from a snapshot. Raises `BadSnapshot`; then the earlier one is still there."""
        check_partition(head, partition)
        store = MemoryStateStore()
        stored = store.fill(head, rows, rest)
        self._stores[partition] = (head.cluster_id, head.topic_id, store)
        return stored

    def prove(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Check that a store can be made from a snapshot. Raises `BadSnapshot`."""
        MemoryStateStore().fill(head, rows, rest)

    def partitions(self) -> frozenset[int]:
        """The metadata partitions that have a store; unfinished copies are removed."""
        self._copies.clear()
        return frozenset(self._stores)

    def remove(self, partition: int) -> None:
        """Forget the store of a partition, if there is one."""
        self._stores.pop(partition, None)

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a store beside the one of its partition. Raises `BadSnapshot`."""
        store = MemoryStateStore()
        store.fill(head, rows, rest)
        self._copies[head.metadata_partition] = (head.cluster_id, head.topic_id, store)

    def adopt_copy(self, partition: int) -> None:
        """Put it in the place of that one."""
        self._stores[partition] = self._copies.pop(partition)

    def remove_copy(self, partition: int) -> None:
        """Forget a copy, if there is one."""
        self._copies.pop(partition, None)

    def flip(self, chance: float) -> None:
        """Flip a bit in each store; see `MemoryStateStore.flip`."""
        for _, _, store in self._stores.values():
            store.flip(chance)

    def set_aside(self, partition: int) -> str | None:
        """Forget a store; returns the name it would have been kept under."""
        if self._stores.pop(partition, None) is None:
            return None
        self.set_aside_count += 1
        return f"partition-{partition}.failed-{self.set_aside_count}"


def _file_columns(file: FileRow) -> Row:
    """The row of a file, with how many batches it lost and its proofs."""
    return *file, file.batch_count - file.live_batches, hash_record(file.record), hash_stored_file(file)
