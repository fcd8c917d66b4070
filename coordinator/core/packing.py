"""From applied entries to rows of the state database, and the digest that goes with them.

Runs in the writer's thread on values that nobody changes any more, so that sorting and hashing cost the event loop
nothing. A `Packer` belongs to one replica and must see every frozen generation exactly once, in order: its sums are
the state digest as of the applied offset that is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from coordinator.core.cold import APPEND_TIME_BIT, PACKED, FileRow, Header, Rows, RunRow, Tombstone
from coordinator.core.row_hashes import RowHashes
from coordinator.core.tables import REMEMBERED_BATCHES
from coordinator.core.tail import Generation
from records.state_digest import (
    EMPTY,
    PRODUCER_RING,
    Digest,
    hash_batches,
    hash_file,
    hash_partition,
    hash_producer,
    key_lanes,
    lanes_of,
    sum_of,
)

RUN_ROWS_MAX = 1000
"""Bounds what one lookup has to unpack. Two runs of 24 000 bytes fill three of the database's pages; 1024 batches would leave
a quarter of the space unused."""

INT32_MAX = (1 << 31) - 1
UINT32_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A user partition as it is stored. Batches before `trimmed_to` are taken out of their files' counts."""

    row: int
    key: bytes
    high_watermark: int
    log_start: int
    first_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    trimmed_to: int
    is_dead: bool = False


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A producer as it is stored; `ring` holds its remembered batches, oldest first."""

    row: int
    partition_row: int
    producer_id: int
    epoch: int
    last_append_ms: int
    ring: bytes


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
    partitions: list[PartitionRow]
    producers: list[ProducerRow]
    producers_dropped: list[tuple[int, int, int]]
    topics: list[TopicRow]
    topics_forgotten: list[bytes]
    directory: str | None
    results_before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """What one transaction of the state database writes."""

    header: Header
    files: list[FileRow]
    runs: list[RunRow]
    partitions: list[tuple[PartitionRow, bytes]]
    partitions_purged: list[int]
    producers: list[ProducerRow]
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
    batches_of: dict[int, Digest] = field(default_factory=dict)
    partition_hash: dict[int, Digest] = field(default_factory=dict)
    producer_hashes: RowHashes = field(default_factory=RowHashes)
    key_of: dict[int, bytes] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)

    def restore(self, partitions: list[tuple[PartitionRow, bytes]], producers: list[ProducerRow], total: Digest) -> None:
        """Start from what is stored; `total` comes with the header."""
        self.total = total
        for row, batches in partitions:
            self.key_of[row.row] = row.key
            if row.is_dead:
                self.dead.add(row.row)
            else:
                self.batches_of[row.row] = Digest.from_bytes(batches)
                self.partition_hash[row.row] = _partition_hash(row)
        self._hash_producers(producers)

    def pack(self, freeze: Freeze) -> Flush:
        """The rows of a frozen generation, its header completed by the digest."""
        generation = freeze.generation
        self.total = self.total.plus(self.producer_hashes.forget({row for row, _, _ in freeze.producers_dropped}))
        for row in freeze.partitions:
            self.key_of[row.row] = row.key
        runs = self._pack_runs(generation)
        for partition_row, gone in generation.trimmed_rows:
            self._add_batches(partition_row, *_batches_digests([self.key_of[partition_row]], gone, np.zeros(1, np.int64)), sign=-1)
        stored: list[tuple[PartitionRow, bytes]] = []
        for row in freeze.partitions:
            self._replace_partition(row)
            stored.append((row, self.batches_of.get(row.row, EMPTY).to_bytes()))
        self.total = self.total.plus(self._hash_producers(freeze.producers))
        files = [file.file_row() for block in generation.blocks for file in block.files]
        self.total = self.total.plus(_sum_of_files(files)).minus(_sum_of_files(generation.files_removed.values()))
        self.dead.difference_update(generation.purged)
        return Flush(
            header=replace(freeze.header, digest=self.total.to_bytes()),
            files=files,
            runs=runs,
            partitions=stored,
            partitions_purged=list(generation.purged),
            producers=freeze.producers,
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

    def _pack_runs(self, generation: Generation) -> list[RunRow]:
        """All partitions at once: a generation may hold one batch of each in every file, which numpy is slow at one by one."""
        if not generation.blocks:
            return []
        rows = np.concatenate([block.rows() for block in generation.blocks])
        if not len(rows):
            return []
        owners = np.concatenate([block.owners() for block in generation.blocks])
        # Stable: blocks are in log order, so that every partition's batches stay in offset order.
        order = np.argsort(owners, kind="stable")
        rows, owners = rows[order], owners[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        partition_rows = owners[starts].tolist()
        digests = _batches_digests([self.key_of[row] for row in partition_rows], rows, starts)
        for partition_row, digest in zip(partition_rows, digests, strict=True):
            self._add_batches(partition_row, digest, sign=1)
        return _pack_pieces(rows, owners, _cut(rows, [*starts.tolist(), len(rows)]))

    def _add_batches(self, partition_row: int, digest: Digest, *, sign: int) -> None:
        """The batches of a dead partition were taken away with it, all at once."""
        if partition_row in self.dead:
            return
        known = self.batches_of.get(partition_row, EMPTY)
        self.batches_of[partition_row] = known.plus(digest) if sign > 0 else known.minus(digest)
        self.total = self.total.plus(digest) if sign > 0 else self.total.minus(digest)

    def _replace_partition(self, row: PartitionRow) -> None:
        self.total = self.total.minus(self.partition_hash.pop(row.row, EMPTY))
        if row.is_dead:
            self.total = self.total.minus(self.batches_of.pop(row.row, EMPTY))
            self.dead.add(row.row)
            return
        self.partition_hash[row.row] = _partition_hash(row)
        self.batches_of.setdefault(row.row, EMPTY)
        self.total = self.total.plus(self.partition_hash[row.row])

    def _hash_producers(self, producers: Sequence[ProducerRow]) -> Digest:
        """Take the producers as they are now; returns how the sum changes."""
        key_of = self.key_of
        hashes = [hash_producer(key_of[one.partition_row], one.producer_id, one.epoch, one.last_append_ms, one.ring) for one in producers]
        return self.producer_hashes.replace([one.row for one in producers], hashes)


def _cut(rows: Rows, bounds: list[int]) -> list[int]:
    """Starts of runs within partitions' bounds, so that each fits the packed form's 32-bit distances and the size of a run."""
    starts = [at for start, stop in pairwise(bounds) for at in range(start, stop, RUN_ROWS_MAX)]
    unfit = np.zeros(len(starts), bool)
    for name, distance_max in (("timestamp", INT32_MAX), ("file", UINT32_MAX)):
        distance = np.maximum.reduceat(rows[name], starts) - np.minimum.reduceat(rows[name], starts)
        # Clients choose timestamps, so a distance may pass 2^63: the wrapped difference is right when read as unsigned.
        unfit |= distance.view(np.uint64) > distance_max
    if not unfit.any():
        return starts
    pieces = zip(pairwise([*starts, len(rows)]), unfit.tolist(), strict=True)
    return [at for (start, stop), is_unfit in pieces for at in (range(start, stop) if is_unfit else (start,))]


def _pack_pieces(rows: Rows, owners: npt.NDArray[np.int64], starts: list[int]) -> list[RunRow]:
    """The runs that begin at `starts`, each to be of one partition and to fit the packed form."""
    lengths = np.diff(starts, append=len(rows))
    file_base = np.minimum.reduceat(rows["file"], starts)
    timestamp_base = np.minimum.reduceat(rows["timestamp"], starts)
    packed = np.empty(len(rows), PACKED)
    packed["count"] = (rows["count"] - 1) | np.where(rows["type"] == 1, APPEND_TIME_BIT, 0)
    packed["byte_offset"] = rows["byte_offset"]
    packed["size"] = rows["size"]
    packed["file"] = rows["file"] - np.repeat(file_base, lengths)
    packed["timestamp"] = rows["timestamp"] - np.repeat(timestamp_base, lengths)
    packed["index"] = rows["index"]
    stops = [*starts[1:], len(rows)]
    last = (rows["base"] + rows["count"] - 1)[[stop - 1 for stop in stops]]
    max_timestamp = np.maximum.reduceat(effective_timestamps(rows), starts)
    columns = (owners[starts], rows["base"][starts], last, max_timestamp, file_base, timestamp_base)
    raw, size = packed.tobytes(), PACKED.itemsize
    data = [raw[start * size : stop * size] for start, stop in zip(starts, stops, strict=True)]
    return list(map(RunRow, *(column.tolist() for column in columns), data))


def effective_timestamps(rows: Rows) -> npt.NDArray[np.int64]:
    """Append time for LogAppendTime batches, else the batch's largest timestamp."""
    effective: npt.NDArray[np.int64] = np.where(rows["type"] == 1, rows["append_time"], rows["timestamp"])
    return effective


