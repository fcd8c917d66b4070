"""DescribeGateways' answer as users see it: which brokers should take the produce requests for a coordinator's partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coordinator.protocol.messages import DescribeGatewaysResponse


class GatewayBroker(NamedTuple):
    """A broker of the Kafka cluster; `rack` is None when it has none."""

    broker_id: int
    rack: str | None
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorGateways:
    """The produce gateways of a coordinator in all racks, by id; `leader_id` is -1 when the leader is unknown."""

    coordinator_id: int
    leader_id: int
    brokers: tuple[GatewayBroker, ...]

    def in_rack(self, rack: str | None) -> tuple[GatewayBroker, ...]:
        """Return the gateways of a rack; those of all racks when the rack is not given or has no gateway."""
        near = tuple(one for one in self.brokers if rack is not None and one.rack == rack)
        return near or self.brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDescription:
    """The plan as one node made it, from brokers that Kafka named `brokers_age_ms` before."""

    node_id: int
    gateways_per_rack: int
    brokers_age_ms: int
    brokers: tuple[GatewayBroker, ...]
    coordinators: tuple[CoordinatorGateways, ...]


def gateways_described(response: DescribeGatewaysResponse) -> GatewayDescription:
    """Read an answer that has no error. Raises KeyError when a gateway is not among its brokers."""
    brokers = {one.broker_id: GatewayBroker(one.broker_id, one.rack, one.host, one.port) for one in response.brokers}
    return GatewayDescription(
        node_id=response.node_id,
        gateways_per_rack=response.gateways_per_rack,
        brokers_age_ms=response.brokers_age_ms,
        brokers=tuple(brokers.values()),
        coordinators=tuple(
            CoordinatorGateways(
                coordinator_id=one.coordinator_id,
                leader_id=one.leader_id,
                brokers=tuple(brokers[broker_id] for broker_id in one.broker_ids),
            )
            for one in response.coordinators
        ),
    )
