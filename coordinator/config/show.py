"""Show settings: the current values with secrets masked, and the documentation of every key."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.load import MASK
from coordinator.config.rules import text_of
from coordinator.config.settings import FAMILIES, KEYS, Settings, is_secret
from coordinator.config.sources import environment_name


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
            value=text_of(getattr(settings, key.attribute)),
            source=settings.sources.get(key.name, "default"),
        )
        for key in KEYS.values()
    ]
    for family in FAMILIES:
        for name, value in sorted(getattr(settings, family.attribute).items()):
            key_name = family.prefix + name
            shown.append(ShownSetting(key=key_name, value=_masked(key_name, value), source=settings.sources.get(key_name, "default")))
    return shown


def _masked(key: str, value: str) -> str:
    return MASK if value and is_secret(key) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedKey:
    """One row of the reference. `default` is None for a setting that must be given."""

    key: str
    type_name: str
    default: str | None
    bounds: str
    environment: str
    essential: bool
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
            why=key.why,
        )
        for key in KEYS.values()
    ]
    rows += [
        DocumentedKey(
            key=family.prefix + "*",
            type_name="string",
            default="",
            bounds="",
            environment=environment_name(family.prefix) + "*",
            essential=False,
            why=family.why,
        )
        for family in FAMILIES
    ]
    return rows
