"""The state databases of one data directory, one file per metadata partition."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from coordinator.adapters.sqlite.building import adopt_database, make_database, remove_database, replace_database
from coordinator.adapters.sqlite.database import StateDatabase, header_at
from coordinator.adapters.sqlite.errors import directory_failed, disk_full
from coordinator.adapters.sqlite.evidence import ROOM_BYTES, Evidence
from coordinator.adapters.sqlite.lock import LockFile, lock_of, read_boot_id
from coordinator.adapters.sqlite.snapshot_rows import check_partition
from coordinator.config.disk import megabytes, room_of
from coordinator.core.state.damage import DiskFull, StateCorrupt, StateLocked
from coordinator.core.state.replica_state import Stored
from coordinator.core.yielding import Rest, no_rest
from records.snapshot import SnapshotHead, TableRows

LOG = logging.getLogger(__name__)

T = TypeVar("T")

EVIDENCE_PERCENT = 10
OPEN_BYTES_MIN = 1 << 20
COPY = ".moving"
"""The end of the name of a database that is copied into this directory, until it is adopted."""
_NAME = re.compile(r"partition-(\d+)\.db")
_COPY = re.compile(r"(partition-\d+\.db\.moving)(?:-\w+)?")


class StateDatabases:
    """Opens state databases by metadata partition."""

    def __init__(self, directory: Path, *, boot_id: str | None = None, evidence_percent: int = EVIDENCE_PERCENT) -> None:
        self.directory = directory
        self.evidence = Evidence(directory, disk_percent=evidence_percent)
        self._boot_id = boot_id

    def path(self, partition: int) -> Path:
        """The file of a metadata partition."""
        return self.directory / f"partition-{partition}.db"

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> StateDatabase:
        """Open or create; one that belongs to another log is discarded and begun anew.

        Raises `StateCorrupt` when it has to be set aside first, `StateLocked`, `DirectoryFailed`.
        """
        database = StateDatabase(
            self.path(partition), cluster_id=cluster_id, topic_id=topic_id, metadata_partition=partition, boot_id=self._boot_id,
            make_room=self._make_room,
        )  # fmt: skip
        self._remove_unproven(partition)
        self._check_room(database.path)
        try:
            reason = database.open()
        except DiskFull:
            if not self._make_room():
                raise
            reason = database.open()
        if reason is not None:
            LOG.warning("state database discarded partition=%d path=%s reason=%r", partition, database.path, reason)
        return database

    def build(self, partition: int, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        """Make the database of a metadata partition from a snapshot, in the place of an earlier one, which must not be open.

        Returns the state in it, proven: a database that is opened now holds that, and need not be loaded. Raises `BadSnapshot`,
        `StateLocked`, `StateCorrupt`, `DirectoryFailed`; then the earlier one is still there, or none.
        """
        check_partition(head, partition)
        path = self.path(partition)
        self._check_room(path)
        return self._locked(path, lambda lock: replace_database(path, lock, head, rows, rest))

    def prove(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a database from a snapshot, read it to the end, and delete it again. Raises as `build`."""
        path = self._proving_path(head.metadata_partition)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise directory_failed(path.parent, "made", error) from error
        self._check_room(path)

        def prove(_lock: LockFile) -> None:
            make_database(path, head, rows, rest)
            remove_database(path)

        self._locked(path, prove)

    def snapshot_folder(self, partition: int) -> Path:
        """The folder of the snapshots of a metadata partition."""
        return self.directory / "snapshots" / f"partition-{partition}"

    def partitions(self) -> frozenset[int]:
        """The metadata partitions that have a database here; unfinished copies are removed. Raises `DirectoryFailed`."""
        try:
            names = [path.name for path in self.directory.iterdir()]
        except OSError as error:
            raise directory_failed(self.directory, "read", error) from error
        for unfinished in {found[1] for name in names if (found := _COPY.fullmatch(name)) is not None}:
            remove_database(self.directory / unfinished)
        return frozenset(int(found[1]) for name in names if (found := _NAME.fullmatch(name)) is not None)

    def applied_offset(self, partition: int, cluster_id: str, topic_id: bytes) -> int:
        """The applied offset of a closed database of a log; -1 for one that is empty, not to be trusted, or of another log.

        Raises `StateLocked`, `DirectoryFailed`.
        """
        path = self.path(partition)

        def look(lock: LockFile) -> int:
            try:
                if not path.exists() or lock.distrust(read_boot_id() if self._boot_id is None else self._boot_id) is not None:
                    return -1
                header = header_at(path)
            except StateCorrupt as damaged:
                LOG.warning("state database cannot be used path=%s reason=%r", path, str(damaged))
                return -1
            if header is None or (header.cluster_id, header.topic_id, header.metadata_partition) != (cluster_id, topic_id, partition):
                return -1
            return header.applied_offset

        return self._locked(path, look)

    def remove(self, partition: int) -> None:
        """Remove the closed database of a metadata partition, if there is one. Raises `StateLocked`, `DirectoryFailed`."""
        path = self.path(partition)
        self._locked(path, lambda _lock: remove_database(path))

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a database beside the one of its partition; `adopt_copy` gives it that place. Raises as `build`."""
        path = self.path(head.metadata_partition)
        self._check_room(path)
        self._locked(path, lambda _lock: make_database(_copy_of(path), head, rows, rest))

    def adopt_copy(self, partition: int) -> None:
        """Put the copy in the place of the partition's database, which must not be open. Raises `StateLocked`, `DirectoryFailed`."""
        path = self.path(partition)
        self._locked(path, lambda lock: adopt_database(_copy_of(path), path, lock))

    def remove_copy(self, partition: int) -> None:
        """Remove a copy that was not adopted. Raises `DirectoryFailed`."""
        remove_database(_copy_of(self.path(partition)))

    def make_room(self, wanted_bytes: int) -> None:
        """Have so much room, or at least what a database needs to be opened, if evidence can make it. Raises `DirectoryFailed`."""
        self._check_room(self.directory / "probe", max(wanted_bytes, OPEN_BYTES_MIN))

    def set_aside(self, partition: int) -> str | None:
        """Keep a closed database as evidence under another name; returns the name, or None when there is none or no room for it.

        Raises `DirectoryFailed`.
        """
        path = self.path(partition)
        if not path.exists():
            return None
        try:
            return self.evidence.set_aside(path)
        except OSError as error:
            raise directory_failed(path, "set aside", error) from error

    def _proving_path(self, partition: int) -> Path:
        """The place in which a snapshot is proven; tools do not look for databases under its name."""
        return self.directory / "proving" / f"snapshot-{partition}.db"

    def _locked(self, path: Path, make: Callable[[LockFile], T]) -> T:
        lock = lock_of(path)
        lock.acquire()
        try:
            return make(lock)
        except DiskFull:
            # The rows are used up: the caller may try again with new ones, and has more room then.
            self._make_room()
            raise
        finally:
            lock.release()

    def _remove_unproven(self, partition: int) -> None:
        """Remove the database in which a snapshot was being proven when the process ended."""
        path = self._proving_path(partition)
        if path.exists():
            try:
                self._locked(path, lambda _lock: remove_database(path))
            except StateLocked:
                LOG.debug("a snapshot is being proven partition=%d", partition)

    def _check_room(self, path: Path, wanted_bytes: int = OPEN_BYTES_MIN) -> None:
        """A database is not opened where it could not be written: its replica would claim, fail, and claim again."""
        try:
            if room_of(self.directory).free_bytes < wanted_bytes:
                self.evidence.make_room(max(ROOM_BYTES, wanted_bytes))
            free_bytes = room_of(self.directory).free_bytes
        except OSError as error:
            raise directory_failed(path, "opened", error) from error
        if free_bytes < wanted_bytes:
            raise disk_full(path, f"{megabytes(wanted_bytes)} have to be free")

    def _make_room(self) -> bool:
        """Remove evidence from a full disk, the oldest first; returns whether that was of any use. Raises `DirectoryFailed`."""
        try:
            return self.evidence.make_room(ROOM_BYTES)
        except OSError as error:
            raise directory_failed(self.directory, "cleared", error) from error


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + COPY)
