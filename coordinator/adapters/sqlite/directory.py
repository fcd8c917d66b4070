"""One data directory with state databases and snapshots in it, and the probe that tells whether it can still be used."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from coordinator.adapters.sqlite.errors import directory_failed
from coordinator.adapters.sqlite.files import files_of
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.config.directories import DirectoryError, read_meta_properties
from coordinator.config.disk import room_of
from coordinator.core.state.damage import DirectoryFailed
from coordinator.core.yielding import Rest, no_rest
from coordinator.kafka.directory_ids import directory_id_text
from coordinator.runtime.directories.port import DirectoryUse
from coordinator.runtime.ports import LocalSnapshots
from records.snapshot import SnapshotHead, TableRows

LOG = logging.getLogger(__name__)

PROBE = ".probe"
PROBE_BYTES = 4096
LOST = frozenset(
    {
        errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS,
        errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE,
    }
)  # fmt: skip
"""Errors that say something of the directory, and not of the process, such as too many open files."""


class SqliteDirectory:
    """Implements the port `StateDirectory`."""

    def __init__(
        self, path: Path, directory_id: bytes, *, open_snapshots: Callable[[Path], LocalSnapshots], evidence_percent: int | None = None
    ) -> None:
        """`open_snapshots` makes the snapshots of one partition from their folder."""
        self.directory_id = directory_id
        self.path = str(path)
        self.stores = StateDatabases(path) if evidence_percent is None else StateDatabases(path, evidence_percent=evidence_percent)
        self._folder = path
        self._open_snapshots = open_snapshots
        self._snapshots: dict[int, LocalSnapshots] = {}
        self._probing = threading.Lock()

    def snapshots(self, partition: int) -> LocalSnapshots:
        """The snapshots of a metadata partition; one object for each, which knows the unfinished files that are being written."""
        if partition not in self._snapshots:
            self._snapshots[partition] = self._open_snapshots(self.stores.snapshot_folder(partition))
        return self._snapshots[partition]

    def partitions(self) -> frozenset[int]:
        """The metadata partitions that have a state database here; unfinished copies are removed. Raises `DirectoryFailed`."""
        return self.stores.partitions()

    def applied_offset(self, partition: int, cluster_id: str, topic_id: bytes) -> int:
        """The applied offset of a closed database of a log, or -1. Raises `StateLocked`, `DirectoryFailed`."""
        return self.stores.applied_offset(partition, cluster_id, topic_id)

    def remove(self, partition: int) -> None:
        """Remove the closed state database of a partition and its snapshots. Raises `StateLocked`, `DirectoryFailed`."""
        self.stores.remove(partition)
        folder = self.stores.snapshot_folder(partition)
        try:
            if folder.exists():
                shutil.rmtree(folder)
        except OSError as error:
            raise directory_failed(folder, "removed", error) from error

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a state database under another name. Raises `BadSnapshot`, `StateFailed`."""
        self.stores.build_copy(head, rows, rest)

    def adopt_copy(self, partition: int) -> None:
        """Give the copy the name of the state database. Raises `StateLocked`, `DirectoryFailed`."""
        self.stores.adopt_copy(partition)

    def remove_copy(self, partition: int) -> None:
        """Remove a copy that was not adopted. Raises `DirectoryFailed`."""
        self.stores.remove_copy(partition)

    async def probe(self, wanted_bytes: int = 0) -> DirectoryUse:
        """Write, sync, read and remove a small file. Raises `DirectoryFailed`.

        In a thread of its own, which nothing waits for at the end of the process: a device may hang.
        """
        loop = asyncio.get_running_loop()
        probed: asyncio.Future[DirectoryUse] = loop.create_future()

        def end(use: DirectoryUse | None, error: Exception | None) -> None:
            if probed.done():
                return
            if use is not None:
                probed.set_result(use)
            elif error is not None:
                probed.set_exception(error)

        def run() -> None:
            use, error = None, None
            try:
                with self._probing:  # there is one file of that name
                    use = self._probe(wanted_bytes)
            except Exception as failed:  # noqa: BLE001 - handed to the one who waits
                error = failed
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, use, error)

        threading.Thread(target=run, name=f"probe-{self._folder.name}", daemon=True).start()
        return await probed

    def _probe(self, wanted_bytes: int) -> DirectoryUse:
        sizes: dict[int, int] = {}
        try:
            self._check_identity()
            self.stores.make_room(wanted_bytes)
            self._write_and_read()
            sizes = self._sizes()
        except OSError as error:
            if error.errno in LOST:
                raise directory_failed(self._folder, "used", error) from error
            LOG.warning("probe of a data directory is inconclusive path=%s error=%r", self.path, str(error))
        try:
            room = room_of(self._folder)
        except OSError as error:
            raise directory_failed(self._folder, "read", error) from error
        return DirectoryUse(room.total_bytes, room.free_bytes, sizes)

    def _check_identity(self) -> None:
        """Refuse a folder that was mounted or made at the path meanwhile. Raises `DirectoryFailed`, OSError."""
        self._folder.stat()
        try:
            meta = read_meta_properties(self._folder)
        except DirectoryError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise DirectoryFailed(f"{self.path} cannot be used: {error.problems[0]}") from error
        if meta is None or meta.directory_id != self.directory_id:
            found = "no meta.properties" if meta is None else "another directory.id in its meta.properties"
            raise DirectoryFailed(
                f"{self.path} is not the directory {directory_id_text(self.directory_id)} any more: it has {found}; mount it, or correct"
                " data.dirs"
            )

    def _write_and_read(self) -> None:
        """Raises OSError."""
        path = self._folder / PROBE
        content = os.urandom(PROBE_BYTES)
        with path.open("w+b", buffering=0) as file:
            file.write(content)
            os.fsync(file.fileno())
            file.seek(0)
            found = file.read(PROBE_BYTES)
        path.unlink()
        if found != content:
            raise OSError(errno.EIO, "what was written is read as something else")

    def _sizes(self) -> dict[int, int]:
        """The bytes of every state database. Raises OSError."""
        with os.scandir(self._folder) as entries:
            databases = [Path(entry.path) for entry in entries if entry.name.startswith("partition-") and entry.name.endswith(".db")]
        return {int(path.stem.removeprefix("partition-")): sum(map(_size, files_of(path))) for path in databases}


def _size(path: Path) -> int:
    """The bytes of a file, 0 for one that is not there: a database is removed, and its write-ahead log comes and goes, at any time."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
