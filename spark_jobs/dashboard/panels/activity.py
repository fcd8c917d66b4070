"""The live charts: files, batches, records and bytes per second, together, by coordinator or by topic.

Seconds are kept for two hours with the metadata partition, minutes for a day with the topic; a question that needs both
gets what there is and a `note` that says so. Rates are over whole steps that are complete, so that no line dips at its end,
and None in steps of which something is not known (`sight`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows, topic_ids, topic_names
from spark_jobs.dashboard.panels.sight import NO_LOG, NOT_READ, KnownTimes, Sight, UnknownTime, known, shown_s, unknown_json
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import marks

LINES_MAX = 8
STEPS_MAX = 720
STEPS_S = (1, 10, 60, 120, 300)
SECONDS_KEPT = 7200
MINUTES_KEPT = 24 * 60
UNITS = ("files", "batches", "records", "bytes")
OTHERS = "others"


class Window(NamedTuple):
    """Complete steps `[first_s, end_s)`; both are multiples of the step. `unknown` times are in it."""

    first_s: int
    end_s: int
    step_s: int
    unknown: list[UnknownTime]

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return (self.end_s - self.first_s) // self.step_s

    def unknown_steps(self) -> set[int]:
        """Return the steps of which something is not known; the one in which the log began is known."""
        found = set[int]()
        for from_ms, to_ms, why in self.unknown:
            first, end = from_ms - self.first_s * 1000, to_ms - self.first_s * 1000
            step_ms = self.step_s * 1000
            found.update(range(first // step_ms, end // step_ms if why == NO_LOG else -(-end // step_ms)))
        return found


class Point(NamedTuple):
    """Sums of one step of one line; `files` is None where nobody counted them."""

    line: str
    time_s: int
    files: int | None
    batches: int
    records: int | None
    size_bytes: int


def activity(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/activity`."""
    now_s, seen = sight.now_ms // 1000, known(db, sight)
    first_s, _ = shown_s(seen, query, sight.now_ms)
    if query.topic:
        return _by_topic(db, _window(query, sight, seen, of_minutes=True), topic_ids(db, query.topic))
    if query.split == "topic":
        return _by_topic(db, _window(query, sight, seen, of_minutes=True), None)
    if query.split == "total" and first_s < now_s - SECONDS_KEPT:
        return _by_minute(db, _window(query, sight, seen, of_minutes=True))
    answer = _by_second(db, query, _window(query, sight, seen))
    if first_s < now_s - SECONDS_KEPT:
        answer["note"] = "by coordinator for the last 2 hours: longer is not kept"
    return answer


