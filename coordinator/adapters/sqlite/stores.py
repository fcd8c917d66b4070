"""The state databases of one data directory, one file per metadata partition."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from coordinator.adapters.sqlite.database import SUFFIXES, StateDatabase
from coordinator.adapters.sqlite.errors import DirectoryFailed

LOG = logging.getLogger(__name__)


class StateDatabases:
    """Opens state databases by metadata partition."""

    def __init__(self, directory: Path, *, boot_id: str | None = None) -> None:
        self.directory = directory
        self._boot_id = boot_id

    def path(self, partition: int) -> Path:
        """The file of a metadata partition."""
        return self.directory / f"partition-{partition}.db"

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> StateDatabase:
        """Open or create; one that belongs to another log or cannot be read is discarded and begun anew.

        Raises `StateLocked`, `DirectoryFailed`.
        """
        database = StateDatabase(
            self.path(partition), cluster_id=cluster_id, topic_id=topic_id, metadata_partition=partition, boot_id=self._boot_id
        )
        reason = database.open()
        if reason is not None:
            LOG.warning("state database discarded partition=%d path=%s reason=%r", partition, database.path, reason)
        return database

    def set_aside(self, partition: int) -> str | None:
        """Keep a closed database as evidence under another name; returns the name, or None when there is none.

        Raises `DirectoryFailed`.
        """
        path = self.path(partition)
        if not path.exists():
            return None
        kept = path.with_name(f"{path.name}.failed-{time.time_ns() // 1_000_000}")
        try:
            for suffix in SUFFIXES:
                source = path.with_name(path.name + suffix)
                if source.exists():
                    source.rename(kept.with_name(kept.name + suffix))
        except OSError as error:
            raise DirectoryFailed(f"{path} cannot be renamed ({error}); check the disk and the permissions") from error
        return kept.name
