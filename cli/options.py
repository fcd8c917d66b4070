"""Options that several commands share, with one text each."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from cli.node_security import remember_file, remember_properties
from cli.output import FORMATS, WIDE
from cli.progress import hushed
from cli.service import ServicePlace

F = TypeVar("F", bound=Callable[..., Any])

SERVER_VARIABLE = "DISKLESS_BOOTSTRAP_SERVER"
KAFKA_VARIABLE = "DISKLESS_KAFKA_BOOTSTRAP_SERVER"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_BUNDLED = "__bundled_options__"

# Numbers that go over the wire, or into a database, as they fit there.
INDEX = click.IntRange(0, INT32_MAX)
COUNT = click.IntRange(1, INT32_MAX)
OFFSET = click.IntRange(0, INT64_MAX)
LIMIT = click.IntRange(1, INT64_MAX)


class FiniteRange(click.FloatRange):
    """A number between bounds that is one: neither `nan`, which passes every bound, nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number that can be reached.", param, ctx)
        return number


class RegularFile(click.Path):
    """A file as a path, also one that is not there yet; nothing else that has a name: no folder, device or pipe."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Parse the text."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if str(value) == "":
            self.fail("an empty path names no file.", param, ctx)
        try:
            mode = path.stat().st_mode
        except OSError:
            return path  # the code that opens it says why it cannot be
        if not stat.S_ISREG(mode):
            self.fail(f"{path} is a device or a pipe, not a file.", param, ctx)
        return path


def output_option(function: F) -> F:
    """Add the options that say how to print what was found; the command gets the format as `output`."""
    wide = click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.__setitem__(WIDE, value),
        help="Show all columns of a table and whole cells, also where a terminal is too narrow for them.",
    )
    output = click.option(
        "-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="How to print what was found."
    )
    return output(wide(function))


timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(0.1, 3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up after this time.",
)

_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="DISKLESS_CONFIG",
    show_envvar=True,
    help="Properties file of a coordinator.",
)


def gateway_group_option(flag: str) -> Callable[[F], F]:
    """The group of gateways; the command takes it as `gateway_group`."""
    return click.option(
        flag,
        "gateway_group",
        default="diskless-gateways",
        show_default=True,
        metavar="ID",
        help="Group of Kafka by which the gateways know each other (`diskless.gateway.group.id`).",
    )


def config_option(function: F) -> F:
    """Add the option, unless the command has it already: Kafka and the object store are both found in the file."""
    return function if "config_file" in _declared(function) else _config_option(function)


def _declared(function: Callable[..., Any]) -> set[str]:
    return {one.name for one in getattr(function, "__click_params__", ())}


property_option = click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="One setting; wins over file and environment. Repeatable."
)

token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with a bearer token of the HTTP port (`http.bearer.token.file`).",
)

topic_option = click.option("--metadata-topic", "topic", metavar="NAME", help="Name of the metadata topic. [default: metadata.topic]")

log_level_option = click.option(
    "--log-level", type=click.Choice(LOG_LEVELS), default="INFO", show_default=True, help="Least level that is logged."
)

dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def bundle(argument: str, make: Callable[[Mapping[str, Any]], object], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options to a command that gets what they name as one `argument`, made from the values of all its options.

    A value that the command has no parameter for is not handed over.
    """

    def add(function: F) -> F:
        is_bundled, parameters = hasattr(function, _BUNDLED), signature(function).parameters

        @wraps(function)
        def command(*context: click.Context, **given: Any) -> object:
            given[argument] = make(given)
            return function(*context, **(given if is_bundled else {name: one for name, one in given.items() if name in parameters}))

        setattr(command, _BUNDLED, True)
        bundled = cast(F, command)
        for option in reversed(options):
            bundled = option(bundled)
        return bundled

    return add


def kafka_place(*flags: str, has_topic: bool = True) -> Callable[[F], F]:
    """Return the options of commands that talk to Kafka, which get its `KafkaPlace` as `kafka`; `flags` name the brokers."""

    def find(given: Mapping[str, Any]) -> object:
        from cli.kafka.cluster import find_kafka_place

        topic = given["topic"] if has_topic else None
        return find_kafka_place(given["kafka_server"], given["config_file"], topic, given["command_config"], given["command_properties"])

    topics = (topic_option,) if has_topic else ()
    return bundle("kafka", find, kafka_server_option(*flags, name="kafka_server"), config_option, kafka_options, *topics)


def service_options(function: F) -> F:
    """Add the options of commands that ask nodes, which get them as `service`."""
    return server_option(timeout_option(function))


def kafka_server_option(*flags: str, name: str) -> Callable[[F], F]:
    """Return the option, under these flags, of commands that also find Kafka in --config; they get it as argument `name`."""
    return click.option(
        *flags,
        name,
        metavar="HOST:PORT[,..]",
        envvar=KAFKA_VARIABLE,
        show_envvar=True,
        help="Kafka brokers; without it `bootstrap.servers` of --config.",
    )


def kafka_options(function: F) -> F:
    """Add the options of commands that talk to Kafka themselves, and to nodes with the same properties."""
    return _client_options(function, is_passed=True)


def node_options(function: F) -> F:
    """Add the properties of connections to nodes."""
    return _client_options(function, is_passed=False)


def server_option(function: F) -> F:
    """Add the options of commands that talk to nodes; the command gets them, with its --timeout, as `service`."""
    return _server_option(function, is_required=True, text="Addresses of coordinator nodes; one that answers is enough.")


def optional_server_option(text: str) -> Callable[[F], F]:
    """Return the options of commands that can do without nodes, and get None then; `text` is the help of --bootstrap-server."""
    return lambda function: _server_option(function, is_required=False, text=text)


def _server_option(function: F, *, is_required: bool, text: str) -> F:
    def place(given: Mapping[str, Any]) -> ServicePlace | None:
        return None if given["bootstrap_server"] is None else ServicePlace(given["bootstrap_server"], given["timeout_s"])

    bundled: Callable[[F], F] = bundle("service", place)
    function = bundled(function)
    add = click.option(
        "--bootstrap-server",
        "bootstrap_server",
        metavar="HOST:PORT[,..]",
        envvar=SERVER_VARIABLE,
        show_envvar=True,
        required=is_required,
        help=text,
    )
    return add(function if "command_config" in _declared(function) else _client_options(function, is_passed=False))


def _client_options(function: F, *, is_passed: bool) -> F:
    """Add the options with the properties of clients; `is_passed` says whether the command takes them itself."""
    for option in (
        click.option(
            "--command-property",
            "command_properties",
            multiple=True,
            metavar="KEY=VALUE",
            callback=remember_properties,
            expose_value=is_passed,
            help="One property of the clients. Repeatable.",
        ),
        click.option(
            "--command-config",
            "command_config",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            callback=remember_file,
            expose_value=is_passed,
            help="Properties file of the clients of Kafka and of nodes: security.protocol, sasl.*, ssl.*; node.* wins for nodes.",
        ),
    ):
        function = option(function)
    return function


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; ends the command when the answer is no."""
    if not yes:
        with hushed():
            click.confirm(question, abort=True, err=True)
