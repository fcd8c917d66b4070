"""Turn the sources into `Settings`, or into one error that lists everything that is wrong.

Precedence: flags, environment, file, default. SettingRules between settings (`coordinator.config.rules`) are checked where all
values they look at are right, so that everything is reported at once and nothing twice.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from coordinator.config.keys import Key
from coordinator.config.problems import ConfigError, Problem
from coordinator.config.rules import NODE_RULES, RESERVED_KAFKA_KEYS, SettingRules
from coordinator.config.sections.security import LISTENER_PREFIX
from coordinator.config.settings import NODE, Settings
from coordinator.config.sources import Given, SourceError, environment_name, read_environment, read_file, read_overrides
from coordinator.config.table import ProcessSettings, SettingsTable
from coordinator.config.values import OutOfBounds

MASK = "***"


class ProcessKind(NamedTuple):
    """What is declared of the settings of one kind of process."""

    name: str
    table: SettingsTable
    rules: SettingRules[Any]
    reserved: Mapping[str, str]
    """The keys of `kafka.*` that the process sets itself, with what to do instead."""


NODE_KIND: Final = ProcessKind("coordinator", NODE, NODE_RULES, RESERVED_KAFKA_KEYS)


def load_settings(file: Path | None = None, env: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None) -> Settings:
    """Read, check and return the settings. Raises `ConfigError` with all problems at once.

    `env` is the environment to look at (nothing when None), `overrides` the `--property` flags.
    """
    settings = load(NODE_KIND, file, env, overrides)
    assert isinstance(settings, Settings)
    return settings


def load(
    kind: ProcessKind, file: Path | None = None, env: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None
) -> ProcessSettings[Any]:
    """Read, check and return the settings of a process of some kind; see `load_settings`. Raises `ConfigError`."""
    table = kind.table
    try:
        given = read_file(file) if file is not None else []
    except SourceError as error:
        source = Problem(key="--config", value=str(file), source="flag", limit=str(error), remedy="correct the file")
        raise ConfigError([source]) from error
    given += read_environment(env or {}, table)
    given += read_overrides(overrides or {})
    # Later ones win, and with them their source. A key stays once, however often it was given.
    chosen = {one.key: one for one in given}
    of_listeners = {key: split for key in chosen if (split := table.listener_key(key)) is not None}
    known = table.keys.keys() | of_listeners.keys()
    problems = [_unknown(table, one) for one in chosen.values() if one.key not in known and table.family_of(one.key) is None]
    problems += _reserved(kind, chosen)
    values, found = _parse_all(table, chosen)
    unusable = [key.name for key in table.keys.values() if key.attribute not in values]
    listener_values: dict[str, dict[str, object]] = {}
    for name, (listener, key) in of_listeners.items():
        one = chosen[name]
        try:
            listener_values.setdefault(listener, {})[key.attribute] = key.parse(one.value.strip())
        except OutOfBounds as error:
            found.append(_out_of_bounds(table, one, key, error))
            unusable.append(key.name)
    # SettingRules about the values that are right are checked even when others are wrong; such an object never leaves here.
    empty = dict.fromkeys(key.attribute for key in table.keys.values() if key.attribute not in values)
    settings = _build(table, empty | values, listener_values, chosen)
    problems += found + kind.rules.broken(settings, unusable=unusable)
    if problems:
        raise ConfigError(problems)
    return settings


def _parse_all(table: SettingsTable, chosen: Mapping[str, Given]) -> tuple[dict[str, object], list[Problem]]:
    values: dict[str, object] = {}
    problems = []
    for key in table.keys.values():
        one = chosen.get(key.name)
        text = key.default if one is None else one.value.strip()
        if text is None:
            problems.append(_missing(key.name, key.bounds))
            continue
        try:
            values[key.attribute] = key.parse(text)
        except OutOfBounds as error:
            assert one is not None, f"the default of {key.name} is out of its own bounds"
            problems.append(_out_of_bounds(table, one, key, error))
    return values, problems


def _out_of_bounds(table: SettingsTable, one: Given, key: Key, error: OutOfBounds) -> Problem:
    return Problem(
        key=one.key,
        value=MASK if table.is_hidden(one.key, one.value) else one.value,
        source=one.source,
        limit=f"must be {error}",
        remedy=f"correct it, or leave it out for the default {key.default!r}" if key.default is not None else "correct it",
    )


def _build(
    table: SettingsTable, values: Mapping[str, object], listener_values: Mapping[str, Mapping[str, object]], chosen: Mapping[str, Given]
) -> ProcessSettings[Any]:
    passed = {
        family.attribute: MappingProxyType(
            {one.key.removeprefix(family.prefix): one.value for one in chosen.values() if one.key.startswith(family.prefix)}
        )
        for family in table.families
    }
    sources = MappingProxyType({one.key: one.source for one in chosen.values()})
    make: Any = table.settings  # the values were produced by the parsers of the very fields they go to
    settings = make(**values, **passed, listener_values=MappingProxyType(dict(listener_values)), sources=sources)
    assert isinstance(settings, table.settings)
    return settings


def _missing(key: str, bounds: str) -> Problem:
    return Problem(
        key=key,
        value=None,
        source="",
        limit=f"must be given ({bounds})",
        remedy=f"add it to the file, set {environment_name(key)} or pass --property {key}=...",
    )


def _unknown(table: SettingsTable, one: Given) -> Problem:
    listener = one.key.removeprefix(LISTENER_PREFIX).partition(".")[0]
    wanted = [f"{LISTENER_PREFIX}{listener}.{name}" for name in table.listener_keys]
    wanted = wanted if one.key.startswith(LISTENER_PREFIX) else list(table.keys)
    close = difflib.get_close_matches(one.key.lower(), wanted, n=1, cutoff=0.7)
    # The value is not shown: a misspelt key may well be that of a secret.
    return Problem(
        key=one.key,
        value=MASK,
        source=one.source,
        limit="is not a known key",
        remedy=f"did you mean {close[0]}?" if close else "`diskless config show` lists the keys; librdkafka's go under kafka.*",
    )


def _reserved(kind: ProcessKind, chosen: Mapping[str, Given]) -> list[Problem]:
    return [
        Problem(
            key=one.key,
            value=MASK if kind.table.is_hidden(one.key, one.value) else one.value,
            source=one.source,
            limit=f"is set by the {kind.name} itself",
            remedy=kind.reserved[one.key.removeprefix("kafka.")],
        )
        for one in chosen.values()
        if one.key.startswith("kafka.") and one.key.removeprefix("kafka.") in kind.reserved
    ]
