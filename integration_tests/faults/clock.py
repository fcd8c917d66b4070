"""Wall clocks of single processes that can be made to jump, by a small library preloaded into them (`clock_shift.c`).

(A time namespace shifts only the monotonic clocks; libfaketime breaks the waits of Python 3.11, whose deadlines are monotonic.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration_tests.faults.preload import compile_library, prove

SOURCE: Final = Path(__file__).with_name("clock_shift.c")
PROBE: Final = """
import sys, time
before_s = time.time()
with open(sys.argv[1], "r+b", buffering=0) as file:
    file.write((3_600_000_000_000).to_bytes(8, sys.byteorder))
assert 3_590 < time.time() - before_s < 3_610
"""


def build_library(folder: Path) -> Path:
    """Compile the library into `folder` and prove it on a process. Raises `NoPreload`."""
    library = compile_library(SOURCE, folder)
    clock = ShiftedClock(library, folder / "probe.clock")
    prove(library, clock.environment, PROBE, [str(clock.file)])
    return library


class ShiftedClock:
    """The clock of whoever is started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self.file = file
        self.shift_s = 0.0
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(8))
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), "FAULTS_CLOCK_FILE": str(file)}

    def set(self, shift_s: float) -> None:
        """Make the clock jump, to this many seconds before (negative) or after the machine's."""
        with self.file.open("r+b", buffering=0) as file:  # the same file: processes have it mapped
            file.write(struct.pack("=q", int(shift_s * 1e9)))
        self.shift_s = shift_s
