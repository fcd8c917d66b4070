"""Becomes another program that the kernel kills when the thread that started it ends: `die_with_parent.py PARENT_PID PROGRAM ARGS...`.

Run as a script, before anything else, so that no code runs between fork and exec of a process with many threads.
Where the kernel has no such service (macOS), the program is started anyway, and reaped at the next start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when the thread that forked it ends, and leave the signals of a terminal to the parent.

    Signals that the parent held while it made this process are held no longer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    die_with(parent_pid)


def die_with(parent_pid: int) -> None:
    """Let the kernel kill this process when the thread that forked it ends; ends it when that is gone already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent_pid:  # the parent died before the call above: no signal will come
        sys.exit("the process that asked for this one is gone")


def main(arguments: list[str]) -> None:
    die_with(int(arguments[0]))
    os.execv(arguments[1], arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
