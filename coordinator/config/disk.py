"""Errors of a file system about a folder, with remedies, in words for operators."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The size of the file system of a folder, and what of it this process may still fill."""

    total_bytes: int
    free_bytes: int


def room_of(path: Path) -> Room:
    """Ask the file system of a folder. Raises OSError."""
    found = os.statvfs(path)
    return Room(total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)


def remedy(error: OSError) -> str:
    """Return the remedy for an error of a data directory."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "its file system is full: make room on it, or give it more"
        case errno.EROFS:
            return "its file system is mounted read-only: see the kernel's log for the reason, and mount it for writing"
        case errno.EACCES | errno.EPERM:
            return "correct its owner and mode"
        case errno.ENOENT | errno.ENOTDIR:
            return "mount it, or correct data.dirs"
        case errno.EIO | errno.ENODEV | errno.ENXIO | errno.ESTALE:
            return "its device fails: see the kernel's log, and give the node another disk (what is in it is a cache)"
        case _:
            return "check the disk, its mount, its owner and its mode"


def megabytes(size_bytes: int) -> str:
    """A size in words."""
    return f"{size_bytes / 1e6:.1f} MB"
