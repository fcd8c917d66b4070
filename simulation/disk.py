"""The disks of one simulated machine: data directories that outlive its process, and fail."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from coordinator.core.state.damage import StateBusy
from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import ColdStore
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.ports import PinnedState, StateStore
from records.snapshot import SnapshotHead, TableRows
from simulation.fakes.directories import FakeDirectory
from simulation.fakes.state_store import MemoryStateStore, MemoryStateStores

EXCLUSIVE = "exclusive"
"""A lock that keeps others from reading too; it can only be had while the database is closed."""


class Disk:
    """See the module's text.

    The next write of a partition in `failing` fails. The database of one in `forked` belongs to another history of the
    same log, as that of a copied or restored machine does: its watermarks are ahead and its last entry is another one. Another connection
    has locked that of a partition in `locked`: it cannot be written, and with EXCLUSIVE it cannot be opened.
    """

    def __init__(self, folder: Path, *, directories: int, first_byte: int) -> None:
        """Snapshots are files in the folder; the ids of directories begin with `first_byte`."""
        self.failing: set[int] = set()
        self.forked: set[int] = set()
        self.locked: dict[int, str] = {}
        self.directories = [
            SimulatedDirectory(self, folder / f"directory-{number}", bytes([first_byte, number]) + bytes(14))
            for number in range(directories)
        ]

    @property
    def is_lost(self) -> bool:
        """Whether every directory has failed."""
        return all(one.failure is not None for one in self.directories)

    def mend(self) -> None:
        """All directories can be used again, with what is in them."""
        for directory in self.directories:
            directory.mend()

    def flip(self, chance: float) -> None:
        """A bit flips in every database; the proof at the next load must find it."""
        for directory in self.directories:
            directory.databases.flip(chance)

    def check_lock(self, partition: int, *, is_opening: bool) -> None:
        """Raise `StateBusy` where another connection is in the way."""
        lock = self.locked.get(partition)
        if lock is not None and (not is_opening or lock == EXCLUSIVE):
            raise StateBusy(f"the state database of partition {partition} is locked by another connection")


class SimulatedDirectory(FakeDirectory):
    """One directory of such a machine."""

    def __init__(self, disk: Disk, folder: Path, directory_id: bytes) -> None:
        self.databases = MemoryStateStores()
        self._content = folder
        folder.mkdir(parents=True)
        super().__init__(DirectoryStores(disk, self), folder, directory_id)

    def fail(self, *, is_lost: bool) -> None:
        """Make the directory unusable until `mend`; with `is_lost` its content is gone."""
        self.failure = "injected"
        if is_lost:
            self.databases = MemoryStateStores()
            shutil.rmtree(self._content, ignore_errors=True)

    def mend(self) -> None:
        """Make the directory usable again, with its content."""
        self.failure = None
        self._content.mkdir(exist_ok=True)


class DirectoryStores:
    """The state databases of a directory. Every call raises `DirectoryFailed` while it has failed."""

    def __init__(self, disk: Disk, directory: SimulatedDirectory) -> None:
        self._disk = disk
        self._directory = directory

    def _use(self) -> MemoryStateStores:
        self._directory.check()
        return self._directory.databases

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> StateStore:
        """Open or create the database of a partition."""
        self._disk.check_lock(partition, is_opening=True)
        return DiskStore(self._disk, self._directory, partition, self._use().open(partition, cluster_id, topic_id))

    def build(self, partition: int, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        """Make the database of a partition from a snapshot."""
        databases = self._use()
        self._disk.forked.discard(partition)
        return databases.build(partition, head, rows, rest)

    def prove(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Check that a database can be made from a snapshot."""
        self._use().prove(head, rows, rest)

    def set_aside(self, partition: int) -> str | None:
        """Keep a closed database as evidence."""
        databases = self._use()
        self._disk.forked.discard(partition)
        return databases.set_aside(partition)

    def partitions(self) -> frozenset[int]:
        """The partitions that have a database here."""
        return self._use().partitions()

    def remove(self, partition: int) -> None:
        """Remove a database."""
        self._use().remove(partition)

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a database beside the one of its partition."""
        self._use().build_copy(head, rows, rest)

    def adopt_copy(self, partition: int) -> None:
        """Put it in the place of that one."""
        self._use().adopt_copy(partition)

    def remove_copy(self, partition: int) -> None:
        """Remove it."""
        self._use().remove_copy(partition)


class DiskStore:
    """A `StateStore` on such a disk."""

    def __init__(self, disk: Disk, directory: SimulatedDirectory, partition: int, store: MemoryStateStore) -> None:
        self._disk = disk
        self._directory = directory
        self._partition = partition
        self._store = store

    def load(self) -> Stored | None:
        """Read the state of the database."""
        self._directory.check()
        stored = self._store.load()
        if stored is None or self._partition not in self._disk.forked:
            return stored
        partitions = [row._replace(high_watermark=row.high_watermark + 1) for row in stored.partitions]
        return replace(stored, header=replace(stored.header, last_entry_hash=b"another history"), partitions=partitions)

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Write one flush, or fail. Raises OSError, `DirectoryFailed`, `StateBusy`."""
        self._directory.check()
        self._disk.check_lock(self._partition, is_opening=False)
        if self._partition in self._disk.failing:
            self._disk.failing.discard(self._partition)
            raise OSError("no space left on device (injected)")
        self._disk.forked.discard(self._partition)
        self._store.write(flush, rest)

    def pin(self) -> PinnedState:
        """Hold on to the state as it was written last."""
        self._directory.check()
        return self._store.pin()

    def reader(self) -> ColdStore:
        """A connection for the event loop; what it reads is in the memory of the machine."""
        return self._store.reader()

    def close(self, *, clean: bool) -> None:
        """Close."""
        self._store.close(clean=clean)
