"""Whether the coordinators answer, and how much they commit, from their /metrics: what the verdict needs besides the store.

Each coordinator is asked on its own, with a short time limit; one that does not answer disturbs nothing. All else that nodes measure
has Grafana's boards, alerts and `diskless doctor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level, PageProblem, counted

COMMITS = "diskless_coordinator_commits_total"
EVERY_S = 3.0


@dataclass(slots=True)
class AskedNode:
    """One coordinator: the commits it had counted at `seen_ms`, None before the first answer, and their rate since the look before.

    `error` says why it does not answer, and is empty while it does.
    """

    address: str
    error: str = ""
    commits: float | None = None
    seen_ms: int = 0
    commits_per_s: float | None = None

    def note(self, text: str, error: str, now_ms: int) -> None:
        """Take an answer, or the reason why there is none."""
        before, before_ms = self.commits, self.seen_ms
        self.commits, self.seen_ms, self.error, self.commits_per_s = None, now_ms, error, None
        if not error:
            try:
                self.commits = commits_in(text)
            except (ValueError, KeyError) as wrong:
                self.error = f"no metrics of a coordinator: {wrong}"
        if self.commits is not None and before is not None:
            grown = self.commits - before if self.commits >= before else self.commits  # one that fell was restarted
            self.commits_per_s = grown / max(0.001, (now_ms - before_ms) / 1000)


def commits_in(text: str) -> float:
    """Return the files that a process has committed, by its answer in Prometheus' text format. Raises ValueError for another format."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return sum(float(sample.value) for sample in samples if sample.name == COMMITS)


class AskedNodes:
    """Asks the coordinators in turn. `clock_ms` gives the time."""

    def __init__(self, addresses: Sequence[str], clock_ms: Callable[[], int], scraping: Scraping) -> None:
        self.all = [AskedNode(address) for address in addresses]
        self.failures = 0
        self._clock_ms = clock_ms
        self._scraping = scraping

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while self.all:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Ask every coordinator once, all at the same time."""
        answers = await asyncio.gather(*(asyncio.to_thread(self._scraping.fetch, node.address) for node in self.all))
        now_ms = self._clock_ms()
        for node, (text, error) in zip(self.all, answers, strict=True):
            node.note(text, error, now_ms)
            self.failures += bool(node.error)

    def commits_per_s(self) -> float | None:
        """Commits that the service itself counted between the last two looks; None when no process answered both."""
        known = [node.commits_per_s for node in self.all if node.commits_per_s is not None]
        return sum(known) if known else None

    def problems(self) -> list[PageProblem]:
        """The problem for the verdict, if a coordinator does not answer."""
        down = [node for node in self.all if node.error]
        if not down:
            return []
        which = ", ".join(node.address for node in down[:3]) + (", ..." if len(down) > 3 else "")
        of_all = f"{len(down)} of {counted(len(self.all), 'coordinator process', 'coordinator processes')}"
        text = f"{of_all} {'does' if len(down) == 1 else 'do'} not answer: {which}"
        return [PageProblem(level=Level.BAD if len(down) == len(self.all) else Level.WARNING, text=text, panel="leadership")]
