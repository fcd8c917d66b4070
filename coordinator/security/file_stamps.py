"""Notices that files have changed, by their times, sizes and inodes; a link that is turned to another file is a change, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class FileStamps:
    """The state of some files when they were last looked at."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._stamps = self._look()

    def have_changed(self) -> bool:
        """Look again; tell whether anything differs from the last look."""
        last, self._stamps = self._stamps, self._look()
        return last != self._stamps

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)
