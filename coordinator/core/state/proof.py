"""Whether the rows of a state database are those that were written: proven before the state is used.

Every row is read once. The hashes of all rows add up to the digest in the header; each partition has a hash of all its columns,
those included that are no part of the digest; each run says where it ends; and each live batch is counted in its file. Data that
is damaged, missing, of another moment or of another file breaks one of these. Nothing is looked up by what a row says, and no
text is interpreted, before the row is known to be the one that was written, so a damaged row raises `Unproven` and nothing else.

The sums that come out of it are those the replica goes on with: the proof costs reading the cold rows, not a second calculation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coordinator.core.state.frozen import PartitionRow, ProducerRow
from coordinator.core.state.lookups import OFFSET_END
from coordinator.core.state.packing import Packer, TopicRow, hash_stored_file, partition_proofs
from coordinator.core.state.packing_loops import add_run
from coordinator.core.state.replica_state import Stored
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.tables.stored_rows import PACKED, Columns, FileRow, FileTotals, Header, RunRow, Tombstone
from coordinator.kafka.names import topic_id_text
from records.state_digest import PRODUCER_RING, U64, Digest, Int64s, hash_bytes, key_lanes


class Unproven(Exception):
    """A row is not the one that was written, or rows are missing or too many; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """The whole content of a state database. Partitions stand with their proofs, the directory with that of its text."""

    header: Header
    partitions: list[tuple[PartitionRow, int]]
    producers: list[ProducerRow]
    topics: list[TopicRow]
    directory: tuple[str, bytes] | None
    runs: Iterable[RunRow]
    files: Iterable[FileRow]
    tombstones: list[Tombstone]


class _Files(NamedTuple):
    """Files in order: their ids, counters of live batches, hashes of their keys, hashes for the digest, and how many they are."""

    ids: Int64s
    live: Int64s
    keys: set[int]
    hashes: list[bytes]
    totals: FileTotals


def prove(rows: StoredRows) -> Stored:
    """The stored state, when it is the one that was written. Raises `Unproven`."""
    packer = Packer()
    partitions = _partitions(rows.partitions)
    _prove_directory(rows.directory)
    owners = {row.row for row in partitions}
    for producer in rows.producers:
        if producer.partition_row not in owners or len(producer.ring) % PRODUCER_RING.itemsize:
            raise Unproven(f"producer {producer.producer_id} of row {producer.row} was never written so")
    files = _files(rows.files)
    sums = _batch_sums(partitions, rows.runs, files)
    keys = files.keys
    ages: TombstoneAges[int] = TombstoneAges()
    for stone in rows.tombstones:
        hashed = hash(stone.object_key)
        ages.add(stone.created_ms, hashed)
        keys.add(hashed)
    directory = None if rows.directory is None else rows.directory[0]
    packer.restore(
        partitions=partitions,
        batch_sums=sums,
        producers=Columns.of(ProducerRow, rows.producers),
        files=files.hashes,
        topics=rows.topics,
        tombstones=Columns.of(Tombstone, rows.tombstones),
        directory=None if directory is None else json.loads(directory),
    )
    if packer.digest_at(rows.header) != Digest.from_bytes(rows.header.digest):
        raise Unproven(f"its rows are not those that its header stands for at offset {rows.header.applied_offset}")
    return Stored(
        header=rows.header,
        partitions=partitions,
        producers=rows.producers,
        topics=rows.topics,
        directory=directory,
        keys=keys,
        tombstone_ages=ages,
        file_totals=files.totals,
        packer=packer,
    )


def _partitions(stored: list[tuple[PartitionRow, int]]) -> list[PartitionRow]:
    partitions = [row for row, _ in stored]
    right = np.array([proof for _, proof in stored], np.int64) == np.array(partition_proofs(partitions), np.int64)
    if not right.all():
        wrong = partitions[int(right.argmin())]
        raise Unproven(f"the row of partition {int.from_bytes(wrong.key[16:])} of topic {topic_id_text(wrong.key[:16])} was changed")
    return partitions


def _prove_directory(stored: tuple[str, bytes] | None) -> None:
    if stored is not None and directory_proof(stored[0]) != stored[1]:
        raise Unproven("the text of the directory was changed")


def directory_proof(text: str) -> bytes:
    """The hash that is stored with the directory's text."""
    return hash_bytes(b"directory text", text.encode()).to_bytes()


def _files(stored: Iterable[FileRow]) -> _Files:
    ids: list[int] = []
    live: list[int] = []
    keys: set[int] = set()
    hashes: list[bytes] = []
    sizes: list[int] = []
    for file in stored:
        ids.append(file.file_id)
        live.append(file.live_batches)
        sizes.append(file.file_size)
        keys.add(hash(file.object_key))
        hashes.append(hash_stored_file(file))
    empty_sizes = [size for size, batches in zip(sizes, live, strict=True) if not batches]
    empty, bytes_empty = len(empty_sizes), sum(empty_sizes)
    totals = FileTotals(live=len(ids) - empty, empty=empty, bytes_live=sum(sizes) - bytes_empty, bytes_empty=bytes_empty)
    return _Files(np.array(ids, np.int64), np.array(live, np.int64), keys, hashes, totals)


def _batch_sums(partitions: list[PartitionRow], runs: Iterable[RunRow], files: _Files) -> U64:
    """The sums of the batches by partition row. Each batch is counted in its file; only deleted ones may have lost theirs."""
    sums = np.zeros((max((row.row for row in partitions), default=-1) + 1, 2), np.uint64)
    counts = np.zeros(len(files.ids), np.int64)
    owners = {row.row: row for row in partitions}
    lanes: dict[int, tuple[int, int]] = {}
    sums_view, ids_view, counts_view = sums.data, files.ids.data, counts.data
    for run in runs:
        row = run.partition_row
        owner = owners.get(row)
        if owner is None or not run.data or len(run.data) % PACKED.itemsize:
            raise Unproven(f"the run at {run.base} of partition row {row} was never written so")
        of_key = lanes.get(row)
        if of_key is None:
            of_key = lanes[row] = key_lanes(owner.key)
        live_from = OFFSET_END if owner.is_dead else owner.log_start
        cells = memoryview(run.data).cast("I")
        end = add_run(
            cells, run.base, run.file_base, run.timestamp_base, owner.trimmed_to, live_from, *of_key, sums_view, row, ids_view, counts_view
        )
        if end != run.last + 1:
            raise Unproven(f"the run from {run.base} to {run.last} of partition row {row} holds other batches, or one of an unknown file")
    if not np.array_equal(counts, files.live):
        wrong = int((counts != files.live).argmax())
        raise Unproven(f"file {files.ids[wrong]} counts {files.live[wrong]} live batches, but {counts[wrong]} are there")
    return sums
