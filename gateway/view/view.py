"""The cluster that clients of one listener and one zone see, as a pure function of the real cluster and the live gateways.

Every gateway is a node, with an id of its own. A diskless partition is led by a gateway of the zone: the gateways of its coordinator by
the plan of KIP-1164 (decision 022), within them by rendezvous. A real broker is relayed by one gateway of the zone by rendezvous. Where the
zone has no gateway, all gateways serve it: availability comes before the zone. They serve the clients that are in no zone, too.
Invariants: equal inputs give equal views, so gateways that know of the same brokers and gateways give the same answers; no address in a
view is a broker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from coordinator.runtime.answers.gateway_plan import Broker, CoordinatorPlace, GatewayPlan, plan_gateways
from coordinator.runtime.ports import KafkaBroker
from gateway.view.model import NO_LEADER, Gateway, distinct


class ListedNode(NamedTuple):
    """A node of the cluster that clients see."""

    node_id: int
    host: str
    port: int
    rack: str


class View:
    """See the module. Make it by `view_of`."""

    def __init__(self, nodes: Sequence[ListedNode], gateways: Sequence[int], plan: GatewayPlan, zone: str | None) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        """By their ids, ascending."""
        self.gateways = tuple(gateways)
        """The node ids of the gateways of the zone; of all, when it has none."""
        self._plan = plan
        self._zone = zone
        self._leaders: dict[tuple[bytes, int, int | None], int] = {}

    def leader(self, topic_id: bytes, partition: int, coordinator: int | None) -> int:
        """Return the node id of the gateway that leads a diskless partition; `NO_LEADER` without gateways.

        `coordinator` is the one that owns the partition, None if that is not known.
        """
        asked = (topic_id, partition, coordinator)
        found = self._leaders.get(asked)
        if found is None:
            planned = () if coordinator is None else self._plan.gateways_of(coordinator, self._zone)
            candidates = [one for one in planned if one in self.gateways] or self.gateways
            key = topic_id + partition.to_bytes(4, "big")
            found = self._leaders[asked] = max(candidates, key=lambda one: _weight(key, one), default=NO_LEADER)
        return found


def view_of(
    brokers: Iterable[KafkaBroker],
    gateways: Sequence[Gateway],
    coordinators: Iterable[CoordinatorPlace],
    *,
    listener: str,
    zone: str | None,
) -> View:
    """Return the view of clients that came by a listener and are in a zone, None for in no zone."""
    serving = [one for one in distinct(gateways) if listener in one.listeners]
    near = [one for one in serving if one.rack == zone] or serving
    plan = plan_gateways((Broker(one.node_id, one.rack) for one in serving), coordinators)
    nodes = [ListedNode(one.node_id, *one.listeners[listener][:2], one.rack) for one in serving]
    taken = {node.node_id for node in nodes}
    for broker in brokers:
        relay = _relay(broker.broker_id, near, listener) or _relay(broker.broker_id, serving, listener)
        if relay is not None and broker.broker_id not in taken:
            nodes.append(ListedNode(broker.broker_id, *relay, broker.rack))
    return View(sorted(nodes), [one.node_id for one in near], plan, zone)


def _relay(broker_id: int, gateways: Sequence[Gateway], listener: str) -> tuple[str, int] | None:
    """Return where a broker is relayed, None if none of the gateways has a port for it."""
    found = [(one, port) for one in gateways if (port := one.relay_port(listener, broker_id)) is not None]
    if not found:
        return None
    gateway, port = max(found, key=lambda pair: _weight(b"broker %d" % broker_id, pair[0].node_id))
    return gateway.listeners[listener].host, port


def _weight(key: bytes, node_id: int) -> bytes:
    return blake2b(b"%b/%d" % (key, node_id), digest_size=8).digest()
