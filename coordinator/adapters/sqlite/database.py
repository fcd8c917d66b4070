"""The state database of one replica: one SQLite file, its lock, its writer and its reader.

It is a cache of the log and may be deleted at any time. `open`, `load`, `write` and `close` belong to the writer's
thread, the reader to the event loop. The database always holds the whole state as of one applied offset.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from coordinator.adapters.sqlite.building import remove_unfinished
from coordinator.adapters.sqlite.errors import StateLocked, translated
from coordinator.adapters.sqlite.files import delete_database, sync_database
from coordinator.adapters.sqlite.lock import lock_of, read_boot_id
from coordinator.adapters.sqlite.pinned import PinnedDatabase
from coordinator.adapters.sqlite.reader import StateReader
from coordinator.adapters.sqlite.schema import UnknownVersion, connect_reader, connect_writer
from coordinator.adapters.sqlite.stored import read_header, read_state
from coordinator.adapters.sqlite.writer import FlushWriter
from coordinator.core.state.damage import DiskFull
from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.core.yielding import Rest, no_rest


class StateDatabase:
    """See the module's text.

    `boot_id` identifies this run of the machine; tests give their own. `make_room` removes what may go from a full disk, and says
    whether there was anything.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster_id: str,
        topic_id: bytes,
        metadata_partition: int,
        boot_id: str | None = None,
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path = path
        self._make_room = make_room
        self._identity = (cluster_id, topic_id, metadata_partition)
        self._boot_id = read_boot_id() if boot_id is None else boot_id
        self._lock = lock_of(path)
        self._connection: apsw.Connection | None = None
        self._writer: FlushWriter | None = None
        self._reader: StateReader | None = None
        self._is_corrupt = False
        self._header: Header | None = None

    def open(self) -> str | None:
        """Open or create the file; returns why an earlier one was discarded, or None.

        Raises `StateCorrupt` when it is damaged and has to be set aside, `StateLocked` when another process or object has it open,
        `StateBusy` when another connection has locked it, `DirectoryFailed` when the directory cannot be used.
        """
        self._lock.acquire()
        try:
            remove_unfinished(self.path)
            self._is_corrupt = False
            reason = self._lock.distrust(self._boot_id) if self.path.exists() else None
            self._lock.mark_open(self._boot_id)
            with translated(self.path, self._mark_corrupt):
                if reason is None:
                    reason = self._connect_to_own()
                if reason is not None:
                    self._disconnect()
                    delete_database(self.path)
                    self._connect()
        except BaseException:
            self._disconnect()
            self._lock.release()
            raise
        return reason

    def load(self) -> Stored | None:
        """Read the tables of the database, all rows proven; None when nothing was written yet.

        Raises `StateCorrupt`, `StateBusy`, `DirectoryFailed`.
        """
        with translated(self.path, self._mark_corrupt):
            return read_state(self._connected())

    def pin(self) -> PinnedDatabase:
        """Hold on to the state that the last write left, while further ones are written; close it soon.

        Raises `StateFailed` when nothing was written yet, `StateCorrupt`, `DirectoryFailed`.
        """
        self._connected()
        return PinnedDatabase(self.path, self._mark_corrupt)

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Write one flush and the applied offset in one transaction. Raises `StateCorrupt`, `DirectoryFailed`.

        Raises `StateBusy` when another connection has locked it: nothing is written, and the same flush may be written later.
        """
        try:
            self._write(flush, rest)
        except DiskFull:
            if not self._make_room():
                raise
            self._write(flush, rest)

    def _write(self, flush: Flush, rest: Rest) -> None:
        if self._writer is None:
            raise StateLocked(f"the state database {self.path} is not open")
        with translated(self.path, self._mark_corrupt):
            if self._reader is not None:
                self._reader.announce(self._writer.flushes + 1, flush.live_lost)
            committed = self._writer.write(flush, rest)
            if self._reader is not None:
                self._reader.report(committed)

    def reader(self) -> StateReader:
        """The reads of the event loop, on a connection of their own; the same one every time."""
        if self._reader is None:
            self._connected()
            self._reader = StateReader(self.path, self._mark_corrupt)
        return self._reader

    def close(self, *, clean: bool = True) -> None:
        """Close (idempotent). Only a clean close, which waits for the disk, lets the file survive a crash of the machine."""
        if self._connection is None:
            return
        try:
            self._disconnect()
            if clean and not self._is_corrupt:
                sync_database(self.path)
                self._lock.mark_clean()
        finally:
            self._lock.release()

    # ---- helpers

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            raise StateLocked(f"the state database {self.path} is not open")
        return self._connection

    def _connect(self) -> None:
        self._connection = connect_writer(self.path)
        # Not before the header is proven: the writer goes on from what it says.
        self._header = read_header(self._connection)
        self._writer = FlushWriter(self._connection)

    def _connect_to_own(self) -> str | None:
        """Connect if the file is of this log; returns why it is not. Raises `DamagedRow` and the library's errors."""
        try:
            self._connect()
        except UnknownVersion as error:
            return str(error)
        header = self._header
        if header is None:
            return None
        for name, found, own in zip(
            ("cluster id", "topic id", "metadata partition"),
            (header.cluster_id, header.topic_id.hex(), header.metadata_partition),
            (self._identity[0], self._identity[1].hex(), self._identity[2]),
            strict=True,
        ):
            if found != own:
                return f"it belongs to {name} {found}, not {own}"
        return None

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._connection is not None:
            self._connection.close(True)
        self._reader = self._writer = self._connection = None

    def _mark_corrupt(self, reason: str) -> None:
        self._is_corrupt = True
        self._lock.mark_corrupt(reason)


def header_at(path: Path) -> Header | None:
    """The header of a closed database; None when nothing was written to it yet. Raises `StateCorrupt`, `DirectoryFailed`, `StateBusy`."""
    with translated(path, lambda _reason: None):
        connection = connect_reader(path)
        try:
            return read_header(connection)
        finally:
            connection.close(True)
