"""`Settings`: every setting of a coordinator process as one frozen, typed object, and the table of its keys.

`Settings` is only built by `coordinator.config.load.load_settings`, after every value and every rule between values
was checked. Its repr leaves secrets out.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from coordinator.config.keys import Key
from coordinator.config.sections.authorization import AuthorizationSettings
from coordinator.config.sections.essential import EssentialSettings
from coordinator.config.sections.files import FileSettings
from coordinator.config.sections.http import HttpSettings
from coordinator.config.sections.internal import InternalSettings
from coordinator.config.sections.leadership import LeadershipSettings
from coordinator.config.sections.network import NetworkSettings
from coordinator.config.sections.quotas import QuotaSettings
from coordinator.config.sections.retention import RetentionSettings
from coordinator.config.sections.security import LISTENER_PREFIX, ListenerSettings, SecuritySettings
from coordinator.config.sections.snapshots import SnapshotSettings
from coordinator.config.values import Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFamily:
    """Keys below a prefix that are passed on without being known here."""

    prefix: str
    attribute: str
    why: str


FAMILIES = (
    KeyFamily(
        prefix="kafka.",
        attribute="kafka",
        why="Passed to every librdkafka client without the prefix: security.protocol, sasl.*, ssl.*, client.rack, debug and so on. "
        "Keys on which correctness depends are refused. Members of the group and ACLs are queried over connections of the node's own, "
        "which know TLS with certificates in PEM files, PLAIN and SCRAM; GSSAPI, OAUTHBEARER, key stores, keys as text, lists of revoked "
        "certificates, engines and choices of cipher suites are refused at the start and by `diskless config validate`.",
    ),
    KeyFamily(
        prefix="object.store.option.",
        attribute="object_store_option",
        why="Passed to the object store's client with underscores for dots: endpoint, region, access.key.id, secret.access.key, "
        "allow.http, virtual.hosted.style.request and so on. The usual environment variables of the cloud work too.",
    ),
)

SECRET_WORDS = (
    r"password|passphrase|secret|token|jaas|credential|oauthbearer[.]config|[._]pem$|proxy[._]url|default[._]headers"
    r"|(access|account|customer|encryption|master|private|sas)[._]key"
)
PLACE_OF_A_SECRET = r"(credentials|endpoint|full|key|relative|secret|service|token)[._](file|location|path|ur[il])$"
"""Which keys of families hold secrets: those with one of the words, unless they say where the secret is. Options of the object store may
be written with underscores; proxies and headers may carry a login. The chart refuses values by the same two patterns, in Go's dialect."""

LOGIN_IN_A_URL = r"://[^/?#@]*:[^/?#@]*@"
"""Whatever its key, a value with such a part holds a password: https://user:password@host. The chart refuses it by the same pattern."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    EssentialSettings,
    SecuritySettings,
    AuthorizationSettings,
    InternalSettings,
    HttpSettings,
    LeadershipSettings,
    SnapshotSettings,
    NetworkSettings,
    QuotaSettings,
    FileSettings,
    RetentionSettings,
):
    """All settings. `kafka` and `object_store_option` hold the passed-through keys without their prefix."""

    kafka: Mapping[str, str] = field(repr=False)
    object_store_option: Mapping[str, str] = field(repr=False)
    listener_values: Mapping[str, Mapping[str, object]] = field(repr=False)
    """Values that were given for one listener alone: by its name in lower case, then by attribute."""
    sources: Mapping[str, str] = field(repr=False, compare=False)
    """Where each value came from, by key; keys left at their default are absent."""

    def for_listener(self, listener: str) -> ListenerSettings:
        """Return the settings of one listener: its own values, and those of all listeners where it has none."""
        own = self.listener_values.get(listener.lower(), {})
        make: type = ListenerSettings  # each value was produced by the parser of the field it goes to
        made = make(**{f.name: own.get(f.name, getattr(self, f.name)) for f in fields(ListenerSettings)})
        assert isinstance(made, ListenerSettings)
        return made

    def inter_node_listener(self) -> str:
        """Return the name of the listener at which nodes reach each other."""
        return self.inter_node_listener_name.upper() or self.listeners[0].name

    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        """List the addresses to tell clients: as configured, else the listeners with the machine's name for "all interfaces"."""
        if self.advertised_listeners:
            return self.advertised_listeners
        return tuple(replace(listener, host=socket.gethostname()) if listener.is_wildcard else listener for listener in self.listeners)


def _keys() -> Mapping[str, Key]:
    declared = [f.metadata["key"] for f in fields(Settings) if "key" in f.metadata]
    # Essential keys first, in the order a new operator fills them in; fields() starts with the last base class.
    groups = {f.name: place for place, base in enumerate(Settings.__bases__) for f in fields(base)}
    ordered = sorted(declared, key=lambda key: groups[key.attribute])
    return MappingProxyType({key.name: key for key in ordered})


KEYS: Mapping[str, Key] = _keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroup:
    """Keys that are explained together."""

    title: str
    about: str
    keys: Sequence[Key]


def key_groups() -> list[KeyGroup]:
    """List the keys as they are declared together, essential ones first."""
    groups = []
    for base in Settings.__bases__:
        names = {f.name for f in fields(base)}
        keys = [key for key in KEYS.values() if key.attribute in names]
        groups.append(KeyGroup(title=base.__name__.removesuffix("Settings"), about=(base.__doc__ or "").strip(), keys=keys))
    return groups


LISTENER_KEYS: Mapping[str, Key] = MappingProxyType({f.metadata["key"].name: f.metadata["key"] for f in fields(ListenerSettings)})
"""The keys that may be given for one listener."""


def listener_key(key: str) -> tuple[str, Key] | None:
    """Take `listener.name.<listener>.<key>` apart into the listener's name in lower case and the key; None for any other text."""
    name, _, rest = key.removeprefix(LISTENER_PREFIX).partition(".")
    declared = LISTENER_KEYS.get(rest)
    return (name, declared) if key.startswith(LISTENER_PREFIX) and name and declared is not None and name.islower() else None


def family_of(key: str) -> KeyFamily | None:
    """Find the family that a key belongs to, if any."""
    return next((family for family in FAMILIES if key.startswith(family.prefix) and len(key) > len(family.prefix)), None)


def is_secret(key: str) -> bool:
    """Tell whether the value of a key must never be shown: declared keys say so, others are judged by their words."""
    of_listener = listener_key(key)
    declared = of_listener[1] if of_listener is not None else KEYS.get(key)
    if declared is not None:
        return declared.is_secret
    return re.search(SECRET_WORDS, key.lower()) is not None and re.search(PLACE_OF_A_SECRET, key.lower()) is None


def is_hidden(key: str, value: str) -> bool:
    """Tell whether a value must not be shown: it is a secret by its key, or holds a login."""
    return bool(value) and (is_secret(key) or re.search(LOGIN_IN_A_URL, value) is not None)
