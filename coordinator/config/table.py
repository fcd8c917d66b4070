"""The settings of one kind of process as a table: its keys, those that listeners may have of their own, and the families of others.

A kind of process is described by a dataclass whose bases are groups of declared settings (`coordinator.config.keys`).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, cast

from coordinator.config.keys import Key
from coordinator.config.sections.security import LISTENER_PREFIX, TlsSettings
from coordinator.config.values import Listener, SecurityProtocol

L = TypeVar("L", bound=TlsSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFamily:
    """Keys below a prefix that are passed on without being known here."""

    prefix: str
    attribute: str
    why: str


SECRET_WORDS: Final = (
    r"password|passphrase|secret|token|jaas|credential|oauthbearer[.]config|[._]pem$|proxy[._]url|default[._]headers"
    r"|(access|account|customer|encryption|master|private|sas)[._]key"
)
PLACE_OF_A_SECRET: Final = r"(credentials|endpoint|full|key|relative|secret|service|token)[._](file|location|path|ur[il])$"
"""Which keys of families hold secrets: those with one of the words, unless they say where the secret is. Options of the object store may
be written with underscores; proxies and headers may carry a login. The chart refuses values by the same two patterns, in Go's dialect."""

LOGIN_IN_A_URL: Final = r"://[^/?#@]*:[^/?#@]*@"
"""Whatever its key, a value with such a part holds a password: https://user:password@host. The chart refuses it by the same pattern."""


@dataclass(frozen=True, kw_only=True)
class ProcessSettings(Generic[L]):
    """What the settings of every kind of process have beside declared ones, and what follows from those of listeners."""

    kafka: Mapping[str, str] = field(repr=False)
    object_store_option: Mapping[str, str] = field(repr=False)
    listener_values: Mapping[str, Mapping[str, object]] = field(repr=False)
    """Values that were given for one listener alone: by its name in lower case, then by attribute."""
    sources: Mapping[str, str] = field(repr=False, compare=False)
    """Where each value came from, by key; keys left at their default are absent."""

    listener_type: ClassVar[type[TlsSettings]]
    """The settings that a listener may have of its own; an `L`."""

    if TYPE_CHECKING:

        @property
        def listeners(self) -> tuple[Listener, ...]: ...

        @property
        def listener_security_protocol_map(self) -> tuple[str, ...]: ...

        @property
        def advertised_listeners(self) -> tuple[Listener, ...]: ...

        def protocol_of(self, listener: str) -> SecurityProtocol | None: ...

    def for_listener(self, listener: str) -> L:
        """Return the settings of one listener: its own values, and those of all listeners where it has none."""
        own = self.listener_values.get(listener.lower(), {})
        make: Any = self.listener_type  # each value was produced by the parser of the field it goes to
        made = make(**{f.name: own.get(f.name, getattr(self, f.name)) for f in fields(make)})
        assert isinstance(made, self.listener_type)
        return cast(L, made)

    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        """List the addresses to tell clients: as configured, else the listeners with the machine's name for "all interfaces"."""
        if self.advertised_listeners:
            return self.advertised_listeners
        return tuple(replace(listener, host=socket.gethostname()) if listener.is_wildcard else listener for listener in self.listeners)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroup:
    """Keys that are explained together."""

    title: str
    about: str
    keys: Sequence[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    """See the module. Make it with `of`."""

    settings: type[ProcessSettings[Any]]
    keys: Mapping[str, Key]
    """By name: essential keys first, in the order in which a new operator fills them in."""
    listener_keys: Mapping[str, Key]
    """The keys that may be given for one listener."""
    families: Sequence[KeyFamily]

    @classmethod
    def of(cls, settings: type[ProcessSettings[Any]], families: Sequence[KeyFamily]) -> Self:
        """Make the table of a dataclass of settings."""
        declared = [f.metadata["key"] for f in fields(settings) if "key" in f.metadata]
        # fields() starts with the last base class.
        groups = {f.name: place for place, base in enumerate(_groups(settings)) for f in fields(base)}
        ordered = sorted(declared, key=lambda key: groups[key.attribute])
        return cls(
            settings=settings,
            keys=MappingProxyType({key.name: key for key in ordered}),
            listener_keys=MappingProxyType({f.metadata["key"].name: f.metadata["key"] for f in fields(settings.listener_type)}),
            families=families,
        )

    def groups(self) -> list[KeyGroup]:
        """List the keys as they are declared together, essential ones first."""
        groups = []
        for base in _groups(self.settings):
            names = {f.name for f in fields(base)}
            keys = [key for key in self.keys.values() if key.attribute in names]
            groups.append(KeyGroup(title=base.__name__.removesuffix("Settings"), about=(base.__doc__ or "").strip(), keys=keys))
        return groups

    def listener_key(self, key: str) -> tuple[str, Key] | None:
        """Take `listener.name.<listener>.<key>` apart into the listener's name in lower case and the key; None for any other text."""
        name, _, rest = key.removeprefix(LISTENER_PREFIX).partition(".")
        declared = self.listener_keys.get(rest)
        return (name, declared) if key.startswith(LISTENER_PREFIX) and name and declared is not None and name.islower() else None

    def family_of(self, key: str) -> KeyFamily | None:
        """Find the family that a key belongs to, if any."""
        return next((family for family in self.families if key.startswith(family.prefix) and len(key) > len(family.prefix)), None)

    def is_secret(self, key: str) -> bool:
        """Tell whether the value of a key must never be shown: declared keys say so, others are judged by their words."""
        of_listener = self.listener_key(key)
        declared = of_listener[1] if of_listener is not None else self.keys.get(key)
        if declared is not None:
            return declared.is_secret
        return re.search(SECRET_WORDS, key.lower()) is not None and re.search(PLACE_OF_A_SECRET, key.lower()) is None

    def is_hidden(self, key: str, value: str) -> bool:
        """Tell whether a value must not be shown: it is a secret by its key, or holds a login."""
        return bool(value) and (self.is_secret(key) or re.search(LOGIN_IN_A_URL, value) is not None)


def _groups(settings: type[ProcessSettings[Any]]) -> Sequence[Any]:
    return [base for base in settings.__bases__ if base is not ProcessSettings]
