"""Counters of processes since their start; a benchmark takes differences."""

from __future__ import annotations

import contextlib
import http.client
import os
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.bench.failure import MeasuringFailed

STILL_S = 0.05
METRICS_TIMEOUT_S = 10.0
CLIENT_THREAD = "rdk:"
"""How librdkafka begins the names of its threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCounts:
    """Bytes appended to the log and batches accepted, of all nodes together."""

    appended_bytes: float
    batches: float

    def bytes_per_batch_since(self, before: LogCounts) -> float:
        """Log bytes per batch between two looks; 0 when there was none."""
        batches = self.batches - before.batches
        return (self.appended_bytes - before.appended_bytes) / batches if batches else 0.0


def log_counts(metrics_urls: Sequence[str]) -> LogCounts:
    """Read the counts from the /metrics of nodes. Raises MeasuringFailed."""
    appended = batches = 0.0
    for url in metrics_urls:
        for line in _metrics(url).splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("diskless_coordinator_appended_bytes_total{"):
                appended += float(value)
            elif name.startswith("diskless_coordinator_batches_total{"):
                batches += float(value)
    return LogCounts(appended_bytes=appended, batches=batches)


def _metrics(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=METRICS_TIMEOUT_S) as answer:
            return str(answer.read(), "utf-8")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise MeasuringFailed(f"no metrics of a node at {url}: {error}; name a node's http://host:9193/metrics") from error


def settled_log_counts(metrics_urls: Sequence[str], timeout_s: float = 5.0) -> LogCounts:
    """The counts once they no longer change: batches count when they are acknowledged, bytes as soon as they are appended."""
    deadline = time.monotonic() + timeout_s
    counts = log_counts(metrics_urls)
    while True:
        time.sleep(STILL_S)
        before, counts = counts, log_counts(metrics_urls)
        if counts == before or time.monotonic() > deadline:
            return counts


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
