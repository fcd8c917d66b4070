"""`diskless gateways`: the live gateways of Kafka clients, and which brokers should take the produce requests for which coordinators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, gateway_group_option, kafka_place, output_option, service_options, timeout_option, token_option
from cli.output import print_fields, print_rows, say

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.client.calls.gateways import GatewayDescription

COLUMNS = ("broker", "rack", "address", "coordinators", "leaders", "commits_per_file")
LISTED = ("gateway", "rack", "version", "listeners", "relay_ports", "http", "object_store", "incarnation")


@click.group()
def gateways() -> None:
    """Look at gateways, and at the plan of produce gateways."""


@gateways.command("list")
@kafka_place("--kafka-bootstrap-server", has_topic=False)
@gateway_group_option("--group")
@timeout_option
@output_option
def list_gateways(kafka: KafkaPlace, gateway_group: str, timeout_s: float, output: str) -> None:
    """List the live gateways, as they tell of themselves through their group in Kafka.

    A gateway that died is listed until its session ends (`gateway.session.timeout.ms`). The login needs DESCRIBE on the group. Relay
    ports are the first and the last that a listener may have: one for each broker of `gateway.relay.brokers`.

    Example: `diskless gateways list --kafka-bootstrap-server localhost:9092`
    """
    from cli.looks.gateways import find_gateways, gateway_row
    from cli.service import run

    found = run(find_gateways(kafka, gateway_group, timeout_s))
    print_rows([gateway_row(one) for one in found], output, LISTED, empty=f"group {gateway_group} has no gateway")


@gateways.command()
@click.argument("gateway_id", metavar="[ID]", type=INDEX, required=False)
@kafka_place("--kafka-bootstrap-server", has_topic=False)
@gateway_group_option("--group")
@token_option
@timeout_option
@output_option
def describe(gateway_id: int | None, kafka: KafkaPlace, gateway_group: str, token_file: Path | None, timeout_s: float, output: str) -> None:
    """Describe one gateway, or all: what it tells the others, and what its HTTP port says of its work.

    The HTTP port must be reachable from here. Counters are those since its start.

    Example: `diskless gateways describe 1001 --kafka-bootstrap-server localhost:9092`
    """
    from cli.looks.gateways import find_gateways, look_at_gateways, look_fields
    from cli.looks.http_access import HttpAccess
    from cli.outcome import Exit, Failed
    from cli.service import run

    access = HttpAccess.of(kafka.properties, timeout_s, token_file)
    found = run(find_gateways(kafka, gateway_group, timeout_s))
    wanted = [one for one in found if gateway_id in (None, one.node_id)]
    if gateway_id is not None and not wanted:
        raise Failed(f"no live gateway has the id {gateway_id}; `diskless gateways list` shows those there are", Exit.NOT_FOUND)
    fields = [look_fields(one) for one in run(look_at_gateways(wanted, access))]
    if output == "table" or gateway_id is not None:
        for one in fields:
            print_fields(one, output)
    else:
        print_rows(fields, output, ())
    if not fields:
        say(f"group {gateway_group} has no gateway")


@gateways.command()
@service_options
@output_option
def plan(service: ServicePlace, output: str) -> None:
    """Show for every broker of the Kafka cluster the coordinators it is produce gateway of.

    `commits_per_file` is the number of nodes that lead these coordinators: a WAL file of the broker needs at most one commit at each. The
    plan follows from the brokers, their racks and the leaders alone; it changes when one of these does.

    Example: `diskless gateways plan --bootstrap-server localhost:9192 -o json`
    """
    from cli.service import ask, run

    described = run(ask(service, lambda client: client.admin.describe_gateways()))
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
