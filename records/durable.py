"""Writes that survive a crash of the machine: files and names that are brought to the disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a file within its folder, so that a crash does not undo it; a file that has the name is replaced. Raises OSError."""
    source.replace(target)
    sync(target.parent)


def part_of(target: Path) -> Path:
    """Name the file in which a program makes what `target` is going to be: no other one has this name."""
    # The number of the process alone is not enough: each of two containers that share a folder may be process 1.
    return target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")


def publish_new(part: Path, target: Path) -> None:
    """Give a whole file its name, beside the one of `part`. Raises FileExistsError when there is a file of this name, OSError.

    On a file system without links an empty file has the name for a moment.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no links. An empty file takes the name, which only one process can make; the whole one replaces it.
        target.touch(exist_ok=False)
        try:
            part.replace(target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
