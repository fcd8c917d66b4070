"""Whether the nodes answer, what they lead, how much they commit, and whether the object store serves them, from their /metrics:
what the verdict needs besides the store. Gateways may be asked, too.

Each is asked on its own, with a short time limit; one that does not answer disturbs nothing. All else that nodes measure
has Grafana's boards, alerts and `diskless doctor`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from spark_jobs.dashboard.latency import Buckets, CountedSpan, Latencies, buckets_in, grown
from spark_jobs.dashboard.panels.retention import UNKNOWN_LIMITS, UNLIMITED, RetentionLimits
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level, PageProblem, Urgency, counted, duration

COMMITS = "diskless_coordinator_commits_total"
LEADING = "diskless_coordinator_leading"
INFOS = {"diskless_coordinator_node_info": "node", "diskless_gateway_info": "gateway"}
STORE_FAILURES = {
    "diskless_coordinator_file_delete_failures_total": "deletions",
    "diskless_coordinator_snapshot_failures_total": "snapshots",
    "diskless_gateway_produce_uploads_repeated_total": "uploads",
    "diskless_gateway_produce_uploads_given_up_total": "uploads",
    "diskless_gateway_fetch_store_read_failures_total": "reads",
}
"""Counters of calls to the object store that failed, and what they are of."""

RETENTION = (("diskless_coordinator_retention_default_seconds", 1000), ("diskless_coordinator_retention_default_bytes", 1))
"""What a node keeps of topics that do not say so themselves, by time and by size; what its unit is multiplied with here."""

EVERY_S = 3.0
LEADERLESS_MS_MIN = 4_000
"""A coordinator that is moved has no leader for a moment; two looks must find none."""
STORE_FAILURES_MS = 60_000
"""So long a store that failed is told of: nodes try again after up to half a minute."""


class NodeAnswer(NamedTuple):
    """What a process said of itself. `leading` are coordinators by number, `store_failures` counts by kind."""

    name: str
    commits: float
    leading: frozenset[int]
    retention: RetentionLimits
    store_failures: Mapping[str, float]
    latency: Mapping[str, Buckets]


def read_answer(text: str) -> NodeAnswer:
    """Read an answer in Prometheus' text format. Raises ValueError for another format."""
    samples: list[Sample] = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    failures = dict.fromkeys(STORE_FAILURES.values(), 0.0)
    for sample in samples:
        if sample.name in STORE_FAILURES:
            failures[STORE_FAILURES[sample.name]] += float(sample.value)
    return NodeAnswer(
        name=next((f"{INFOS[one.name]} {one.labels['node_id']}" for one in samples if one.name in INFOS and "node_id" in one.labels), ""),
        commits=sum(float(sample.value) for sample in samples if sample.name == COMMITS),
        leading=frozenset(int(sample.labels["partition"]) for sample in samples if sample.name == LEADING and sample.value),
        retention=RetentionLimits(*(_limit(samples, *one) for one in RETENTION)),
        store_failures=failures,
        latency=buckets_in(samples),
    )


def _limit(samples: Iterable[Sample], name: str, scale: int) -> int | None:
    return next((max(UNLIMITED, round(float(one.value) * scale)) for one in samples if one.name == name), None)


@dataclass(slots=True)
class AskedNode:
    """One process: its newest `answer`, given at `seen_ms`, and the rate of its commits since the look before.

    `error` says why it does not answer, and is empty while it does. `store_failed` are the newest failures of the object store by
    kind: when, and how many. `latency` is what its histograms counted since the look before.
    """

    address: str
    error: str = ""
    answer: NodeAnswer | None = None
    seen_ms: int = 0
    commits_per_s: float | None = None
    store_failed: dict[str, tuple[int, float]] = field(default_factory=dict)
    latency: Mapping[str, Buckets] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What people call it: by the name it gave, with its address."""
        return f"{self.answer.name} ({self.address})" if self.answer is not None and self.answer.name else self.address

    @property
    def node_id(self) -> int | None:
        """The id of a coordinator's process; None for another, or while it is not known."""
        kind, _, number = ("" if self.answer is None else self.answer.name).partition(" ")
        return int(number) if kind == "node" and number.isdecimal() else None

    @property
    def look(self) -> str:
        """Its page; empty when it has none."""
        return "" if self.node_id is None else f"node/{self.node_id}"

    def store_failures(self, now_ms: int) -> str:
        """Return which calls of the object store failed lately, and how long ago; empty when none did."""
        failed = {kind: count for kind, (at_ms, count) in self.store_failed.items() if now_ms - at_ms <= STORE_FAILURES_MS}
        if not failed:
            return ""
        age = duration(now_ms - max(self.store_failed[kind][0] for kind in failed))
        return f"{age} ago: {', '.join(f'{kind} ({count:.0f})' for kind, count in failed.items())}"

    def note(self, text: str, error: str, now_ms: int) -> None:
        """Take an answer, or the reason why there is none."""
        before, was_silent, self.error, self.commits_per_s, self.latency = self.answer, bool(self.error), error, None, {}
        if error:
            return
        try:
            self.answer = read_answer(text)
        except (ValueError, KeyError) as wrong:
            self.error = f"no metrics of a coordinator: {wrong}"
            return
        if before is not None and before.name == self.answer.name:
            seconds = max(0.001, (now_ms - self.seen_ms) / 1000)
            if not was_silent:
                self.commits_per_s = _grown(before.commits, self.answer.commits) / seconds
            self.latency = {who: grown(before.latency.get(who, {}), counts) for who, counts in self.answer.latency.items()}
            for kind, count in self.answer.store_failures.items():
                if failed := _grown(before.store_failures[kind], count):
                    self.store_failed[kind] = (now_ms, failed)
        self.seen_ms = now_ms


