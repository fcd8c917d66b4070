"""Folders of single processes on which calls fail, by a small library preloaded into them (`disk_refusal.c`)."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration_tests.faults.preload import compile_library, prove

SOURCE: Final = Path(__file__).with_name("disk_refusal.c")
PROBE: Final = """
import errno, pathlib, struct, sys
control, folder = sys.argv[1:]
file = pathlib.Path(folder, "file")
file.write_bytes(b"x")
with open(control, "r+b", buffering=0) as opened:
    opened.write(struct.pack("=qqq", errno.EROFS, 0, 1))
assert file.read_bytes() == b"x"
try:
    file.write_bytes(b"y")
except OSError as problem:
    assert problem.errno == errno.EROFS, problem
else:
    raise AssertionError("it was written")
"""


def build_library(folder: Path) -> Path:
    """Compile the library into `folder` and prove it on a process. Raises `NoPreload`."""
    library = compile_library(SOURCE, folder)
    below = folder / "probe.folder"
    below.mkdir(exist_ok=True)
    disk = RefusingDisk(library, folder / "probe.disk", below)
    prove(library, disk.environment, PROBE, [str(disk.file), str(below)])
    return library


class RefusingDisk:
    """The files below `folder` as they look to whoever is started with `environment`."""

    def __init__(self, library: Path, file: Path, folder: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(struct.pack("=qqq", 0, 0, 1))
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "FAULTS_DISK_FILE": str(file),
            "FAULTS_DISK_FOLDER": str(folder),
        }

    def refuse_writes(self) -> None:
        """Be read-only from now on, for files that are open already too."""
        self._set(errno.EROFS, 0, 1)

    def fail(self, one_in: int) -> None:
        """Answer one of so many reads and writes with an error of the device."""
        self._set(errno.EIO, errno.EIO, one_in)

    def heal(self) -> None:
        """Be a good disk again."""
        self._set(0, 0, 1)

    def _set(self, writes: int, reads: int, one_in: int) -> None:
        with self.file.open("r+b", buffering=0) as file:  # the same file: processes have it mapped
            file.write(struct.pack("=qqq", writes, reads, one_in))
