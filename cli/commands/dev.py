"""`diskless dev`: a whole service on this machine, for trying things out."""

from __future__ import annotations

from pathlib import Path

import click

from cli.options import FiniteRange
from cli.outcome import Exit, Failed
from cli.output import say


@click.group()
def dev() -> None:
    """Run a whole service on this machine: Kafka, nodes, gateway, object store, load."""


@dev.command()
@click.option("--nodes", type=click.IntRange(1, 5), default=2, show_default=True, help="Coordinator nodes.")
@click.option(
    "--partitions",
    type=click.IntRange(1, 256),
    help="Metadata partitions, which are the coordinators. Chosen once per folder. [default: 8]",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep all data here, to go on with it next time. [default: a temporary folder, deleted at the end]",
)
@click.option("--no-demo", is_flag=True, help="Do not produce the demo load.")
@click.option("--no-gateway", is_flag=True, help="Do not start the gateway, by which Kafka clients use the service.")
@click.option("--no-monitor", is_flag=True, help="Do not start the monitor, which needs Spark and most of a gigabyte of memory.")
@click.option("--no-dashboard", is_flag=True, help="Do not serve the monitor's page.")
@click.option(
    "--restart-after",
    "restart_after_s",
    type=FiniteRange(0, 3600),
    default=12.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a node that was killed stays away; fail-over takes about 7 s.",
)
def up(
    nodes: int,
    partitions: int | None,
    folder: Path | None,
    no_demo: bool,
    no_gateway: bool,
    no_monitor: bool,
    no_dashboard: bool,
    restart_after_s: float,
) -> None:
    """Start a real Kafka, coordinator nodes and a gateway, and stay until Ctrl-C.

    Everything listens on 127.0.0.1 only: Kafka on 9092, nodes on 9192, 9194, ..., their HTTP one higher, the gateway on 9292; other ports
    where these are taken. Only Python is needed; the first start on a machine fetches Kafka. A node or broker that dies is reported
    and started again. Ctrl-C stops everything in some seconds, each node after it gave its work back, and leaves nothing running.

    Examples: `diskless dev up`, `diskless dev up --nodes 3 --folder ./service --no-demo`
    """
    from cli.dev.up import UpOptions, run_up

    run_up(
        UpOptions(
            nodes=nodes,
            partitions=partitions,
            folder=folder,
            demo=not no_demo,
            gateway=not no_gateway,
            monitor=not no_monitor,
            dashboard=not no_dashboard,
            restart_after_s=restart_after_s,
        )
    )


@dev.command()
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Data folder of the `dev up` to stop, when several run.")
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(0.1, 600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time.",
)
def down(folder: Path | None, timeout_s: float) -> None:
    """Stop a running `dev up`, as Ctrl-C in its terminal does.

    Example: `diskless dev down`
    """
    from cli.dev.running import find_running, stop_running

    running = find_running()
    if folder is not None:
        running = [one for one in running if Path(one.folder) == folder.expanduser().resolve()]
    if not running:
        raise Failed("no `diskless dev up` runs" + (f" on {folder}" if folder is not None else ""), Exit.NOT_FOUND)
    if len(running) > 1:
        lines = "".join(f"\n  --folder {one.folder}   (pid {one.pid})" for one in running)
        raise Failed(f"{len(running)} of them run; say which one to stop:{lines}", Exit.USAGE)
    (one,) = running
    if not stop_running(one, timeout_s):
        raise Failed(
            f"pid {one.pid} ({one.folder}) still runs {timeout_s:g} s after SIGTERM; its terminal says what it waits for", Exit.TIMEOUT
        )
    say(f"stopped pid {one.pid} ({one.folder})")
