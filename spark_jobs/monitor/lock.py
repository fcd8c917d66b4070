"""The right to write a monitor's folder: at most one process has it, and it ends with the process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "monitor.lock"


class MonitorInUseError(Exception):
    """Another monitor writes the folder, or the database; the text says which."""


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold the folder, which is created. Raises `MonitorInUseError` at once when another process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    # The file stays: removing it would let two processes lock two files of one name.
    with (folder / LOCK_FILE).open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            pid = file.read().decode(errors="replace").strip() or "unknown"
            raise MonitorInUseError(
                f"another monitor (pid {pid}) writes {folder}: stop it first, or give this one a folder of its own with --dir"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield
