"""TLS and login of a command's connections to nodes, from the same --command-config and --command-property as those to Kafka.

Keys count for both; one that begins with `node.` is for nodes alone and wins there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from coordinator.security.client_security import ClientSecurity

NODE_PREFIX: Final = "node."
_META: Final = "diskless.client_properties"


def remember_file(context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    """Keep the file of --command-config for `node_security`; the callback of that option."""
    context.meta[f"{_META}.file"] = value
    return value


def remember_properties(context: click.Context, _parameter: click.Parameter, value: Sequence[str]) -> Sequence[str]:
    """Keep what --command-property says for `node_security`; the callback of that option."""
    context.meta[f"{_META}.flags"] = value
    return value


def read_client_properties(file: Path | None, flags: Sequence[str]) -> dict[str, str]:
    """Return the properties of a file, and on top those of flags. Raises `Failed`."""
    from coordinator.config import SourceError, parse_properties_flags
    from coordinator.config.sources import read_file

    try:
        found = {} if file is None else {one.key: one.value for one in read_file(file)}
        return found | parse_properties_flags(flags)
    except SourceError as error:
        raise Failed(str(error).replace("--property", "--command-property"), Exit.USAGE) from error


def without_nodes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what is for Kafka."""
    return {key: value for key, value in properties.items() if not key.startswith(NODE_PREFIX)}


def node_security() -> ClientSecurity:
    """Return how the command that runs connects to nodes. Raises `Failed`."""
    from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity, SecurityUnsupported

    properties = node_properties()
    if not properties:
        return PLAIN_TEXT
    try:
        return ClientSecurity(properties)
    except (SecurityUnsupported, OSError) as error:
        raise Failed(f"--command-config: connections to nodes: {error}", Exit.USAGE) from error


def node_properties() -> dict[str, str]:
    """Return the properties of connections to nodes that were given to the command that runs. Raises `Failed`."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    file, flags = meta.get(f"{_META}.file"), meta.get(f"{_META}.flags") or ()
    if file is None and not flags:
        return {}
    properties = read_client_properties(file, flags)
    shared = {key: value for key, value in properties.items() if key.startswith(("security.", "ssl.", "sasl.", "enable.ssl."))}
    own = {key.removeprefix(NODE_PREFIX): value for key, value in properties.items() if key.startswith(NODE_PREFIX)}
    return shared | own
