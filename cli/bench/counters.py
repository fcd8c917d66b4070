"""Counters of processes since their start; a benchmark takes differences."""

from __future__ import annotations

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
