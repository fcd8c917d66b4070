"""The types that settings hold besides numbers and texts: addresses, the group's protocol, ACLs, the object store's URL.

Parsing is pure; each `parse` raises `OutOfBounds`, whose text is the rule that was broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

from coordinator.kafka.acls import EVERY_TOPIC, AclOperation, TopicPattern
from coordinator.kafka.names import illegal_topic_name

T = TypeVar("T")


TOPIC_OPERATIONS: Final = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
"""The operations that count on topics."""


class OutOfBounds(ValueError):
    """A value breaks the rule of its key; the text is the rule, never the value."""


class SecurityProtocol(StrEnum):
    """How a listener is secured, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_login(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SemicolonList(tuple[T, ...]):
    """A list that is written with semicolons, because its entries may have commas."""

    __slots__ = ()


_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def is_number_range(value: str) -> bool:
    """Whether a text is a number, or a range from one to another that is not below it, both of five digits at most."""
    found = _RANGE.fullmatch(value)
    return found is not None and int(found[1]) <= int(found[2] or found[1])


def numbers_in(ranges: Iterable[str]) -> frozenset[int]:
    """Return the numbers of ranges for which `is_number_range` holds."""
    found = [one.partition("-") for one in ranges]
    return frozenset(number for first, _, last in found for number in range(int(first), int(last or first) + 1))


def principal_name(value: str) -> str:
    """Return the name of a principal as it is written, `User:alice`. Raises `OutOfBounds`."""
    kind, colon, name = value.partition(":")
    if kind != "User" or not colon or not name or name != name.strip() or not name.isprintable():
        raise OutOfBounds("principals of the form User:name")
    return value


@dataclass(frozen=True, slots=True)
class AclEntry:
    """The operations that a principal is allowed, on the cluster (`topics` None) or on topics, as an entry of `acls`."""

    principal: str
    operations: tuple[AclOperation, ...]
    topics: TopicPattern | None = None

    @classmethod
    def parse(cls, value: str) -> Self:
        """Read `User:name:OPERATION,OPERATION`, `...@topic` or `...@prefix*`. The name may have colons. Raises `OutOfBounds`."""
        principal, _, rights = value.rpartition(":")
        names, at, topics = rights.partition("@")
        try:
            operations = tuple(AclOperation[name.strip().upper()] for name in names.split(","))
        except KeyError:
            raise OutOfBounds(
                f"entries of the form User:name:OPERATION,OPERATION with operations of {', '.join(one.name for one in AclOperation)}"
            ) from None
        if at and not TOPIC_OPERATIONS.issuperset(operations):
            allowed = " and ".join(one.name for one in sorted(TOPIC_OPERATIONS))
            raise OutOfBounds(f"on topics (after @) the operations {allowed} alone; others are of the cluster")
        return cls(principal_name(principal.strip()), operations, _topic_pattern(topics) if at else None)

    def __str__(self) -> str:
        on_topics = "" if self.topics is None else f"@{self.topics}"
        return f"{self.principal}:{','.join(one.name for one in self.operations)}{on_topics}"


def _topic_pattern(text: str) -> TopicPattern:
    """Read the name of a topic, the beginning of names with `*` after it, or `*` for all topics. Raises `OutOfBounds`."""
    name = text.strip()
    if name == EVERY_TOPIC:
        return TopicPattern(name)
    prefix = name.removesuffix("*")
    if (complaint := illegal_topic_name(prefix)) is not None:
        raise OutOfBounds(f"after @ a topic, the beginning of names followed by *, or * for all topics ({complaint})")
    return TopicPattern(prefix, is_prefix=prefix != name)


def _host_and_port(address: str, rule: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\]]*)):(\d{1,5})", address)
    if match is None:
        raise OutOfBounds(rule)
    port = int(match[3])
    if port > 65535:
        raise OutOfBounds("a port from 0 to 65535")
    return match[1] or match[2] or "", port


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Listener:
    """One `NAME://host:port`. An empty host means all interfaces; port 0 lets the system choose."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, value: str) -> Self:
        rule = "NAME://host:port"
        name, separator, address = value.partition("://")
        if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise OutOfBounds(rule)
        return cls(name.upper(), *_host_and_port(address.rstrip("/"), rule))

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARD_HOSTS

    def __str__(self) -> str:
        return f"{self.name}://{_join(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where /healthy, /ready, /metrics and /config are served."""

    host: str
    port: int
    has_tls: bool = False

    @classmethod
    def parse(cls, value: str) -> Self:
        rule = "http://host:port, https://host:port or host:port"
        has_tls = value.startswith("https://")
        address = value.removeprefix("https://" if has_tls else "http://").rstrip("/")
        if "://" in address:
            raise OutOfBounds(rule)
        return cls(*_host_and_port(address, rule), has_tls)

    @property
    def is_wildcard(self) -> bool:
        return self.host in WILDCARD_HOSTS

    def __str__(self) -> str:
        return f"{'https' if self.has_tls else 'http'}://{_join(self.host, self.port)}"


STORE_SCHEMES = ("file", "s3", "gs", "az", "memory")


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """An object store: scheme, bucket or container, and the path below it (for `file`: the folder)."""

    scheme: str
    bucket: str
    path: str

    @classmethod
    def parse(cls, value: str) -> Self:
        parts = urlsplit(value)
        if parts.scheme not in STORE_SCHEMES or "://" not in value:
            raise OutOfBounds("a URL that starts with " + ", ".join(f"{scheme}://" for scheme in STORE_SCHEMES))
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise OutOfBounds("a URL without user, query or fragment (options go to object.store.option.*)")
        path = unquote(parts.path)
        match parts.scheme:
            case "file" if parts.netloc not in ("", "localhost") or len(path) < 2:
                raise OutOfBounds("file:/// followed by an absolute folder (three slashes)")
            case "s3" | "gs" | "az" if not parts.netloc:
                raise OutOfBounds(f"{parts.scheme}:// followed by a bucket name")
            case "memory" if parts.netloc or path.strip("/"):
                raise OutOfBounds("memory:// and nothing after it")
        netloc = "" if parts.scheme == "file" else parts.netloc
        return cls(parts.scheme, netloc, "/" + path.strip("/") if parts.scheme == "file" else path.strip("/"))

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file://{self.path}"
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")


def text_of(value: object) -> str:
    """Write a value the way it is given in a properties file."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case SemicolonList():
            return ";".join(map(str, value))
        case tuple():
            return ",".join(map(str, value))
    return str(value)
