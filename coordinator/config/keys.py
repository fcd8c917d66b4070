"""How a setting is declared: one declaration gives name, type, default, bounds, unit and the reason behind it.

A declaration is a field of a settings dataclass (`coordinator.config.settings`); the functions here make such
fields. Attribute and key are the same words (`session.timeout.ms` -> `session_timeout_ms`); a test checks it.
Everything is written as text, defaults too, so that one parser per key says what is allowed. Parsers raise
`OutOfBounds` with the limit as a sentence; they never print the value (it may be a secret).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, cast

from coordinator.config.values import HttpAddress, Listener, OutOfBounds, StoreUrl

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The declaration of one setting. `default` is text; None means that the setting must be given."""

    name: str
    type_name: str
    default: str | None
    bounds: str
    why: str
    essential: bool
    parse: Callable[[str], object]

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")


def _declare(
    kind: type[T] | None,
    name: str,
    parse: Callable[[str], object],
    *,
    type_name: str,
    default: str | None,
    bounds: str,
    why: str,
    essential: bool,
) -> T:
    key = Key(
        name=name,
        type_name=type_name,
        default=default,
        bounds=bounds,
        why=" ".join(why.split()),
        essential=essential,
        parse=parse,
    )
    # The dataclass machinery needs the field object; the type checker needs the type of the value it will hold.
    return cast(T, field(metadata={"key": key}))


def integer(name: str, default: int | None, *, low: int, high: int, why: str, essential: bool = False) -> int:
    """Declare a whole number within [low, high]."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise OutOfBounds(f"a whole number from {low} to {high}") from None
        if not low <= value <= high:
            raise OutOfBounds(f"a whole number from {low} to {high}")
        return value

    shown = None if default is None else str(default)
    return _declare(int, name, parse, type_name="int", default=shown, bounds=f"{low}..{high}", why=why, essential=essential)


def boolean(name: str, default: bool, *, why: str, essential: bool = False) -> bool:
    """Declare a choice between true and false."""

    def parse(text: str) -> bool:
        match text.lower():
            case "true":
                return True
            case "false":
                return False
        raise OutOfBounds("true or false")

    shown = "true" if default else "false"
    return _declare(bool, name, parse, type_name="boolean", default=shown, bounds="true, false", why=why, essential=essential)


def text(
    name: str,
    default: str | None,
    *,
    why: str,
    allowed: Callable[[str], bool] = lambda _value: True,
    bounds: str = "",
    essential: bool = False,
) -> str:
    """Declare a text for which `allowed` holds; `bounds` says in words what that is."""

    def parse(value: str) -> str:
        if not allowed(value):
            raise OutOfBounds(bounds)
        return value

    return _declare(str, name, parse, type_name="string", default=default, bounds=bounds, why=why, essential=essential)


def choice(name: str, default: E, *, why: str, essential: bool = False) -> E:
    """Declare one of the members of an enum, written as its value."""
    members = type(default)
    names = ", ".join(member.value for member in members)

    def parse(value: str) -> E:
        for member in members:
            if member.value.lower() == value.lower():
                return member
        raise OutOfBounds(f"one of {names}")

    return _declare(members, name, parse, type_name="string", default=default.value, bounds=names, why=why, essential=essential)


def items(
    name: str,
    default: str | None,
    *,
    why: str,
    allowed: Callable[[str], bool] = lambda _value: True,
    bounds: str = "comma separated",
    empty_ok: bool = True,
    essential: bool = False,
) -> tuple[str, ...]:
    """Declare a comma-separated list of distinct texts, each of which `allowed` accepts."""

    def parse(value: str) -> tuple[str, ...]:
        found = _split(value, empty_ok=empty_ok)
        if not all(allowed(item) for item in found):
            raise OutOfBounds(bounds)
        return found

    return _listed(name, parse, tuple[str, ...], default=default, bounds=bounds, why=why, essential=essential)


def paths(name: str, *, why: str, essential: bool = False) -> tuple[Path, ...]:
    """Declare a comma-separated list of distinct folders; relative ones are below the working directory."""

    def parse(value: str) -> tuple[Path, ...]:
        found = tuple(Path(os.path.abspath(item)) for item in _split(value, empty_ok=False))
        if len(set(found)) != len(found):
            raise OutOfBounds("a list without repeated entries")
        return found

    return _listed(name, parse, tuple[Path, ...], default=None, bounds="folders, comma separated", why=why, essential=essential)


def listener_list(name: str, default: str, *, why: str, empty_ok: bool = False) -> tuple[Listener, ...]:
    """Declare a comma-separated list of `NAME://host:port`."""

    def parse(value: str) -> tuple[Listener, ...]:
        return tuple(Listener.parse(item) for item in _split(value, empty_ok=empty_ok))

    return _listed(name, parse, tuple[Listener, ...], default=default, bounds="NAME://host:port, comma separated", why=why, essential=True)


def http_address(name: str, default: str, *, why: str) -> HttpAddress | None:
    """Declare the address of the HTTP port; empty switches it off."""

    def parse(value: str) -> HttpAddress | None:
        return HttpAddress.parse(value) if value else None

    return _declare(
        HttpAddress,
        name,
        parse,
        type_name="address",
        default=default,
        bounds="http://host:port, host:port, or empty for none",
        why=why,
        essential=True,
    )


def store_url(name: str, *, why: str) -> StoreUrl:
    """Declare the address of an object store."""
    return _declare(
        StoreUrl,
        name,
        StoreUrl.parse,
        type_name="url",
        default=None,
        bounds="file:///folder, s3://bucket[/prefix], gs://bucket[/prefix], az://account/container[/prefix] or memory://",
        why=why,
        essential=True,
    )


def _listed(
    name: str,
    parse: Callable[[str], object],
    kind: type[T],
    *,
    default: str | None,
    bounds: str,
    why: str,
    essential: bool,
) -> T:
    return _declare(kind, name, parse, type_name="list", default=default, bounds=bounds, why=why, essential=essential)


def _split(value: str, *, empty_ok: bool) -> tuple[str, ...]:
    found = tuple(item.strip() for item in value.split(",")) if value.strip() else ()
    if not found and not empty_ok:
        raise OutOfBounds("at least one entry")
    if "" in found:
        raise OutOfBounds("a list without empty entries")
    if len(set(found)) != len(found):
        raise OutOfBounds("a list without repeated entries")
    return found
