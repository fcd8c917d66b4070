"""`docs/configuration.md` from the declarations of the settings."""

from __future__ import annotations

from pathlib import Path

from codegen.markdown import cell, prose
from coordinator.config import DocumentedKey, document_keys
from coordinator.config.settings import NODE
from coordinator.config.table import SettingsTable

TARGET = Path("docs/configuration.md")

_HEAD = """# Configuration

Made by `python -m codegen` from `coordinator/config`; do not edit. `diskless config show --docs` prints this reference,
`diskless config show` what a process would see and where each value comes from, `diskless config validate` what is wrong with it.

A value is taken from a flag (`--property KEY=VALUE`), else from the environment, else from the file (`--config FILE`, Java
properties), else it is the default. Keys that are not known are errors. Every value, and every rule between values, is checked before
anything starts. *Required* keys have no default; the essential ones are those that every deployment gives or thinks about.

"""

_PREFIXES = """## Prefixes

Keys below these prefixes are values for one listener, or are passed on to a client library.

"""


def anchor(key: str) -> str:
    """Return the anchor of a key on the page."""
    return key.removesuffix(".*")


def _entry(one: DocumentedKey) -> str:
    default = "required" if one.default is None else f"`{one.default}`" if one.default else "empty"
    facts = [f"**Type** {one.type_name}", f"**Default** {default}"]
    if one.bounds:
        facts.append(f"**Bounds** {cell(one.bounds)}")
    facts += [f"**Environment** `{one.environment}`", f"**Since** {one.since}"]
    if one.essential:
        facts.append("**Essential**")
    return f"### `{one.key}` {{ #{anchor(one.key)} }}\n\n{prose(one.why)}\n\n{' · '.join(facts)}\n\n"


def generate(_: Path) -> str:
    """Return the text of `docs/configuration.md`."""
    return reference(NODE, _HEAD)


def reference(table: SettingsTable, head: str) -> str:
    """Return the page of the settings of one kind of process."""
    documented = document_keys(table)
    parts = [head]
    for group in table.groups():
        parts.append(f"## {group.title}\n\n{prose(group.about)}\n\n")
        parts += [_entry(one) for one in documented if one.group == group.title]
    groups = {group.title for group in table.groups()}
    parts.append(_PREFIXES)
    parts += [_entry(one) for one in documented if one.group not in groups]
    return "".join(parts).rstrip("\n") + "\n"
