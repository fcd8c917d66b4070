"""`diskless config`: the settings of a process as it would see them, and the reference of all keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from cli.options import config_option, node_options, output_option, property_option, timeout_option, token_option
from cli.output import print_rows, say


@click.group()
def config() -> None:
    """Show and check the settings of a coordinator."""


@config.command()
@config_option
@property_option
@click.option("--docs", is_flag=True, help="Print the reference of all keys instead: type, default, bounds, since which version, reason.")
@click.option("--given", is_flag=True, help="Leave out settings that have their default.")
@click.option("--running", "url", metavar="URL", help="Ask this HTTP port (`http.listener`) of a running node or gateway for its settings.")
@token_option
@node_options
@timeout_option
@output_option
def show(
    config_file: Path | None,
    properties: Sequence[str],
    docs: bool,
    given: bool,
    url: str | None,
    token_file: Path | None,
    timeout_s: float,
    output: str,
) -> None:
    """Print every setting with its value and where it came from; secrets read `***`.

    With --running these are the settings that a process was started with, as it tells them itself.

    Examples: `diskless config show --config coordinator.properties --given`, `diskless config show --docs -o yaml`,
    `diskless config show --running http://localhost:9193 --given`
    """
    from cli.configuration import read_settings
    from coordinator.config import document_keys, render

    if docs:
        print_rows([asdict(key) for key in document_keys()], output, ("key", "type_name", "default", "bounds", "since", "why"))
        return
    if url is not None:
        from cli.looks.http_access import HttpAccess
        from cli.node_security import node_properties

        shown = HttpAccess.of(node_properties(), timeout_s, token_file).settings(url)
    else:
        shown = [asdict(one) for one in render(read_settings(config_file, properties))]
    rows = [one for one in shown if not given or one["source"] != "default"]
    print_rows(rows, output, ("key", "value", "source"), empty="every setting has its default")


@config.command()
@config_option
@property_option
def validate(config_file: Path | None, properties: Sequence[str]) -> None:
    """Check the settings without starting anything: status 0 when they can be used, 2 with every problem otherwise.

    The files of certificates, keys, users, tokens and the nodes' secret that the settings name are read as a start reads them, so run it
    where the node runs. Kafka is not asked.

    Example: `diskless config validate --config coordinator.properties`
    """
    from cli.configuration import prove_kafka_properties, read_settings
    from cli.outcome import Exit, Failed
    from cli.security_files import security_file_problems
    from coordinator.config import advice
    from coordinator.config.problems import problems_text

    settings = read_settings(config_file, properties)
    problems: list[str] = []
    try:
        prove_kafka_properties(settings)
    except Failed as refused:
        problems.append(str(refused))
    problems += security_file_problems(settings)
    if problems:
        raise Failed(problems_text(problems), Exit.USAGE)
    for sentence in advice(settings):
        say(f"warning: {sentence}")
    say("the configuration is valid")
