"""A file that appears whole or not at all: written beside its name, brought to the disk, then renamed."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from records.durable import rename_durably
from records.snapshot.names import PART_SUFFIX


class SnapshotFile(NamedTuple):
    """A whole file on the disk."""

    path: Path
    size_bytes: int
    sha256: bytes


class PartFile:
    """A snapshot file in the making: `NAME.part` until it is published. Leaving the context without that removes it.

    A process that dies leaves the file; the next one of this name takes its place. Every method raises OSError.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Begin the file."""
        self._part = folder / (name + PART_SUFFIX)
        self._size_bytes = 0
        self._path = folder / name
        self._hash = hashlib.sha256()
        self._file = self._part.open("wb")

    def __enter__(self) -> PartFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._file.closed:
            # Closing may write what is left, and fail; the reason why the writer gave up is reported, and a leftover is cleaned up later.
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                self._part.unlink()

    def write(self, data: bytes | memoryview) -> None:
        """Append to the file."""
        self._file.write(data)
        self._hash.update(data)
        self._size_bytes += len(data)

    def publish(self) -> SnapshotFile:
        """Give the file its name, which survives a crash of the machine from then on. A file of that name is replaced."""
        self._file.flush()
        os.fsync(self._file.fileno())
        rename_durably(self._part, self._path)
        self._file.close()
        return SnapshotFile(self._path, self._size_bytes, self._hash.digest())
