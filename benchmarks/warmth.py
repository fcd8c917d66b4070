"""The start of a run, and its disturbances: the broker's compiler, work left over in the background, other machines on the same host.

A broker that was just started compiles its code for as long as new paths become hot: seconds on a fast machine, a minute of a whole
core on a slow one. A broker in service has done that long ago, so a benchmark of the service waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process_cost import cpu_seconds_of_thread
from cli.bench.counters import cpu_seconds

COMPILER_THREADS = ("C1 Compiler", "C2 Compiler")
"""The beginnings of the names of a JVM's compiling threads."""
IDLE_CORES = 0.1
IDLE_LOOK_S = 0.5
IDLE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Seconds of the clock, of the compiler's CPU time, and of CPU time that the host gave to others, so far."""

    at_s: float
    compiler_s: float
    stolen_s: float

    def compiler_cores_since(self, before: Disturbance) -> float:
        """Cores that the compiler kept busy between two looks."""
        return (self.compiler_s - before.compiler_s) / (self.at_s - before.at_s)

    def stolen_share_since(self, before: Disturbance) -> float:
        """Share of the machine (0 to 1) that other machines on its host took between two looks."""
        return (self.stolen_s - before.stolen_s) / (self.at_s - before.at_s) / (os.cpu_count() or 1)


def disturbance(broker_pid: int) -> Disturbance:
    """Look now."""
    stolen = int(Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[8])
    return Disturbance(at_s=time.monotonic(), compiler_s=compiler_seconds(broker_pid), stolen_s=stolen / os.sysconf("SC_CLK_TCK"))


def compiler_seconds(pid: int) -> float:
    """CPU time of a JVM's compiling threads so far; those that ended are not in it."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text(encoding="utf-8").startswith(COMPILER_THREADS):
                total += cpu_seconds_of_thread(pid, int(task.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended meanwhile
    return total


def wait_until_idle(pids: Sequence[int], timeout_s: float = IDLE_TIMEOUT_S) -> bool:
    """Wait until processes have next to nothing to do any more; False when they still have after the timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        before, at_s = sum(map(cpu_seconds, pids)), time.monotonic()
        time.sleep(IDLE_LOOK_S)
        if sum(map(cpu_seconds, pids)) - before < IDLE_CORES * (time.monotonic() - at_s):
            return True
    return False
