"""Figures of a run, from its history: answers, latencies, and for how long each fault kept coordinators from acknowledging.

Pure functions of the history and the list of faults; times in seconds of the monotonic clock.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from coordinator.kafka.errors import error_name
from integration_tests.faults.client_history import ClientHistory, Consumed
from integration_tests.faults.nemesis import Done
from integration_tests.history import Attempt, History, longest_gap_s
from integration_tests.unusual_keys import is_plain
from integration_tests.watched import COMMIT_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """p50, p99 and the greatest of some values, with their number."""

    count: int
    p50: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The longest time without an acknowledgement within a window, over the coordinators."""

    most_s: float
    median_s: float
    coordinators_hit: int
    """How many coordinators, or clients, had nothing acknowledged for more than `HIT_S`."""


HIT_S = 1.0
HEALING_S = 3.0
LATE_S = 1.5
"""How much later than its TimeoutMs an answer may come without being mentioned: a tick of the coordinator, a busy machine."""


def spread(values: Iterable[float]) -> Spread | None:
    """None when there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(count=len(ordered), p50=_part(ordered, 0.5), p99=_part(ordered, 0.99), most=ordered[-1])


def _part(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def answers_by_code(history: History, start_s: float, end_s: float) -> dict[str, int]:
    """Answers to batches by the error's name, and attempts that were sent in the window and never answered."""
    counts: Counter[str] = Counter()
    for attempt in history.attempts:
        if start_s <= attempt.invoked_s < end_s:
            counts.update(error_name(answer.error_code) for answer in attempt.answers)
            if not attempt.answers:
                counts["no answer"] += 1
    return dict(counts.most_common())


def late_answers(history: History) -> list[Attempt]:
    """Attempts answered later than their TimeoutMs and a grace allow: their node was frozen, cut off, or did not honour it."""
    return [one for one in history.attempts if one.answers and one.answered_s - one.invoked_s > COMMIT_TIMEOUT_S + LATE_S]


def is_hit(attempt: Attempt, faults: Iterable[Done]) -> bool:
    """Whether a fault of the attempt's own node was there, or healing, while it waited. TCP takes about as long to heal as the cut was."""
    return any(
        one.target == f"c{attempt.node_id}"
        and one.begun_s < attempt.answered_s
        and attempt.invoked_s < one.healed_s + max(HEALING_S, one.healed_s - one.begun_s)
        for one in faults
    )


def file_times(history: History) -> list[tuple[float, float]]:
    """For every file that may be committed and has all its final answers: when it was sent first, and how long the last answer took."""
    sent_s: dict[str, float] = {}
    told_s: dict[str, dict[int, float]] = defaultdict(dict)
    for attempt in history.attempts:
        sent_s[attempt.object_key] = min(attempt.invoked_s, sent_s.get(attempt.object_key, attempt.invoked_s))
        told = told_s[attempt.object_key]
        for place, answer in zip(attempt.places, attempt.answers, strict=False):
            if answer.is_final:
                told[place] = min(attempt.answered_s, told.get(place, attempt.answered_s))
    return [
        (sent_s[key], max(told.values()) - sent_s[key])
        for key, told in told_s.items()
        if len(told) == len(history.files[key].batches) and is_plain(key)
    ]


def answer_times(history: History) -> Mapping[int, list[float]]:
    """When each coordinator acknowledged a batch."""
    found: dict[int, list[float]] = defaultdict(list)
    for ack in history.acknowledgements():
        found[history.batch(ack.origin).coordinator_id].append(ack.attempt.answered_s)
    return found


def client_times(history: ClientHistory) -> Mapping[str, list[float]]:
    """When each writer had an acknowledgement, and each group a record."""
    shift_s = time.time() - time.monotonic()
    found = {one.name: [ack.at_s - shift_s for ack in one.acknowledged] for one in history.writers.values()}
    for group in history.given:
        members = [one for one in history.members.values() if one.group == group]
        found[group] = [step.at_s - shift_s for one in members for step in one.steps if isinstance(step, Consumed)]
    return found


class Outages:
    """Outages by window, of coordinators or clients that had answers at some times."""

    def __init__(self, answered_s: Mapping[int, list[float]] | Mapping[str, list[float]]) -> None:
        self._acknowledged_s = {name: sorted(times) for name, times in answered_s.items()}

    def within(self, start_s: float, end_s: float) -> Outage:
        """What the clients missed between two moments."""
        gaps = [longest_gap_s(times, start_s, end_s) for times in self._acknowledged_s.values()]
        return Outage(
            most_s=max(gaps, default=end_s - start_s),
            median_s=median(gaps) if gaps else end_s - start_s,
            coordinators_hit=sum(gap > HIT_S for gap in gaps),
        )

    def by_action(self, faults: Sequence[Done]) -> Mapping[str, list[tuple[Done, Outage]]]:
        """Every fault that was healed, with its outage from its beginning until its round was over, by action."""
        found: dict[str, list[tuple[Done, Outage]]] = defaultdict(list)
        for fault in faults:
            if fault.flowing_s > 0:
                found[fault.action].append((fault, self.within(fault.begun_s, fault.over_s or fault.flowing_s)))
        return dict(sorted(found.items()))
