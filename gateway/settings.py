"""The settings of a gateway, declared as those of a node are (`coordinator.config.keys`)."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from coordinator.config.keys import INT32_MAX, Key, http_address, integer, items, listener_list, store_url, text
from coordinator.config.sources import read_file, read_overrides
from coordinator.config.values import HttpAddress, Listener, StoreUrl
from gateway.view.model import RelayIds


def _are_relays(value: str) -> bool:
    try:
        RelayIds(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """All settings."""

    gateway_node_id: int = integer(
        "gateway.node.id", None, low=0, high=INT32_MAX, essential=True,
        why="""Number under which clients see this gateway as a node of the cluster: unlike that of any broker and any other gateway.""",
    )  # fmt: skip
    gateway_rack: str = text(
        "gateway.rack", "", essential=True,
        why="""Zone of this gateway, in the words the brokers use for broker.rack. Clients are sent to gateways of their zone.""",
    )  # fmt: skip
    bootstrap_servers: tuple[str, ...] = items(
        "bootstrap.servers", None, essential=True, empty_ok=False, why="""Brokers of the Kafka cluster behind the gateway."""
    )
    coordinator_bootstrap_servers: tuple[str, ...] = items(
        "coordinator.bootstrap.servers", None, essential=True, empty_ok=False, why="""Nodes of the coordinator service."""
    )
    listeners: tuple[Listener, ...] = listener_list("listeners", "PLAINTEXT://0.0.0.0:9292", why="""Where clients connect to.""")
    advertised_listeners: tuple[Listener, ...] = listener_list(
        "advertised.listeners", "", empty_ok=True, why="""Addresses that clients use."""
    )
    gateway_relay_port_base: int = integer(
        "gateway.relay.port.base", 0, low=0, high=65535,
        why="""First relay port: a broker's is this plus the place of its id in gateway.relay.brokers. 0 is the port after the listener's.""",
    )  # fmt: skip
    gateway_relay_brokers: str = text(
        "gateway.relay.brokers", "0-63", allowed=_are_relays, bounds="ranges of broker ids such as 0-63 or 0-9,101-109",
        why="""Ids of the brokers that have relay ports.""",
    )  # fmt: skip
    http_listener: HttpAddress | None = http_address(
        "http.listener", "http://0.0.0.0:9293", why="""Address of /healthy, /ready, /metrics."""
    )
    object_store_url: StoreUrl = store_url("object.store.url", why="""Object store of the service.""")
    diskless_gateway_group_id: str = text(
        "diskless.gateway.group.id", "diskless-gateways", why="""Kafka group by which gateways know each other."""
    )
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    object_store_option: Mapping[str, str] = field(default_factory=dict, repr=False)


KEYS: Mapping[str, Key] = {f.metadata["key"].name: f.metadata["key"] for f in fields(GatewaySettings) if "key" in f.metadata}


def load_gateway_settings(file: Path | None, overrides: Mapping[str, str]) -> GatewaySettings:
    """Read the settings."""
    given = {one.key: one.value for one in [*([] if file is None else read_file(file)), *read_overrides(overrides)]}
    values: dict[str, object] = {}
    for key in KEYS.values():
        text_of = given.get(key.name, key.default)
        if text_of is None:
            raise ValueError(f"{key.name} must be given")
        values[key.attribute] = key.parse(text_of.strip())
    kafka = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    options = {name.removeprefix("object.store.option."): value for name, value in given.items() if name.startswith("object.store.option.")}
    return GatewaySettings(**values, kafka=kafka, object_store_option=options)  # type: ignore[arg-type]