def _window(query: PanelQuery, sight: Sight, seen: KnownTimes | None, *, of_minutes: bool = False) -> Window:
    now_s = sight.now_ms // 1000
    step_s = next((step_s for step_s in STEPS_S if query.range_s <= step_s * STEPS_MAX), STEPS_S[-1])
    step_s = max(step_s, 60) if of_minutes else step_s
    first_s, end_s = shown_s(seen, query, sight.now_ms)
    if query.to_s is None:
        end_s -= end_s % step_s
        first_s = end_s - query.range_s
    else:
        first_s, end_s = first_s // step_s * step_s, -(-end_s // step_s) * step_s
    kept_from_s = (now_s // 60 - MINUTES_KEPT) * 60 if of_minutes else now_s - SECONDS_KEPT
    span = (first_s * 1000, end_s * 1000)
    unknown = [UnknownTime(*span, NOT_READ)] if seen is None else seen.unknown(*span, kept_from_s * 1000)
    return Window(first_s, end_s, step_s, unknown)


def _by_second(db: StoreConnection, query: PanelQuery, window: Window) -> Json:
    split = query.split == "coordinator"
    line = "kpart" if split else "'all'"
    found = rows(
        db,
        f"select {line}, second / ? * ?, sum(files), sum(batches), sum(records), sum(bytes) from activity_second"
        " where second >= ? and second < ? group by 1, 2",
        window.step_s,
        window.step_s,
        window.first_s,
        window.end_s,
    )
    points = [Point(str(row[0]), row[1], row[2], row[3], row[4], row[5]) for row in found]
    return _answer(window, points, (lambda line: f"coordinator {line}") if split else (lambda _: "all coordinators"))


def _by_minute(db: StoreConnection, window: Window) -> Json:
    span = (window.step_s, window.step_s, window.first_s // 60, window.end_s // 60)
    found = rows(
        db,
        "select minute * 60 / ? * ?, sum(files), sum(batches), sum(bytes) from activity_uploader"
        " where minute >= ? and minute < ? group by 1",
        *span,
    )
    counted = rows(db, "select minute * 60 / ? * ?, sum(records) from activity_topic where minute >= ? and minute < ? group by 1", *span)
    records = {row[0]: row[1] for row in counted}
    points = [Point("all", row[0], row[1], row[2], records.get(row[0], 0), row[3]) for row in found]
    return _answer(window, points, lambda _: "all coordinators")


def _by_topic(db: StoreConnection, window: Window, only: list[bytes] | None) -> Json:
    span = (window.first_s // 60, window.end_s // 60)
    condition = "" if only is None else f" and topic_id in ({marks(only)})"
    within = f"from activity_topic where minute >= ? and minute < ?{condition}"
    busiest = rows(db, f"select topic_id {within} group by 1 order by sum(batches) desc, 1", *span, *(only or []))
    ids = [bytes(row[0]) for row in busiest]
    shown = ids if len(ids) <= LINES_MAX else ids[: LINES_MAX - 1]
    found = rows(
        db,
        f"select case when topic_id in ({marks(shown)}) then topic_id end, minute * 60 / ? * ?, sum(batches), sum(records), sum(bytes)"
        f" {within} group by 1, 2",
        *shown,
        window.step_s,
        window.step_s,
        *span,
        *(only or []),
    )
    names = topic_names(db, shown)
    rest = f"{len(ids) - len(shown)} {OTHERS}"
    points = [Point(rest if row[0] is None else names[bytes(row[0])], row[1], None, row[2], row[3], row[4]) for row in found]
    answer = _answer(window, points, lambda line: line, last=rest)
    answer["note"] = "by topic: whole minutes; a file belongs to many topics, so files are not split"
    return answer


def _answer(window: Window, points: Iterable[Point], label: Callable[[str], str], last: str = "") -> Json:
    """Lines of the busiest, the rest added up as one after them; `last` is such a rest already.

    Those shown stand in the order of their names: by load, lines would change their places and colours all the time.
    """
    sums: dict[str, dict[str, int]] = {}
    cells: dict[str, dict[int, Point]] = {}
    for point in points:
        of_line = sums.setdefault(point.line, dict.fromkeys(UNITS, 0))
        for unit, value in zip(UNITS, point[2:], strict=True):
            of_line[unit] += value or 0
        at_time = cells.setdefault(point.line, {})
        before = at_time.get(point.time_s)
        at_time[point.time_s] = point if before is None else _add(before, point)
    order = sorted(sums, key=lambda line: (line == last, -sums[line]["batches"], line))
    shown, rest = (order, []) if len(order) <= LINES_MAX else (order[: LINES_MAX - 1], order[LINES_MAX - 1 :])
    shown.sort(key=lambda line: (line == last, len(line) if line.isdecimal() else 0, line))
    lines = [_line(window, label(name), [cells[name]], [sums[name]]) for name in shown]
    if rest:
        lines.append(_line(window, f"{len(rest)} {OTHERS}", [cells[name] for name in rest], [sums[name] for name in rest]))
    if not lines:
        lines = [_line(window, "nothing", [{}], [dict.fromkeys(UNITS, 0)], counts_files=not last)]
    whole = {unit: sum(of_line[unit] for of_line in sums.values()) for unit in UNITS}
    return {
        "first_s": window.first_s,
        "end_s": window.end_s,
        "step_s": window.step_s,
        "lines": lines,
        "unknown": unknown_json(window.unknown),
        "sums": {unit: {"value": value, "digits": str(value)} for unit, value in whole.items()},
        "note": "",
    }


def _add(one: Point, other: Point) -> Point:
    files = None if one.files is None or other.files is None else one.files + other.files
    return Point(
        one.line,
        one.time_s,
        files,
        one.batches + other.batches,
        (one.records or 0) + (other.records or 0),
        one.size_bytes + other.size_bytes,
    )


def _line(window: Window, label: str, cells: list[dict[int, Point]], sums: list[dict[str, int]], *, counts_files: bool = False) -> Json:
    rates: dict[str, list[float | None]] = {unit: [0.0] * window.steps for unit in UNITS}
    for of_line in cells:
        for time_s, point in of_line.items():
            place = (time_s - window.first_s) // window.step_s
            for unit, value in zip(UNITS, point[2:], strict=True):
                column = rates[unit]
                column[place] = None if value is None else round((column[place] or 0.0) + value / window.step_s, 3)
    for place in window.unknown_steps():
        for column in rates.values():
            column[place] = None
    counts_files = counts_files or any(point.files is not None for of_line in cells for point in of_line.values())
    kept = [unit for unit in UNITS if unit != "files" or counts_files]
    return {
        "label": label,
        "rates": {unit: rates[unit] for unit in kept},
        "sums": {unit: str(sum(of_line[unit] for of_line in sums)) for unit in kept},
    }
