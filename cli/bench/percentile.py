"""Percentiles of latencies, alike for everything that is measured."""

from __future__ import annotations

from collections.abc import Iterable


def percentile_ms(latencies_s: Iterable[float], share: float) -> float:
    """A percentile of latencies in seconds, in milliseconds; not a number when there are none."""
    ordered = sorted(latencies_s)
    return ordered[int((len(ordered) - 1) * share)] * 1000 if ordered else float("nan")
