"""How long commits take, as clients see them and as the nodes do: from the histograms of gateways and nodes.

A client's time goes from the end of the upload until all batches of the file have their outcome, over every node that is asked in
between: a fail-over shows in it. A node's goes from a request's last byte to its answer, so a node that is gone has none.
What was counted between two looks is kept for two hours, in memory alone: times before are not known.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from prometheus_client.samples import Sample

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.panels.sight import NOT_READ, NOT_YET, UnknownTime, unknown_json

SEEN = {
    "clients": ("diskless_gateway_produce_commit_seconds_bucket", None),
    "nodes": ("diskless_coordinator_request_seconds_bucket", "COMMIT_FILE"),
}
"""Who sees it: the histogram, and its label `api` where it has one."""

KEPT_MS = 7_200_000
POINTS_MAX = 360
QUANTILES = {"p50": 50, "p95": 95, "p99": 99, "max": 100}

Buckets = Mapping[float, float]
"""How many values a histogram has counted up to each of its limits."""


class CountedSpan(NamedTuple):
    """What was counted in `[from_ms, to_ms)` by who sees it: for each limit the values up to it, above the one before."""

    from_ms: int
    to_ms: int
    counted: Mapping[str, Buckets]


def buckets_in(samples: Iterable[Sample]) -> dict[str, Buckets]:
    """Return the histograms of an answer in Prometheus' text format."""
    found: dict[str, Counter[float]] = {}
    for sample in samples:
        for who, (name, api) in SEEN.items():
            if sample.name == name and sample.labels.get("api") == api:
                found.setdefault(who, Counter())[float(sample.labels["le"])] += float(sample.value)  # type: ignore[assignment]
    return {who: dict(counts) for who, counts in found.items()}


def grown(before: Buckets, after: Buckets) -> Buckets:
    """Return what was counted between two answers, by limit; one of a process that was restarted counts from the start."""
    limits = sorted(after)
    was = before if all(after[limit] >= before.get(limit, 0.0) for limit in limits) else {}
    whole = [after[limit] - was.get(limit, 0.0) for limit in limits]
    return {limit: count - below for limit, count, below in zip(limits, whole, [0.0, *whole], strict=False)}


def quantile(buckets: Buckets, percent: int) -> float | None:
    """Return the limit that so many percent of the values are up to, the largest finite one for those above all; None without values."""
    whole, seen = sum(buckets.values()), 0.0
    finite = [limit for limit in buckets if limit != float("inf")]
    for limit in sorted(buckets):
        seen += buckets[limit]
        if whole and seen >= whole * percent / 100:
            return min(limit, max(finite, default=limit))
    return None


class Latencies:
    """The looks of the last two hours, the newest last."""

    def __init__(self) -> None:
        self._looks: deque[CountedSpan] = deque()

    def add(self, look: CountedSpan) -> None:
        """Take what was counted since the look before."""
        self._looks.append(look)
        while self._looks[0].to_ms < look.to_ms - KEPT_MS:
            self._looks.popleft()

    def answer(self, query: PanelQuery, now_ms: int, asked: Iterable[str]) -> Json:
        """Answer `/api/latency`: percentiles in milliseconds, in steps; None where nothing was counted. `asked` are those who answer."""
        first_s, end_s = query.span_s(now_ms // 1000)
        step_ms = max(5000, -(-query.range_s * 1000 // POINTS_MAX) // 1000 * 1000)
        looks = [look for look in self._looks if first_s * 1000 <= look.to_ms < end_s * 1000]
        steps = [(start, list(found)) for start, found in groupby(looks, key=lambda look: look.to_ms // step_ms * step_ms)]
        return {
            "first_s": first_s,
            "end_s": end_s,
            "times_ms": [start for start, _ in steps],
            "lines": {who: _line([found for _, found in steps], who) for who in SEEN},
            "asked": sorted(set(asked)),
            "unknown": unknown_json(list(_unknown(looks, first_s * 1000, end_s * 1000, now_ms, step_ms))),
        }


def _line(steps: list[list[CountedSpan]], who: str) -> Json:
    sums = []
    for looks in steps:
        counted: Counter[float] = Counter()
        for look in looks:
            counted.update(look.counted.get(who, {}))
        sums.append(counted)
    return {name: [_ms(quantile(one, percent)) for one in sums] for name, percent in QUANTILES.items()}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def _unknown(looks: list[CountedSpan], first_ms: int, end_ms: int, now_ms: int, step_ms: int) -> Iterable[UnknownTime]:
    """Return the times between looks in which nobody looked."""
    at = first_ms
    for look in looks:
        if look.from_ms > at + step_ms:
            yield UnknownTime(at, look.from_ms, NOT_READ)
        at = max(at, look.to_ms)
    if min(end_ms, now_ms) > at + 2 * step_ms:
        yield UnknownTime(at, min(end_ms, now_ms), NOT_READ)
    if end_ms > now_ms + 1000:
        yield UnknownTime(max(at, now_ms), end_ms, NOT_YET)
