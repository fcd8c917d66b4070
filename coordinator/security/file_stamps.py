"""Notices that files have changed, by their times, sizes and inodes; a link that is turned to another file is a change, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class FileStamps:
    """The state of some files when they were last looked at."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        self._is_unread = False
        self._complaint = ""
        self._stamps = self._look()

    def have_changed(self) -> bool:
        """Look again; tell whether anything differs from the last look, or could not be read since it."""
        last, self._stamps = self._stamps, self._look()
        was_unread, self._is_unread = self._is_unread, False
        if last != self._stamps:
            self._complaint = ""
            return True
        return was_unread

    def could_not_be_read(self, complaint: str) -> bool:
        """Have the next look count as a change; tell whether the complaint about these files is a new one.

        A file that is as it should be may be unreadable for a moment, as when the process has too many files open.
        """
        self._is_unread = True
        last, self._complaint = self._complaint, complaint
        return last != complaint

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)
