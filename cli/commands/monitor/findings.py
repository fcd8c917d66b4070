"""`diskless monitor findings`: list violations of the log's rules, and acknowledge those that are known."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from cli.commands.monitor.read import limit_option, opened_report
from cli.options import output_option
from cli.outcome import Exit, Failed
from cli.output import print_rows, say, time_text
from cli.spark.session import database_folder_option, store_place

if TYPE_CHECKING:
    from cli.output import Row
    from spark_jobs.store.acknowledge import Choice
    from spark_jobs.store.engine import StorePlace

COLUMNS = ("id", "partition", "offset", "rule", "topic_partition", "expected", "found", "acknowledged", "message")

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def findings() -> None:
    """List violations of the log's rules; acknowledge those that are known."""


@findings.command(name="list")
@store_place(database_folder_option)
@click.option("--rule", help="Only findings of this rule.")
@click.option("--open", "only_open", is_flag=True, help="Only findings that are not acknowledged.")
@limit_option
@output_option
def list_(place: StorePlace, rule: str | None, only_open: bool, limit: int, output: str) -> None:
    """List violations of the log's rules, each with where it is in the log.

    The newest come first. Status 5 when one that is listed is not acknowledged.

    Example: `diskless monitor findings list --dir ./monitor -o jsonl`
    """
    with opened_report(place) as report:
        rows = [_finding(row) for row in report.findings(limit, rule, only_open=only_open)]
    print_rows(rows, output, COLUMNS, empty="no findings")
    if any(row["acknowledged"] is None for row in rows):
        raise Failed("`diskless log dump --partition P --from OFFSET --max 1` shows an entry", Exit.AUDIT)


def _choice_options(function: F) -> F:
    """Add what says which findings, who and why."""
    for option in (
        click.option("--by", "who", help="Name, kept with the acknowledgement. [default: the user that runs the command]"),
        click.option("--reason", required=True, help="Reason, kept with the acknowledgement."),
        click.option("--all", "is_all", is_flag=True, help="All findings, also those that were only counted."),
        click.option("--rule", help="All findings of this rule."),
        store_place(database_folder_option),
        click.argument("ids", nargs=-1, type=click.IntRange(1, 2**63 - 1), metavar="[ID]..."),
    ):
        function = option(function)
    return function


@findings.command()
@_choice_options
def ack(ids: tuple[int, ...], place: StorePlace, rule: str | None, is_all: bool, reason: str, who: str | None) -> None:
    """Acknowledge findings: they are known, and no longer make the headline, an alert or an exit status.

    They stay in the list, with who, when and why. What is found later is open, also by the same rule.
    Status 3 when a finding does not exist.

    Examples: `diskless monitor findings ack 17 18 --dir ./monitor --reason "restored from a backup, see ticket 4711"`,
    `diskless monitor findings ack --rule log-lost --dir ./monitor --reason "pruned on purpose"`
    """
    from spark_jobs.monitor.facts import acknowledge_findings

    changed = _act(acknowledge_findings, ids, place, rule, is_all, reason, who)
    say(f"{changed} {'finding' if changed == 1 else 'findings'} acknowledged" if changed else "nothing to do: none of them is open")


@findings.command()
@_choice_options
def unack(ids: tuple[int, ...], place: StorePlace, rule: str | None, is_all: bool, reason: str, who: str | None) -> None:
    """Take acknowledgements back: the findings are open again.

    That they were acknowledged, by whom and why, stays in the database. Status 3 when a finding does not exist.

    Example: `diskless monitor findings unack 17 --dir ./monitor --reason "it happened again"`
    """
    from spark_jobs.monitor.facts import reopen_findings

    changed = _act(reopen_findings, ids, place, rule, is_all, reason, who)
    say(f"{changed} {'finding is' if changed == 1 else 'findings are'} open again" if changed else "nothing to do: all of them are open")


def _act(
    action: Callable[..., int], ids: Sequence[int], place: StorePlace, rule: str | None, is_all: bool, reason: str, who: str | None
) -> int:
    import time

    from spark_jobs.store.acknowledge import AcknowledgeError, UnknownFindingError
    from spark_jobs.store.engine import STORE_ERRORS

    choice = _choice(ids, rule, is_all)
    with opened_report(place):  # says what is wrong with the database
        pass
    try:
        return action(place, choice, who=_user() if who is None else who, reason=reason, now_ms=time.time_ns() // 1_000_000)
    except UnknownFindingError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except AcknowledgeError as error:
        raise Failed(str(error), Exit.USAGE) from error
    except STORE_ERRORS as error:
        raise Failed(f"the database in {place} cannot be written now: {error}; try again", Exit.UNAVAILABLE) from error


def _choice(ids: Sequence[int], rule: str | None, is_all: bool) -> Choice:
    from spark_jobs.store.acknowledge import Choice
    from spark_jobs.store.rules import RULES

    if bool(ids) + (rule is not None) + is_all != 1:
        raise Failed("say which findings: their ids, or --rule, or --all; `diskless monitor findings list` shows them", Exit.USAGE)
    if rule is not None and rule not in RULES:
        raise Failed(f"there is no rule {rule}; the rules are {', '.join(sorted(RULES))}", Exit.USAGE)
    return Choice(ids=ids, rule=rule)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        raise Failed("the user that runs this has no name; say who you are with --by", Exit.USAGE) from error


def _finding(row: Row) -> Row:
    topic_id = row["topic_id"]
    at_ms = row["at_ms"]
    return {
        "id": row["id"],
        "partition": row["kpart"],
        "offset": row["entry_offset"],
        "rule": row["rule"],
        "topic_partition": _place(topic_id, row["partition"]) if isinstance(topic_id, bytes) else None,
        "producer_id": row["producer_id"],
        "object_key": row["object_key"],
        "expected": row["expected"],
        "found": row["found"],
        "seen": time_text(cast(int, row["seen_ms"])),
        "acknowledged": None if at_ms is None else f"{time_text(cast(int, at_ms))} by {row['who']}: {row['reason']}",
        "message": row["message"],
    }


def _place(topic_id: bytes, partition: object) -> str:
    from coordinator.kafka.names import topic_id_text

    topic = topic_id_text(topic_id) if len(topic_id) == 16 else topic_id.hex()
    return topic if partition is None else f"{topic}-{partition}"
