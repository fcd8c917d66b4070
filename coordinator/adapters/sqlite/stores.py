"""The state databases of one data directory, one file per metadata partition."""

from __future__ import annotations

import logging
from pathlib import Path

from coordinator.adapters.sqlite.database import StateDatabase
from coordinator.adapters.sqlite.errors import directory_failed, disk_full
from coordinator.adapters.sqlite.evidence import ROOM_BYTES, Evidence
from coordinator.config.disk import megabytes, room_of
from coordinator.core.state.damage import DiskFull

LOG = logging.getLogger(__name__)


EVIDENCE_PERCENT = 10
OPEN_BYTES_MIN = 1 << 20


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

    def _check_room(self, path: Path) -> None:
        """A database is not opened where it could not be written: its replica would claim, fail, and claim again."""
        try:
            if room_of(self.directory).free_bytes < OPEN_BYTES_MIN:
                self.evidence.make_room(ROOM_BYTES)
            free_bytes = room_of(self.directory).free_bytes
        except OSError as error:
            raise directory_failed(path, "opened", error) from error
        if free_bytes < OPEN_BYTES_MIN:
            raise disk_full(path, f"{megabytes(OPEN_BYTES_MIN)} have to be free")

    def _make_room(self) -> bool:
        """Remove evidence from a full disk, the oldest first; returns whether that was of any use. Raises `DirectoryFailed`."""
        try:
            return self.evidence.make_room(ROOM_BYTES)
        except OSError as error:
            raise directory_failed(self.directory, "cleared", error) from error
