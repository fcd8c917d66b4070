"""`diskless monitor status`, `findings`, `quarantine`: what a monitor's folder says, also while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import click

from cli.options import LIMIT, output_option
from cli.outcome import Exit, Failed
from cli.output import print_fields, print_rows, time_text
from cli.spark.session import database_folder_option, store_place

if TYPE_CHECKING:
    from cli.output import Row
    from spark_jobs.dashboard.verdict import PageVerdict, Watching
    from spark_jobs.monitor.report import Report
    from spark_jobs.store.engine import StorePlace

QUARANTINE_COLUMNS = ("partition", "offset", "size_bytes", "seen", "error")

limit_option = click.option("--max", "limit", type=LIMIT, default=100, show_default=True, help="Print at most this many.")


@click.command()
@store_place(database_folder_option)
@output_option
def status(place: StorePlace, output: str) -> None:
    """Show the verdict, totals, lag and findings of a monitor.

    The verdict is the headline of the dashboard. Status 0 only when there is nothing to look at. 5 when something was found:
    findings that are not acknowledged, entries in quarantine, a replica that disagrees with the log, lost files, a transaction
    or a hand-over that is open for too long. 4 when what the folder says is not up to date: the monitor is dead, was stopped,
    ended with an error, is behind or has merged nothing yet, Kafka does not answer it, or a coordinator has no leader. A
    `run --once` that ended well counts as up to date.

    Example: `diskless monitor status --dir ./monitor`
    """
    with opened_report(place) as report:
        fields = _status(report)
    watch, verdict = _judge(place)
    problems = [problem for problem in verdict.problems if not (problem.panel == "monitor" and watch.is_complete)]
    listed = {"verdict": verdict.sentence, "problems": [problem.text for problem in problems]}
    print_fields({**listed, **fields}, output)
    if problems:
        is_found = any(problem.is_found for problem in problems)
        raise Failed("; ".join(problem.text for problem in problems), Exit.AUDIT if is_found else Exit.UNAVAILABLE)


def _judge(place: StorePlace) -> tuple[Watching, PageVerdict]:
    """Judge a monitor as the dashboard does."""
    import time

    from spark_jobs.dashboard.panels.overview import facts
    from spark_jobs.dashboard.panels.sight import Sight
    from spark_jobs.dashboard.verdict import judge
    from spark_jobs.monitor.life import read_life

    now_ms = time.time_ns() // 1_000_000
    with opened_report(place) as report:
        known = facts(report.connection, Sight(now_ms=now_ms, life=read_life(place, report.connection)))
    return known.watch, judge(known, (), now_ms)


def _status(report: Report) -> dict[str, object]:
    log, heads, totals = report.log(), report.heads(), report.totals()
    lag = {str(row["kpart"]): max(0, cast(int, row["log_end"]) - cast(int, row["next_offset"])) for row in heads}
    merged_ms = max((cast(int, row["merged_ms"]) for row in heads), default=-1)
    return {
        "topic": log and log["topic"],
        "topic_id": log and log["topic_id"],
        "partitions": log and log["partitions"],
        "merged": time_text(merged_ms),
        "next_offset": {str(row["kpart"]): row["next_offset"] for row in heads},
        "holds_from": {str(row["kpart"]): row["from_offset"] for row in heads if row["from_offset"]},
        "lag": lag,
        "totals": dict(totals),
        "findings": dict(report.findings_by_rule(only_open=True)),
        "acknowledged": sum(report.findings_by_rule().values()) - report.open_rows(),
        "quarantined": totals.get("quarantined", 0),
        "open_transactions": report.open_transactions(),
        "last_verify": _last(report, "last_verify", "agree"),
        "last_objects": _last(report, "last_objects", "missing_files"),
    }


def _last(report: Report, name: str, *facts: str) -> dict[str, object] | None:
    """Return the last result of a batch job; None before the first."""
    import json

    said = json.loads(report.job().get(name, "null"))
    return None if said is None else {"at": time_text(said["at_ms"]), **{fact: said.get(fact) for fact in facts}}


@click.command()
@store_place(database_folder_option)
@limit_option
@output_option
def quarantine(place: StorePlace, limit: int, output: str) -> None:
    """List the entries that could not be read.

    The newest come first, each with its first bytes in hexadecimal (not in a table).

    Example: `diskless monitor quarantine --dir ./monitor -o json`
    """
    with opened_report(place) as report:
        rows = [_quarantined(row) for row in report.quarantine(limit)]
    print_rows(rows, output, QUARANTINE_COLUMNS, empty="nothing is in quarantine")


def _quarantined(row: Row) -> Row:
    first = row["first_bytes"]
    return {
        "partition": row["kpart"],
        "offset": row["entry_offset"],
        "size_bytes": row["size_bytes"],
        "seen": time_text(cast(int, row["seen_ms"])),
        "error": row["error"],
        "first_bytes": first.hex() if isinstance(first, bytes) else None,
    }


@contextmanager
def opened_report(place: StorePlace) -> Iterator[Report]:
    """Read the report of a monitor's folder. Raises `Failed`."""
    from spark_jobs.monitor.report import NoMonitorError, open_report
    from spark_jobs.store.engine import STORE_ERRORS

    try:
        with open_report(place) as report:
            yield report
    except NoMonitorError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except STORE_ERRORS as error:
        raise Failed(f"the database in {place} cannot be read: {error}") from error
