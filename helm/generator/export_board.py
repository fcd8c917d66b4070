"""The dashboard of exports: how far tables are behind their topics, and what was written."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Board, Panel, Query, Section, Unit, Variable
from helm.generator.service_board import process_section
from helm.generator.service_queries import OF, RATE, number

PREFIX: Final = "diskless_export_"
_TOPIC: Final = "{{topic}}"


def metric(name: str) -> str:
    """An export's metric with the dashboard's choices applied."""
    return f"{PREFIX}{name}{{{OF}}}"


def rate(name: str) -> str:
    """Per second, by topic."""
    return f"sum by (topic) (rate({metric(name)}[{RATE}]))"


def _lines(title: str, help_text: str, expr: str, unit: Unit = Unit.NONE) -> Panel:
    return Panel(title=title, help=help_text, queries=(Query(expr=expr, legend=_TOPIC),), unit=unit)


NOW: Final = Section(
    title="Now",
    panels=(
        number("Records to export", "Records that tables do not have yet.", f"sum({metric('lag_records')})"),
        number(
            "Retention overtakes",
            "Time until retention.ms takes a record that no table has; none while all tables are complete.",
            f"min({metric('retention_seconds_left')})",
            Unit.SECONDS,
            bad_below=6 * 3600,
        ),
        number(
            "Oldest table",
            "Time since the table that is furthest behind last had what its log had; since 1970 if it never did.",
            f"max(time() - {metric('last_caught_up_timestamp_seconds')})",
            Unit.SECONDS,
        ),
        number("Lost records", "Deleted by retention before they were exported.", f"sum({metric('lost_records_total')})", bad_from=1),
        number("Damaged exported batches", "Left out by --on-damage skip.", f"sum({metric('damaged_batches_total')})", bad_from=1),
        number(
            "Last maintenance",
            "Time since this process last joined files of its table; since 1970 if it did not.",
            f"max(time() - {metric('last_maintenance_timestamp_seconds')})",
            Unit.SECONDS,
        ),
    ),
)

PACE: Final = Section(
    title="Does it keep up?",
    panels=(
        _lines("Export lag", "Records of each topic that its table does not have.", f"sum by (topic) ({metric('lag_records')})"),
        _lines("Rows", "Rows committed per second.", rate("rows_total"), Unit.PER_SECOND),
        _lines("Bytes", "Bytes of these rows, as columns in memory.", rate("bytes_total"), Unit.BYTES_PER_SECOND),
        _lines("Table commits", "Commits per second: each makes a file for every date in it.", rate("commits_total"), Unit.PER_SECOND),
        _lines(
            "Time of a commit",
            "The mean, the writing of its files included.",
            f"{rate('commit_seconds_total')} / {rate('commits_total')}",
            Unit.SECONDS,
        ),
        _lines("Repeated passes", "Outages of the service, its object store or the table.", rate("failures_total"), Unit.PER_SECOND),
    ),
)

EXPORT: Final = Board(
    uid="diskless-export",
    title="Diskless exports",
    help="Exports of topics to tables: lag, retention, commits.",
    variables=(
        Variable(name="job", label="Exports", metric=f"{PREFIX}rows_total"),
        Variable(name="instance", label="Process", metric=f"{PREFIX}rows_total"),
    ),
    sections=(NOW, PACE, process_section(OF)),
)
