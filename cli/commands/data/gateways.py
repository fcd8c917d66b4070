"""`diskless gateways`: which brokers should take the produce requests for which coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.options import output_option, server_option, timeout_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.client.calls.gateways import GatewayDescription

COLUMNS = ("broker", "rack", "address", "coordinators", "leaders", "commits_per_file")


@click.group()
def gateways() -> None:
    """Look at the produce gateways of coordinators."""


@gateways.command()
@server_option
@timeout_option
@output_option
def plan(bootstrap_server: str, timeout_s: float, output: str) -> None:
    """Show for every broker of the Kafka cluster the coordinators it is produce gateway of.

    `commits_per_file` is the number of nodes that lead these coordinators: a WAL file of the broker needs at most one commit at each. The
    plan follows from the brokers, their racks and the leaders alone; it changes when one of these does.

    Example: `diskless gateways plan --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import ask, run

    described = run(ask(bootstrap_server, timeout_s, lambda client: client.admin.describe_gateways()))
    print_rows(plan_rows(described), output, COLUMNS)
    say(
        f"{described.gateways_per_rack} of each coordinator in each rack, planned by node {described.node_id} from brokers that Kafka"
        f" named {described.brokers_age_ms / 1000:.1f} s ago"
    )


def plan_rows(described: GatewayDescription) -> list[Row]:
    """Return a row for each broker, by id. A coordinator without a leader counts as a commit of its own."""
    rows: list[Row] = []
    for broker in described.brokers:
        served = [one for one in described.coordinators if broker in one.brokers]
        leaders = sorted({one.leader_id for one in served if one.leader_id >= 0})
        rows.append(
            {
                "broker": broker.broker_id,
                "rack": broker.rack,
                "address": f"{broker.host}:{broker.port}",
                "coordinators": [one.coordinator_id for one in served],
                "leaders": leaders,
                "commits_per_file": len(leaders) + sum(one.leader_id < 0 for one in served),
            }
        )
    return rows
