"""`diskless dashboard`: the monitor's page."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark import folder_option

PORT = 9180


@click.command()
@folder_option
@click.option(
    "--coordinators",
    metavar="HOST:PORT[,..]",
    default="",
    envvar="DISKLESS_HTTP_ADDRESSES",
    show_envvar=True,
    help="HTTP addresses of the coordinators, whose /metrics are shown too.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=f"127.0.0.1:{PORT}",
    show_default=True,
    help="Where to serve the page; port 0 takes a free one.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def dashboard(folder: Path, coordinators: str, listen: str, open_browser: bool) -> None:
    """Serve a page that shows what the monitor found: activity, health, findings.

    It only reads, and asks for no password: serve it on loopback, or behind something that does. Prints the page's address when
    it is served; Ctrl-C or SIGTERM stop it. Everything the page shows is at /api as JSON, too.

    Examples: `diskless dashboard --dir ./monitor --open`,
    `diskless dashboard --dir /var/lib/diskless-monitor --coordinators node-1:9193,node-2:9193`
    """
    try:
        from spark_jobs.dashboard.server import ServeOptions, serve
    except ModuleNotFoundError as error:
        raise Failed(f"the dashboard needs the package {error.name}: pip install 'diskless-coordinator[dashboard]'", Exit.USAGE) from error

    host, port = _address("--listen", listen)
    targets = tuple(target.strip() for target in coordinators.split(",") if target.strip())
    for target in targets:
        _address("--coordinators", target)
    options = ServeOptions(folder=folder.expanduser().absolute(), coordinators=targets, host=host, port=port)

    def ready(address: str) -> None:
        click.echo(address)
        if open_browser and click.launch(address) != 0:
            say(f"no browser could be started; open {address} yourself")

    try:
        serve(options, ready)
    except OSError as error:
        raise Failed(f"cannot listen on {listen}: {error.strerror or error}; choose another --listen", Exit.UNAVAILABLE) from error


def _address(option: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535 or "/" in host:
        raise Failed(f"{option} takes HOST:PORT, not {text!r}", Exit.USAGE)
    return host.strip("[]") or "0.0.0.0", int(port)
