"""Spark's own reports about the query, as metrics. Tiny on purpose: Spark waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from spark_jobs.monitor.endpoint import JobMetrics


class ProgressListener(StreamingQueryListener):
    """Passes on what the query did."""

    def __init__(self, metrics: JobMetrics, on_workers_used: Callable[[], None]) -> None:
        self._metrics = metrics
        self._on_workers_used = on_workers_used

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the job sets `up`."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is done, or there was none for a while."""
        progress = event.progress
        self._metrics.on_progress()
        if progress.numInputRows:
            self._on_workers_used()
            self._metrics.on_batch(progress.numInputRows, progress.durationMs.get("triggerExecution", 0) / 1000)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Count the sign of life of a query without input."""
        self._metrics.on_progress()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the job sees the end by itself, with the reason."""
