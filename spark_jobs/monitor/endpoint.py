"""The metrics of `spark_jobs.monitor.metrics` with their values, on an HTTP port if one is wanted.

What the database knows is read from it at each request, so a scrape and the dashboard never disagree; what only the
running job knows is kept here. Invariant: a scrape never waits for the job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from spark_jobs.monitor.metrics import BATCH_SECONDS_BUCKETS, METRICS, PREFIX
from spark_jobs.monitor.report import Report, open_report
from spark_jobs.store.engine import STORE_ERRORS, StorePlace

TOTALS = {
    "entries_total": "entries",
    "files_total": "files",
    "batches_total": "batches",
    "records_total": "records",
    "bytes_total": "bytes",
    "replayed_entries_total": "replayed",
    "quarantined_total": "quarantined",
}
"""Counters by the name of their total in the database."""

VOID_PREFIX = "void."

CHECKS = ("verify", "objects")
"""Jobs that the monitor may run itself; each has its metrics, whether it does or not."""

GAUGES = (
    "open_transactions",
    "open_transaction_age_seconds",
    "verify_disagrees",
    "last_verify_timestamp_seconds",
    "missing_files",
    "last_objects_timestamp_seconds",
)
"""Numbers of the database without labels."""


class MetricsPortError(Exception):
    """The port cannot be listened on."""


class JobMetrics:
    """The metrics of one job. `ends` tells where the log ended when last asked, `intervals_s` how often it runs which check."""

    def __init__(self, place: StorePlace, ends: Callable[[], Mapping[int, int]], intervals_s: Mapping[str, float] | None = None) -> None:
        self.registry = CollectorRegistry()
        self._up = _gauge(self.registry, "up")
        self._freshness = _gauge(self.registry, "freshness_seconds")
        self._progress = _gauge(self.registry, "last_progress_timestamp_seconds")
        self._merged = _gauge(self.registry, "last_merge_timestamp_seconds")
        self._batch_seconds = _histogram(self.registry, "batch_seconds")
        self._merge_seconds = _histogram(self.registry, "merge_seconds")
        self._rows = _counter(self.registry, "rows_total")
        self._kafka_errors = _counter(self.registry, "kafka_errors_total")
        intervals = _gauge(self.registry, "check_interval_seconds")
        self._check_failures = _counter(self.registry, "check_failures_total")
        for check in CHECKS:
            intervals.labels(check).set((intervals_s or {}).get(check, 0))
            self._check_failures.labels(check)
        self.registry.register(_FromDatabase(place, ends))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def serve(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address, port 0 being any free one. Raises `MetricsPortError`."""
        try:
            server, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            raise MetricsPortError(f"metrics cannot be served on {host}:{port}: {error.strerror}; choose another --metrics-port") from error
        return host, int(server.server_address[1])

    def on_up(self, is_up: bool) -> None:
        """The query was started or has ended."""
        self._up.set(is_up)

    def on_progress(self) -> None:
        """The query moved, or said that it has nothing to do."""
        self._progress.set(time.time())

    def on_batch(self, rows: int, seconds: float) -> None:
        """A micro-batch with rows is done."""
        self._rows.inc(rows)
        self._batch_seconds.observe(seconds)

    def on_merge(self, seconds: float, freshness_seconds: float | None) -> None:
        """A micro-batch was merged; `freshness_seconds` is None when it moved no head."""
        self._merge_seconds.observe(seconds)
        self._merged.set(time.time())
        if freshness_seconds is not None:
            self._freshness.set(freshness_seconds)

    def on_check_failure(self, check: str) -> None:
        """A run of a check could not do its work."""
        self._check_failures.labels(check).inc()

    def on_kafka_error(self) -> None:
        """Kafka did not answer a question."""
        self._kafka_errors.inc()


class _FromDatabase(Collector):
    """Reads the database at every scrape."""

    def __init__(self, place: StorePlace, ends: Callable[[], Mapping[int, int]]) -> None:
        self._place = place
        self._ends = ends

    def describe(self) -> Iterable[Family]:
        """The names alone: registering must not read."""
        return self._families()

    def _families(self) -> list[Family]:
        return [_counter_family(name) for name in (*TOTALS, "void_entries_total", "findings_total")] + [
            _gauge_family(name) for name in ("lag_entries", "findings_open", *GAUGES)
        ]

    def collect(self) -> Iterator[Family]:
        """Every metric that comes from the database."""
        with open_report(self._place) as report:
            try:
                yield from self._read(report)
            except STORE_ERRORS as error:
                # Answered with a 500: better no sample than a wrong one.
                raise RuntimeError(f"the monitor's database cannot be read: {error}") from error

    def _read(self, report: Report) -> Iterator[Family]:
        totals = report.totals()
        for name, total in TOTALS.items():
            family = _counter_family(name)
            family.add_metric([], totals.get(total, 0))
            yield family
        voids = _counter_family("void_entries_total")
        for name, value in totals.items():
            if name.startswith(VOID_PREFIX):
                voids.add_metric([name.removeprefix(VOID_PREFIX)], value)
        yield voids
        findings = _counter_family("findings_total")
        for rule, count in report.findings_by_rule().items():
            findings.add_metric([rule], count)
        yield findings
        lag, ends = _gauge_family("lag_entries"), self._ends()
        heads = {cast(int, row["kpart"]): cast(int, row["next_offset"]) for row in report.heads()}
        for partition, end in sorted(ends.items()):
            lag.add_metric([str(partition)], max(0, end - heads.get(partition, 0)))
        yield lag
        still_open = _gauge_family("findings_open")
        for rule, count in report.findings_by_rule(only_open=True).items():
            still_open.add_metric([rule], count)
        yield still_open
        for name, number in zip(GAUGES, _numbers(report), strict=True):
            family_of_one = _gauge_family(name)
            family_of_one.add_metric([], number)
            yield family_of_one


def _numbers(report: Report) -> tuple[float, ...]:
    """The values of `GAUGES`."""
    said = report.job()
    verified = json.loads(said.get("last_verify", "null")) or {}
    looked = json.loads(said.get("last_objects", "null")) or {}
    opened = report.open_transactions()
    oldest_ms = cast(int, opened[0]["append_ms"]) if opened else 0
    return (
        len(opened),
        max(0.0, time.time() - oldest_ms / 1000) if opened else 0.0,
        float(any(part.get("agree") is False for part in verified.get("partitions", ()))),
        verified.get("at_ms", 0) / 1000,
        looked.get("missing_files", 0),
        looked.get("at_ms", 0) / 1000,
    )


def _gauge(registry: CollectorRegistry, name: str) -> Gauge:
    metric = METRICS[PREFIX + name]
    return Gauge(metric.name, metric.help, metric.labels, registry=registry)


def _counter(registry: CollectorRegistry, name: str) -> Counter:
    metric = METRICS[PREFIX + name]
    return Counter(metric.name, metric.help, metric.labels, registry=registry)


def _histogram(registry: CollectorRegistry, name: str) -> Histogram:
    return Histogram(PREFIX + name, METRICS[PREFIX + name].help, registry=registry, buckets=BATCH_SECONDS_BUCKETS)


def _counter_family(name: str) -> CounterMetricFamily:
    metric = METRICS[PREFIX + name]
    return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)


def _gauge_family(name: str) -> GaugeMetricFamily:
    metric = METRICS[PREFIX + name]
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
