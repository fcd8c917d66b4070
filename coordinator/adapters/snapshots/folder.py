"""The snapshots of one metadata partition in a folder of the data directory.

A file has its name when it is whole and on the disk. While it is written its name ends in `.part`; a process that dies leaves such a
file, and `keep` removes it. Files with other names are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.config.disk import FULL, remedy
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.ports import SnapshotPiece
from records.durable import rename_durably, sync
from records.snapshot import (
    PART_SUFFIX,
    SnapshotFile,
    SnapshotHead,
    SnapshotId,
    TableRows,
    parse_snapshot_name,
    snapshot_name,
    write_snapshot,
)


class SnapshotFolder:
    """Every method blocks and raises `DirectoryFailed`, of which `DiskFull` is one."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it is made when the first snapshot is written, the folder above it as well."""
        self._folder = folder
        self._begun: set[SnapshotId] = set()

    def write(self, head: SnapshotHead, rows: Iterable[TableRows], *, log_timestamp_ms: int, rest: Rest = no_rest) -> SnapshotFile:
        """Write a snapshot; it is there whole, or not at all. Raises what `rows` raises, ValueError for what the format cannot hold."""
        with self._translated("written"):
            self._make_folder()
            self._begun.add(head.snapshot_id)
            try:
                return write_snapshot(self._folder, head, rows, log_timestamp_ms=log_timestamp_ms, rest=rest)
            finally:
                self._begun.discard(head.snapshot_id)

    def ids(self) -> list[SnapshotId]:
        """The snapshots that are there, the newest first."""
        return sorted((found for name in self._names() if (found := parse_snapshot_name(name)) is not None), reverse=True)

    def path(self, snapshot_id: SnapshotId) -> Path:
        """The file of a snapshot, whether it is there or not."""
        return self._folder / snapshot_name(*snapshot_id)

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> SnapshotPiece | None:
        """At most so many bytes of a snapshot from a position on, none outside of it; None when it is not there. Numbers may be any."""
        if min(snapshot_id) < 0:
            return None
        with self._translated("read"):
            try:
                with self.path(snapshot_id).open("rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    if not 0 <= position <= size:
                        return SnapshotPiece(size, b"")
                    file.seek(position)
                    return SnapshotPiece(size, file.read(max_bytes))
            except FileNotFoundError:
                return None

    def part(self, snapshot_id: SnapshotId) -> Path:
        """Where the bytes of a snapshot that comes from elsewhere are written; `adopt` gives them their name."""
        with self._translated("written"):
            self._make_folder()
        self._begun.add(snapshot_id)
        return self._part(snapshot_id)

    def append(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Write bytes to the end of what `part` names, which is made if it is not there."""
        with self._translated("written"), self._part(snapshot_id).open("ab") as file:
            file.write(data)

    def adopt(self, snapshot_id: SnapshotId) -> None:
        """Give what was written to `part` its name; it is whole, and replaces a file that has the name."""
        part = self._part(snapshot_id)
        with self._translated("written"):
            sync(part)
            rename_durably(part, self.path(snapshot_id))
        self._begun.discard(snapshot_id)

    def remove(self, snapshot_id: SnapshotId) -> None:
        """Remove a snapshot, if it is there."""
        with self._translated("cleared"):
            self.path(snapshot_id).unlink(missing_ok=True)

    def keep(self, newest: int) -> None:
        """Remove all but the newest ones, and unfinished ones but those that this object has begun."""
        for snapshot_id in self.ids()[newest:]:
            self.remove(snapshot_id)
        with self._translated("cleared"):
            for name in self._names():
                unfinished = parse_snapshot_name(name.removesuffix(PART_SUFFIX)) if name.endswith(PART_SUFFIX) else None
                if unfinished is not None and unfinished not in self._begun:
                    self._part(unfinished).unlink(missing_ok=True)

    def _part(self, snapshot_id: SnapshotId) -> Path:
        return self._folder / (snapshot_name(*snapshot_id) + PART_SUFFIX)

    def _names(self) -> list[str]:
        with self._translated("read"):
            try:
                with os.scandir(self._folder) as entries:
                    return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            except FileNotFoundError:
                return []

    def _make_folder(self) -> None:
        # The data directory itself is not made: where it is missing, its disk is not mounted.
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(exist_ok=True)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = DiskFull if error.errno in FULL else DirectoryFailed
            raise kind(f"the snapshots in {self._folder} cannot be {what} ({error}): {remedy(error)}") from error
