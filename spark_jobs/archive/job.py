"""Follows the log and appends to the archive: one micro-batch, one commit of the Delta table.

Exactly once by offset: the table's own heads say where to go on, entries below them are replays, and Spark's checkpoint is
of no importance, so it is new at every start. Entries of a transaction that has not ended are held in memory, behind the head,
and read again after a restart. Invariant: the table holds every entry below its heads once, but those that were deleted before
they were read: what lives of their files is from a snapshot, or they are left out when the caller said so.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.archive.columns import DDL, SCHEMA
from spark_jobs.archive.entries import HeldMessage
from spark_jobs.archive.rows import archive_function, split
from spark_jobs.archive.snapshot_rows import snapshot_rows
from spark_jobs.archive.table import ArchiveTable
from spark_jobs.batch_read import LogPlace, kafka_options
from spark_jobs.find_start import LogIdentity, SnapshotSource, SnapshotStarts
from spark_jobs.log_begin import LogPrunedError, check_begins
from spark_jobs.monitor.topic import KafkaUnavailableError, TopicWatch, WatchedTopic
from spark_jobs.scan.head import Head
from spark_jobs.session import Engine, RunningSpark, open_spark
from spark_jobs.snapshots.content import SnapshotContent, read_start
from spark_jobs.streaming import QueryFailedError, StopSignal, Stream, StreamRun
from tables.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("archive")

IDENTITY_EVERY_S = 10.0
STOP_WAIT_S = 10.0
HELD_BYTES_MAX = 256 << 20
"""How much of a transaction is held while it has no end; beyond it the archive stops with a message, as memory is not endless."""

REMEDY = (
    "With the object store that has the snapshots of the log (--config, or --object-store-url) the archive gets what lives of the deleted "
    "entries; with --skip-pruned it goes on where the log begins now, and holds nothing of those before. Run it all the time, so that it "
    "reads entries before a snapshot replaces them"
)


class LongTransactionError(Exception):
    """A transaction of the log has no end within what is held of it."""


class TopicReplacedError(Exception):
    """The topic of this name is another one now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The arguments of the archive. `compact_every_s` None: never; with `once` it means: in the end.

    `skip_pruned`: begin where the log begins, also when entries before that are not in the table. `snapshots` have what lives of them.
    """

    place: LogPlace
    to: str
    engine: Engine
    storage_options: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    trigger_interval_s: float = 10.0
    max_entries_per_batch: int = 5000
    compact_every_s: float | None = None
    vacuum_hours: int | None = None
    skip_pruned: bool = False
    snapshots: SnapshotSource | None = None
    on_archived: Callable[[int], None] = lambda entries: None
    """Is told after each commit of the table how many entries it added."""


def run_archive(options: ArchiveOptions, stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
    """Append to the archive until `stopping` is set, or with `once` until everything that was in the log is in it.

    Raises `TopicMissingError`, `KafkaUnavailableError`, `UntranslatableError`, `SparkStartError`, `TableError`,
    `LongTransactionError`, `TopicReplacedError`, `LogPrunedError`, `QueryFailedError`.
    """
    # A gap in the table would never be seen: Spark has to fail where entries are deleted before they are read.
    kafka = kafka_options(options.place) | {"failOnDataLoss": "true"}
    watch = TopicWatch(options.place.bootstrap_servers, options.place.topic, options.place.properties)
    facts = watch.facts()
    table = ArchiveTable.open(options.to, options.place.topic, facts.topic_id, options.storage_options)
    job = _Job(options, watch, facts, table)
    with open_spark("diskless-archive", options.engine) as spark:
        job.run(spark, kafka, stopping, on_ready)


class _Job:
    """One run."""

    def __init__(self, options: ArchiveOptions, watch: TopicWatch, facts: WatchedTopic, table: ArchiveTable) -> None:
        self._options = options
        self._watch = watch
        self._facts = facts
        self._partitions = facts.partitions
        """Grows when the log does: entries of more partitions come by themselves."""
        self._table = table
        self._first = self._place_to_begin()
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
            starts=self._first,
            scratch=options.engine.scratch,
            once=options.once,
            trigger_interval_s=options.trigger_interval_s,
            max_entries_per_batch=options.max_entries_per_batch,
            stop_wait_s=STOP_WAIT_S,
        )
        ready = f"ready topic={options.place.topic} partitions={self._facts.partitions} to={options.to}"
        query = StreamRun(stream, spark, take=self._append, look=self._look, on_failed=self._explain)
        try:
            is_complete = query.run(stopping, lambda: on_ready(ready))
        except QueryFailedError as error:
            if isinstance(error.cause, TableError | LongTransactionError):
                raise error.cause from error
            raise
        if is_complete and options.once and options.compact_every_s is not None:
            LOG.info("compaction: %s", self._table.sink.compact(self._options.vacuum_hours))

    def _place_to_begin(self) -> dict[int, int]:
        """Where to read on in each partition. Raises `LogPrunedError` when the entry that is due there is deleted."""
        starts = self._watch.starts(range(self._facts.partitions))
        if self._options.snapshots is not None:
            self._take_snapshots(self._options.snapshots, starts)
        due = self._due()
        if not self._options.skip_pruned:
            check_begins(self._watch.topic, starts, due, REMEDY)
        places = {kpart: max(start, due.get(kpart, 0)) for kpart, start in starts.items()}
        for kpart, place in places.items():
            first = due.get(kpart, 0)
            if place > first:
                LOG.warning("partition %d: entries %d to %d are deleted and will not be in the archive", kpart, first, place - 1)
        return places

    def _take_snapshots(self, source: SnapshotSource, log_starts: Mapping[int, int]) -> None:
        """Put what snapshots have of deleted entries, and of the log before a restored one, into the table.

        A partition without a good snapshot is left as it is. A snapshot's rows and the head behind it are one commit.
        """
        due = self._due()
        restored = self._watch.restored({kpart: start for kpart, start in log_starts.items() if kpart not in due})
        lacking = {kpart: start for kpart, start in log_starts.items() if start > due.get(kpart, 0) or kpart in restored}
        if not lacking:
            return
        ends = self._watch.ends(sorted(lacking))
        identity = LogIdentity(self._watch.cluster_id(), self._facts.id_bytes)
        with tempfile.TemporaryDirectory(prefix="diskless-snapshots-") as kept:
            starts = SnapshotStarts(source, identity, Path(kept), newest_first=True, restored=restored)
            for kpart, log_start in lacking.items():
                try:
                    start = starts.begin(kpart, log_start, ends[kpart])
                except LogPrunedError as none:
                    LOG.warning("what lives of the deleted entries cannot be archived: %s", none)
                    continue
                if start.snapshot is not None:
                    self._take_snapshot(kpart, read_start(start))

    def _take_snapshot(self, kpart: int, content: SnapshotContent) -> None:
        heads, head = self._table.heads(self._partitions), content.head
        first = heads[kpart].next_offset if kpart in heads else None
        rows = pa.RecordBatchReader.from_batches(SCHEMA, snapshot_rows(content, first))
        self._table.write(rows, heads, {kpart: Head(next_offset=head.end_offset, epoch=head.epoch, term=head.term, seq=head.seq)})
        what = f"entries {first or 0} to {head.end_offset - 1} are deleted" if head.end_offset else "the log goes on from another one"
        LOG.warning("partition %d: %s; what lives of the files is from a snapshot", kpart, what)

    def _due(self) -> dict[int, int]:
        return {kpart: head.next_offset for kpart, head in self._table.heads(self._partitions).items()}

    def _explain(self) -> None:
        """Raise what explains better why the query failed: the topic was deleted, or entries before they were read."""
        self._check_identity()
        try:
            starts = self._watch.starts(range(self._facts.partitions))
        except KafkaUnavailableError as error:
            LOG.warning("Kafka does not tell where the log begins: %s", error)
            return
        due = self._due()
        check_begins(self._watch.topic, starts, {kpart: max(first, due.get(kpart, 0)) for kpart, first in self._first.items()}, REMEDY)

    def _append(self, frame: DataFrame, batch_id: int) -> None:
        """Decode and commit one micro-batch. What is in the table already, after a kill or with a new checkpoint, is dropped."""
        before = self._table.heads(self._partitions)
        start_s = time.monotonic()
        found = frame.mapInArrow(archive_function(before, self._held), DDL).toArrow().cast(SCHEMA)
        rows, after, held = split(found)
        _check_held(held)
        self._partitions = max([self._partitions, *(kpart + 1 for kpart in after)])
        moved = {kpart: head for kpart, head in after.items() if head != before.get(kpart)}
        decoded_s = time.monotonic()
        # Every entry leaves a row: without one nothing was done, except that a log may begin with a transaction that is open.
        if moved and len(rows):
            self._table.write(rows, before, moved)
            self._options.on_archived(sum(head.next_offset - self._begun(before, kpart) for kpart, head in moved.items()))
        self._held |= held
        LOG.debug(
            "micro-batch %d: decoded in %.3f s, %d rows written in %.3f s",
            batch_id,
            decoded_s - start_s,
            len(rows),
            time.monotonic() - decoded_s,
        )
        self._compact_when_due()

    def _begun(self, heads: Mapping[int, Head], kpart: int) -> int:
        return heads[kpart].next_offset if kpart in heads else self._first.get(kpart, 0)

    def _compact_when_due(self) -> None:
        every_s = self._options.compact_every_s
        if every_s is not None and not self._options.once and time.monotonic() >= self._compact_due_s:
            LOG.info("compaction: %s", self._table.sink.compact(self._options.vacuum_hours))
            self._compact_due_s = time.monotonic() + every_s

    def _look(self) -> None:
        if time.monotonic() >= self._identity_due_s:
            self._check_identity()
            self._identity_due_s = time.monotonic() + IDENTITY_EVERY_S

    def _check_identity(self) -> None:
        """A recreated topic has offsets that look like replays: its entries would be dropped without a word."""
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
            raise LongTransactionError(
                f"the transaction at offset {began} of partition {kpart} has no end within {HELD_BYTES_MAX >> 20} MiB, and no more of it "
                f"is held; look at it with `diskless log dump --partition {kpart} --from {began}`"
            )
