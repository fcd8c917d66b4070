"""`diskless monitor status`, `findings`, `quarantine`: what a monitor's folder says, also while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import rich_click as click

from cli.options import LIMIT, output_option
from cli.outcome import Exit, Failed
from cli.output import print_fields, print_rows, time_text
from cli.spark import folder_option

if TYPE_CHECKING:
    from cli.output import Row
    from spark_jobs.monitor.report import Report

FINDING_COLUMNS = ("partition", "offset", "rule", "topic_partition", "expected", "found", "message")
QUARANTINE_COLUMNS = ("partition", "offset", "size_bytes", "seen", "error")

limit_option = click.option("--max", "limit", type=LIMIT, default=100, show_default=True, help="Print at most this many.")


@click.command()
@folder_option
@output_option
def status(folder: Path, output: str) -> None:
    """Show what a monitor's folder says: totals, lag, findings.

    `lag` is that of the last micro-batch. Status 5 when there are findings.

    Example: `diskless monitor status --dir ./monitor`
    """
    with _report(folder) as report:
        fields = _status(report)
    print_fields(fields, output)
    if fields["findings"]:
        raise Failed("the audit found violations of the log's rules; `diskless monitor findings` lists them", Exit.AUDIT)


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
        "findings": dict(report.findings_by_rule()),
        "quarantined": totals.get("quarantined", 0),
    }


@click.command()
@folder_option
@click.option("--rule", help="Only those of this rule.")
@limit_option
@output_option
def findings(folder: Path, rule: str | None, limit: int, output: str) -> None:
    """List violations of the log's rules, each with where it is in the log.

    The newest come first. Status 5 when there are any.

    Example: `diskless monitor findings --dir ./monitor -o jsonl`
    """
    with _report(folder) as report:
        rows = [_finding(row) for row in report.findings(limit, rule)]
    print_rows(rows, output, FINDING_COLUMNS, empty="no findings")
    if rows:
        raise Failed("`diskless log dump --partition P --from OFFSET --max 1` shows an entry", Exit.AUDIT)


def _finding(row: Row) -> Row:
    topic_id = row["topic_id"]
    where = f"{_topic(topic_id)}-{row['partition']}" if isinstance(topic_id, bytes) else None
    return {
        "partition": row["kpart"],
        "offset": row["offset"],
        "rule": row["rule"],
        "topic_partition": where,
        "producer_id": row["producer_id"],
        "object_key": row["object_key"],
        "expected": row["expected"],
        "found": row["found"],
        "seen": time_text(cast(int, row["seen_ms"])),
        "message": row["message"],
    }


def _topic(topic_id: bytes) -> str:
    from coordinator.core.names import topic_id_text

    return topic_id_text(topic_id) if len(topic_id) == 16 else topic_id.hex()


@click.command()
@folder_option
@limit_option
@output_option
def quarantine(folder: Path, limit: int, output: str) -> None:
    """List the entries that could not be read.

    The newest come first, each with its first bytes in hexadecimal (not in a table).

    Example: `diskless monitor quarantine --dir ./monitor -o json`
    """
    with _report(folder) as report:
        rows = [_quarantined(row) for row in report.quarantine(limit)]
    print_rows(rows, output, QUARANTINE_COLUMNS, empty="nothing is in quarantine")


def _quarantined(row: Row) -> Row:
    first = row["first_bytes"]
    return {
        "partition": row["kpart"],
        "offset": row["offset"],
        "size_bytes": row["size_bytes"],
        "seen": time_text(cast(int, row["seen_ms"])),
        "error": row["error"],
        "first_bytes": first.hex() if isinstance(first, bytes) else None,
    }


@contextmanager
def _report(folder: Path) -> Iterator[Report]:
    import sqlite3

    from spark_jobs.monitor.report import NoMonitorError, open_report

    try:
        with open_report(folder) as report:
            yield report
    except NoMonitorError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except sqlite3.Error as error:
        raise Failed(f"the database in {folder} cannot be read: {error}") from error
