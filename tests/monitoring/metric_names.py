"""Every metric that a dashboard or a rule may use: a coordinator's, the monitor's, and those of any process."""

from __future__ import annotations

import re
from typing import Final

from coordinator.adapters.metrics.table import PREFIX, TABLE, MetricKind
from gateway.metrics import PREFIX as GATEWAY_PREFIX
from gateway.metrics import TABLE as GATEWAY
from spark_jobs.monitor.metrics import METRICS as MONITOR
from tables.export.metrics import PREFIX as EXPORT_PREFIX
from tables.export.metrics import TABLE as EXPORT

PROCESS: Final = frozenset(
    {
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_virtual_memory_bytes",
    }
)
"""Metrics of a process on Linux, from Prometheus' own collector."""

OF_PROMETHEUS: Final = frozenset({"up", "ALERTS"})

_NAME = re.compile(r"(?<![\w:$\"])((?:diskless|process)_[a-zA-Z0-9_:]+|up|ALERTS)(?=[\s{\[)]|$)")


def metric_names() -> frozenset[str]:
    """All names as PromQL writes them, a histogram's with their endings."""
    ours = {PREFIX + metric.name: metric.kind for metric in TABLE} | {GATEWAY_PREFIX + metric.name: metric.kind for metric in GATEWAY}
    ours |= {EXPORT_PREFIX + metric.name: metric.kind for metric in EXPORT}
    histograms = {name for name, kind in ours.items() if kind is MetricKind.HISTOGRAM}
    histograms |= {name for name, metric in MONITOR.items() if metric.kind == "histogram"}
    plain = (set(ours) | set(MONITOR)) - histograms
    return frozenset(plain | {name + end for name in histograms for end in ("_bucket", "_sum", "_count")} | PROCESS | OF_PROMETHEUS)


def names_in(expr: str) -> set[str]:
    """The metrics and recording rules an expression names."""
    without_texts = re.sub(r'"[^"]*"', '""', expr)
    return set(_NAME.findall(without_texts))
