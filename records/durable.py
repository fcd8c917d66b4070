"""Writes that survive a crash of the machine: files and names that are brought to the disk."""

from __future__ import annotations

import os
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
