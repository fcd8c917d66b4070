"""The time of a running coordinator by function: py-spy's samples of its event loop, as a short table of functions.

Needs the program `py-spy`; it looks from outside, so the coordinator runs as it always does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process_cost import thread_cpu

SAMPLES_PER_S = 250
EVENT_LOOP = "MainThread"
LOOP_FRAME = "Runner.run ("
"""The frame of the event loop. Frames below it are those of the process's start; its own time is that of the loop itself, written in C."""
LOOP_ITSELF = "(the loop: sockets, timers)"
PATHS = ("coordinator/", "records/")


class NoProfilerError(Exception):
    """py-spy is not there, or may not look at other processes; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionShare:
    """A function's share of the event loop's busy samples (0 to 1): the function alone, and with the functions that it calls."""

    function: str
    alone: float
    inclusive: float


def find_profiler() -> str:
    """The program py-spy, from PATH or beside this Python. Raises `NoProfilerError`."""
    found = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if found is None:
        raise NoProfilerError("--profile needs py-spy, which is not installed: `pip install py-spy`, and run this again")
    return found


class LoopProfile:
    """Samples one process for a while: `start`, do something, `shares`."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._busy_before_s = pid, thread_cpu(pid).main_s
        self._folder = tempfile.TemporaryDirectory(prefix="diskless-profile-")
        self._file = Path(self._folder.name) / "stacks"
        what = ["record", "--pid", str(pid), "--format", "raw", "--threads", "--nonblocking", "--output", str(self._file)]
        how = ["--duration", str(max(1, round(seconds))), "--rate", str(SAMPLES_PER_S)]
        self._process = subprocess.Popen([find_profiler(), *what, *how], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def shares(self, timeout_s: float = 60) -> list[FunctionShare]:
        """Wait for the end of the sampling; functions by the time they take alone. Raises `NoProfilerError`."""
        _, complaint = self._process.communicate(timeout=timeout_s)
        busy_s = thread_cpu(self._pid).main_s - self._busy_before_s
        if not self._file.exists():
            raise NoProfilerError(f"py-spy gave no samples (root, or ptrace allowed, is needed): {complaint.strip()[-500:]}")
        stacks = self._file.read_text(encoding="utf-8")
        self._folder.cleanup()
        return shares_of(stacks, round(busy_s * SAMPLES_PER_S))


def shares_of(stacks: str, busy_samples: int) -> list[FunctionShare]:
    """Parse collapsed stacks (`thread;frame;frame count` per line) of the event loop's thread, which was busy for so many samples.

    py-spy often takes a loop that waits for one that works: the loop itself gets what the functions leave of the busy time.
    """
    alone: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    total = 0
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if EVENT_LOOP not in thread or not frames:
            continue
        start = next((at for at, frame in enumerate(frames) if frame.startswith(LOOP_FRAME)), None)
        names = [_function(frame) for frame in frames] if start is None else [LOOP_ITSELF, *map(_function, frames[start + 1 :])]
        alone[names[-1]] += int(count)
        # The loop is below all functions: its own time is listed, and not its time together with them.
        for name in set(names[1:] if start is not None and len(names) > 1 else names):
            inclusive[name] += int(count)
    functions = sum(alone.values()) - alone[LOOP_ITSELF]
    alone[LOOP_ITSELF] = inclusive[LOOP_ITSELF] = max(0, min(alone[LOOP_ITSELF], busy_samples - functions))
    total = (functions + alone[LOOP_ITSELF]) or 1
    return [
        FunctionShare(function=name, alone=alone[name] / total, inclusive=inclusive[name] / total)
        for name in sorted(inclusive, key=lambda name: (-alone[name], -inclusive[name]))
        if inclusive[name]
    ]


def _function(frame: str) -> str:
    """`decide (/long/way/coordinator/core/files/commit.py:12)` without the way and the line."""
    name, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    start = next((at for folder in PATHS if (at := file.rfind(folder)) >= 0), None)
    short = file[start:] if start is not None else "/".join(file.split("/")[-2:])
    return f"{name} ({short})"
