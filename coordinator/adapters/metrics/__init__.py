"""Metrics and the HTTP port that shows them.

    metrics = Metrics()
    metrics.add("commits_total", 1, partition)
    await HttpServer(settings.http_listener, ready=supervisor.readiness, metrics=metrics).start()

`table` declares every metric, `registry` keeps them, `http` serves them.
"""

from coordinator.adapters.metrics.http import HttpServer
from coordinator.adapters.metrics.registry import Metrics, Sample
from coordinator.adapters.metrics.table import PREFIX, TABLE, Metric, MetricKind

__all__ = ["PREFIX", "TABLE", "HttpServer", "Metric", "MetricKind", "Metrics", "Sample"]
