"""Which times of the log are known: what was not read is no zero, and nothing is said of it.

A time is known when all that Kafka took before it is merged, in every partition of the metadata topic. So a pause of the monitor
is not known while it lasts, and becomes known when its entries are read. What was lost unread, or is not kept any more, stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.retention import UNKNOWN_LIMITS, RetentionLimits
from spark_jobs.dashboard.panels.rows import Json, rows
from spark_jobs.dashboard.verdict import BEHIND_MS_MAX, Watching
from spark_jobs.monitor.life import Life
from spark_jobs.store.engine import StoreConnection

NO_LOG = "the log did not exist"
NOT_READ = "not watched"
NOT_YET = "still to come"
LOST = "lost before it was read"
NOT_KEPT = "not kept so long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known besides the store: the time, the monitor's last sign of life (None: it never gave one), what nodes tell.

    `silent_ms` is, for each node that does not answer, when it answered last, `store_failures` what the object store failed nodes in;
    `retention` is what the service keeps of topics that do not say so themselves.
    """

    now_ms: int
    life: Life | None = None
    silent_ms: Mapping[int, int] = field(default_factory=dict)
    store_failures: Mapping[int, str] = field(default_factory=dict)
    retention: RetentionLimits = UNKNOWN_LIMITS


class UnknownTime(NamedTuple):
    """Times `[from_ms, to_ms)` of which nothing is known, and why."""

    from_ms: int
    to_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTimes:
    """Times from `from_ms` until `until_ms` are known at `now_ms`, but for `lost`. The log has its first entry at `began_ms`."""

    now_ms: int
    began_ms: int
    from_ms: int
    until_ms: int
    is_watched: bool
    lost: tuple[UnknownTime, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether it can be said what happens now."""
        return self.is_watched and self.behind_ms <= BEHIND_MS_MAX

    @property
    def behind_ms(self) -> int:
        """How long before now what is known ends."""
        return self.now_ms - self.until_ms

    @property
    def end_s(self) -> int:
        """The end of the last second to show: the last known one while that is current."""
        return (self.until_ms if self.is_current else self.now_ms) // 1000

    def unknown(self, first_ms: int, end_ms: int, kept_from_ms: int = 0) -> list[UnknownTime]:
        """Return the times in `[first_ms, end_ms)` of which nothing is known; activity of before `kept_from_ms` is not kept."""
        return list(_cut(self._all(end_ms, kept_from_ms), first_ms, end_ms))

    def _all(self, end_ms: int, kept_from_ms: int) -> Iterator[UnknownTime]:
        yield UnknownTime(0, self.began_ms, NO_LOG)
        yield UnknownTime(self.began_ms, self.from_ms, NOT_READ)
        yield UnknownTime(self.began_ms, kept_from_ms, NOT_KEPT)
        yield from self.lost
        yield UnknownTime(self.until_ms, self.now_ms, NOT_READ)
        yield UnknownTime(self.now_ms, end_ms, NOT_YET)


def watch(life: Life) -> Watching:
    """Tell from a sign of life whether the log is observed."""
    return Watching(
        started_ms=life.started_ms,
        alive_ms=life.alive_ms,
        is_following=life.is_following,
        is_once=life.is_once,
        ended_ms=life.ended_ms,
        failure=life.failure,
        kafka_ms=life.kafka_ms or None,
    )


def known(db: StoreConnection, sight: Sight) -> KnownTimes | None:
    """Return which times are known; None when nothing is."""
    heads = {row["kpart"]: row for row in rows(db, "select kpart, from_offset, from_ms, append_ms from head")}
    if not heads:
        return None
    read_until, ends = ({}, {}) if sight.life is None else (sight.life.read_until_ms, sight.life.ends)
    began_ms = min(row["from_ms"] for row in heads.values())
    unread = {kpart for kpart, end in ends.items() if end and kpart not in heads}
    until = [max(row["append_ms"], read_until.get(kpart, 0)) for kpart, row in heads.items()]
    until += [read_until.get(kpart, began_ms) for kpart in unread]
    return KnownTimes(
        now_ms=sight.now_ms,
        began_ms=began_ms,
        from_ms=max([began_ms, *(row["from_ms"] for row in heads.values() if row["from_offset"])]),
        is_watched=sight.life is None or watch(sight.life).unobserved_ms(sight.now_ms) is None,
        until_ms=min(sight.now_ms, max(began_ms, min(until))),
        lost=tuple(UnknownTime(row["from_ms"], row["to_ms"], LOST) for row in rows(db, "select from_ms, to_ms from unread_span")),
    )


def known_json(db: StoreConnection, sight: Sight) -> Json:
    """Return until when anything is known, for the numbers of an answer, and whether that is now."""
    seen = known(db, sight)
    return {"known_until_ms": None if seen is None else seen.until_ms, "is_current": seen is not None and seen.is_current}


def shown_s(seen: KnownTimes | None, query: PanelQuery, now_ms: int) -> tuple[int, int]:
    """Return where the range of a question begins and ends."""
    return query.span_s(now_ms // 1000 if seen is None else seen.end_s)


def shown_minutes(seen: KnownTimes | None, query: PanelQuery, now_ms: int) -> tuple[int, int]:
    """Return the minutes of a question's range, the end excluded: those that it touches, or as many as it has up to the newest one."""
    first_s, end_s = shown_s(seen, query, now_ms)
    end = -(-end_s // 60)
    return (first_s // 60 if query.to_s is not None else end - query.range_s // 60), end


def unknown_json(spans: list[UnknownTime]) -> list[Json]:
    """Return the times for a chart, which draws them as bands."""
    return [span._asdict() for span in spans]


def _cut(spans: Iterator[UnknownTime], first_ms: int, end_ms: int) -> Iterator[UnknownTime]:
    for span in spans:
        from_ms, to_ms = max(span.from_ms, first_ms), min(span.to_ms, end_ms)
        if from_ms < to_ms:
            yield UnknownTime(from_ms, to_ms, span.why)
