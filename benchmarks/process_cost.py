"""What a process costs: the CPU time of its threads, and its memory."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from cli.bench.counters import cpu_seconds

CLIENT_THREAD = "rdk:"
"""How librdkafka begins the names of its threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadCpu:
    """CPU seconds of a process: its main thread (the event loop of a coordinator), and everything else in it.

    `clients_s` are those of the others that librdkafka runs, as far as they have not ended.
    """

    main_s: float
    others_s: float
    clients_s: float

    @property
    def total_s(self) -> float:
        """All threads, also those that have ended."""
        return self.main_s + self.others_s

    def since(self, before: ThreadCpu) -> ThreadCpu:
        """Resources used between two readings."""
        return ThreadCpu(
            main_s=self.main_s - before.main_s,
            others_s=self.others_s - before.others_s,
            clients_s=max(0.0, self.clients_s - before.clients_s),
        )


def thread_cpu(pid: int) -> ThreadCpu:
    """CPU time of a process so far. That of single threads is exact where the kernel keeps nanoseconds, else in ticks."""
    main_s, clients_s = cpu_seconds_of_thread(pid, pid), 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # Threads end while they are looked at.
        with contextlib.suppress(OSError):
            if (task / "comm").read_text(encoding="ascii", errors="replace").startswith(CLIENT_THREAD):
                clients_s += cpu_seconds_of_thread(pid, int(task.name))
    return ThreadCpu(main_s=main_s, others_s=max(0.0, cpu_seconds(pid) - main_s), clients_s=clients_s)


def cpu_seconds_of_thread(pid: int, thread_id: int) -> float:
    """CPU time of one thread so far. Raises OSError when it has ended."""
    task = Path(f"/proc/{pid}/task/{thread_id}")
    with contextlib.suppress(FileNotFoundError):
        return int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    fields = (task / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
