"""`diskless dashboard`: the monitor's page."""

from __future__ import annotations

import re
from pathlib import Path

import click

from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark import folder_option

PORT = 9180
TOKEN_FILE_BYTES_MAX = 4096
_HOST = re.compile(r"\[[^]\[/\s]+\]|[^]\[:/\s]*")


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
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="DISKLESS_DASHBOARD_TOKEN_FILE",
    show_envvar=True,
    help="File with a token: who has it may acknowledge findings on the page. [default: the page changes nothing]",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def dashboard(folder: Path, coordinators: str, listen: str, token_file: Path | None, open_browser: bool) -> None:
    """Serve a page that shows what the monitor found: activity, health, findings.

    Looking asks for no password: serve it on loopback, or behind something that does. It only reads, unless --token-file is
    given: then findings can be acknowledged with the token in it. Prints the page's address when it is served; Ctrl-C or SIGTERM
    stop it. Everything the page shows is at /api as JSON, too.

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
    token = None if token_file is None else _token(token_file)
    options = ServeOptions(folder=folder.expanduser().absolute(), coordinators=targets, host=host, port=port, token=token)

    def ready(address: str) -> None:
        click.echo(address)
        if open_browser and click.launch(address) != 0:
            say(f"no browser could be started; open {address} yourself")

    try:
        serve(options, ready)
    except OSError as error:
        raise Failed(f"cannot listen on {listen}: {error.strerror or error}; choose another --listen", Exit.UNAVAILABLE) from error


def _token(file: Path) -> str:
    """The token of a file. Raises `Failed` when it is none to rely on."""
    from coordinator.config.sources import read_bounded
    from spark_jobs.dashboard.writes import TOKEN_CHARS_MIN

    remedy = f"`openssl rand -hex 24 > {file}` makes one"
    try:
        token = read_bounded(file, TOKEN_FILE_BYTES_MAX).strip()
    except OSError as error:
        raise Failed(f"--token-file {file} cannot be read: {error.strerror or error}", Exit.USAGE) from error
    except ValueError as error:
        raise Failed(f"--token-file {file} holds no token: {error}; {remedy}", Exit.USAGE) from error
    if len(token) < TOKEN_CHARS_MIN or not (token.isascii() and token.isprintable()) or " " in token:
        raise Failed(
            f"--token-file {file} must hold one token of at least {TOKEN_CHARS_MIN} ASCII characters without spaces; {remedy}",
            Exit.USAGE,
        )
    return token


def _address(option: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535 or not _HOST.fullmatch(host):
        raise Failed(f"{option} takes HOST:PORT, an IPv6 address in brackets, not {text!r}", Exit.USAGE)
    return host.strip("[]") or "0.0.0.0", int(port)
