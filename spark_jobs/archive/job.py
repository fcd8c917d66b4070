"""Follows the log and appends to the archive: one micro-batch, one commit of the Delta table.

Exactly once by offset: the table's own heads say where to go on, entries below them are replays, and Spark's checkpoint is
of no importance, so it is new at every start. Entries of a transaction that has not ended are held in memory, behind the head,
and read again after a restart. Invariant: the table holds every entry below its heads once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.archive.rows import DDL, SCHEMA, HeldMessage, archive_function, split
from spark_jobs.archive.table import ArchiveError, ArchiveTable
from spark_jobs.batch_read import LogPlace, kafka_options
from spark_jobs.monitor.topic import TopicWatch, WatchedTopic
from spark_jobs.session import Engine, RunningSpark, open_spark
from spark_jobs.streaming import QueryFailedError, StopSignal, Stream, StreamRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("archive")

IDENTITY_EVERY_S = 10.0
STOP_WAIT_S = 10.0
HELD_BYTES_MAX = 256 << 20
"""How much of a transaction is held while it has no end; beyond it the archive stops with a message, as memory is not endless."""


class TopicReplacedError(Exception):
    """The topic of this name is another one now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The arguments of the archive. `compact_every_s` None: never; with `once` it means: in the end."""

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
    `TopicReplacedError`, `QueryFailedError`.
    """
    kafka = kafka_options(options.place)
    watch = TopicWatch(options.place.bootstrap_servers, options.place.topic, options.place.properties)
    facts = watch.facts()
    table = ArchiveTable.open(options.to, options.place.topic, facts.topic_id, options.storage_options)
    with open_spark("diskless-archive", options.engine) as spark:
        _Job(options, watch, facts, table).run(spark, kafka, stopping, on_ready)


class _Job:
    """One run."""

    def __init__(self, options: ArchiveOptions, watch: TopicWatch, facts: WatchedTopic, table: ArchiveTable) -> None:
        self._options = options
        self._watch = watch
        self._facts = facts
        self._table = table
        self._held: dict[int, list[HeldMessage]] = {}
        self._identity_due_s = time.monotonic() + IDENTITY_EVERY_S
        self._compact_due_s = time.monotonic() + (options.compact_every_s or 0)

    def run(self, spark: RunningSpark, kafka: Mapping[str, str], stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
        """See `run_archive`."""
        options = self._options
        stream = Stream(
            name="archive",
            kafka=kafka,
            topic=options.place.topic,
            partitions=self._facts.partitions,
            starts={kpart: head.next_offset for kpart, head in self._table.heads(self._facts.partitions).items()},
            scratch=options.engine.scratch,
            once=options.once,
            trigger_interval_s=options.trigger_interval_s,
            max_entries_per_batch=options.max_entries_per_batch,
            stop_wait_s=STOP_WAIT_S,
        )
        ready = f"ready topic={options.place.topic} partitions={self._facts.partitions} to={options.to}"
        # A topic that was deleted makes the query fail, and is the better explanation.
        query = StreamRun(stream, spark, take=self._append, look=self._look, on_failed=self._check_identity)
        try:
            is_complete = query.run(stopping, lambda: on_ready(ready))
        except QueryFailedError as error:
            if isinstance(error.cause, ArchiveError):
                raise error.cause from error
            raise
        if is_complete and options.once and options.compact_every_s is not None:
            LOG.info("compaction: %s", self._table.compact(self._options.vacuum_hours))

    def _append(self, frame: DataFrame, batch_id: int) -> None:
        """Decode and commit one micro-batch. What is in the table already, after a kill or with a new checkpoint, is dropped."""
        before = self._table.heads(self._facts.partitions)
        start_s = time.monotonic()
        found = frame.mapInArrow(archive_function(before, self._held), DDL).toArrow().cast(SCHEMA)
        rows, after, held = split(found)
        _check_held(held)
        moved = {kpart: head for kpart, head in after.items() if head != before.get(kpart)}
        decoded_s = time.monotonic()
        # Every entry leaves a row: without one nothing was done, except that a log may begin with a transaction that is open.
        if moved and len(rows):
            self._table.write(rows, before, moved)
        self._held |= held
        LOG.debug(
            "micro-batch %d: decoded in %.3f s, %d rows written in %.3f s",
            batch_id,
            decoded_s - start_s,
            len(rows),
            time.monotonic() - decoded_s,
        )
        self._compact_when_due()

    def _compact_when_due(self) -> None:
        every_s = self._options.compact_every_s
        if every_s is not None and not self._options.once and time.monotonic() >= self._compact_due_s:
            LOG.info("compaction: %s", self._table.compact(self._options.vacuum_hours))
            self._compact_due_s = time.monotonic() + every_s

    def _look(self) -> None:
        if time.monotonic() >= self._identity_due_s:
            self._check_identity()
            self._identity_due_s = time.monotonic() + IDENTITY_EVERY_S

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


def _check_held(held: Mapping[int, Sequence[HeldMessage]]) -> None:
    for kpart, entries in held.items():
        if sum(len(entry.value or b"") for entry in entries) > HELD_BYTES_MAX:
            began = entries[0].offset
            raise ArchiveError(
                f"the transaction at offset {began} of partition {kpart} has no end within {HELD_BYTES_MAX >> 20} MiB, and no more of it "
                f"is held; look at it with `diskless log dump --partition {kpart} --from {began}`"
            )
