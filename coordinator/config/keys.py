"""How a setting is declared: one declaration gives name, type, default, bounds, unit and reason.

A declaration is a field of a settings dataclass (`coordinator.config.settings`); the functions here make such
fields. Attribute and key are the same words (`session.timeout.ms` -> `session_timeout_ms`); a test checks it.
Everything is written as text, defaults too, so that one parser per key says what is allowed. Parsers raise
`OutOfBounds` with the limit as a sentence; they never print the value (it may be a secret).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, cast

from coordinator.config.mapping_rules import MappingRules
from coordinator.config.values import HttpAddress, Listener, OutOfBounds, SemicolonList, StoreUrl

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

FIRST_VERSION = "0.1.0"
SINCE: Mapping[str, str] = {}
"""The version of the service that brought a key, of all keys that the first version did not have."""

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
    is_secret: bool = False
    """Whether the value must never be shown."""

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def since(self) -> str:
        """The version of the service that brought the key."""
        return SINCE.get(self.name, FIRST_VERSION)


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
    secret: bool = False,
) -> T:
    key = Key(
        name=name,
        type_name=type_name,
        default=default,
        bounds=bounds,
        why=" ".join(why.split()),
        essential=essential,
        parse=parse,
        is_secret=secret,
    )
    # The dataclass machinery needs the field object; the type checker needs the type of the value it will hold.
    return cast(T, field(metadata={"key": key}, repr=not secret))


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


def number(name: str, default: float, *, low: float, high: float, why: str) -> float:
    """Declare a number within [low, high], with or without a decimal point."""
    limits = f"a number from {low:g} to {high:g}"

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise OutOfBounds(limits) from None
        if not low <= value <= high:  # NaN is not, either
            raise OutOfBounds(limits)
        return value

    return _declare(float, name, parse, type_name="double", default=f"{default:g}", bounds=f"{low:g}..{high:g}", why=why, essential=False)


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
    secret: bool = False,
) -> str:
    """Declare a text for which `allowed` holds; `bounds` says in words what that is. A secret is shown nowhere."""

    def parse(value: str) -> str:
        if not allowed(value):
            raise OutOfBounds(bounds)
        return value

    return _declare(str, name, parse, type_name="string", default=default, bounds=bounds, why=why, essential=essential, secret=secret)


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


def choices(name: str, default: tuple[E, ...], *, kind: type[E], why: str, empty_ok: bool = True) -> tuple[E, ...]:
    """Declare a comma-separated list of distinct members of an enum, written as their values."""
    names = ", ".join(member.value for member in kind)
    by_name = {member.value.lower(): member for member in kind}

    def parse(value: str) -> tuple[E, ...]:
        found = _split(value.lower(), empty_ok=empty_ok)
        if not all(item in by_name for item in found):
            raise OutOfBounds(f"some of {names}, comma separated")
        return tuple(by_name[item] for item in found)

    shown = ",".join(member.value for member in default)
    return _listed(name, parse, tuple[E, ...], default=shown, bounds=f"some of {names}, comma separated", why=why, essential=False)


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


def semicolons(name: str, *, parse: Callable[[str], T], bounds: str, why: str) -> tuple[T, ...]:
    """Declare a list of distinct values separated by semicolons, as Kafka does where values may have commas; empty by default."""

    def parse_all(value: str) -> SemicolonList[T]:
        found = SemicolonList(parse(item.strip()) for item in value.split(";") if item.strip())
        if len(set(found)) != len(found):
            raise OutOfBounds("a list without repeated entries")
        return found

    return _listed(name, parse_all, tuple[T, ...], default="", bounds=bounds, why=why, essential=False)


def paths(name: str, *, why: str, essential: bool = False) -> tuple[Path, ...]:
    """Declare a comma-separated list of distinct folders; relative ones are below the working directory."""

    def parse(value: str) -> tuple[Path, ...]:
        found = tuple(Path(os.path.abspath(item)) for item in _split(value, empty_ok=False))
        if len(set(found)) != len(found):
            raise OutOfBounds("a list without repeated entries")
        return found

    return _listed(name, parse, tuple[Path, ...], default=None, bounds="folders, comma separated", why=why, essential=essential)


def path(name: str, *, why: str) -> Path | None:
    """Declare a file; empty means none, a relative one is below the working directory."""

    def parse(value: str) -> Path | None:
        return Path(os.path.abspath(value)) if value else None

    return _declare(Path, name, parse, type_name="path", default="", bounds="", why=why, essential=False)


def mapping_rules(name: str, default: str, *, why: str) -> MappingRules:
    """Declare rules that make names of certificates' subjects."""
    bounds = "DEFAULT or RULE:pattern/replacement/[LU], comma separated"
    return _declare(MappingRules, name, MappingRules.parse, type_name="list", default=default, bounds=bounds, why=why, essential=False)


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
        bounds="http://host:port, https://host:port, host:port, or empty for none",
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
