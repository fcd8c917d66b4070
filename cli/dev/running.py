"""Which `diskless dev up` runs where: one entry per process in the cache folder, and a lock in each data folder.

Invariant: at most one holds a data folder, however the one before it ended; a process is signalled only when its pid, its
start time and its command line are those of the entry. Entries of processes that are gone are cleared, and with them the
temporary data folders they could not delete any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from cli.dev.process import command_line, started_at
from cli.java.cache import cache_folder
from coordinator.printable import quoted

LOCK_FILE = "dev-up.lock"
COMMAND_MARK = " dev up"
TEMPORARY_PREFIX = "diskless-dev-"
LOOK_EVERY_S = 0.05


class FolderInUseError(Exception):
    """Another `dev up` runs on the folder; the text says which and how to stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One running `dev up`. `temporary` says that its folder is deleted with it."""

    pid: int
    started: str
    folder: str
    temporary: bool

    def is_alive(self) -> bool:
        """Whether it is that very process, and it is a `dev up`."""
        return started_at(self.pid) == self.started and COMMAND_MARK in command_line(self.pid)


class FolderLock:
    """The right to use a data folder, until `release`; it ends with the process too."""

    def __init__(self, folder: Path) -> None:
        """Take it. Raises `FolderInUseError`."""
        self._path = folder / LOCK_FILE
        self._file = self._take(folder)
        self._file.truncate(0)
        self._file.write(str(os.getpid()).encode())
        self._file.flush()

    def _take(self, folder: Path) -> IO[bytes]:
        while True:
            file = self._path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                pid = file.read().decode(errors="replace").strip() or "unknown"
                file.close()
                raise FolderInUseError(
                    f"`diskless dev up` runs already on {folder} (pid {pid}): use it, stop it with "
                    f"`diskless dev down --folder {quoted(str(folder))}`, or choose another --folder"
                ) from error
            if self._is_current(file):
                return file
            file.close()  # the holder released the file between opening and locking: the name is another file's, or free

    def _is_current(self, file: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the folder back and remove the lock's file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def entry_folder() -> Path:
    """Where the entries are, `<pid>.json` each."""
    folder = cache_folder() / "dev-up"
    folder.mkdir(exist_ok=True)
    return folder


def register(folder: Path, *, temporary: bool) -> Path:
    """Write this process's entry and return its file, to be removed at the end."""
    started = started_at(os.getpid())
    assert started is not None, "this process is not in the process table"
    running = Running(pid=os.getpid(), started=started, folder=str(folder), temporary=temporary)
    entry = entry_folder() / f"{running.pid}.json"
    part = entry.with_suffix(".part")
    part.write_text(json.dumps(asdict(running)), encoding="utf-8")
    part.replace(entry)
    return entry


def find_running() -> list[Running]:
    """List those that run, and clear what those left that were killed."""
    alive = []
    for entry in sorted(entry_folder().glob("*.json")):
        try:
            running = Running(**json.loads(entry.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue  # that `dev up` ended just now
        if running.is_alive():
            alive.append(running)
            continue
        folder = Path(running.folder)
        # Only a folder that `dev up` itself made is ever deleted.
        if running.temporary and folder.name.startswith(TEMPORARY_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        entry.unlink(missing_ok=True)
    return alive


def stop_running(running: Running, timeout_s: float) -> bool:
    """SIGTERM, and wait for the end; False when it still runs after `timeout_s`."""
    if running.is_alive():
        os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while running.is_alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY_S)
    return True
