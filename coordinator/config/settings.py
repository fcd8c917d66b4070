"""`Settings`: every setting of a coordinator process as one frozen, typed object, and the table of its keys.

`Settings` is only built by `coordinator.config.load.load_settings`, after every value and every rule between values
was checked. Its repr leaves secrets out.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from coordinator.config.essential import EssentialSettings
from coordinator.config.files import FileSettings
from coordinator.config.keys import Key
from coordinator.config.leadership import LeadershipSettings
from coordinator.config.network import NetworkSettings
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
        "Keys on which correctness rests are refused. The members of the group are asked over a connection of the node's own, which "
        "knows TLS with certificates in files, PLAIN and SCRAM; with GSSAPI, OAUTHBEARER, key stores or keys as text they stay unknown: "
        "the schema level does not rise by itself, and a node that cannot lead does not leave the group.",
    ),
    KeyFamily(
        prefix="object.store.option.",
        attribute="object_store_option",
        why="Passed to the object store's client with underscores for dots: endpoint, region, access.key.id, secret.access.key, "
        "allow.http, virtual.hosted.style.request and so on. The usual environment variables of the cloud work too.",
    ),
)

_SECRET_WORDS = re.compile(r"password|passphrase|secret|token|jaas|credential|\.pem$|access\.key|account\.key|sas\.key|oauthbearer\.config")


@dataclass(frozen=True, kw_only=True)
class Settings(EssentialSettings, LeadershipSettings, NetworkSettings, FileSettings):
    """All settings. `kafka` and `object_store_option` hold the passed-through keys without their prefix."""

    kafka: Mapping[str, str] = field(repr=False)
    object_store_option: Mapping[str, str] = field(repr=False)
    sources: Mapping[str, str] = field(repr=False, compare=False)
    """Where each value came from, by key; keys left at their default are absent."""

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


def family_of(key: str) -> KeyFamily | None:
    """Find the family that a key belongs to, if any."""
    return next((family for family in FAMILIES if key.startswith(family.prefix) and len(key) > len(family.prefix)), None)


def is_secret(key: str) -> bool:
    """Tell whether the value of a key must never be shown: no declared key is secret, others are judged by their words."""
    return key not in KEYS and _SECRET_WORDS.search(key.lower()) is not None
