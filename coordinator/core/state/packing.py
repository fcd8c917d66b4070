"""From applied entries to rows of the state database, and the digest that goes with them.

Runs in the writer's thread on values that do not change any more, so that sorting and hashing cost the event loop
nothing. A `Packer` belongs to one replica and must see every frozen generation exactly once, in order: its sums are
the state digest as of the applied offset that is written in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, starmap

import numpy as np

from coordinator.core.directory.content import Content, items_of
from coordinator.core.state.frozen import FrozenPartitions, FrozenProducers, PartitionRow, ProducerRow
from coordinator.core.state.packing_loops import hash_lines
from coordinator.core.state.run_packing import pack_runs
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.state.unwritten import Generation
from coordinator.core.tables.cells import REMEMBERED_BATCHES
from coordinator.core.tables.row_sums import RowSums
from coordinator.core.tables.stored_rows import Columns, FileRow, Header, RowT, RunRow, Tombstone
from coordinator.core.yielding import Rest, no_rest
from records.row_hashes import DIGEST_BYTES, Hashes, bytes_of, hash_files, hash_producers, hash_records, hash_tombstones, lanes_of_hashes
from records.state_digest import (
    EMPTY,
    PRODUCER_RING,
    U64,
    Digest,
    Int64s,
    hash_file,
    hash_item,
    hash_partition,
    hash_position,
    hash_topic,
    lanes_of,
    sum_of,
)

_ROWS_A_PIECE = 128
_FILES_A_PIECE = 8

_HASHED_A_PIECE = 512
"""The rows of a piece that is made ready for hashing with the interpreter lock, in some tenths of a millisecond."""

HASHED_COLUMNS = FileRow._fields.index("live_batches")
"""The number of a file's columns before those that change; `hash_file` takes them in this order."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic with partitions here, or (deleted) one that may not come back."""

    topic_id: bytes
    name: str
    order_offset: int
    deleted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A frozen generation and the hot rows that changed with it; results of commits before `results_before_ms` may go.

    `written_ms` is the clock's time of the write, -1 when that of the log has to do. Without commits the log's time stands still, and a
    file is not to count as empty since before the deletion that emptied it.
    """

    header: Header
    generation: Generation
    partitions: FrozenPartitions
    producers: FrozenProducers
    producers_dropped: list[int]
    topics: list[TopicRow]
    topics_forgotten: list[bytes]
    directory: Content | None
    results_before_ms: int
    written_ms: int = -1

    @property
    def emptied_ms(self) -> int:
        """Since when the files are empty whose last batch is counted out by this write."""
        return max(self.header.log_time_ms, self.written_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """The rows that one transaction of the state database writes: files and tombstones with their hashes, partitions with their proofs."""

    header: Header
    files: Columns[FileRow]
    file_hashes: list[bytes]
    """The proofs of files, those of their records in `record_hashes`."""
    record_hashes: list[bytes]
    runs: list[RunRow]
    partitions: list[tuple[PartitionRow, int]]
    partitions_purged: list[int]
    producers: Columns[ProducerRow]
    producers_dropped: list[int]
    topics: list[TopicRow]
    topics_forgotten: list[bytes]
    directory: str | None
    results_before_ms: int
    emptied_ms: int
    live_lost: Mapping[int, int]
    """The number of batches that files of earlier writes lose, by file id; not a copy, since the frozen generation may have very many."""
    trimmed: list[tuple[int, int]]
    tombstones: Columns[Tombstone]
    tombstone_hashes: list[bytes]
    tombstones_expired_before_ms: int
    files_removed: list[int]


@dataclass(slots=True)
class Packer:
    """Keeps the digest of one replica: its sum, and the parts that may have to be taken away again.

    `batch_sums` has dead partitions too until they are purged; they are not in the total.
    """

    total: Digest = EMPTY
    batch_sums: RowSums = field(default_factory=RowSums)
    partition_hashes: RowSums = field(default_factory=RowSums)
    producer_hashes: RowSums = field(default_factory=RowSums)
    key_of: dict[int, bytes] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    topic_hashes: dict[bytes, Digest] = field(default_factory=dict)
    tombstones: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    tombstone_ages: TombstoneAges[str] = field(default_factory=TombstoneAges)
    directory: dict[tuple[str, str], tuple[object, Digest]] = field(default_factory=dict)

    def restore(
        self,
        *,
        partitions: list[PartitionRow],
        batch_sums: U64,
        producers: Columns[ProducerRow],
        files: list[bytes],
        topics: list[TopicRow],
        tombstones: Columns[Tombstone],
        directory: Content | None,
    ) -> None:
        """Start from all that is stored: files as hashes, batches as their sums by partition row."""
        self.key_of.update((row.row, row.key) for row in partitions)
        self.dead.update(row.row for row in partitions if row.is_dead)
        live = [row for row in partitions if not row.is_dead]
        rows = np.array([row.row for row in live], np.int64)
        self.total = self.batch_sums.replace(rows, batch_sums[rows])
        self.total = self.total.plus(self._hash_partitions(live, no_rest))
        self.total = self.total.plus(self._hash_producers(producers, no_rest)).plus(sum_of(lanes_of(files)))
        self._take_topics(topics, [])
        self._take_tombstones(tombstones, 0, no_rest)
        if directory is not None:
            self._take_directory(directory, no_rest)

    def digest_at(self, header: Header) -> Digest:
        """The state digest, when the state stands where the header says."""
        return self.total.plus(hash_position(header.epoch, header.term, header.seq, header.log_time_ms))

    def pack(self, freeze: Freeze, rest: Rest = no_rest) -> Flush:
        """The rows of a frozen generation, its header completed by the digest.

        The event loop waits for the interpreter as long as a piece of this takes, so `rest` is called between the pieces.
        """
        generation = freeze.generation
        self.total = self.total.plus(self.producer_hashes.forget(set(freeze.producers_dropped)))
        self.key_of.update(zip(freeze.partitions.rows.tolist(), freeze.partitions.keys, strict=True))
        packed = pack_runs(generation.applied, self.key_of, rest)
        rest()
        self._add_batches(packed.partition_rows, packed.sums)
        if generation.trimmed_sums:
            trimmed = np.fromiter(generation.trimmed_sums, np.int64, len(generation.trimmed_sums))
            self._add_batches(trimmed, np.negative(np.concatenate(list(generation.trimmed_sums.values()))))
        stored = self._replace_partitions(freeze.partitions, rest)
        rest()
        producers = freeze.producers.stored()
        self.total = self.total.plus(self._hash_producers(producers, rest))
        files = _files_of(generation, freeze.emptied_ms, rest)
        file_hashes = _hashes_of_files(files, rest)
        self.total = self.total.plus(sum_of(lanes_of_hashes(file_hashes)))
        removed = iter(generation.files_removed.values())
        while some := list(islice(removed, _HASHED_A_PIECE)):
            gone = _hashes_of_files(Columns.of(FileRow, some), rest)
            self.total = self.total.minus(sum_of(lanes_of_hashes(gone)))
        self._take_topics(freeze.topics, freeze.topics_forgotten)
        tombstones = Columns.of(Tombstone, generation.tombstones.values())
        tombstone_hashes = self._take_tombstones(tombstones, generation.tombstones_expired_before_ms, rest)
        if freeze.directory is not None:
            self._take_directory(freeze.directory, rest)
        self.dead.difference_update(generation.purged)
        return Flush(
            header=replace(freeze.header, digest=self.digest_at(freeze.header).to_bytes()),
            files=files,
            file_hashes=bytes_of(file_hashes),
            record_hashes=_hashes_of_records(files["record"], rest),
            runs=packed.runs,
            partitions=stored,
            partitions_purged=sorted(generation.purged),
            producers=producers,
            producers_dropped=freeze.producers_dropped,
            topics=freeze.topics,
            topics_forgotten=freeze.topics_forgotten,
            directory=None if freeze.directory is None else json.dumps(freeze.directory),
            results_before_ms=freeze.results_before_ms,
            emptied_ms=freeze.emptied_ms,
            live_lost=generation.live_lost,
            trimmed=list(generation.trimmed.items()),
            tombstones=tombstones,
            tombstone_hashes=tombstone_hashes,
            tombstones_expired_before_ms=generation.tombstones_expired_before_ms,
            files_removed=[file.file_id for file in generation.files_removed.values()],
        )

    def _add_batches(self, rows: Int64s, sums: U64) -> None:
        """Add sums of batches, but for dead partitions, whose batches were taken away with them."""
        if self.dead:
            is_live = np.array([row not in self.dead for row in rows.tolist()], bool)
            rows, sums = rows[is_live], sums[is_live]
        self.total = self.total.plus(self.batch_sums.add(rows, sums))

    def _replace_partitions(self, frozen: FrozenPartitions, rest: Rest) -> list[tuple[PartitionRow, int]]:
        """Take the partitions as they are now; returns them with their proofs."""
        partitions = list(frozen.stored())
        self.total = self.total.plus(self._hash_partitions([row for row in partitions if not row.is_dead], rest))
        self.total = self.total.plus(self.partition_hashes.forget(frozen.dead)).plus(self.batch_sums.forget(frozen.dead))
        self.dead |= frozen.dead
        return list(zip(partitions, partition_proofs(partitions), strict=True))

    def _hash_partitions(self, partitions: list[PartitionRow], rest: Rest) -> Digest:
        hashes = _hashed(hash_partition, [row[1:7] for row in partitions], rest)
        return self.partition_hashes.replace(np.array([row.row for row in partitions], np.int64), lanes_of(hashes))

    def _hash_producers(self, producers: Columns[ProducerRow], rest: Rest) -> Digest:
        """Take the producers as they are now; returns how the sum changes."""
        pieces: list[U64] = [np.empty((0, 2), np.uint64)]
        for piece in _pieces(producers, rest):
            _, partition_rows, *numbers, rings = piece.lists
            keys = list(map(self.key_of.__getitem__, partition_rows))
            pieces.append(lanes_of_hashes(hash_producers(keys, np.array(numbers, np.int64).T, rings)))
        return self.producer_hashes.replace(np.array(producers["row"], np.int64), np.concatenate(pieces))

    def _take_topics(self, topics: Iterable[TopicRow], forgotten: Iterable[bytes]) -> None:
        for topic in topics:
            now = hash_topic(topic.topic_id, topic.name, topic.order_offset, topic.deleted_ms)
            self.total = self.total.plus(now).minus(self.topic_hashes.get(topic.topic_id, EMPTY))
            self.topic_hashes[topic.topic_id] = now
        for topic_id in forgotten:
            self.total = self.total.minus(self.topic_hashes.pop(topic_id, EMPTY))

    def _take_tombstones(self, stones: Columns[Tombstone], expired_before_ms: int, rest: Rest) -> list[bytes]:
        """Let expired tombstones go, which are of earlier flushes, and take others, perhaps in the place of earlier ones.

        Returns the hashes of those that are taken.
        """
        gone = self.tombstone_ages.take_before(expired_before_ms)
        for at in range(0, len(gone), _HASHED_A_PIECE):
            rest()
            self._lose_hashes([self.tombstones.pop(key)[1] for key in gone[at : at + _HASHED_A_PIECE]])
        taken: list[bytes] = []
        for piece in _pieces(stones, rest):
            hashes = hash_tombstones(*piece.lists)
            self.total = self.total.plus(sum_of(lanes_of_hashes(hashes)))
            taken += bytes_of(hashes)
            self._note_tombstones(piece["object_key"], piece["created_ms"], taken[-len(piece) :])
        return taken

    def _note_tombstones(self, object_keys: list[str], created_ms: list[int], hashes: list[bytes]) -> None:
        """Remember tombstones, and take those out of the sum in whose place they come."""
        replaced = []
        for key, time_ms, hashed in zip(object_keys, created_ms, hashes, strict=True):
            earlier = self.tombstones.get(key)
            if earlier is not None:
                self.tombstone_ages.discard(earlier[0], key)
                replaced.append(earlier[1])
            self.tombstones[key] = (time_ms, hashed)
            self.tombstone_ages.add(time_ms, key)
        self._lose_hashes(replaced)

    def _lose_hashes(self, hashes: list[bytes]) -> None:
        """Take rows out of the sum."""
        self.total = self.total.minus(sum_of(lanes_of(hashes)))

    def _take_directory(self, content: Content, rest: Rest) -> None:
        """Replace the directory's items; only those that changed are hashed."""
        before, self.directory = self.directory, {}
        for number, (what, identity, says) in enumerate(items_of(content)):
            if number % _ROWS_A_PIECE == 0:
                rest()
            known = before.pop((what, identity), None)
            if known is None or known[0] != says:
                item = hash_item(what, identity, says)
                self.total = self.total.plus(item).minus(EMPTY if known is None else known[1])
                known = (says, item)
            self.directory[what, identity] = known
        for _, gone in before.values():
            self.total = self.total.minus(gone)


