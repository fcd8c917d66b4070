"""Settings that every deployment of a gateway gives or thinks about: identity, addresses, Kafka, the service, the object store."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT32_MAX, http_address, integer, items, listener_list, store_url, text
from coordinator.config.sections.essential import is_server
from coordinator.config.values import HttpAddress, Listener, StoreUrl
from gateway.view.model import RelayIds


def _are_relays(value: str) -> bool:
    try:
        RelayIds(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class GatewayEssentialSettings:
    """Settings of the gateway's identity, its addresses, and the outside services it uses."""

    gateway_node_id: int = integer(
        "gateway.node.id",
        None,
        low=0,
        high=INT32_MAX,
        essential=True,
        why="""Number under which clients see this gateway as a node of the cluster, unlike that of any broker and of any other gateway. A
        gateway whose number is taken does not start.""",
    )
    gateway_rack: str = text(
        "gateway.rack",
        "",
        essential=True,
        why="""Zone of this gateway, in the words the brokers use for broker.rack. Clients are sent to gateways of their zone;
        gateway.client.zones and gateway.listener.zones say where they are.""",
    )
    bootstrap_servers: tuple[str, ...] = items(
        "bootstrap.servers",
        None,
        essential=True,
        empty_ok=False,
        allowed=is_server,
        bounds="host:port, comma separated",
        why="""Brokers of the Kafka cluster behind this gateway, the one whose topics are the shadows of diskless ones. Give the listener
        that clients would use: their logins are passed to it.""",
    )
    coordinator_bootstrap_servers: tuple[str, ...] = items(
        "coordinator.bootstrap.servers",
        None,
        essential=True,
        empty_ok=False,
        allowed=is_server,
        bounds="host:port, comma separated",
        why="""Nodes of the coordinator service. Any of them will do to find the others.""",
    )
    listeners: tuple[Listener, ...] = listener_list(
        "listeners",
        "PLAINTEXT://0.0.0.0:9292",
        why="""Where clients connect to, by the names and protocols that a node's listeners have. The relay ports of a listener follow its
        own port (gateway.relay.port.base).""",
    )
    advertised_listeners: tuple[Listener, ...] = listener_list(
        "advertised.listeners",
        "",
        empty_ok=True,
        why="""Addresses that clients use. Empty: the listeners themselves, with the machine's host name in place of an address that means
        all interfaces. Relay ports are advertised with the same host.""",
    )
    gateway_relay_port_base: int = integer(
        "gateway.relay.port.base",
        0,
        low=0,
        high=65_535,
        why="""First relay port: that of a broker is this plus the place of its id in gateway.relay.brokers, on every start. 0 is the port
        after the listener's own. Give it only with one listener.""",
    )
    gateway_relay_brokers: str = text(
        "gateway.relay.brokers",
        "0-63",
        allowed=_are_relays,
        bounds="ranges of broker ids, such as 0-63 or 0-9,101-109",
        why="""Ids of the brokers that may have relay ports, one port each, which is opened when the broker is first seen. Clients do not
        see a broker with another id. Give all gateways the same ranges, and let the network pass as many ports.""",
    )
    http_listener: HttpAddress | None = http_address(
        "http.listener",
        "http://0.0.0.0:9291",
        why="""Address of /healthy, /ready, /metrics and /config; empty for none. With https it speaks TLS, and needs
        http.ssl.certificate.location and http.ssl.key.location. `diskless gateways describe` finds it by the host that the first listener
        advertises, when this one means all interfaces.""",
    )
    object_store_url: StoreUrl = store_url(
        "object.store.url",
        why="""Object store of the coordinator service, where records of diskless topics are written and read. Another store than the
        service's is refused at the start.""",
    )


@dataclass(frozen=True, kw_only=True)
class GatewayGroupSettings:
    """How gateways know each other."""

    diskless_gateway_group_id: str = text(
        "diskless.gateway.group.id",
        "diskless-gateways",
        allowed=bool,
        bounds="not empty",
        why="""Consumer group of Kafka by which gateways know each other; all gateways of a service name the same one. The gateway's own
        login needs READ and DESCRIBE on it.""",
    )
    gateway_session_timeout_ms: int = integer(
        "gateway.session.timeout.ms",
        6_000,
        low=1_000,
        high=300_000,
        why="""A gateway that was not heard of for this long counts as dead, and the others show it to no client. Brokers allow
        no less than their group.min.session.timeout.ms (6 s unless lowered).""",
    )
    gateway_heartbeat_interval_ms: int = integer(
        "gateway.heartbeat.interval.ms",
        500,
        low=50,
        high=60_000,
        why="""How often a gateway tells the group that it is alive, and learns whether others came or went.""",
    )
    gateway_drain_ms: int = integer(
        "gateway.drain.ms",
        2_000,
        low=0,
        high=600_000,
        why="""How long a gateway that stops serves on after it has left the group, if there are others: clients that ask for metadata
        meanwhile are sent to those.""",
    )
