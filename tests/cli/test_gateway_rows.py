"""The rows of `diskless gateways plan`."""

from __future__ import annotations

from cli.commands.data.gateways import plan_rows
from coordinator.client.calls.gateways import CoordinatorGateways, GatewayBroker, GatewayDescription


def test_each_broker_has_its_coordinators_and_the_commits_a_file_of_it_needs() -> None:
    one, two, idle = (GatewayBroker(broker_id, "a", "kafka", 9090 + broker_id) for broker_id in (1, 2, 3))
    gateways = [(0, 7, (one, two)), (1, 7, (one,)), (2, 8, (two,)), (3, -1, (two,)), (4, -1, (two,))]
    plan = GatewayDescription(
        node_id=7,
        gateways_per_rack=1,
        brokers_age_ms=5,
        brokers=(one, two, idle),
        coordinators=tuple(CoordinatorGateways(coordinator_id=i, leader_id=leader, brokers=served) for i, leader, served in gateways),
    )
    shown = [(row["broker"], row["address"], row["coordinators"], row["leaders"], row["commits_per_file"]) for row in plan_rows(plan)]
    assert shown == [
        (1, "kafka:9091", [0, 1], [7], 1),
        (2, "kafka:9092", [0, 2, 3, 4], [7, 8], 4),
        (3, "kafka:9093", [], [], 0),
    ]
