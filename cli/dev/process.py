"""Child processes that never outlive us.

Three nets: `stop` by their starter; the kernel, which kills them when this process dies (`die_with_parent`); and
a register of running children in the cache folder, from which `reap_leftovers` kills those whose owner is dead.
Invariant: a pid is signalled only while its command line still carries the marker it was started with.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from cli.dev import die_with_parent
from cli.java.cache import cache_folder, file_lock

# The kernel's "parent died" is about the *thread* that forked. A worker thread of a pool may end at any time, so
# one thread, which lives as long as the process, starts every child. Breaks silently if children are started elsewhere.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="child-starter")
_running: dict[int, ChildProcess] = {}


STANDSTILL_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One line of the register: a child, what its command line contains, and the process it belongs to."""

    pid: int
    marker: str
    owner_pid: int
    owner_started: str


class ChildProcess:
    """One running child. Signals go to it alone; `wait` reaps it."""

    def __init__(self, popen: subprocess.Popen[bytes], entry: Path) -> None:
        self._popen = popen
        self._entry = entry

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_running(self) -> bool:
        """Tell whether it has not ended yet (a stopped process counts as running)."""
        return self.exit_status() is None

    def exit_status(self) -> int | None:
        """Return None while it runs, then the exit status, negative for a signal."""
        status = self._popen.poll()
        if status is not None:
            self._forget()
        return status

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one to a process that has ended is ignored."""
        self._popen.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP; returns when nothing of it runs any more. Raises `TimeoutError`."""
        if self.is_running():
            stand_still(self.pid)

    def wait(self, timeout_s: float) -> int:
        """Wait for the end and return the exit status. Raises `subprocess.TimeoutExpired`."""
        status = self._popen.wait(timeout_s)
        self._forget()
        return status

    def _forget(self) -> None:
        self._entry.unlink(missing_ok=True)
        _running.pop(self.pid, None)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; also ends a stopped process."""
        self.send(signal.SIGKILL)
        self.wait(60)


def stand_still(pid: int) -> None:
    """SIGSTOP, and wait until no thread of the process runs: on a busy machine that takes a while. Raises `TimeoutError`."""
    os.kill(pid, signal.SIGSTOP)
    tasks, deadline_s = Path(f"/proc/{pid}/task"), time.monotonic() + STANDSTILL_TIMEOUT_S
    while tasks.exists() and not all(state_of(task / "stat") in "TZX" for task in tasks.iterdir()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"process {pid} still runs {STANDSTILL_TIMEOUT_S:g} s after SIGSTOP")
        time.sleep(0.001)


def state_of(stat: Path) -> str:
    """The letter of a process or thread, X for one that is gone."""
    try:
        return stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def start_child(command: Sequence[str], *, marker: str, log: Path, environment: Mapping[str, str] | None = None) -> ChildProcess:
    """Start a program in its own session, its output appended to `log`; `marker` must be a part of its command line."""
    if not any(marker in word for word in command):
        raise ValueError(f"the command line does not contain the marker {marker!r}")
    return _starter.submit(_start, list(command), marker, log, environment).result()


def _start(command: list[str], marker: str, log: Path, environment: Mapping[str, str] | None) -> ChildProcess:
    wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        popen = subprocess.Popen(
            [*wrapper, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    owner_started = started_at(os.getpid())
    if owner_started is None:
        raise RuntimeError("this process is not in the process table")
    entry = register_folder() / f"{popen.pid}.json"
    registered = Registered(pid=popen.pid, marker=marker, owner_pid=os.getpid(), owner_started=owner_started)
    temporary = entry.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(registered)), encoding="utf-8")
    os.replace(temporary, entry)
    child = _running[popen.pid] = ChildProcess(popen, entry)
    return child


def end_all_children() -> None:
    """SIGKILL every child of this process that still runs; also one whose starter was interrupted before it knew of it."""
    _starter.submit(int).result()  # starts that are under way come first
    for child in list(_running.values()):
        child.kill()


def register_folder() -> Path:
    """Return the folder of the register, one `<pid>.json` per running child of any process of this user."""
    folder = cache_folder() / "running"
    folder.mkdir(exist_ok=True)
    return folder


def reap_leftovers() -> list[int]:
    """Kill children whose owner is dead, clear the register of what ended, and return the pids that were killed."""
    killed: list[int] = []
    folder = register_folder()
    with file_lock(folder / ".lock"):
        for entry in sorted(folder.glob("*.json")):
            registered = _read(entry)
            if registered is None:
                continue
            if started_at(registered.owner_pid) == registered.owner_started:
                continue  # the owner lives and looks after the process
            words = command_line(registered.pid)
            if not words and started_at(registered.pid) is not None:
                continue  # between two programs (exec): the next start will see what it became
            if registered.marker in words:
                with contextlib.suppress(ProcessLookupError):  # the process may end by itself between the look and the signal
                    os.kill(registered.pid, signal.SIGKILL)
                    killed.append(registered.pid)
            entry.unlink(missing_ok=True)
    return killed


def _read(entry: Path) -> Registered | None:
    try:
        return Registered(**json.loads(entry.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None  # the owner removed the entry just now


def command_line(pid: int) -> str:
    """Return the command line of a process, words separated by blanks; empty when there is no such process (or a zombie)."""
    in_proc = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self/cmdline").exists():
        try:
            return in_proc.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return _ask_ps(pid, "command=") or ""


def started_at(pid: int) -> str | None:
    """Return when a process started, as the system writes it, or None when there is none. A pid and this identify a process."""
    if Path("/proc/self/stat").exists():
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = text.rpartition(")")[2].split()  # the name before it may contain blanks and brackets
        return None if fields[0] in "ZX" else fields[19]
    return _ask_ps(pid, "lstart=")


def _ask_ps(pid: int, column: str) -> str | None:
    answer = subprocess.run(["ps", "-o", column, "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10)
    return answer.stdout.strip() or None
