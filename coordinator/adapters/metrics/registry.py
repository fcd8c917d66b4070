"""The metrics of one process in a registry of their own: told by name, or read from their owners at each scrape.

Names and labels are checked against the table, so that a misspelt metric fails in the first test that touches it.
Telling is thread-safe. Readers are called on the thread that calls `collect` (the event loop), rendering may happen anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from coordinator.adapters.metrics.histogram import Histogram, Series
from coordinator.adapters.metrics.table import PREFIX, TABLE, Metric, MetricKind

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One value read at a scrape; label values in the order of the declaration."""

    name: str
    labels: tuple[str | int, ...]
    value: float


Reader = Callable[[], Iterable[Sample]]


class Metrics:
    """All metrics of this process."""

    def __init__(self, table: Sequence[Metric] = TABLE, prefix: str = PREFIX) -> None:
        """Exported names are `prefix` + name."""
        self._prefix = prefix
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._labelled: dict[tuple[str | int, ...], Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._read = _ReadCollector([metric for metric in table if metric.is_read], prefix)
        self._registry.register(self._read)
        ProcessCollector(registry=self._registry)
        for metric in table:
            if not metric.is_read:
                self._make(metric)

    def _make(self, metric: Metric) -> None:
        name = self._prefix + metric.name
        match metric.kind:
            case MetricKind.COUNTER:
                self._counters[metric.name] = Counter(name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.GAUGE:
                self._gauges[metric.name] = Gauge(name, metric.help, metric.labels, registry=self._registry)
            case MetricKind.HISTOGRAM:
                histogram = self._histograms[metric.name] = Histogram(name, metric.help, metric.labels, metric.buckets)
                self._registry.register(histogram)

    def add(self, name: str, amount: float = 1, *labels: str | int) -> None:
        """Raise a counter."""
        # Looking a label up in prometheus_client takes longer than counting.
        counter = self._labelled.get((name, *labels))
        if counter is None:
            counter = self._counters[name]
            counter = self._labelled[(name, *labels)] = counter.labels(*labels) if labels else counter
        counter.inc(amount)

    def set(self, name: str, value: float, *labels: str | int) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def observe(self, name: str, value: float, *labels: str | int) -> None:
        """Record a value in a histogram."""
        self._histograms[name].observe(value, labels)

    def series(self, name: str, *labels: str | int) -> Series:
        """One series of a histogram, for who observes much."""
        return self._histograms[name].series(labels)

    def read_from(self, reader: Reader) -> None:
        """Ask `reader` at every scrape for samples of metrics that are declared as read."""
        self._read.readers.append(reader)

    def collect(self) -> None:
        """Call all readers; to be followed by `render`. Raises what a reader raises, and KeyError for an undeclared name."""
        self._read.collect_samples()

    def render(self) -> bytes:
        """Write everything in Prometheus' text format, read metrics as of the last `collect`. Safe on any thread."""
        return generate_latest(self._registry)


class _ReadCollector(Collector):
    """Holds what the readers said last, as metric families."""

    def __init__(self, metrics: Sequence[Metric], prefix: str) -> None:
        self._prefix = prefix
        self._metrics = {metric.name: metric for metric in metrics}
        self._families: list[CounterMetricFamily | GaugeMetricFamily] = []
        self.readers: list[Reader] = []

    def collect_samples(self) -> None:
        families = {name: _family(metric, self._prefix) for name, metric in self._metrics.items()}
        for reader in self.readers:
            for name, labels, value in reader():
                expected = self._metrics[name].labels
                if len(labels) != len(expected):
                    raise ValueError(f"metric {name} has labels {expected}, a reader gave {labels}")
                families[name].add_metric([str(label) for label in labels], value)
        self._families = list(families.values())

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        return self._families


def _family(metric: Metric, prefix: str) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    return kind(prefix + metric.name, metric.help, labels=metric.labels)
