"""Show settings: the current values with secrets masked, and the documentation of every key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.config.keys import FIRST_VERSION
from coordinator.config.load import MASK
from coordinator.config.sections.security import LISTENER_PREFIX
from coordinator.config.settings import NODE
from coordinator.config.sources import environment_name
from coordinator.config.table import ProcessSettings, SettingsTable
from coordinator.config.values import text_of

FAMILY_GROUP = "Prefixes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """One line of `config show`. `source` is "default" for a value that was not given."""

    key: str
    value: str
    source: str


def render(settings: ProcessSettings[Any], table: SettingsTable = NODE) -> list[ShownSetting]:
    """List all settings with their values and sources; a secret that is set reads ***."""
    shown = [
        ShownSetting(
            key=key.name,
            value=_masked(table, key.name, text_of(getattr(settings, key.attribute))),
            source=settings.sources.get(key.name, "default"),
        )
        for key in table.keys.values()
    ]
    for listener, values in sorted(settings.listener_values.items()):
        for key in table.listener_keys.values():
            if key.attribute in values:
                name = f"{LISTENER_PREFIX}{listener}.{key.name}"
                source = settings.sources.get(name, "default")
                shown.append(ShownSetting(key=name, value=_masked(table, name, text_of(values[key.attribute])), source=source))
    for family in table.families:
        for name, value in sorted(getattr(settings, family.attribute).items()):
            key_name = family.prefix + name
            source = settings.sources.get(key_name, "default")
            shown.append(ShownSetting(key=key_name, value=_masked(table, key_name, value), source=source))
    return shown


def _masked(table: SettingsTable, key: str, value: str) -> str:
    return MASK if table.is_hidden(key, value) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedKey:
    """One row of the reference. `default` is None for a setting that must be given."""

    key: str
    type_name: str
    default: str | None
    bounds: str
    environment: str
    essential: bool
    group: str
    since: str
    why: str


def document_keys(table: SettingsTable = NODE) -> list[DocumentedKey]:
    """List every key with its declaration, essential ones first, families of passed-through keys last."""
    rows = [
        DocumentedKey(
            key=key.name,
            type_name=key.type_name,
            default=key.default,
            bounds=key.bounds,
            environment=environment_name(key.name),
            essential=key.essential,
            group=group.title,
            since=key.since,
            why=key.why,
        )
        for group in table.groups()
        for key in group.keys
    ]
    rows.append(
        DocumentedKey(
            key=LISTENER_PREFIX + "*",
            type_name="string",
            default="",
            bounds=", ".join(table.listener_keys),
            environment=environment_name(LISTENER_PREFIX) + "*",
            essential=False,
            group=FAMILY_GROUP,
            since=FIRST_VERSION,
            why="A value for one listener alone: listener.name.<listener in lower case>.<key>, as in Kafka.",
        )
    )
    rows += [
        DocumentedKey(
            key=family.prefix + "*",
            type_name="string",
            default="",
            bounds="",
            environment=environment_name(family.prefix) + "*",
            essential=False,
            group=FAMILY_GROUP,
            since=FIRST_VERSION,
            why=family.why,
        )
        for family in table.families
    ]
    return rows
