"""Plans the produce gateways of the coordinators, from the brokers of the Kafka cluster and the leaders that this node knows.

Every node plans by itself (`core.gateways`): nodes that know of the same brokers and leaders have the same plan. It is advice,
which a client may ignore; a plan of some seconds ago does no harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import bad_timeout
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeGatewaysBroker,
    DescribeGatewaysCoordinator,
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
)
from coordinator.runtime.answers.gateway_plan import Broker, CoordinatorPlace, GatewayPlan, plan_gateways
from coordinator.runtime.node.node import Node
from coordinator.runtime.ports import KafkaBroker, KafkaUnavailable
from coordinator.runtime.routing.cluster_view import KnownNode


async def describe_gateways(node: Node, _: int, request: DescribeGatewaysRequest) -> Message:
    """Answer DescribeGateways: the plan, the brokers it is made of, and the leaders."""
    node_id = node.config.node_id
    if request.timeout_ms <= 0:
        refused = bad_timeout(request.timeout_ms)
        return _refused(node_id, refused.error, refused.message)
    if not node.replicas.count:
        return _refused(node_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"node {node_id} is starting; retry, or ask another node")
    try:
        brokers = await node.brokers.known(request.timeout_ms / 1000)
    except KafkaUnavailable as error:
        what = f"node {node_id} does not know the brokers of the Kafka cluster: {error}; retry"
        return _refused(node_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
    leaders = {coordinator_id: node.view.leader(coordinator_id) for coordinator_id in node.replicas.ids()}
    plan = _plan(tuple(Broker(one.broker_id, one.rack) for one in brokers), tuple(places_of(leaders, brokers)))
    return DescribeGatewaysResponse(
        error_code=ErrorCode.NONE,
        node_id=node_id,
        gateways_per_rack=plan.gateways_per_rack,
        brokers_age_ms=node.brokers.age_ms,
        brokers=tuple(
            DescribeGatewaysBroker(broker_id=one.broker_id, rack=one.rack or None, host=one.host, port=one.port) for one in brokers
        ),
        coordinators=tuple(_described(plan, coordinator_id, leader) for coordinator_id, leader in leaders.items()),
    )


@lru_cache(maxsize=1)
def _plan(brokers: tuple[Broker, ...], places: tuple[CoordinatorPlace, ...]) -> GatewayPlan:
    """Plan anew only when something changed: with a hundred brokers it takes the event loop tens of milliseconds."""
    return plan_gateways(brokers, places)


def places_of(leaders: Mapping[int, KnownNode | None], brokers: Iterable[KafkaBroker]) -> list[CoordinatorPlace]:
    """Return where coordinators are: at their leader's node, and at the broker whose host is that of the node.

    A host with several brokers says nothing of which of them is near, so a coordinator there has no broker.
    """
    hosts: Sequence[tuple[str, int]] = [(one.host, one.broker_id) for one in brokers]
    counts = Counter(host for host, _ in hosts)
    by_host = {host: broker_id for host, broker_id in hosts if counts[host] == 1}
    return [
        CoordinatorPlace(
            coordinator_id=coordinator_id,
            node_id=-1 if leader is None else leader.node_id,
            broker_id=None if leader is None else by_host.get(leader.host),
        )
        for coordinator_id, leader in leaders.items()
    ]


def _described(plan: GatewayPlan, coordinator_id: int, leader: KnownNode | None) -> DescribeGatewaysCoordinator:
    return DescribeGatewaysCoordinator(
        coordinator_id=coordinator_id, leader_id=-1 if leader is None else leader.node_id, broker_ids=plan.gateways_of(coordinator_id)
    )


def _refused(node_id: int, error: ErrorCode, message: str | None) -> Message:
    return DescribeGatewaysResponse(error_code=error, error_message=message, node_id=node_id, brokers=(), coordinators=())
