"""Finds the snapshot that a job begins with where the log's beginning is deleted: a good one of the object store.

A snapshot counts when it is whole, of this very log, and its rows have the digest that its head names. Any other is refused by name,
and the next one is tried. A restored log names the snapshot of another log that it goes on from: no other one will do.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from records.model import Restored
from records.snapshot import BadSnapshot, SnapshotReader, check_identity
from spark_jobs.log_begin import LogPrunedError, Start
from spark_jobs.verify.from_snapshot import prove

LOG = logging.getLogger("start")


class SnapshotStoreError(Exception):
    """The object store does not give what was asked for; the text says what and why."""


class StoredCopy(NamedTuple):
    """A snapshot in the object store."""

    end_offset: int
    epoch: int
    location: str


class LogIdentity(NamedTuple):
    """The Kafka cluster and the metadata topic that a snapshot must be of; the id as 16 bytes."""

    cluster_id: str
    topic_id: bytes


class SnapshotSource(Protocol):
    """The snapshots in the object store."""

    def list(self, identity: LogIdentity, kpart: int) -> Sequence[StoredCopy]:
        """Return the snapshots of a metadata partition, in any order. Raises `SnapshotStoreError`."""

    def fetch(self, location: str, target: Path) -> None:
        """Write one into a file. Raises `SnapshotStoreError`."""


class SnapshotStarts:
    """`Starts` from snapshots; good ones are kept in a folder, which must live as long as the job."""

    def __init__(
        self,
        source: SnapshotSource,
        identity: LogIdentity,
        folder: Path,
        *,
        newest_first: bool,
        restored: Mapping[int, Restored] | None = None,
    ) -> None:
        """Which of several good ones is taken: the newest leaves least to read, the oldest leaves out least of the log.

        `restored` are the first entries of logs that go on from a snapshot of another one.
        """
        self._source = source
        self._identity = identity
        self._folder = folder
        self._newest_first = newest_first
        self._restored = restored or {}
        self._good: dict[str, Path] = {}
        self._bad: dict[str, str] = {}

    def begin(self, kpart: int, log_start: int, end: int) -> Start:
        """See `Starts`."""
        if log_start == 0:
            return self._begin_whole(kpart)
        refused: list[str] = []
        try:
            found = sorted(self._source.list(self._identity, kpart), reverse=self._newest_first)
        except SnapshotStoreError as error:
            found = []
            refused.append(str(error))
        for copy in found:
            if log_start <= copy.end_offset <= end:
                path = self._take(kpart, copy.location, partial(self._check, kpart, copy))
                if path is not None:
                    return Start(copy.end_offset, path)
                refused.append(self._bad[copy.location])
        reasons = "; ".join(refused) or "the object store has none"
        raise LogPrunedError(
            f"the log of metadata partition {kpart} begins at offset {log_start}, entries before were deleted, and no snapshot that ends "
            f"between {log_start} and {end} can take their place: {reasons}"
        )

    def _begin_whole(self, kpart: int) -> Start:
        """Begin a log at its first entry. Raises `LogPrunedError` when that names a snapshot that is not to be had."""
        restored = self._restored.get(kpart)
        if restored is None or not restored.location:
            return Start()
        path = self._take(kpart, restored.location, partial(_check_restored, restored))
        if path is None:
            reason = self._bad[restored.location]
            raise LogPrunedError(f"the log of metadata partition {kpart} goes on from a snapshot of another log: {reason}")
        return Start(0, path, restored)

    def _take(self, kpart: int, location: str, check: Callable[[Path], None]) -> Path | None:
        """Bring a snapshot here and prove it; None if it is bad."""
        if location in self._bad:
            return None
        if location not in self._good:
            # Objects of a store never change, so files of one name are the same wherever Spark has brought them.
            path = self._folder / f"{kpart}-{PurePosixPath(location).name}"
            try:
                self._source.fetch(location, path)
                check(path)
                prove(path)
            except (BadSnapshot, SnapshotStoreError, OSError) as error:
                reason = str(error).replace(str(path), location)
                self._bad[location] = reason if location in reason else f"{location}: {reason}"
                LOG.error("snapshot refused: %s", self._bad[location])
                path.unlink(missing_ok=True)
                return None
            self._good[location] = path
            LOG.info("metadata partition %d is read from its snapshot %s on", kpart, location)
        return self._good[location]

    def _check(self, kpart: int, copy: StoredCopy, path: Path) -> None:
        with SnapshotReader(path) as reader:
            head = reader.head
        check_identity(head, *self._identity, kpart)
        if (head.end_offset, head.epoch) != (copy.end_offset, copy.epoch):
            raise BadSnapshot(f"snapshot {path}: it ends at offset {head.end_offset} in epoch {head.epoch}, its name says otherwise")


def _check_restored(restored: Restored, path: Path) -> None:
    """Raise `BadSnapshot` unless a file is the snapshot that a restored log begins with."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").digest()
    if (path.stat().st_size, sha256) != (restored.size_bytes, restored.sha256):
        raise BadSnapshot(f"snapshot {path}: it has SHA-256 {sha256.hex()}, the log says {restored.sha256.hex()}")
    with SnapshotReader(path) as reader:
        head = reader.head
    check_identity(head, restored.old_cluster_id, restored.old_topic_id, restored.metadata_partition)
    if (head.end_offset, head.digest) != (restored.old_end_offset, restored.digest):
        raise BadSnapshot(f"snapshot {path}: it ends at offset {head.end_offset} with digest {head.digest.hex()}, the log says otherwise")
