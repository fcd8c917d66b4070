"""Settings of a gateway: what clients may do, where they are, and how much they may take."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, integer, items

ZONE_CHARACTERS_MAX = 64


def is_zone(text: str) -> bool:
    """Tell whether a text can be the name of a zone."""
    return len(text) <= ZONE_CHARACTERS_MAX and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", text, re.ASCII) is not None


def _is_network_zone(entry: str) -> bool:
    network, _, zone = (part.strip() for part in entry.rpartition("="))
    try:
        ipaddress.ip_network(network)
    except ValueError:
        return False
    return is_zone(zone)


def _is_listener_zone(entry: str) -> bool:
    name, _, zone = (part.strip() for part in entry.partition("="))
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) is not None and is_zone(zone)


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """Rights, zones and rates of clients."""

    gateway_rights_ttl_ms: int = integer(
        "gateway.rights.ttl.ms",
        5_000,
        low=100,
        high=60_000,
        why="""How long what the cluster said of a client's rights on a topic holds. It is asked for again on the client's own connection,
        or on one with the same login,
        before it is used later than that; so a right that is taken away ends this long after brokers know of it.""",
    )
    gateway_client_zones: tuple[str, ...] = items(
        "gateway.client.zones",
        "",
        allowed=_is_network_zone,
        bounds="NETWORK=ZONE, comma separated, such as 10.1.0.0/16=zone-a",
        why="""Zones of clients by their addresses; the narrowest network counts. A client that names its zone in its client id
        (diskless_az=ZONE or ws_az=ZONE, at the beginning or after a blank, a comma or a bar) is there in any case.""",
    )
    gateway_listener_zones: tuple[str, ...] = items(
        "gateway.listener.zones",
        "",
        allowed=_is_listener_zone,
        bounds="LISTENER=ZONE, comma separated",
        why="""Zones of clients that no other rule knows, by the listener that they come to. Without an entry they are in no zone: gateways
        of all zones serve them. Zones of clients have to be the same at all gateways, or a client changes its zone with each gateway that
        it asks.""",
    )
    gateway_connections_per_address_max: int = integer(
        "gateway.connections.per.address.max",
        0,
        low=0,
        high=1_000_000,
        why="""Open connections of one address at most, over all listeners and relay ports; 0 is no limit. A client has one to each node
        that it uses. Clients behind a proxy or a load balancer share its address.""",
    )
    gateway_produce_byte_rate: int = integer(
        "gateway.produce.byte.rate",
        0,
        low=0,
        high=INT64_MAX,
        why="""Bytes per second that one principal may write to diskless topics through this gateway, which ten seconds of may come at
        once; 0 is no limit. As with Kafka's quotas its answers say for how long it has to wait, and it is made to.""",
    )
    gateway_fetch_byte_rate: int = integer(
        "gateway.fetch.byte.rate",
        0,
        low=0,
        high=INT64_MAX,
        why="""Bytes per second that one principal may read of diskless topics through this gateway; as gateway.produce.byte.rate.""",
    )
