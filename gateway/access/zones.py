"""The zone of a client: by its client id, else by its network, else by the listener that it came to; else it is in none.

With the same rules at all gateways a client stays where it is when it asks another one.

The client id says it as `diskless_az=ZONE`, or `ws_az=ZONE`, at its beginning or after a blank, a comma or a bar. A zone that no gateway is
in costs the client nothing but the zone: who serves a zone is the view's to say. Ids are texts of strangers; this module is pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gateway.sections.access import is_zone

_IN_CLIENT_ID: Final = tuple(re.compile(rf"(?:^|[ ,|]){name}=([^ ,|]*)") for name in ("diskless_az", "ws_az"))
CLIENT_ID_CHARACTERS_MAX: Final = 1_024
"""Zones are looked for in the first characters of a client id: it may have 32 767."""


class ZoneFault(ValueError):
    """A map of zones is not usable; the text says which entry, and what is wanted."""


class ZoneNetwork(NamedTuple):
    """Clients of these addresses are in a zone."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    zone: str


def zone_in(client_id: str | None) -> str | None:
    """Return the zone that a client id names; the first of two counts, and one that is no zone's name does not."""
    if not client_id:
        return None
    for pattern in _IN_CLIENT_ID:
        for found in pattern.finditer(client_id[:CLIENT_ID_CHARACTERS_MAX]):
            if is_zone(found[1]):
                return found[1]
    return None


def parse_network(entry: str) -> ZoneNetwork:
    """Read `10.1.0.0/16=ZONE`. Raises `ZoneFault`."""
    network, _, zone = (part.strip() for part in entry.rpartition("="))
    if not network or not is_zone(zone):
        raise ZoneFault(f"{entry!r} is not NETWORK=ZONE, such as 10.1.0.0/16=zone-a")
    try:
        return ZoneNetwork(ipaddress.ip_network(network), zone)
    except ValueError as error:
        raise ZoneFault(f"{entry!r}: {error}; write a network such as 10.1.0.0/16 or 2001:db8::/32") from error


class Zones:
    """The zones of all clients of this gateway."""

    def __init__(self, networks: Sequence[ZoneNetwork] = (), listeners: Mapping[str, str] | None = None) -> None:
        """`listeners` has the zones of listeners by name. The narrowest network counts."""
        self._networks = sorted(networks, key=lambda one: one.network.prefixlen, reverse=True)
        self._listeners = {name.upper(): zone for name, zone in (listeners or {}).items()}

    def of(self, client_id: str | None, address: str, listener: str) -> str | None:
        """Return the zone of a client; `address` is its host, with or without a port."""
        return zone_in(client_id) or self.without_id(address, listener)

    def without_id(self, address: str, listener: str) -> str | None:
        """Return the zone of a client whose id names none: it stays the same for a connection."""
        return self._by_network(address) or self._listeners.get(listener.upper())

    def _by_network(self, address: str) -> str | None:
        host = host_of(address)
        if not self._networks or host is None:
            return None
        return next((one.zone for one in self._networks if host.version == one.network.version and host in one.network), None)


def host_of(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address of a peer's `host`, `host:port`, `v6`, `v6:port` or `[v6]:port`; None for what is no address, as of a Unix socket.

    An IPv4 address that a socket of IPv6 shows as ::ffff:10.1.2.3 is the IPv4 address.
    """
    host, _, port = address.rpartition(":")
    candidates = [host.strip("[]")] if host and port.isascii() and port.isdigit() else []
    for candidate in (*candidates, address.strip("[]")):
        try:
            found = ipaddress.ip_address(candidate.partition("%")[0])
        except ValueError:
            continue
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        return mapped or found
    return None
