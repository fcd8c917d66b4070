"""The one cache folder of this project, and file locks in it.

Everything in the folder can be deleted at any time: it is fetched or made again. Invariant: a process that writes below the
folder holds the lock of what it writes, and publishes by rename, so a reader without the lock sees a whole file or none.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: DISKLESS_CACHE_DIR, else `diskless` in the user's cache folder. It is created."""
    chosen = os.environ.get("DISKLESS_CACHE_DIR")
    if chosen:
        folder = Path(chosen).expanduser()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diskless"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes and threads on `path`, waiting for it; a dead holder's lock is free."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