def _batches_digests(keys: list[bytes], rows: Rows, starts: npt.NDArray[np.int64]) -> list[Digest]:
    """The digest of each partition's batches; those of `keys[i]` begin at `starts[i]`."""
    lengths = np.diff(starts, append=len(rows))
    lane_low, lane_high = (np.repeat(np.array(lane, np.int64), lengths) for lane in zip(*map(key_lanes, keys), strict=True))
    low, high = hash_batches(lane_low, lane_high, rows)
    sums = zip(np.add.reduceat(low, starts).tolist(), np.add.reduceat(high, starts).tolist(), strict=True)
    return [Digest(*lanes) for lanes in sums]


def _partition_hash(row: PartitionRow) -> Digest:
    return hash_partition(row.key, row.high_watermark, row.log_start, row.first_offset)


def _sum_of_files(files: Iterable[FileRow]) -> Digest:
    """The sum of the hashes of files as they were committed."""
    return sum_of(
        lanes_of(
            [hash_file(one.object_key, one.content_hash, one.file_id, one.file_size, one.append_time_ms, one.batch_count) for one in files]
        )
    )


def unpack_ring(ring: bytes) -> list[tuple[int, int, int, int]]:
    """(first sequence, last sequence, base offset, append time) of remembered batches, oldest first."""
    rows: list[tuple[int, int, int, int]] = np.frombuffer(
        ring, PRODUCER_RING, count=min(len(ring) // PRODUCER_RING.itemsize, REMEMBERED_BATCHES)
    ).tolist()
    return rows