def _grown(before: float, after: float) -> float:
    return after - before if after >= before else after  # one that fell was restarted


class AskedNodes:
    """Asks the nodes in turn. `clock_ms` gives the time."""

    def __init__(self, addresses: Sequence[str], clock_ms: Callable[[], int], scraping: Scraping) -> None:
        self.all = [AskedNode(address) for address in addresses]
        self.failures = 0
        self._clock_ms = clock_ms
        self._scraping = scraping
        self._led_ms: dict[int, int] = {}
        self.latencies = Latencies()
        self._looked_ms: int | None = None

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while self.all:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Ask every process once, all at the same time."""
        answers = await asyncio.gather(*(asyncio.to_thread(self._scraping.fetch, node.address) for node in self.all))
        now_ms = self._clock_ms()
        for node, (text, error) in zip(self.all, answers, strict=True):
            node.note(text, error, now_ms)
            self.failures += bool(node.error)
        self.note_look(now_ms)

    def note_look(self, now_ms: int) -> None:
        """Keep what the newest answers say together: who leads, and the latencies since the look before."""
        for node in self.all:
            if not node.error and node.answer is not None:
                self._led_ms.update(dict.fromkeys(node.answer.leading, now_ms))
        if self._looked_ms is not None:
            self.latencies.add(CountedSpan(self._looked_ms, now_ms, self._counted()))
        self._looked_ms = now_ms

    def _counted(self) -> dict[str, Buckets]:
        summed: dict[str, Counter[float]] = {}
        for node in self.all:
            for who, counts in node.latency.items():
                summed.setdefault(who, Counter()).update(counts)
        return dict(summed)

    def who_answers(self) -> set[str]:
        """Return whose latency is known: `nodes`, `clients`."""
        return {who for node in self.all if node.answer is not None for who in node.answer.latency}

    def commits_per_s(self) -> float | None:
        """Commits that the service itself counted between the last two looks; None when no process answered both."""
        known = [node.commits_per_s for node in self.all if node.commits_per_s is not None]
        return sum(known) if known else None

    def retention(self) -> RetentionLimits:
        """Return what the nodes keep of topics that do not say so themselves, as the newest answer has it; nodes are to agree."""
        told = [node for node in self.all if node.answer is not None and node.answer.retention.ms is not None]
        newest = max(told, key=lambda node: node.seen_ms, default=None)
        return UNKNOWN_LIMITS if newest is None or newest.answer is None else newest.answer.retention

    def silent_ms(self) -> dict[int, int]:
        """Return the nodes that do not answer, by id, and when each answered last."""
        return {node.node_id: node.seen_ms for node in self.all if node.error and node.node_id is not None}

    def store_failures(self) -> dict[int, str]:
        """Return the nodes, by id, that the object store failed lately, and what of."""
        now_ms = self._clock_ms()
        told = {node.node_id: node.store_failures(now_ms) for node in self.all if node.node_id is not None}
        return {node_id: text for node_id, text in told.items() if text}

    def problems(self, claims: Mapping[int, tuple[int, int]]) -> list[PageProblem]:
        """Return problems for the verdict. `claims` are the leaders by the log: node and time of the newest claim of each coordinator."""
        now_ms = self._clock_ms()
        return [*self._unled(claims, now_ms), *self._silent(), *self._store_failures(now_ms)]

    def _silent(self) -> Iterable[PageProblem]:
        down = [node for node in self.all if node.error]
        if not down:
            return
        which = ", ".join(node.name for node in down[:3]) + (", ..." if len(down) > 3 else "")
        text = f"{which} {'does' if len(down) == 1 else 'do'} not answer ({len(down)} of {counted(len(self.all), 'process', 'processes')})"
        yield PageProblem(level=Level.BAD, text=text[0].upper() + text[1:], panel="leadership", urgency=Urgency.NODE, look=down[0].look)

    def _unled(self, claims: Mapping[int, tuple[int, int]], now_ms: int) -> Iterable[PageProblem]:
        asked = {node.node_id for node in self.all}
        unled = {}
        for coordinator, led_ms in self._led_ms.items():
            node_id, claimed_ms = claims.get(coordinator, (-1, 0))
            # A claim of a node that is not asked may be in force.
            if now_ms - led_ms > LEADERLESS_MS_MIN and (node_id in asked or claimed_ms <= led_ms):
                unled[coordinator] = led_ms
        if not unled:
            return
        named = ", ".join(map(str, sorted(unled)[:8])) + (", ..." if len(unled) > 8 else "")
        age = duration(now_ms - min(unled.values()))
        text = f"No node leads {'coordinator' if len(unled) == 1 else 'coordinators'} {named} for {age}"
        silent = [node for node in self.all if node.error and any(claims.get(one, (-1, 0))[0] == node.node_id for one in unled)]
        text += f": {', '.join(node.name for node in silent)} {'does' if len(silent) == 1 else 'do'} not answer" if silent else ""
        look = silent[0].look if silent else f"coordinator/{min(unled)}"
        yield PageProblem(level=Level.BAD, text=text, panel="leadership", urgency=Urgency.LEADER, look=look)

    def _store_failures(self, now_ms: int) -> Iterable[PageProblem]:
        for node in self.all:
            if told := node.store_failures(now_ms):
                text = f"The object store failed {node.name} {told}"
                yield PageProblem(level=Level.BAD, text=text, panel="files", urgency=Urgency.STORE, look=node.look)
