"""Delivery reports of entries one by one, and of entries that travelled together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from coordinator.runtime.ports import Report


def noted_in(reports: list[Report]) -> Callable[[Sequence[Report]], None]:
    """Return what a producer reports to, so that the list gets a report for each entry."""

    def note(told: Sequence[Report]) -> None:
        for seq, offset, error, count in told:
            behind = range(count - 1, -1, -1)
            reports.extend(Report(seq - place, None if offset is None else offset - place, error) for place in behind)

    return note


def joined(reports: Iterable[Report]) -> list[Report]:
    """Join the reports of entries that stand side by side."""
    runs: list[Report] = []
    for report in reports:
        last = runs[-1] if runs else None
        if last is not None and _is_next(last, report):
            runs[-1] = report._replace(entries=last.entries + 1)
        else:
            runs.append(report)
    return runs


def _is_next(last: Report, report: Report) -> bool:
    next_offset = None if last.offset is None else last.offset + 1
    return last.error is report.error is None and report.entries == 1 and (report.seq, report.offset) == (last.seq + 1, next_offset)
