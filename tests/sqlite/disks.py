"""Small file systems of memory, for tests that fill them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount one at a folder; a test that may not do so is skipped, with the reason."""
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounting.returncode:
        pytest.skip(f"a file system of memory cannot be mounted here: {mounting.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, *, leave_bytes: int = 0) -> Path:
    """Take all space of the folder's file system but some; returns the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for block in (1 << 20, 4096):
            try:
                while file.write(bytes(block)) == block:
                    pass
            except OSError:
                continue
        file.truncate(max(0, ballast.stat().st_size - leave_bytes))
    return ballast
