"""Follows the log and appends to the archive: one micro-batch, one commit of the Delta table.

Exactly once by offset: the table's own heads say where to go on, entries below them are replays, and Spark's checkpoint is
of no importance, so it is new at every start. Invariant: the table holds every entry below its heads once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_jobs.archive.rows import DDL, SCHEMA, archive_function, split_heads
from spark_jobs.archive.table import ArchiveError, ArchiveTable
from spark_jobs.batch_read import LogPlace, kafka_options
from spark_jobs.monitor.topic import TopicFacts, TopicWatch
from spark_jobs.session import Engine, RunningSpark, open_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

LOG = logging.getLogger("archive")

LOOK_EVERY_S = 0.25
IDENTITY_EVERY_S = 10.0
STOP_WAIT_S = 10.0
STOP_LOOK_S = 0.02
EARLIEST = -2  # Spark's word in starting offsets

INPUT_COLUMNS = ("partition", "offset", "key", "value", "unix_millis(timestamp) AS timestamp_ms")


class TopicReplacedError(Exception):
    """The topic of this name is another one now."""


class ArchiveFailedError(Exception):
    """The query ended with an error; the text is one line that says which."""


class StopSignal(Protocol):
    """Whether the end was asked for."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """What to archive, and where. `compact_every_s` None: never; with `once` it means: in the end."""

    place: LogPlace
    to: str
    engine: Engine
    storage_options: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    trigger_interval_s: float = 10.0
    max_entries_per_batch: int = 5000
    compact_every_s: float | None = None
    vacuum_hours: int | None = None


def run_archive(options: ArchiveOptions, stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
    """Append to the archive until `stopping` is set, or with `once` until everything that was in the log is in it.

    Raises `TopicMissingError`, `KafkaUnavailableError`, `UntranslatableError`, `SparkStartError`, `ArchiveError`,
    `TopicReplacedError`, `ArchiveFailedError`.
    """
    kafka = kafka_options(options.place)
    watch = TopicWatch(options.place.bootstrap_servers, options.place.topic, options.place.properties)
    facts = watch.facts()
    table = ArchiveTable.open(options.to, options.place.topic, facts.topic_id, options.storage_options)
    with open_spark("diskless-archive", options.engine) as spark:
        _Job(options, watch, facts, table).run(spark, kafka, stopping, on_ready)


class _Job:
    """One run."""

    def __init__(self, options: ArchiveOptions, watch: TopicWatch, facts: TopicFacts, table: ArchiveTable) -> None:
        self._options = options
        self._watch = watch
        self._facts = facts
        self._table = table
        self._failure: Exception | None = None
        self._compact_due_s = time.monotonic() + (options.compact_every_s or 0)

    def run(self, spark: RunningSpark, kafka: Mapping[str, str], stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
        """See `run_archive`."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            query = self._start(spark, kafka)
            on_ready(f"ready topic={self._options.place.topic} partitions={self._facts.partitions} to={self._options.to}")
            if self._follow(query, spark, stopping):
                _stop(query)
        except (Py4JError, PySparkException, OSError) as error:
            if stopping.is_set():
                # A signal to all processes of the job ends the JVM as well; what was committed is safe.
                LOG.info("Spark ended before the running micro-batch did; it is done again next time")
                return
            self._check_identity()  # a topic that was deleted makes the query fail, and is the better explanation
            if isinstance(self._failure, ArchiveError):
                raise self._failure from error
            raise ArchiveFailedError(self._explain(error, spark)) from error
        if self._options.once and self._options.compact_every_s is not None:
            LOG.info("compaction: %s", self._table.compact(self._options.vacuum_hours))

    def _start(self, spark: RunningSpark, kafka: Mapping[str, str]) -> StreamingQuery:
        options, topic = self._options, self._options.place.topic
        heads = self._table.heads(self._facts.partitions)
        starting = {str(one): heads[one].next_offset if one in heads else EARLIEST for one in range(self._facts.partitions)}
        source = spark.session.readStream.format("kafka").options(**kafka, subscribe=topic)
        frame = source.options(
            startingOffsets=json.dumps({topic: starting}), maxOffsetsPerTrigger=str(options.max_entries_per_batch)
        ).load()
        writer = frame.writeStream.queryName("archive").option("checkpointLocation", str(options.engine.scratch / "checkpoint"))
        if options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{options.trigger_interval_s:g} seconds")
        return writer.foreachBatch(self._append).start()

    def _append(self, frame: DataFrame, batch_id: int) -> None:
        """Decode and commit one micro-batch. What is in the table already, after a kill or with a new checkpoint, is dropped."""
        try:
            before = self._table.heads(self._facts.partitions)
            start_s = time.monotonic()
            found = frame.selectExpr(*INPUT_COLUMNS).mapInArrow(archive_function(before), DDL).toArrow().cast(SCHEMA)
            rows, after = split_heads(found)
            moved = {kpart: head for kpart, head in after.items() if head != before.get(kpart)}
            decoded_s = time.monotonic()
            if moved:
                self._table.write(rows, before, moved)
            LOG.debug(
                "micro-batch %d: decoded in %.3f s, %d rows written in %.3f s",
                batch_id,
                decoded_s - start_s,
                len(rows),
                time.monotonic() - decoded_s,
            )
            self._compact_when_due()
        except Exception as error:
            self._failure = error  # Spark wraps it in pages of text
            raise

    def _compact_when_due(self) -> None:
        every_s = self._options.compact_every_s
        if every_s is not None and not self._options.once and time.monotonic() >= self._compact_due_s:
            LOG.info("compaction: %s", self._table.compact(self._options.vacuum_hours))
            self._compact_due_s = time.monotonic() + every_s

    def _follow(self, query: StreamingQuery, spark: RunningSpark, stopping: StopSignal) -> bool:
        """Wait; True when the query must be stopped, False when it is done by itself."""
        look_due_s = time.monotonic() + IDENTITY_EVERY_S
        while not stopping.is_set():
            if query.awaitTermination(LOOK_EVERY_S):  # type: ignore[arg-type]
                return False
            if not spark.is_alive():
                raise ArchiveFailedError(
                    f"Spark's JVM ended with status {spark.jvm.poll()}; nothing is lost, start again. Its log: {spark.log_file}"
                )
            if time.monotonic() >= look_due_s:
                self._check_identity()
                look_due_s = time.monotonic() + IDENTITY_EVERY_S
        return True

    def _check_identity(self) -> None:
        """A recreated topic has offsets that look like replays: its entries would be dropped without a word."""
        from spark_jobs.monitor.topic import KafkaUnavailableError

        try:
            found = self._watch.facts()
        except KafkaUnavailableError as error:
            LOG.warning("Kafka does not tell the topic's id: %s", error)
            return
        if found.topic_id != self._facts.topic_id:
            raise TopicReplacedError(
                f"topic {self._options.place.topic} was recreated: its id was {self._facts.topic_id} and is {found.topic_id}"
            )

    def _explain(self, error: Exception, spark: RunningSpark) -> str:
        cause = self._failure or error
        text = str(cause).strip().splitlines()
        return f"the query failed: {type(cause).__name__}: {text[0] if text else 'no message'}; Spark's log: {spark.log_file}"


def _stop(query: StreamingQuery) -> None:
    """Let the running micro-batch end, then stop: a query under load is never without one."""

    def done() -> int | None:
        progress = query.lastProgress
        return None if progress is None else progress.batchId

    before, deadline_s = done(), time.monotonic() + STOP_WAIT_S
    while query.isActive and query.status["isTriggerActive"] and done() == before and time.monotonic() < deadline_s:
        time.sleep(STOP_LOOK_S)
    query.stop()