def _files_of(generation: Generation, emptied_ms: int, rest: Rest) -> Columns[FileRow]:
    """The files of a generation as they are stored; those without live batches are empty since that time."""
    files = Columns.of(FileRow, [])
    for number, applied in enumerate(generation.applied):
        if number % _FILES_A_PIECE == 0:
            rest()
        files.extend(applied.file_rows(applied.first, applied.stop))
    if not all(files["live_batches"]):
        files["emptied_ms"][:] = [-1 if live else emptied_ms for live in files["live_batches"]]
    return files


def _pieces(rows: Columns[RowT], rest: Rest) -> Iterator[Columns[RowT]]:
    """Rows in pieces that are hashed at once, resting before each."""
    for at in range(0, len(rows), _HASHED_A_PIECE):
        rest()
        yield rows.part(at, at + _HASHED_A_PIECE)


def _hashes_of_files(files: Columns[FileRow], rest: Rest) -> Hashes:
    """The hashes of files as they were committed."""
    pieces = [hash_files(*piece.lists[:HASHED_COLUMNS]) for piece in _pieces(files, rest)]
    return np.concatenate([np.empty((0, DIGEST_BYTES), np.uint8), *pieces])


def _hashes_of_records(records: list[bytes], rest: Rest) -> list[bytes]:
    """The hashes of the entries that committed files."""
    hashes: list[bytes] = []
    for at in range(0, len(records), _HASHED_A_PIECE):
        rest()
        hashes += bytes_of(hash_records(records[at : at + _HASHED_A_PIECE]))
    return hashes


def hash_stored_file(file: FileRow) -> bytes:
    """The hash of a file as it was committed."""
    return hash_file(*file[:HASHED_COLUMNS])  # type: ignore[arg-type]  # columns of the same names


def partition_proofs(partitions: list[PartitionRow]) -> list[int]:
    """A hash of all columns of each partition as it is stored, those included that are no part of the digest."""
    lines = np.zeros((len(partitions), 13), np.int64)
    lines[:, :3] = np.frombuffer(b"".join([row.key.ljust(24, b"\0") for row in partitions]), "<i8").reshape(-1, 3)
    lines[:, 3:] = np.array([(row.row, *row[2:]) for row in partitions], np.int64).reshape(-1, 10)
    hashes = np.zeros(len(partitions), np.uint64)
    hash_lines(lines.data, hashes.data)
    proofs: list[int] = hashes.view(np.int64).tolist()
    return proofs


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
