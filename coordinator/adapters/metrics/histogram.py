"""A histogram that costs well under a microsecond per value: commits are observed one by one.

`prometheus_client`'s own takes two locks and several calls per value. Safe on any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from threading import Lock
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class Histogram(Collector):
    """Counts of values by upper bound, one row per combination of label values."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds: Final = tuple(bounds)
        self._names: Final = [*(repr(float(bound)) for bound in bounds), "+Inf"]
        self._counts: dict[tuple[str | int, ...], list[int]] = {}
        self._sums: dict[tuple[str | int, ...], float] = {}
        self._lock = Lock()
        if not labels:
            self._add(())

    def _add(self, labels: tuple[str | int, ...]) -> list[int]:
        if len(labels) != len(self._labels):
            raise ValueError(f"metric {self._name} has labels {self._labels}, it was given {labels}")
        self._sums[labels] = 0.0
        counts = self._counts[labels] = [0] * len(self._names)
        return counts

    def observe(self, value: float, labels: tuple[str | int, ...]) -> None:
        """Count a value. Raises ValueError for a wrong number of labels."""
        place = bisect_left(self._bounds, value)
        with self._lock:
            counts = self._counts.get(labels)
            if counts is None:
                counts = self._add(labels)
            counts[place] += 1
            self._sums[labels] += value

    def collect(self) -> list[HistogramMetricFamily]:
        """What Prometheus is told, with cumulative counts."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        with self._lock:
            rows = [(labels, list(counts), self._sums[labels]) for labels, counts in self._counts.items()]
        for labels, counts, total in rows:
            seen = 0
            buckets: list[tuple[str, float]] = []
            for name, count in zip(self._names, counts, strict=True):
                seen += count
                buckets.append((name, seen))
            family.add_metric([str(label) for label in labels], buckets, total)
        return [family]
