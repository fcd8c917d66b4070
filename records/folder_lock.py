"""The lock of a folder: who reads one of its files and perhaps replaces it holds the lock meanwhile.

The folder is locked and not the file, which is another one after each change. Nor a file beside it: that would never be removed, and
one that root has made would shut out the owner of the folder. A lock goes with its process, however it ends, and holds on one machine.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_WAIT_S: Final = 30.0
"""How long a command waits for others, each of which takes as long as it reads a file or two."""

_POLL_S: Final = 0.01


class FolderIsLocked(Exception):
    """Another process has had the lock for longer than this one waits."""


@contextmanager
def folder_locked(folder: Path, wait_s: float) -> Iterator[None]:
    """Keep other processes and threads out that lock this folder. Raises `FolderIsLocked` after `wait_s`, and OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline_s = time.monotonic() + wait_s
        while not _locks(descriptor):
            if time.monotonic() >= deadline_s:
                raise FolderIsLocked(
                    f"another process has locked the folder {folder} for more than {wait_s:g} s; end that process, or try again"
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Take a lock unless another has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
