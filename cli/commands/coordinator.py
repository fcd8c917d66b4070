"""`diskless coordinator`: run a process, and ask running ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from cli.commands.grow import grow
from cli.commands.leaders import drain, rebalance, undrain, why
from cli.options import (
    COUNT,
    INDEX,
    FiniteRange,
    config_option,
    confirm,
    dry_run_option,
    log_level_option,
    output_option,
    property_option,
    service_options,
    yes_option,
)
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.looks.service import NodeView
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.directory import LevelDescription

STATUS_COLUMNS = (
    "coordinator",
    "state",
    "leader",
    "address",
    "epoch",
    "log_end",
    "standbys",
    "lag_max",
    "live_partitions",
    "live_files",
    "producers",
    "state_bytes",
)
WATCH_COLUMNS = (*STATUS_COLUMNS[:6], "commits_s", *STATUS_COLUMNS[6:])
REPLICA_COLUMNS = (
    "coordinator", "node", "state", "epoch", "term", "log_end", "lag", "written_offset", "digest", "live_partitions", "live_files",
    "live_file_bytes", "producers", "state_bytes", "commits", "directory_id", "directory_state",
)  # fmt: skip
LEVEL_COLUMNS = ("node", "level_in_force", "highest_level", "gone")
NODE_COLUMNS = ("node", "address", "rack", "reachable", "leads", "follows", "drains", "live_partitions", "state_bytes", "error")


@click.group()
def coordinator() -> None:
    """Run a coordinator process; look at running ones."""


for _command in (why, drain, undrain, rebalance, grow):
    coordinator.add_command(_command)


@coordinator.command()
@config_option
@property_option
@log_level_option
def run(config_file: Path | None, properties: Sequence[str], log_level: str) -> None:
    """Run one coordinator process in the foreground until SIGTERM or Ctrl-C.

    Prints the line `serving` with its addresses when it takes requests, and the line `ready` when /ready says so: it is a member of the
    group, leads what it is assigned and has loaded the rest. Logs go to standard error. Every setting may also come from
    the environment (`DISKLESS_NODE_ID` for `node.id`); `diskless config show --docs` lists them.

    Example: `diskless coordinator run --config coordinator.properties --property node.id=1`
    """
    from cli.configuration import prove_kafka_properties, read_settings

    settings = read_settings(config_file, properties)
    prove_kafka_properties(settings)

    from coordinator.app.main import run_coordinator
    from coordinator.app.process.logs import set_up_logging
    from coordinator.config import advice

    set_up_logging(log_level)
    for sentence in advice(settings):
        say(f"warning: {sentence}")
    sys.exit(run_coordinator(settings))


@coordinator.command()
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C.")
@click.option("--interval", "interval_s", type=FiniteRange(0.1, 3600), default=2.0, show_default=True, help="Seconds between two looks.")
@service_options
@output_option
def status(watch: bool, interval_s: float, service: ServicePlace, output: str) -> None:
    """Show every coordinator: its leader, the end of its log, how far its standbys are, and how full it is.

    Says as well which replicas are being loaded and how far that is, and which data directories are offline; with --watch how many
    commits each leader makes in a second. Status 4 when a coordinator has no leader that answers here.

    Examples: `diskless coordinator status --bootstrap-server localhost:9192`,
    `diskless coordinator status --watch --interval 1 --bootstrap-server localhost:9192`
    """
    from cli.looks.service import notes, status_rows
    from cli.outcome import Exit, Failed
    from cli.service import run

    if watch:
        with suppress(KeyboardInterrupt):
            _watch(interval_s, service, output)
        return
    views = run(_look(service))
    rows = status_rows(views)
    _print_status(rows, output)
    for note in notes(views):
        say(note)
    missing = [str(row["coordinator"]) for row in rows if row["leader"] is None]
    if missing or not rows:
        raise Failed(f"without a leader that answers: {', '.join(missing) or 'everything'}; `diskless doctor` says more", Exit.UNAVAILABLE)


def _print_status(rows: Sequence[Row], output: str, columns: Sequence[str] = STATUS_COLUMNS) -> None:
    """Print coordinators; a table names a leader that does not answer."""
    from cli.looks.service import leader_text

    if output == "table":
        rows = [
            row | {"leader": leader_text(cast(int, row["last_leader"]), answers=bool(row["last_leader_answers"]))}
            if cast(int, row["last_leader"]) >= 0
            else row
            for row in map(dict, rows)
        ]
    print_rows(rows, output, columns, empty="no node knows a coordinator")


def _watch(interval_s: float, service: ServicePlace, output: str) -> None:
    """Show the state again and again; a service that does not answer is no reason to stop."""
    from cli.looks.service import notes, status_rows, with_rates
    from cli.outcome import Failed
    from cli.service import run

    before: Sequence[Row] = ()
    before_s = time.monotonic()
    while True:
        try:
            views = run(_look(service))
        except Failed as failed:
            say(str(failed))
        else:
            rows, now_s = status_rows(views), time.monotonic()
            if sys.stdout.isatty() and output == "table":
                click.clear()
            _print_status(with_rates(rows, before, now_s - before_s), output, WATCH_COLUMNS)
            before, before_s = rows, now_s
            for note in notes(views):
                say(note)
        time.sleep(interval_s)


@coordinator.command()
@click.argument("coordinator_id", type=INDEX, nargs=-1)
@service_options
@output_option
def describe(coordinator_id: Sequence[int], service: ServicePlace, output: str) -> None:
    """Show every replica of coordinators, each as the node that has it answers.

    COORDINATOR_ID is the number of a metadata partition; none means all. Digests are equal where the written offsets are. The state of
    the data directory is the one that coordinator 0 has recorded; it is all that is known of a node that does not answer.

    Example: `diskless coordinator describe 0 1 --bootstrap-server localhost:9192 -o json`
    """
    from cli.looks.service import replica_rows
    from cli.outcome import Exit, Failed
    from cli.service import run

    views = run(_look(service))
    rows = replica_rows(views, coordinator_id)
    unknown = sorted(set(coordinator_id) - {row["coordinator"] for row in rows if isinstance(row["coordinator"], int)})
    print_rows(rows, output, REPLICA_COLUMNS)
    for view in views:
        if view.error:
            say(f"node {view.node.node_id} does not answer: {view.error}")
    if unknown:
        raise Failed(f"no node knows coordinator {', '.join(map(str, unknown))}", Exit.NOT_FOUND)


@coordinator.command("list")
@service_options
@output_option
def list_(service: ServicePlace, output: str) -> None:
    """List the nodes of the service, which coordinators each leads, and which nodes drain.

    Example: `diskless coordinator list --bootstrap-server localhost:9192`
    """
    from cli.looks.service import node_rows
    from cli.service import run

    rows = node_rows(run(_look(service)))
    print_rows(rows, output, NODE_COLUMNS if any(row["error"] for row in rows) else NODE_COLUMNS[:-1])


@coordinator.command()
@service_options
@output_option
def level(service: ServicePlace, output: str) -> None:
    """Show the schema level the log is written at, and the highest one each node agrees to.

    The level rises by itself once all nodes agree to a higher one (`schema.level.max` of a node holds it). A node that is
    gone for good keeps it where it is: `diskless coordinator raise-level` says that it is gone.

    Example: `diskless coordinator level --bootstrap-server localhost:9192`
    """
    from cli.service import ask, run

    found = run(ask(service, lambda client: client.admin.schema_level()))
    print_rows(_level_rows(found), output, LEVEL_COLUMNS, empty=f"level {found.level} is in force; no node is registered")


@coordinator.command("raise-level")
@click.argument("level", type=COUNT)
@click.option(
    "--gone-node",
    "gone_nodes",
    type=INDEX,
    multiple=True,
    metavar="ID",
    help="A node that does not come back. Repeatable.",
)
@dry_run_option
@yes_option
@service_options
def raise_level(level: int, gone_nodes: Sequence[int], dry_run: bool, yes: bool, service: ServicePlace) -> None:
    """Write the log at a higher schema LEVEL from now on.

    Needed only where the level does not rise by itself. It never goes back: versions that do not know the level cannot be run
    any more, and a node named with --gone-node that comes back with one stops at the first entry it cannot read.

    Examples: `diskless coordinator raise-level 2 --bootstrap-server localhost:9192`,
    `diskless coordinator raise-level 2 --gone-node 7 --yes --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_raise_level(level, gone_nodes, dry_run, yes, service))


async def _raise_level(level: int, gone_nodes: Sequence[int], dry_run: bool, yes: bool, service: ServicePlace) -> None:
    from cli.looks.service import look
    from cli.outcome import Exit, Failed
    from cli.service import open_client
    from records.levels import LEVEL_LATEST

    async with open_client(service) as client:
        before = await client.admin.schema_level()
        if before.level >= level:
            say(f"schema level {before.level} is in force already")
            return
        known_max = max([LEVEL_LATEST, *(node.schema_level_max for node in before.nodes)])
        if level > known_max:
            raise Failed(f"schema level {level} is not known to this version, nor to any node; the highest is {known_max}", Exit.USAGE)
        answering = {view.node.node_id for view in await look(client, service.timeout_s) if not view.error}
        if living := sorted(answering & set(gone_nodes)):
            raise Failed(f"node {living[0]} answers, so it is not gone: upgrade it instead of naming it with --gone-node", Exit.USAGE)
        for node in before.nodes:
            if before.level <= node.schema_level_max < level:
                say(f"node {node.node_id} (up to level {node.schema_level_max}) {_in_the_way(node.node_id, answering, gone_nodes)}")
        if dry_run:
            say(f"schema level would be raised from {before.level} to {level} if no node is in the way")
            return
        confirm(f"Raise the schema level from {before.level} to {level} for good?", yes=yes)
        after = await client.admin.raise_schema_level(level, gone_node_ids=gone_nodes)
        say(f"schema level {after.level} is in force")


def _in_the_way(node_id: int, answering: Collection[int], gone_nodes: Sequence[int]) -> str:
    """Say how a node that does not agree to a level affects raising it."""
    if node_id in gone_nodes:
        return "counts as gone"
    if node_id in answering:
        return "is in the way: upgrade it, and let it have the level (schema.level.max)"
    return "is in the way and does not answer: start it with a version that has the level, or name it with --gone-node if it is gone"


def _level_rows(found: LevelDescription) -> Sequence[dict[str, object]]:
    """A row per node; one below the level in force was called gone when that was raised."""
    return [
        {
            "node": node.node_id,
            "level_in_force": found.level,
            "highest_level": node.schema_level_max,
            "gone": node.schema_level_max < found.level,
        }
        for node in found.nodes
    ]


async def _look(service: ServicePlace) -> Sequence[NodeView]:
    from cli.looks.service import look
    from cli.service import open_client

    async with open_client(service) as client:
        return await look(client, service.timeout_s)
