"""The streaming job: Kafka's log -> one ordered scan per partition -> one transaction of the database per micro-batch.

Exactly once by offset: the heads move in the transaction that takes over what was derived from the entries below them, and
every start begins at the heads. So Spark's checkpoint is of no importance: it is new at every start. Invariant: when the
job ends, however it ends, the folder says what the entries below its heads say, each counted once.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.batch_read import LogPlace, kafka_options
from spark_jobs.find_start import LogIdentity, SnapshotSource, SnapshotStarts
from spark_jobs.log_begin import LogPrunedError
from spark_jobs.monitor.checks import Check, Checks
from spark_jobs.monitor.endpoint import JobMetrics
from spark_jobs.monitor.facts import record_brokers, record_job, record_partitions
from spark_jobs.monitor.life import Beats, signs_of_life
from spark_jobs.monitor.lock import MonitorInUseError, hold_folder
from spark_jobs.monitor.report import open_report
from spark_jobs.monitor.topic import TopicBroker, TopicWatch, WatchedTopic
from spark_jobs.monitor.warm_workers import WarmWorkers, use_workers
from spark_jobs.monitor.watcher import LogReplacedError, Watcher, check_identity
from spark_jobs.session import Engine, RunningSpark, open_spark
from spark_jobs.settings import MAX_ENTRIES_PER_BATCH
from spark_jobs.snapshots.content import read_start
from spark_jobs.store.engine import STORE_ERRORS, StorePlace, is_lost
from spark_jobs.streaming import QueryFailedError, StopSignal, Stream, StreamRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from spark_jobs.store.sink import Store

LOG = logging.getLogger("monitor")

STOP_WAIT_S = 6.0
STORE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions:
    """The arguments of the monitor. `folder` has its lock and Spark's files, `place` is that of its database.

    `properties` are librdkafka's. `metrics_port` None: no endpoint.

    `snapshots` None: a partition whose beginning is deleted is followed from where its log begins, without what was before.
    """

    bootstrap_servers: str
    topic: str
    folder: Path
    place: StorePlace
    engine: Engine
    version: str
    properties: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    trigger_interval_s: float = 1.0
    max_entries_per_batch: int = MAX_ENTRIES_PER_BATCH
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    snapshots: SnapshotSource | None = None
    checks: Sequence[Check] = ()
    gateways: Callable[[], Sequence[TopicBroker]] = tuple
    """Returns the gateways that upload, beside the brokers."""


def run_monitor(options: MonitorOptions, stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
    """Follow the log until `stopping` is set, or with `once` until everything that was there is merged.

    `on_ready` gets a line when the query runs. Raises `MonitorInUseError`, `TopicMissingError`, `KafkaUnavailableError`,
    `UntranslatableError`, `SparkStartError`, `MetricsPortError`, `LogReplacedError`, `QueryFailedError`, one of `STORE_ERRORS`.
    """
    with (
        hold_folder(options.folder),
        _held_store(options.place) as store,
        signs_of_life(options.place, stopping, is_once=options.once) as beats,
    ):
        # Wrong arguments are found before Spark is started, which takes seconds.
        kafka = kafka_options(LogPlace(bootstrap_servers=options.bootstrap_servers, topic=options.topic, properties=options.properties))
        watch = TopicWatch(options.bootstrap_servers, options.topic, options.properties)
        facts = watch.facts()
        _adopt(options, facts, store)
        _begin_with_snapshots(options, watch, facts, store)
        _Job(options, watch, facts, store, kafka, beats).run(stopping, on_ready)


@contextmanager
def _held_store(place: StorePlace) -> Iterator[Store]:
    from spark_jobs.store.sink import Store

    with Store.open(place) as store:
        _hold(store, place)
        yield store


def _hold(store: Store, place: StorePlace) -> None:
    if not store.hold():
        raise MonitorInUseError(f"another monitor writes {place}: stop it first, or give this one a schema of its own with --store")


def _adopt(options: MonitorOptions, facts: WatchedTopic, store: Store) -> None:
    with open_report(options.place) as report:
        known = report.log()
    if known is not None:
        if known["topic"] != options.topic:
            raise LogReplacedError(f"{options.place} was built from topic {known['topic']}, not {options.topic}; use another one")
        check_identity(options.topic, WatchedTopic(str(known["topic_id"]), int(str(known["partitions"]))), facts)
    store.adopt_log(options.topic, facts.topic_id, facts.partitions)


def _begin_with_snapshots(options: MonitorOptions, watch: TopicWatch, facts: WatchedTopic, store: Store) -> None:
    """Begin partitions with good snapshots whose next entry is deleted, or that were never read and go on from another log."""
    if options.snapshots is None:
        return
    heads, everything = store.heads(), range(facts.partitions)
    log_starts, ends = watch.starts(everything), watch.ends(everything)
    restored = watch.restored({kpart: start for kpart, start in log_starts.items() if kpart not in heads})
    lacking = [kpart for kpart, start in log_starts.items() if start > (heads[kpart].next_offset if kpart in heads else 0)]
    identity = LogIdentity(watch.cluster_id(), facts.id_bytes)
    with tempfile.TemporaryDirectory(prefix="snapshots-", dir=options.folder) as kept:
        starts = SnapshotStarts(options.snapshots, identity, Path(kept), newest_first=True, restored=restored)
        for kpart in [*lacking, *restored]:
            try:
                start = starts.begin(kpart, log_starts[kpart], ends[kpart])
            except LogPrunedError as pruned:
                LOG.warning("what the entries before the log's beginning say is not known: %s", pruned)
                continue
            if start.snapshot is not None:
                store.start_from(read_start(start), time.time_ns() // 1_000_000)


class _Job:
    """One run."""

    def __init__(
        self, options: MonitorOptions, watch: TopicWatch, facts: WatchedTopic, store: Store, kafka: Mapping[str, str], beats: Beats
    ) -> None:
        self._options = options
        self._beats = beats
        self._store = store
        self._kafka = kafka
        self._next = {partition: head.next_offset for partition, head in store.heads().items()}
        self._watcher = Watcher(
            watch,
            facts,
            heads=lambda: self._next,
            gateways=options.gateways,
            on_brokers=lambda brokers: record_brokers(options.place, brokers),
            on_grown=lambda partitions: record_partitions(options.place, partitions),
            on_error=lambda: self._metrics.on_kafka_error(),
        )
        self._metrics = JobMetrics(options.place, self._watcher.ends, {check.name: check.every_s for check in options.checks})
        self._checks = Checks(options.checks, options.folder, self._metrics.on_check_failure)

    def run(self, stopping: StopSignal, on_ready: Callable[[str], None]) -> None:
        """See `run_monitor`."""
        from spark_jobs.monitor.listener import ProgressListener

        options = self._options
        self._watcher.start()
        self._beats.watch(self._watcher)
        try:
            address = None if options.metrics_port is None else self._metrics.serve(options.metrics_host, options.metrics_port)
            record_job(
                options.place,
                started_ms=time.time_ns() // 1_000_000,
                pid=os.getpid(),
                trigger_s=options.trigger_interval_s,
                version=options.version,
            )
            with open_report(options.place) as report:
                self._checks.start(report.job())
            with (
                open_spark("diskless-monitor", options.engine) as spark,
                WarmWorkers(lambda: use_workers(spark.session)) as workers,
            ):
                spark.session.streams.addListener(ProgressListener(self._metrics, workers.used))
                self._run_queries(spark, stopping, lambda: on_ready(self._ready_line(address)))
        finally:
            self._metrics.on_up(False)
            self._checks.stop()
            self._watcher.stop()

    def _ready_line(self, address: tuple[str, int] | None) -> str:
        words = ["ready", f"topic={self._options.topic}", f"partitions={self._watcher.known.partitions}", f"dir={self._options.folder}"]
        return " ".join(words + ([] if address is None else [f"metrics=http://{address[0]}:{address[1]}/metrics"]))

    def _run_queries(self, spark: RunningSpark, stopping: StopSignal, on_ready: Callable[[], None]) -> None:
        """Run a query, and another one from the database's heads on when the database was lost and is there again."""
        is_first = True

        def on_started() -> None:
            self._metrics.on_up(True)
            if is_first:
                on_ready()

        while not stopping.is_set():
            try:
                self._run_query(spark, stopping, on_started)
                return
            except QueryFailedError as error:
                if self._options.once or not is_lost(error.cause):
                    raise
                LOG.warning("the database is waited for: %s", error.cause)
            is_first = False
            self._metrics.on_up(False)
            self._wait_for_store(stopping)

    def _wait_for_store(self, stopping: StopSignal) -> None:
        """Connect to the database anew. Its last transactions may be lost: what it says is read from it again."""
        while not stopping.is_set():
            try:
                self._store.reopen()
                _hold(self._store, self._options.place)
                _adopt(self._options, self._watcher.known, self._store)
                self._next = {partition: head.next_offset for partition, head in self._store.heads().items()}
            except STORE_ERRORS as error:
                if not is_lost(error):
                    raise
                time.sleep(STORE_EVERY_S)
            else:
                LOG.warning("the database is there again")
                return

    def _run_query(self, spark: RunningSpark, stopping: StopSignal, on_started: Callable[[], None]) -> None:
        options = self._options
        stream = Stream(
            name="monitor",
            kafka=self._kafka,
            topic=options.topic,
            partitions=self._watcher.known.partitions,
            starts=self._next,
            scratch=options.engine.scratch,
            once=options.once,
            trigger_interval_s=options.trigger_interval_s,
            max_entries_per_batch=options.max_entries_per_batch,
            stop_wait_s=STOP_WAIT_S,
        )
        # A topic that was deleted makes the query fail, and is the better explanation.
        on_failed = self._watcher.look_at_identity
        StreamRun(stream, spark, take=self._merge, look=self._look, on_failed=on_failed).run(stopping, on_started)

    def _merge(self, frame: DataFrame, batch_id: int) -> None:
        """Scan and merge one micro-batch. Entries below the heads, which come again after a kill, are dropped by the scan."""
        from spark_jobs.scan import INPUT_COLUMNS, SUMMARY_DDL, scan_function
        from spark_jobs.store.judging import merge_judged

        def read_again(kpart: int, start: int, end: int) -> pa.Table:
            entries = frame.where(f"partition = {kpart} AND offset >= {start} AND offset < {end}")
            return entries.select(*INPUT_COLUMNS).toArrow()

        heads = self._store.heads()
        start_s = time.monotonic()
        summary = frame.mapInArrow(scan_function(heads), SUMMARY_DDL).toArrow()
        scanned_s = time.monotonic()
        now_ms = time.time_ns() // 1_000_000
        scan_ms = round((scanned_s - start_s) * 1000)
        merge_judged(self._store, summary, heads, read_again, self._watcher.ends(), now_ms, scan_ms)
        merged_s = time.monotonic()
        self._on_merged(merged_s - scanned_s)
        LOG.debug("micro-batch %d: scan %.3f s, merge %.3f s", batch_id, scanned_s - start_s, merged_s - scanned_s)

    def _on_merged(self, seconds: float) -> None:
        with open_report(self._options.place) as report:
            heads = report.heads()
        moved = [row for row in heads if row["next_offset"] != self._next.get(int(str(row["kpart"])))]
        self._next = {int(str(row["kpart"])): int(str(row["next_offset"])) for row in heads}
        ages = [(int(str(row["merged_ms"])) - int(str(row["append_ms"]))) / 1000 for row in moved]
        self._metrics.on_merge(seconds, max(ages, default=None))

    def _look(self) -> None:
        self._beats.looked()
        self._checks.look()
        if self._watcher.replaced is not None:
            raise self._watcher.replaced
