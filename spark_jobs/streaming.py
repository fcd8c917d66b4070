"""One streaming query over the metadata topic, from its start to its end.

The job says where to begin: its heads move in one transaction with what it keeps. So Spark's checkpoint is not needed, and is
new at every start. Entries may come again after a kill, and the job must drop them. Invariant: when `run` returned, the
query has ended, after a whole micro-batch if it was asked to.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from spark_jobs.causes import essence
from spark_jobs.session import RunningSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

LOG = logging.getLogger("monitor.query")

LOOK_EVERY_S = 0.25
STOP_LOOK_S = 0.02
JVM_END_S = 15.0
EARLIEST = -2  # Spark's word in starting offsets

INPUT_COLUMNS = ("partition", "offset", "key", "value", "unix_millis(timestamp) AS timestamp_ms")


class QueryFailedError(Exception):
    """The query ended with an error; the text is one line that says which. `cause` is the job's own error, if it was one."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self.cause = cause


class StopSignal(Protocol):
    """Whether the end was asked for."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The arguments of a stream. `kafka` are options of Spark's source, `starts` next offsets; partitions without one begin at the start.

    `once`: end when everything that was there is taken. `stop_wait_s` is for the micro-batch that runs at the end.
    """

    name: str
    kafka: Mapping[str, str]
    topic: str
    partitions: int
    starts: Mapping[int, int]
    scratch: Path
    once: bool
    trigger_interval_s: float
    max_entries_per_batch: int
    stop_wait_s: float


class StreamRun:
    """One run of a query. `take` gets each micro-batch with `INPUT_COLUMNS`; what it raises ends the query.

    `look` is called several times a second and may raise to end it. `on_failed` is called when the query failed, and may
    raise what explains it better.
    """

    def __init__(
        self,
        stream: Stream,
        spark: RunningSpark,
        *,
        take: Callable[[DataFrame, int], None],
        look: Callable[[], None],
        on_failed: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._spark = spark
        self._take = take
        self._look = look
        self._on_failed = on_failed
        self._failure: Exception | None = None

    def run(self, stopping: StopSignal, on_started: Callable[[], None]) -> bool:
        """Run until `stopping` is set, or with `once` until the end. Raises `QueryFailedError`, and what `look` raises.

        Returns False when Spark itself was ended by the stop, before a micro-batch that was running.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            query = self._start()
            on_started()
            if self._follow(query, stopping):
                self._stop(query)
        except (Py4JError, PySparkException, OSError) as error:
            # A signal to all processes of the job ends the JVM as well, perhaps a moment before it comes here: explaining waits.
            explained = "" if stopping.is_set() else self._explain(error)
            if stopping.is_set():
                LOG.info("Spark ended before the running micro-batch did, which is safe: it is done again next time")
                return False
            self._on_failed()
            raise QueryFailedError(explained, self._failure) from error
        return True

    def _start(self) -> StreamingQuery:
        stream, session = self._stream, self._spark.session
        starting = {stream.topic: {str(one): stream.starts.get(one, EARLIEST) for one in range(stream.partitions)}}
        source = session.readStream.format("kafka").options(**stream.kafka, subscribe=stream.topic)
        frame = source.options(startingOffsets=json.dumps(starting), maxOffsetsPerTrigger=str(stream.max_entries_per_batch)).load()
        checkpoint = stream.scratch / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        writer = frame.writeStream.queryName(stream.name).option("checkpointLocation", str(checkpoint))
        if stream.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{stream.trigger_interval_s:g} seconds")
        return writer.foreachBatch(self._take_noted).start()

    def _take_noted(self, frame: DataFrame, batch_id: int) -> None:
        try:
            self._take(frame.selectExpr(*INPUT_COLUMNS), batch_id)
        except Exception as error:
            self._failure = error  # Spark wraps it in pages of text
            raise

    def _follow(self, query: StreamingQuery, stopping: StopSignal) -> bool:
        """Wait; True when the query must be stopped, False when it is done by itself."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        while not stopping.is_set():
            try:
                self._look()
            except Exception:
                with suppress(Py4JError, PySparkException):  # what was found is the better explanation
                    self._stop(query)
                raise
            if query.awaitTermination(LOOK_EVERY_S):  # type: ignore[arg-type]
                return False
            if not self._spark.is_alive():
                raise QueryFailedError(self._jvm_ended(), self._failure)
        return True

    def _stop(self, query: StreamingQuery) -> None:
        """Let the running micro-batch end, then stop. A query that has always more to do is never without one."""

        def done() -> int | None:
            progress = query.lastProgress
            return None if progress is None else progress.batchId

        before, deadline_s = done(), time.monotonic() + self._stream.stop_wait_s
        while query.isActive and query.status["isTriggerActive"] and done() == before and time.monotonic() < deadline_s:
            time.sleep(STOP_LOOK_S)
        # Safe at any moment: what is taken but not in Spark's checkpoint is dropped by offset next time.
        query.stop()

    def _explain(self, error: Exception) -> str:
        from py4j.protocol import Py4JNetworkError

        if isinstance(error, (Py4JNetworkError, OSError)):
            # A JVM that is killed closes its sockets a moment before it is gone.
            with suppress(subprocess.TimeoutExpired):
                self._spark.jvm.wait(JVM_END_S)
        if not self._spark.is_alive():
            return self._jvm_ended()
        cause = self._failure or error
        return f"the query failed: {type(cause).__name__}: {essence(str(cause))}; Spark's log: {self._spark.log_file}"

    def _jvm_ended(self) -> str:
        status = self._spark.jvm.poll()
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        return f"Spark's JVM {how}; nothing that was taken over is lost, start again. Its log: {self._spark.log_file}"
