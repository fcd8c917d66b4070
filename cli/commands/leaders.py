"""`diskless coordinator why`, `drain`, `undrain`, `rebalance`: which nodes lead, and moves that operators ask for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, dry_run_option, kafka_place, output_option, server_option, service_options, timeout_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient

WHY_COLUMNS = ("coordinator", "assigned", "why", "former", "warming", "follows", "refuses")
MOVE_COLUMNS = ("coordinator", "from", "to", "when", "why")
LOOK_EVERY_S = 0.2

_group_option = click.option(
    "--group", "group_id", metavar="ID", help="Group of the nodes. [default: group.id of --config, else diskless-coordinator]"
)


def _group_of(kafka: KafkaPlace, group_id: str | None) -> str:
    """The group that was named, else that of the settings, else the default of nodes."""
    from coordinator.config import KEYS

    return group_id or (str(KEYS["group.id"].default) if kafka.settings is None else kafka.settings.group_id)


@click.command()
@click.argument("coordinator_id", type=INDEX, nargs=-1)
@kafka_place("--kafka-bootstrap-server")
@_group_option
@timeout_option
@output_option
def why(coordinator_id: Sequence[int], kafka: KafkaPlace, group_id: str | None, timeout_s: float, output: str) -> None:
    """Say why each coordinator is assigned to its node, and who follows it.

    COORDINATOR_ID is the number of a metadata partition; none means all. The group's members tell each other what they lead, follow and
    refuse; the plan is made of that, and made here again. The login needs DESCRIBE on the group.

    Example: `diskless coordinator why --kafka-bootstrap-server localhost:9092`
    """
    from cli.looks.leadership import find_members, why_rows
    from cli.outcome import Exit, Failed
    from cli.service import run

    group = _group_of(kafka, group_id)
    rows = why_rows(run(find_members(kafka, group, timeout_s)))
    found = [row for row in rows if not coordinator_id or row["coordinator"] in coordinator_id]
    print_rows(found, output, WHY_COLUMNS, empty=f"group {group} has no member")
    if unknown := sorted(set(coordinator_id) - {row["coordinator"] for row in rows if isinstance(row["coordinator"], int)}):
        raise Failed(f"coordinator {', '.join(map(str, unknown))} is not assigned", Exit.NOT_FOUND)


@click.command()
@click.argument("node_id", metavar="NODE", type=INDEX)
@click.option("--lasting", is_flag=True, help="Drain it until `undrain`, also when it is restarted.")
@click.option("--no-wait", is_flag=True, help="Return when the node has been told.")
@service_options
def drain(node_id: int, lasting: bool, no_wait: bool, service: ServicePlace) -> None:
    """Have a NODE give up the coordinators that it leads, each to a node that is warm; commits and reads go on.

    Waits until it leads nothing, and says what is left. A drain goes on without the command, and ends when the process of the node ends.
    The last node that leads is not drained. Status 6 when something is left after the time.

    Examples: `diskless coordinator drain 3 --bootstrap-server localhost:9192`,
    `diskless coordinator drain 3 --lasting --no-wait --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_drain(node_id, service, is_lasting=lasting, is_waiting=not no_wait), f"draining node {node_id}")


async def _drain(node_id: int, service: ServicePlace, *, is_lasting: bool, is_waiting: bool) -> None:
    from cli.service import open_client
    from coordinator.core.drains import Drain

    end_s = time.monotonic() + service.timeout_s
    async with open_client(service) as client:
        await client.admin.drain_node(node_id, Drain.LASTING if is_lasting else Drain.PROCESS)
        if is_waiting:
            await _wait_until_drained(client, node_id, end_s)
        else:
            say(f"node {node_id} drains; `diskless coordinator list` shows what it leads")


async def _wait_until_drained(client: DisklessClient, node_id: int, end_s: float) -> None:
    """Say what the node still leads until that is nothing. Raises `Failed` when the time is over."""
    import asyncio

    from cli.looks.leadership import led_by
    from cli.looks.service import look
    from cli.outcome import Exit, Failed

    told: list[int] | None = None
    while True:
        left = led_by(await look(client, max(0.1, end_s - time.monotonic())), node_id)
        if not left:
            say(f"node {node_id} leads nothing")
            return
        if left != told:
            told = left
            say(f"node {node_id} leads {', '.join(map(str, left))}")
        if time.monotonic() >= end_s:
            waiting = "no other node is warm for them yet, or none can lead them (`diskless coordinator why`)"
            raise Failed(f"node {node_id} still leads {', '.join(map(str, left))}: {waiting}; the drain goes on", Exit.TIMEOUT)
        await asyncio.sleep(LOOK_EVERY_S)


@click.command()
@click.argument("node_id", metavar="NODE", type=INDEX)
@service_options
def undrain(node_id: int, service: ServicePlace) -> None:
    """Let a NODE that drains lead again.

    It gets its share back once it is warm for it. Undraining a node that does not drain changes nothing.

    Example: `diskless coordinator undrain 3 --bootstrap-server localhost:9192`
    """
    from cli.service import ask, run
    from coordinator.core.drains import Drain

    run(ask(service, lambda client: client.admin.drain_node(node_id, Drain.NONE)))
    say(f"node {node_id} may lead")


@click.command()
@server_option
@kafka_place("--kafka-bootstrap-server")
@_group_option
@dry_run_option
@timeout_option
@output_option
def rebalance(kafka: KafkaPlace, group_id: str | None, dry_run: bool, service: ServicePlace, output: str) -> None:
    """Show which coordinators other nodes are to lead, and why; have the group make that plan anew.

    Nodes do so by themselves whenever one comes, goes or becomes warm: this is for a look before or after a change of settings, and for
    impatience. Nothing moves to a node that is not warm while a leader lives. The login needs DESCRIBE on the group.

    Examples: `diskless coordinator rebalance --dry-run --kafka-bootstrap-server localhost:9092 --bootstrap-server localhost:9192`,
    `diskless coordinator rebalance --kafka-bootstrap-server localhost:9092 --bootstrap-server localhost:9192`
    """
    from cli.looks.leadership import find_members, move_rows
    from cli.service import run

    rows = move_rows(run(find_members(kafka, _group_of(kafka, group_id), service.timeout_s)))
    print_rows(rows, output, MOVE_COLUMNS, empty="every coordinator is led by the node that is to lead it")
    if not dry_run:
        asked = run(_ask_for_round(service))
        say(f"{asked} nodes asked the group for a round; `diskless coordinator why` shows its plan")


async def _ask_for_round(service: ServicePlace) -> int:
    """Have every node that answers ask: the group listens to its leader alone, where nothing else has changed. Raises `Failed`."""
    from cli.outcome import Exit, Failed
    from cli.service import milliseconds, open_client
    from coordinator.client.errors import refusal_of
    from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
    from coordinator.protocol.messages import BalanceLeadersRequest, BalanceLeadersResponse
    from coordinator.protocol.wire import MalformedMessage

    asked, why = 0, "no node answers"
    async with open_client(service) as client:
        for node in await client.admin.nodes():
            request = BalanceLeadersRequest(timeout_ms=milliseconds(service.timeout_s))
            try:
                answer = await client.admin.node(node.host, node.port).call(request, milliseconds(service.timeout_s))
                assert isinstance(answer, BalanceLeadersResponse)
                refusal_of(answer.error_code, answer.error_message).raise_for_error()
                asked += 1
            except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
                why = f"node {node.node_id} does not answer: {error}"
                say(why)
    if not asked:
        raise Failed(why, Exit.UNAVAILABLE)
    return asked
