"""Keeps Spark's Python workers while there is nothing to read.

Spark ends workers when none was used for a minute, and the first entry after a pause would wait until new ones have started and imported
what the scan needs. So a job that does nothing runs from time to time; on a cluster it has a task for each core.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LOG = logging.getLogger("monitor.query")

IDLE_S: Final = 25.0
"""A job runs when workers were not used for so long: well below Spark's minute, which cannot be set."""


class WarmWorkers:
    """A thread that uses workers which were idle for `idle_s`. A context manager."""

    def __init__(self, use: Callable[[], None], idle_s: float = IDLE_S) -> None:
        """`use` makes each worker do something; what it raises of Spark's errors is logged."""
        self._use = use
        self._idle_s = idle_s
        self.used()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warm-workers", daemon=True)

    def __enter__(self) -> WarmWorkers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread; a job under way is not waited for."""
        self._stop.set()

    def used(self) -> None:
        """Note that workers are in use now."""
        self._due_s = time.monotonic() + self._idle_s

    def _run(self) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        while not self._stop.wait(max(0.0, self._due_s - time.monotonic())):
            if time.monotonic() < self._due_s:
                continue
            try:
                self._use()
            except (Py4JError, PySparkException, OSError) as error:
                # What is wrong ends a micro-batch, too; without one, the next entry only waits longer.
                if not self._stop.is_set():
                    LOG.warning("idle workers cannot be kept: %s", error)
            self.used()


def use_workers(session: SparkSession) -> None:
    """Run a job of a row for each core. Raises what Spark raises."""
    cores = session.sparkContext.defaultParallelism
    session.range(0, cores, 1, cores).mapInArrow(_pass, "id LONG").write.format("noop").mode("overwrite").save()


def _pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
