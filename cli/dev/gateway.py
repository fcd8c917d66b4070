"""Gateway processes for development and tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cli.dev.place import HERE, Place
from cli.dev.ports import lease_block, lease_ports
from cli.dev.service_process import ServiceProcess

RELAY_PORTS = 8
"""How many brokers can be relayed: those with the ids 0 to 7."""


class GatewayProcess(ServiceProcess):
    """One gateway."""

    metric_prefix = "diskless_gateway_"

    def __init__(
        self,
        node_id: int,
        *,
        bootstrap: str,
        coordinators: str,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        place: Place = HERE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`folder` gets the configuration and the log."""
        self.node_id = node_id
        block = lease_block(1 + RELAY_PORTS)
        [http] = lease_ports(1)
        self.relay_ports = tuple(one.port for one in block[1:])
        own = {
            "gateway.node.id": str(node_id),
            "bootstrap.servers": bootstrap,
            "coordinator.bootstrap.servers": coordinators,
            "listeners": f"PLAINTEXT://{place.host}:{block[0].port}",
            "gateway.relay.brokers": f"0-{RELAY_PORTS - 1}",
            "http.listener": f"{place.host}:{http.port}",
            **(properties or {}),
        }
        leases = [block[0], http, *block[1:]]
        super().__init__(f"gateway {node_id}", "gateway", folder, leases, own, place=place, environment=environment)
