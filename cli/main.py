"""The command `diskless`: the table of commands without their work. `cli.program` is the process around it."""

from __future__ import annotations

import click

from cli.lazy import Lazy, Root

COMMANDS = {
    "init": Lazy("cli.commands.init", "init", "Create the metadata topic, or check the one that exists."),
    "coordinator": Lazy("cli.commands.coordinator", "coordinator", "Run a coordinator process; look at running ones."),
    "topics": Lazy("cli.commands.data.topics", "topics", "Create, grow, delete and look at diskless topics."),
    "partitions": Lazy("cli.commands.data.partitions", "partitions", "Move partitions of topics between coordinators."),
    "files": Lazy("cli.commands.data.files", "files", "Make WAL files, commit them, look at those that are known."),
    "gateway": Lazy("cli.commands.gateway", "gateway", "Run a gateway, by which Kafka clients use diskless topics."),
    "gateways": Lazy("cli.commands.data.gateways", "gateways", "Look at gateways, and at the plan of produce gateways."),
    "offsets": Lazy("cli.commands.data.offsets", "offsets", "Look up offsets of partitions by time."),
    "batches": Lazy("cli.commands.data.batches", "batches", "Find the batches of a partition in the object store."),
    "producers": Lazy("cli.commands.data.producers", "producers", "Look at the idempotent producers that write to topics."),
    "records": Lazy("cli.commands.data.records", "records", "Show the newest records of a topic, or delete the oldest."),
    "groups": Lazy("cli.commands.groups", "groups", "Look at the consumer groups of Kafka that read diskless topics."),
    "tables": Lazy("cli.commands.tables", "tables", "Copy diskless topics into Delta and Iceberg tables; look how far that is."),
    "migration": Lazy("cli.commands.migration.group", "migration", "Make classic topics diskless, and prove that nothing is lost."),
    "doctor": Lazy("cli.commands.doctor", "doctor", "Find out what is wrong with a service: each finding comes with its remedy."),
    "log": Lazy("cli.commands.log", "log", "Look into the metadata topic itself."),
    "snapshots": Lazy("cli.commands.snapshots", "snapshots", "Take snapshots of coordinators; list, prove and fetch them."),
    "retention": Lazy("cli.commands.data.retention", "retention", "Delete batches that are past their topic's retention."),
    "orphans": Lazy("cli.commands.data.orphans", "orphans", "Find and delete objects that were uploaded and never committed."),
    "restore": Lazy("cli.commands.restore", "restore", "Begin again in a new Kafka, from the snapshots in the object store."),
    "users": Lazy("cli.commands.users", "users", "Make and list the users who may log in to nodes."),
    "storage": Lazy("cli.commands.storage", "storage", "Prepare and look at the data directories of this machine."),
    "dirs": Lazy("cli.commands.dirs", "dirs", "Look at the data directories of nodes; move replicas between them."),
    "db": Lazy("cli.commands.db", "db", "Look into the state database of a metadata partition."),
    "bench": Lazy(
        "cli.commands.bench",
        "bench",
        "Commit files as fast as the service takes them (or at a rate) and show throughput and latency.",
    ),
    "monitor": Lazy("cli.commands.monitor.group", "monitor", "Follow and audit the metadata topic with Spark; look at what was found."),
    "dashboard": Lazy("cli.commands.dashboard", "dashboard", "Serve a page that shows what the monitor found: activity, health, findings."),
    "simulate": Lazy("cli.commands.simulate", "simulate", "Live whole clusters on virtual time, with faults from a seed."),
    "config": Lazy("cli.commands.config", "config", "Show and check the settings of a coordinator."),
    "dev": Lazy("cli.commands.dev", "dev", "Run a whole service on this machine: Kafka, nodes, gateway, object store, load."),
    "completion": Lazy("cli.commands.completion", "completion", "Print the completion script of a shell."),
}

EPILOG = """Exit status: 0 ok, 1 failure, 2 wrong options or configuration, 3 not found, 4 unavailable now (retry), 5 an audit found
something, 6 timed out. Data goes to standard output, messages to standard error. Documentation: README.md, docs/index.md."""


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from coordinator.app.version import installed_version

        click.echo(f"diskless {installed_version()}")
        ctx.exit()


@click.group(
    cls=Root,
    lazy=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version and exit.")
def root() -> None:
    """Diskless Coordinator (KIP-1164): the metadata of diskless topics beside an ordinary Kafka cluster.

    Start with `diskless init`, then `diskless coordinator run --config FILE`; `diskless doctor` says what is wrong.
    """
