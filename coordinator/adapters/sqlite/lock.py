"""The lock file beside a state database: who may use it, and whether its content can be trusted.

The database is written without waiting for the disk, so after a crash of the operating system (not of the process) its
pages may be a mixture of old and new. The content of the lock file is synced before anything else is written, so a file from
before such a crash is recognised without being read. It says one of: `clean` (everything is on disk), `open <boot id>`
(trusted while the machine runs on) or `corrupt <reason>`.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from coordinator.adapters.sqlite.errors import StateCorrupt, StateLocked, directory_failed

BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")
CLEAN = "clean"
TEXT_BYTES_MAX = 4000


def lock_of(path: Path) -> LockFile:
    """The lock of a database."""
    return LockFile(path.with_name(path.name + ".lock"))


def read_boot_id() -> str:
    """Identify this run of the operating system."""
    return BOOT_ID_PATH.read_text().strip()


class LockFile:
    """Held from `acquire` to `release`; never deleted, so that two processes cannot hold different files of one name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises `StateLocked`, `DirectoryFailed`."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise directory_failed(self.path, "opened", error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise StateLocked(
                f"{self.path} is locked: another process uses this data directory; stop it or give each process a directory of its own"
            ) from None
        self._fd = fd

    def release(self) -> None:
        """Give the lock back (idempotent)."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def distrust(self, boot_id: str) -> str | None:
        """Why the database must be discarded unread, or None. Raises `StateCorrupt` when it was found damaged before."""
        match self._read().split(" ", 1):
            case ["clean"]:
                return None
            case ["open", opened]:
                return None if opened == boot_id else "the machine was restarted and the database had not been closed cleanly"
            case ["corrupt", reason]:
                raise StateCorrupt(f"the state database of {self.path.name} was found damaged before: {reason}")
            case _:
                return "the lock file does not say how the database was closed"

    def mark_open(self, boot_id: str) -> None:
        """Note that from here on the database is only good while the machine runs."""
        self._write(f"open {boot_id}")

    def mark_clean(self) -> None:
        """Note that the whole database is on disk."""
        self._write(CLEAN)

    def mark_corrupt(self, reason: str) -> None:
        """Note that the database is to be discarded when it is opened next."""
        self._write(f"corrupt {reason}")

    def _read(self) -> str:
        fd = self._held()
        return os.pread(fd, 4096, 0).decode(errors="replace").strip()

    def _write(self, text: str) -> None:
        """Overwrite in place, which needs no space: on a full disk an emptied lock file would condemn a good database."""
        fd = self._held()
        content = text.encode()[:TEXT_BYTES_MAX]
        try:
            os.pwrite(fd, content.ljust(os.fstat(fd).st_size), 0)
            os.ftruncate(fd, len(content))
            os.fsync(fd)
        except OSError as error:
            raise directory_failed(self.path, "written", error) from error

    def _held(self) -> int:
        if self._fd is None:
            raise StateLocked(f"{self.path} is not locked by this process")
        return self._fd
