"""`diskless dashboard`: the monitor's page."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import kafka_options
from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark.session import database_folder_option, store_place
from coordinator.printable import quoted

if TYPE_CHECKING:
    from spark_jobs.dashboard.entries import LogEntries
    from spark_jobs.dashboard.scraping import Scraping
    from spark_jobs.store.engine import StorePlace

PORT = 9180
TOKEN_FILE_BYTES_MAX = 4096
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_HOST = re.compile(r"\[[^]\[/\s]+\]|[^]\[:/\s]*")


@click.command()
@store_place(database_folder_option)
@click.option(
    "--coordinators",
    metavar="HOST:PORT[,..]",
    default="",
    envvar="DISKLESS_HTTP_ADDRESSES",
    show_envvar=True,
    help=(
        "HTTP addresses of the nodes, and of gateways: whether they answer, what they lead, latencies, failures of the object store;"
        " https://HOST:PORT for those with TLS."
    ),
)
@click.option(
    "--coordinators-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=(
        "File with the token that the coordinators ask for (http.bearer.token.file); read again at each look."
        " Where one of them is asked by TLS, no other gets it in plain text."
    ),
)
@click.option(
    "--coordinators-ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="PEM file with the authorities of the coordinators' certificates. [default: those of the system]",
)
@click.option(
    "--exports",
    metavar="HOST:PORT[,..]",
    default="",
    help=(
        "Addresses of `tables export --metrics-port`: how far behind each export is, and how long retention leaves it;"
        " https://HOST:PORT for those behind a proxy with TLS."
    ),
)
@click.option(
    "--exports-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token that this proxy asks for; read again at each look.",
)
@click.option(
    "--exports-ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="PEM file with the authorities of the exports' certificates. [default: those of the system]",
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
    help="File with a token, by which findings can be acknowledged on the page. [default: the page changes nothing]",
)
@click.option(
    "--login-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="DISKLESS_DASHBOARD_LOGIN_TOKEN_FILE",
    show_envvar=True,
    help="File with a token: the page is shown only after a login with it. [default: everybody who reaches it]",
)
@click.option(
    "--proxy-user-header", metavar="NAME", help="Header in which a proxy names the user; requests without it are refused, or log in."
)
@click.option(
    "--proxy-addresses",
    metavar="ADDRESS[/BITS][,..]",
    default="",
    help="Addresses of trusted proxies: their X-Forwarded-For names the sender of a token, and their --proxy-user-header is trusted.",
)
@click.option(
    "--kafka-bootstrap-server",
    "kafka_server",
    metavar="HOST:PORT[,..]",
    help="Kafka brokers: pages of entries show them field by field with their bytes. [default: only what the store has of them]",
)
@kafka_options
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def dashboard(
    place: StorePlace,
    coordinators: str,
    coordinators_token_file: Path | None,
    coordinators_ca_file: Path | None,
    exports: str,
    exports_token_file: Path | None,
    exports_ca_file: Path | None,
    listen: str,
    token_file: Path | None,
    login_token_file: Path | None,
    proxy_user_header: str | None,
    proxy_addresses: str,
    kafka_server: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    open_browser: bool,
) -> None:
    """Serve a page that shows what the monitor found: activity, health, findings.

    The page is open to all who reach it, unless --login-token-file or --proxy-user-header is given; it speaks no TLS, so let it be
    reached on loopback or through a proxy that has one. It only reads, unless --token-file is given: then findings can be
    acknowledged with the token in it. Prints the page's address when it is served; Ctrl-C or SIGTERM
    stop it. Everything the page shows is at /api as JSON, too.

    Examples: `diskless dashboard --dir ./monitor --open`,
    `diskless dashboard --dir /var/lib/diskless-monitor --coordinators node-1:9193,node-2:9193`
    """
    from coordinator.app.process.logs import set_up_logging

    try:
        from spark_jobs.dashboard.login import LookRules
        from spark_jobs.dashboard.server import ServeOptions, serve
    except ModuleNotFoundError as error:
        raise Failed(f"the dashboard needs the package {error.name}: pip install 'diskless-coordinator[dashboard]'", Exit.USAGE) from error

    host, port = _address("--listen", listen)
    asked = _targets("--coordinators", coordinators, coordinators_token_file, coordinators_ca_file)
    asked_exports = _targets("--exports", exports, exports_token_file, exports_ca_file)
    options = ServeOptions(
        place=place.expanduser().absolute() if isinstance(place, Path) else place,
        coordinators=asked[0],
        host=host,
        port=port,
        token=None if token_file is None else _token("--token-file", token_file),
        scraping=asked[1],
        looking=LookRules(
            token=None if login_token_file is None else _token("--login-token-file", login_token_file),
            user_header=_header(proxy_user_header, proxy_addresses),
            proxies=_networks(proxy_addresses),
        ),
        exports=asked_exports[0],
        exports_scraping=asked_exports[1],
        entries=_entries(kafka_server, command_config, command_properties),
    )

    def ready(address: str) -> None:
        click.echo(address)
        if open_browser and click.launch(address) != 0:
            say(f"no browser could be started; open {address} yourself")

    set_up_logging()
    try:
        serve(options, ready)
    except OSError as error:
        raise Failed(f"cannot listen on {listen}: {error.strerror or error}; choose another --listen", Exit.UNAVAILABLE) from error


def _entries(server: str | None, command_config: Path | None, command_properties: Sequence[str]) -> LogEntries | None:
    """The Kafka that entries are read from; None without one. Raises `Failed`."""
    if server is None:
        return None
    from cli.kafka.cluster import find_kafka_place
    from spark_jobs.dashboard.entries import LogEntries

    place = find_kafka_place(server, None, None, command_config, command_properties)
    return LogEntries(bootstrap_servers=place.bootstrap_servers, properties=place.properties)


def _targets(option: str, text: str, token_file: Path | None, ca_file: Path | None) -> tuple[tuple[str, ...], Scraping]:
    """The addresses of processes, and how they are asked. Raises `Failed` for what is none, and for a bad token."""
    from spark_jobs.dashboard.scraping import TLS, Scraping

    targets = tuple(target.strip() for target in text.split(",") if target.strip())
    for target in targets:
        _address(option, target.removeprefix(TLS))
    if token_file is not None:
        _token(f"{option}-token-file", token_file)
    is_by_tls = any(target.startswith(TLS) for target in targets)
    return targets, Scraping(token_file=token_file, ca_file=ca_file, is_only_by_tls=is_by_tls)


def _token(option: str, file: Path) -> str:
    """The token of a file, which is its first line. Raises `Failed` when it is none to rely on."""
    from coordinator.config.sources import read_bounded
    from spark_jobs.dashboard.attempts import TOKEN_CHARS_MIN

    remedy = f"`openssl rand -hex 24 > {quoted(str(file))}` makes one"
    try:
        token = (read_bounded(file, TOKEN_FILE_BYTES_MAX).strip().splitlines() or [""])[0].strip()
    except OSError as error:
        raise Failed(f"{option} {file} cannot be read: {error.strerror or error}", Exit.USAGE) from error
    except ValueError as error:
        raise Failed(f"{option} {file} holds no token: {error}; {remedy}", Exit.USAGE) from error
    if len(token) < TOKEN_CHARS_MIN or not (token.isascii() and token.isprintable()) or " " in token:
        raise Failed(
            f"{option} {file} must hold one token of at least {TOKEN_CHARS_MIN} ASCII characters without spaces; {remedy}", Exit.USAGE
        )
    return token


def _header(name: str | None, addresses: str) -> str | None:
    """The name of a header. Raises `Failed` for what is no name, and for a header that no proxy may be trusted with."""
    if name is not None and not _HEADER.fullmatch(name):
        raise Failed(f"--proxy-user-header takes the name of a header such as X-Forwarded-User, not {name!r}", Exit.USAGE)
    if name is not None and not addresses.strip():
        raise Failed("--proxy-user-header needs --proxy-addresses: the header is trusted from these addresses alone", Exit.USAGE)
    return name


def _networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks. Raises `Failed` for others."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ipaddress.ip_network(one))
        except ValueError as error:
            raise Failed(f"--proxy-addresses: {error}; give addresses such as 10.0.0.7 or 10.0.0.0/24", Exit.USAGE) from error
    return tuple(found)


def _address(option: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535 or not _HOST.fullmatch(host):
        raise Failed(f"{option} takes HOST:PORT, an IPv6 address in brackets, not {text!r}", Exit.USAGE)
    return host.strip("[]") or "0.0.0.0", int(port)
