"""Wall clocks of single processes that can be made to jump, by a small library preloaded into them (`clock_shift.c`).

(A time namespace shifts only the monotonic clocks; libfaketime breaks the waits of Python 3.11, whose deadlines are monotonic.)
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("clock_shift.c")
COMPILERS: Final = ("cc", "gcc", "clang")
PROBE: Final = """
import sys, time
before_s = time.time()
with open(sys.argv[1], "r+b", buffering=0) as file:
    file.write((3_600_000_000_000).to_bytes(8, sys.byteorder))
assert 3_590 < time.time() - before_s < 3_610
"""


class NoClockShift(Exception):
    """Clocks cannot be shifted on this machine; the text says why and the remedy."""


def build_library(folder: Path) -> Path:
    """Compile the library into `folder` and prove it on a process. Raises `NoClockShift`."""
    if sys.platform != "linux":
        raise NoClockShift("clock jumps need Linux")
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoClockShift("no C compiler (cc, gcc or clang): install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "clock_shift.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise NoClockShift(f"{compiler} could not compile {SOURCE.name}: {done.stderr.strip()[-300:]}")
    clock = ShiftedClock(library, folder / "probe.clock")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(clock.file)],
        env={**os.environ, **clock.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode != 0:
        raise NoClockShift(f"the preloaded library does not shift a process's clock: {done.stderr.strip()[-300:]}")
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
