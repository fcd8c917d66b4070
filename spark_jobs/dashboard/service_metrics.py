"""What only the nodes know, from their /metrics: who answers and leads, commit latency and rate, failures of disk and object store.

The page needs it to judge the monitor and to name a dead node. All else that nodes measure (rejects, lag of standbys, background loops,
connections) has Grafana's boards, alerts and `diskless doctor`.

Each coordinator is asked on its own, with a short time limit; one that does not answer is shown as down and disturbs
nothing. Counters become differences between two looks; one that fell was restarted and counts from zero. What was seen is
kept in memory for `KEPT_S`, bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level, PageProblem, counted

log = logging.getLogger(__name__)

PREFIX = "diskless_coordinator_"
COMMIT_API = "COMMIT_FILE"
EVERY_S = 3.0
WINDOW_S = 60.0
KEPT_S = 3600.0

Buckets = dict[float, float]


@dataclass(slots=True, kw_only=True)
class Scrape:
    """The metrics of one coordinator process at one time."""

    time_ms: int
    commit_buckets: Buckets = field(default_factory=dict)
    commits: dict[int, float] = field(default_factory=dict)
    delete_failures: float = 0.0
    states: dict[str, float] = field(default_factory=dict)
    offline_directories: list[str] = field(default_factory=list)


class Moment(NamedTuple):
    """The service between two looks, for the charts."""

    time_s: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class ScrapeTarget:
    """One coordinator and what is known of it. `failed_since_ms` is None while it answers."""

    address: str
    scrapes: deque[Scrape] = field(default_factory=deque)
    error: str = ""
    failed_since_ms: int | None = None

    @property
    def newest(self) -> Scrape | None:
        return self.scrapes[-1] if self.scrapes and self.failed_since_ms is None else None


def parse_scrape(text: str, time_ms: int) -> Scrape:
    """Read an answer in Prometheus' text format; unknown metrics are passed over. Raises ValueError for another format."""
    scrape = Scrape(time_ms=time_ms)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            _take(scrape, sample.name.removeprefix(PREFIX), sample.labels, float(sample.value))
    return scrape


def _take(scrape: Scrape, name: str, labels: Mapping[str, str], value: float) -> None:
    match name:
        case "request_seconds_bucket" if labels.get("api") == COMMIT_API:
            scrape.commit_buckets[float(labels["le"])] = value
        case "commits_total":
            scrape.commits[int(labels["partition"])] = value
        case "partitions":
            scrape.states[labels.get("state", "")] = value
        case "file_delete_failures_total":
            scrape.delete_failures += value
        case "log_directory_offline" if value:
            scrape.offline_directories.append(labels.get("directory", ""))


def bucket_quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """The value at `share` of cumulative buckets, straight within a bucket; None without values.

    Beyond the last finite bucket nothing is known but that bound, which is returned.
    """
    bounds = sorted(buckets)
    if not bounds or buckets[bounds[-1]] <= 0:
        return None
    rank, below, low = share * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        count = buckets[bound]
        if count >= rank and count > below:
            return low if bound == float("inf") else low + (bound - low) * (rank - below) / (count - below)
        below = count
        low = bound if bound != float("inf") else low
    return low


def grown(before: float, after: float) -> float:
    """Return the growth of a counter; a counter that fell started again at zero."""
    return after - before if after >= before else after


def grown_buckets(pairs: Iterable[tuple[Scrape, Scrape]]) -> Buckets:
    """Commit latency of several processes between two looks each, as cumulative buckets."""
    sums: Buckets = {}
    for before, after in pairs:
        restarted = any(after.commit_buckets.get(bound, 0.0) < count for bound, count in before.commit_buckets.items())
        for bound, count in after.commit_buckets.items():
            sums[bound] = sums.get(bound, 0.0) + count - (0.0 if restarted else before.commit_buckets.get(bound, 0.0))
    return sums


