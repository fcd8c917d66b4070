"""What a view is made of: the real brokers, the live gateways with their addresses, and where coordinators are led. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

NO_LEADER: Final = -1
PORT_MAX: Final = 65_535
INT32_MAX: Final = 2**31 - 1


class BadMember(Exception):
    """The metadata of a member of the group of gateways cannot be read; the text says why."""


class RelayIds:
    """The ids of real brokers that have relay ports, as ranges: a broker's relay port is the base plus its place in them."""

    def __init__(self, text: str) -> None:
        """Read `0-63` or `0-9,101-109`. Raises ValueError."""
        self.text = text
        self._ranges: list[range] = []
        for part in text.split(","):
            low, dash, high = part.strip().partition("-")
            if not (low.isdecimal() and (high.isdecimal() or not dash)):
                raise ValueError(f"{part!r} is no range of broker ids such as 0-63")
            one = range(int(low), int(high or low) + 1)
            if not one or any(one.start < other.stop and other.start < one.stop for other in self._ranges):
                raise ValueError(f"{part!r} is no range of broker ids, or has some that another range has")
            self._ranges.append(one)

    @property
    def count(self) -> int:
        """How many relay ports there may be."""
        return sum(map(len, self._ranges))

    def place(self, broker_id: int) -> int | None:
        """Return the place of a broker; None for one that has no relay port."""
        before = 0
        for one in self._ranges:
            if broker_id in one:
                return before + broker_id - one.start
            before += len(one)
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RelayIds) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Address(NamedTuple):
    """Where clients of one listener reach a gateway: its own node, and the base of its relay ports."""

    host: str
    port: int
    relay_base: int


@dataclass(frozen=True, slots=True)
class Gateway:
    """A live gateway."""

    node_id: int
    rack: str
    incarnation: str
    """Of the process: a later one has a greater text."""
    listeners: Mapping[str, Address] = field(hash=False)
    relays: RelayIds
    version: str = ""
    store: str = ""
    """Its object store, as a URL without credentials."""
    http: str = ""
    """Where /ready and /metrics are, as a URL; empty for nowhere."""

    def relay_port(self, listener: str, broker_id: int) -> int | None:
        """Return the port at which a listener relays a broker; None when it does not."""
        place = self.relays.place(broker_id)
        return None if place is None or listener not in self.listeners else self.listeners[listener].relay_base + place

    def encode(self) -> bytes:
        """Return what the gateway tells the others, as JSON."""
        told = {
            "version": self.version,
            "node_id": self.node_id,
            "rack": self.rack,
            "incarnation": self.incarnation,
            "listeners": {name: list(one) for name, one in self.listeners.items()},
            "relays": self.relays.text,
            "store": self.store,
            "http": self.http,
        }
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what a gateway tells of itself. Raises `BadMember`."""
        try:
            told = json.loads(data)
            listeners = {
                str(name): Address(str(host), _within(port, PORT_MAX), _within(base, PORT_MAX))
                for name, (host, port, base) in told["listeners"].items()
            }
            return cls(
                node_id=_within(told["node_id"], INT32_MAX),
                listeners=listeners,
                relays=RelayIds(told["relays"]),
                **{name: str(told[name]) for name in ("rack", "incarnation", "version", "store", "http")},
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadMember(f"{data[:200]!r}: {error!r}") from error


def _within(value: object, most: int) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no whole number from 0 to {most}")
    return value


def distinct(gateways: Sequence[Gateway]) -> tuple[Gateway, ...]:
    """Return the gateways by node id; of several with one id the latest incarnation, since the others are its former selves."""
    newest: dict[int, Gateway] = {}
    for one in gateways:
        if one.node_id not in newest or newest[one.node_id].incarnation < one.incarnation:
            newest[one.node_id] = one
    return tuple(newest[node_id] for node_id in sorted(newest))
