"""The hash that each row of a state database carries of itself, so that rows that are read later are checked then.

A hash covers the row's own number: a row of another place, of another file or of the same place in another page is not taken for
it. Partitions have theirs from `core.state.packing`, files that of the state digest. Why not SQLite's checksum VFS: it does not check the
pages that are read from the write-ahead log, nor whether a page is where it belongs, and not every build of the library has it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from coordinator.adapters.sqlite.errors import DamagedRow
from coordinator.core.state.packing import HASHED_COLUMNS
from coordinator.core.tables.stored_rows import PACKED, FileName, FileRow, RunRow, Tombstone
from records.row_hashes import bytes_of, hash_rows
from records.state_digest import hash_file, hash_record, hash_tombstone

PROOF_BYTES = 8

_RUN = struct.Struct(">7q")


def header_proof(columns: tuple[Any, ...]) -> bytes:
    """The hash of all other columns of the header, whatever their types."""
    return blake2b(repr(columns).encode(errors="replace"), digest_size=16).digest()


def run_proof(run_id: int, run: RunRow) -> bytes:
    """The hash of a run, its number included."""
    return blake2b(_RUN.pack(run_id, *run[:-1]) + run.data, digest_size=PROOF_BYTES).digest()


def run_proofs(runs: Mapping[int, RunRow]) -> list[bytes]:
    """The hash of each run, by `run_proof`'s rule; without the interpreter lock, which `hashlib` lets go of for every single run."""
    heads = [_RUN.pack(run_id, *run[:-1]) for run_id, run in runs.items()]
    return bytes_of(hash_rows([heads, [run.data for run in runs.values()]], PROOF_BYTES))


def run_of(run_id: int, columns: tuple[Any, ...]) -> RunRow:
    """A run as it was read, its proof last. Raises `DamagedRow` when it is not the one that was written."""
    run = RunRow._make(columns[:-1])
    data = run.data
    is_run = type(data) is bytes and data and not len(data) % PACKED.itemsize and set(map(type, columns[:-2])) <= {int}
    if not is_run or run_proof(run_id, run) != columns[-1]:
        raise DamagedRow(f"run {run_id} of partition {run.partition_row} is no run that was written: {columns!r:.200}")
    return run


def file_of(columns: tuple[Any, ...]) -> FileRow:
    """A file as it was read, then how many batches it lost, the proof of its record and its own. Raises `DamagedRow`."""
    *row, lost, of_record, proof = columns
    file = FileRow._make(row)
    check_file(columns, proof)
    if lost < 0 or file.live_batches < 0 or file.live_batches + lost != file.batch_count:
        raise DamagedRow(f"file {file.file_id} of {file.batch_count} batches counts {file.live_batches} live ones and {lost} lost ones")
    if (file.emptied_ms < 0) != (file.live_batches > 0):
        raise DamagedRow(f"file {file.file_id} with {file.live_batches} live batches says that it is empty since {file.emptied_ms}")
    if file.record and hash_record(file.record) != of_record:
        raise DamagedRow(f"the kept results of file {file.file_id} are not those that were written")
    return file


def check_file(columns: tuple[Any, ...], proof: Any) -> None:
    """Raises `DamagedRow` unless the columns of a file begin with those that its proof is of."""
    try:
        found = hash_file(*columns[:HASHED_COLUMNS])
    except (struct.error, TypeError, AttributeError) as error:
        raise DamagedRow(f"file {columns[0]} has a column of another type than was written: {error}") from error
    if found != proof:
        raise DamagedRow(f"file {columns[0]} is no file that was written: {columns!r:.200}")


def name_of(columns: tuple[Any, ...]) -> FileName:
    """The name of a file, from the columns its proof is of and the proof. Raises `DamagedRow`."""
    check_file(columns, columns[-1])
    return FileName(columns[1], columns[8])


def tombstone_of(columns: tuple[Any, ...]) -> Tombstone:
    """A tombstone as it was read, its proof last. Raises `DamagedRow`."""
    stone = Tombstone._make(columns[:-1])
    try:
        found = hash_tombstone(*stone)
    except (TypeError, AttributeError) as error:
        raise DamagedRow(f"a tombstone has a column of another type than was written: {error}") from error
    if found != columns[-1]:
        raise DamagedRow(f"the tombstone of {stone.object_key!r:.100} is none that was written")
    return stone