class ServiceMetrics:
    """Asks the coordinators in turn and keeps what they said. `clock_ms` gives the time."""

    def __init__(self, addresses: Sequence[str], clock_ms: Callable[[], int], scraping: Scraping | None = None) -> None:
        self.targets = [ScrapeTarget(address) for address in addresses]
        self.moments: deque[Moment] = deque(maxlen=int(KEPT_S / EVERY_S))
        self.rounds = 0
        self.failures = 0
        self._clock_ms = clock_ms
        self._scraping = scraping or Scraping()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while self.targets:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Ask every coordinator once, all at the same time."""
        texts = await asyncio.gather(*(asyncio.to_thread(self._scraping.fetch, target.address) for target in self.targets))
        now_ms = self._clock_ms()
        pairs = []
        for target, (text, error) in zip(self.targets, texts, strict=True):
            before = target.newest
            self._note(target, text, error, now_ms)
            if before is not None and target.newest is not None:
                pairs.append((before, target.newest))
        self.rounds += 1
        self._keep_moment(pairs, now_ms)

    def _note(self, target: ScrapeTarget, text: str, error: str, now_ms: int) -> None:
        if not error:
            try:
                target.scrapes.append(parse_scrape(text, now_ms))
            except (ValueError, KeyError) as wrong:
                error = f"no metrics of a coordinator: {wrong}"
        if error:
            self.failures += 1
            target.error = error
            target.failed_since_ms = target.failed_since_ms if target.failed_since_ms is not None else now_ms
            return
        target.error, target.failed_since_ms = "", None
        while target.scrapes[0].time_ms < now_ms - WINDOW_S * 1000:
            target.scrapes.popleft()

    def _keep_moment(self, pairs: list[tuple[Scrape, Scrape]], now_ms: int) -> None:
        buckets = grown_buckets(pairs)
        p50, p99 = bucket_quantile(buckets, 0.5), bucket_quantile(buckets, 0.99)
        self.moments.append(Moment(now_ms // 1000, _ms(p50), _ms(p99)))

    def commits_per_s(self) -> float | None:
        """Commits that the service itself counted between the last two looks; None when no process was looked at twice."""
        pairs = [(target.scrapes[-2], target.scrapes[-1]) for target in self.targets if target.newest and len(target.scrapes) > 1]
        if not pairs:
            return None
        return sum(
            grown(sum(before.commits.values()), sum(after.commits.values())) / max(0.001, (after.time_ms - before.time_ms) / 1000)
            for before, after in pairs
        )

    def problems(self, now_ms: int) -> list[PageProblem]:
        """The warnings for the verdict."""
        found = []
        down = [target for target in self.targets if target.failed_since_ms is not None]
        if down:
            which = ", ".join(target.address for target in down[:3]) + (", ..." if len(down) > 3 else "")
            level = Level.BAD if len(down) == len(self.targets) else Level.WARNING
            of_all = f"{len(down)} of {counted(len(self.targets), 'coordinator process', 'coordinator processes')}"
            text = f"{of_all} {'does' if len(down) == 1 else 'do'} not answer: {which}"
            found.append(PageProblem(level=level, text=text, panel="service"))
        for target in self.targets:
            for path in target.newest.offline_directories if target.newest else ():
                text = f"{target.address}: data directory {path} is offline"
                found.append(PageProblem(level=Level.WARNING, text=text, panel="service"))
            if target.newest and (failures := round(grown(target.scrapes[0].delete_failures, target.newest.delete_failures))):
                times = counted(failures, "time", "times")
                text = f"{target.address}: deleting objects of files failed {times} within the last {WINDOW_S:.0f} s"
                found.append(PageProblem(level=Level.WARNING, text=text, panel="files"))
        return found

    def panel(self, query: PanelQuery, now_ms: int) -> Json:
        """Answer `/api/service`."""
        pairs = [(target.scrapes[0], target.scrapes[-1]) for target in self.targets if target.newest and len(target.scrapes) > 1]
        buckets = grown_buckets(pairs)
        first_s = now_ms // 1000 - min(query.range_s, int(KEPT_S))
        return {
            "configured": bool(self.targets),
            "window_s": WINDOW_S,
            "commit_latency_ms": {
                f"p{name}": _ms(bucket_quantile(buckets, share)) for name, share in (("50", 0.5), ("90", 0.9), ("99", 0.99))
            },
            "commits_in_window": round(max(buckets.values(), default=0.0)),
            "processes": [_process(target, now_ms) for target in self.targets],
            "history": [moment._asdict() for moment in self.moments if moment.time_s >= first_s],
        }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 2)


def _process(target: ScrapeTarget, now_ms: int) -> Json:
    scrape = target.newest
    return {
        "address": target.address,
        "up": scrape is not None,
        "error": target.error,
        "down_ms": None if target.failed_since_ms is None else now_ms - target.failed_since_ms,
        "states": scrape.states if scrape else {},
        "commits": round(sum(scrape.commits.values())) if scrape else None,
        "offline_directories": scrape.offline_directories if scrape else [],
    }
