"""Proves a snapshot file: every checksum, the footer, the rows by building a state database in a temporary folder, and the record
of the log that names it, where there is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from cli.outcome import Exit, Failed
from cli.progress import doing
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.state.damage import DirectoryFailed, StateFailed
from records.snapshot import BadSnapshot, SnapshotHead, SnapshotReader, check_identity

if TYPE_CHECKING:
    from cli.looks.snapshots import SnapshotFacts

T = TypeVar("T")

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSnapshot:
    """A snapshot file whose every row was proven."""

    head: SnapshotHead
    size_bytes: int
    sha256: bytes
    live_batches: int
    files: int


@doing("proving the snapshot")
def prove_file(path: Path, committed: SnapshotFacts | None) -> ProvenSnapshot:
    """Prove a snapshot file, and that it is the one that was committed. Raises `Failed`: it is bad, not there, or cannot be proven."""
    try:
        size_bytes, sha256 = _hash(path)
        if committed is not None:
            _compare("size", size_bytes, committed.snapshot.size_bytes, str)
            _compare("SHA-256", sha256, committed.snapshot.sha256, bytes.hex)
        with SnapshotReader(path) as reader, TemporaryDirectory(prefix="diskless-snapshot-") as folder:
            head = reader.head
            if committed is not None:
                check_identity(head, committed.cluster_id, committed.topic_id, committed.coordinator_id)
                _compare("end offset", head.end_offset, committed.snapshot.end_offset, str)
                _compare("epoch", head.epoch, committed.snapshot.epoch, str)
                _compare("digest", head.digest, committed.snapshot.digest, bytes.hex)
            stores = StateDatabases(Path(folder))
            stores.build(head.metadata_partition, head, reader.rows())
            live_batches, files = _count(stores.path(head.metadata_partition))
    except BadSnapshot as bad:
        raise Failed(f"{path} is no good snapshot: {bad}") from bad
    except FileNotFoundError as error:
        raise Failed(f"{path} does not exist; name a .checkpoint file", Exit.NOT_FOUND) from error
    except DirectoryFailed as error:
        raise Failed(f"{path} cannot be proven: {error}; a state database is built in the folder for temporary files (TMPDIR)") from error
    except StateFailed as error:
        raise Failed(f"{path} is no good snapshot: {error}") from error
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error}") from error
    return ProvenSnapshot(head=head, size_bytes=size_bytes, sha256=sha256, live_batches=live_batches, files=files)


def _compare(what: str, found: T, committed: T, text: Callable[[T], str]) -> None:
    """Raise `BadSnapshot` when the file is not what the log says of the snapshot."""
    if found != committed:
        raise BadSnapshot(f"its {what} is {text(found)}; the log says {text(committed)}")


def _hash(path: Path) -> tuple[int, bytes]:
    size_bytes, digest = 0, hashlib.sha256()
    for chunk in _chunks(path):
        size_bytes += len(chunk)
        digest.update(chunk)
    return size_bytes, digest.digest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _count(database: Path) -> tuple[int, int]:
    """Live batches and files of a state database."""
    from coordinator.adapters.sqlite.inspect import open_for_inspection

    connection = open_for_inspection(database)
    try:
        [(batches,)] = connection.execute("SELECT coalesce(sum(live_batches), 0) FROM file").fetchall()
        [(files,)] = connection.execute("SELECT count(*) FROM file").fetchall()
    finally:
        connection.close()
    assert isinstance(batches, int)
    assert isinstance(files, int)
    return batches, files
