"""From applied entries to rows of the state database, and the digest that goes with them.

Runs in the writer's thread on values that nobody changes any more, so that sorting and hashing cost the event loop
nothing. A `Packer` belongs to one replica and must see every frozen generation exactly once, in order: its sums are
the state digest as of the applied offset that is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice, starmap

import numpy as np

from coordinator.core.block import GatheredFiles
from coordinator.core.cold import FileLists, Header, RunRow, Tombstone, lists_of_files
from coordinator.core.frozen import FrozenPartitions, FrozenProducers, PartitionRow, ProducerLists, ProducerRow, lists_of
from coordinator.core.rest import Rest, no_rest
from coordinator.core.row_sums import RowSums
from coordinator.core.run_packing import batches_sum, pack_runs
from coordinator.core.tables import REMEMBERED_BATCHES
from coordinator.core.tail import Generation
from records.state_digest import EMPTY, PRODUCER_RING, U64, Digest, Int64s, hash_file, hash_partition, hash_producer, lanes_of, sum_of

_ROWS_A_PIECE = 128


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic with partitions here, or (deleted) one that may not come back."""

    topic_id: bytes
    name: str
    order_offset: int
    deleted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A frozen generation and the hot rows that changed with it; results of commits before `results_before_ms` may go."""

    header: Header
    generation: Generation
    partitions: FrozenPartitions
    producers: FrozenProducers
    producers_dropped: list[tuple[int, int, int]]
    topics: list[TopicRow]
    topics_forgotten: list[bytes]
    directory: str | None
    results_before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """What one transaction of the state database writes."""

    header: Header
    files: FileLists
    runs: list[RunRow]
    partitions: list[tuple[PartitionRow, bytes]]
    partitions_purged: list[int]
    producers: ProducerLists
    producers_dropped: list[tuple[int, int, int]]
    topics: list[TopicRow]
    topics_forgotten: list[bytes]
    directory: str | None
    results_before_ms: int
    live_lost: list[tuple[int, int]]
    trimmed: list[tuple[int, int]]
    tombstones: list[Tombstone]
    tombstones_expired_before_ms: int
    files_removed: list[int]


@dataclass(slots=True)
class Packer:
    """Keeps the digest of one replica: its sum, and the parts that may have to be taken away again."""

    total: Digest = EMPTY
    batch_sums: RowSums = field(default_factory=RowSums)
    partition_hashes: RowSums = field(default_factory=RowSums)
    producer_hashes: RowSums = field(default_factory=RowSums)
    key_of: dict[int, bytes] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def restore(self, partitions: list[tuple[PartitionRow, bytes]], producers: list[ProducerRow], total: Digest) -> None:
        """Start from what is stored; `total` comes with the header."""
        self.total = total
        self.key_of.update((row.row, row.key) for row, _ in partitions)
        self.dead.update(row.row for row, _ in partitions if row.is_dead)
        live = [(row, batches) for row, batches in partitions if not row.is_dead]
        self._hash_partitions([row for row, _ in live], no_rest)
        self.batch_sums.replace(np.array([row.row for row, _ in live], np.int64), lanes_of([batches for _, batches in live]))
        self._hash_producers(lists_of(producers), no_rest)

    def pack(self, freeze: Freeze, rest: Rest = no_rest) -> Flush:
        """The rows of a frozen generation, its header completed by the digest.

        The event loop waits for the interpreter as long as a piece of this takes, so `rest` is called between the pieces.
        """
        generation = freeze.generation
        self.total = self.total.plus(self.producer_hashes.forget({row for row, _, _ in freeze.producers_dropped}))
        self.key_of.update(zip(freeze.partitions.rows.tolist(), freeze.partitions.keys, strict=True))
        packed = pack_runs(generation.blocks, self.key_of, rest)
        rest()
        self._add_batches(packed.partition_rows, packed.sums)
        for partition_row, gone in generation.trimmed_rows:
            self._add_batches(np.array([partition_row]), np.negative(batches_sum(self.key_of[partition_row], gone)))
        stored = self._replace_partitions(freeze.partitions, rest)
        rest()
        producers = freeze.producers.stored()
        self.total = self.total.plus(self._hash_producers(producers, rest))
        files = _files_of(generation, rest)
        removed = lists_of_files(generation.files_removed.values())
        self.total = self.total.plus(_sum_of_files(files, rest)).minus(_sum_of_files(removed, rest))
        self.dead.difference_update(generation.purged)
        return Flush(
            header=replace(freeze.header, digest=self.total.to_bytes()),
            files=files,
            runs=packed.runs,
            partitions=stored,
            partitions_purged=list(generation.purged),
            producers=producers,
            producers_dropped=freeze.producers_dropped,
            topics=freeze.topics,
            topics_forgotten=freeze.topics_forgotten,
            directory=freeze.directory,
            results_before_ms=freeze.results_before_ms,
            live_lost=list(generation.live_lost.items()),
            trimmed=list(generation.trimmed.items()),
            tombstones=list(generation.tombstones.values()),
            tombstones_expired_before_ms=generation.tombstones_expired_before_ms,
            files_removed=[file.file_id for file in generation.files_removed.values()],
        )

    def _add_batches(self, rows: Int64s, sums: U64) -> None:
        """The batches of a dead partition were taken away with it, all at once."""
        if self.dead:
            is_live = np.array([row not in self.dead for row in rows.tolist()], bool)
            rows, sums = rows[is_live], sums[is_live]
        self.total = self.total.plus(self.batch_sums.add(rows, sums))

    def _replace_partitions(self, frozen: FrozenPartitions, rest: Rest) -> list[tuple[PartitionRow, bytes]]:
        """Take the partitions as they are now; returns them with the digests of their batches."""
        partitions = list(frozen.stored())
        self.total = self.total.plus(self._hash_partitions([row for row in partitions if not row.is_dead], rest))
        self.total = self.total.plus(self.partition_hashes.forget(frozen.dead)).plus(self.batch_sums.forget(frozen.dead))
        self.dead |= frozen.dead
        return list(zip(partitions, self.batch_sums.bytes_of(frozen.rows), strict=True))

    def _hash_partitions(self, partitions: list[PartitionRow], rest: Rest) -> Digest:
        hashes = _hashed(hash_partition, [(row.key, row.high_watermark, row.log_start, row.first_offset) for row in partitions], rest)
        return self.partition_hashes.replace(np.array([row.row for row in partitions], np.int64), lanes_of(hashes))

    def _hash_producers(self, producers: ProducerLists, rest: Rest) -> Digest:
        """Take the producers as they are now; returns how the sum changes."""
        keys = map(self.key_of.__getitem__, producers.partition_row)
        rows = zip(keys, producers.producer_id, producers.epoch, producers.last_append_ms, producers.ring, strict=True)
        return self.producer_hashes.replace(np.array(producers.row, np.int64), lanes_of(_hashed(hash_producer, rows, rest)))


def _files_of(generation: Generation, rest: Rest) -> FileLists:
    """The files of a generation as they are stored."""
    files = lists_of_files([])
    for at in range(0, len(generation.blocks), _ROWS_A_PIECE):
        rest()
        gathered = GatheredFiles()
        for block in generation.blocks[at : at + _ROWS_A_PIECE]:
            block.add_files(gathered)
        for column, more in zip(files, gathered.lists(), strict=True):
            column += more  # type: ignore[operator]  # columns of the same name
    return files


def _sum_of_files(files: FileLists, rest: Rest) -> Digest:
    """The sum of the hashes of files as they were committed."""
    rows = zip(files.object_key, files.content_hash, files.file_id, files.file_size, files.append_time_ms, files.batch_count, strict=True)
    return sum_of(lanes_of(_hashed(hash_file, rows, rest)))


def _hashed(hash_row: Callable[..., bytes], rows: Iterable[tuple[object, ...]], rest: Rest) -> list[bytes]:
    """The hashes of rows."""
    hashes: list[bytes] = []
    left = iter(rows)
    while some := list(islice(left, _ROWS_A_PIECE)):
        rest()
        hashes += starmap(hash_row, some)
    return hashes


def unpack_ring(ring: bytes) -> list[tuple[int, int, int, int]]:
    """(first sequence, last sequence, base offset, append time) of remembered batches, oldest first."""
    rows: list[tuple[int, int, int, int]] = np.frombuffer(
        ring, PRODUCER_RING, count=min(len(ring) // PRODUCER_RING.itemsize, REMEMBERED_BATCHES)
    ).tolist()
    return rows
