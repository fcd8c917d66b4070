"""Show settings: the current values with secrets masked, and the documentation of every key."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import FIRST_VERSION
from coordinator.config.load import MASK
from coordinator.config.sections.security import LISTENER_PREFIX
from coordinator.config.settings import FAMILIES, KEYS, LISTENER_KEYS, Settings, is_hidden, key_groups
from coordinator.config.sources import environment_name
from coordinator.config.values import text_of

FAMILY_GROUP = "Prefixes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """One line of `config show`. `source` is "default" for a value that was not given."""

    key: str
    value: str
    source: str


def render(settings: Settings) -> list[ShownSetting]:
    """List all settings with their values and sources; a secret that is set reads ***."""
    shown = [
        ShownSetting(
            key=key.name,
            value=_masked(key.name, text_of(getattr(settings, key.attribute))),
            source=settings.sources.get(key.name, "default"),
        )
        for key in KEYS.values()
    ]
    for listener, values in sorted(settings.listener_values.items()):
        for key in LISTENER_KEYS.values():
            if key.attribute in values:
                name = f"{LISTENER_PREFIX}{listener}.{key.name}"
                source = settings.sources.get(name, "default")
                shown.append(ShownSetting(key=name, value=_masked(name, text_of(values[key.attribute])), source=source))
    for family in FAMILIES:
        for name, value in sorted(getattr(settings, family.attribute).items()):
            key_name = family.prefix + name
            shown.append(ShownSetting(key=key_name, value=_masked(key_name, value), source=settings.sources.get(key_name, "default")))
    return shown


def _masked(key: str, value: str) -> str:
    return MASK if is_hidden(key, value) else value


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


def document_keys() -> list[DocumentedKey]:
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
        for group in key_groups()
        for key in group.keys
    ]
    rows.append(
        DocumentedKey(
            key=LISTENER_PREFIX + "*",
            type_name="string",
            default="",
            bounds=", ".join(LISTENER_KEYS),
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
        for family in FAMILIES
    ]
    return rows
