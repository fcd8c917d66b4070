"""`diskless dirs`: the data directories of nodes, and moves of replicas between them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import INDEX, output_option, service_options
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.looks.dirs import DirsView
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient
    from coordinator.client.model import ServiceNode
    from coordinator.kafka.errors import ErrorCode
    from coordinator.operations.log_dirs import DescribedDirectory

LIST_COLUMNS = ("node", "path", "directory_id", "state", "coordinators", "size", "free", "total")
REPLICA_COLUMNS = ("coordinator", "node", "state", "path", "directory_id", "size", "moves_to", "lag")
LOOK_EVERY_S = 0.3


@click.group()
def dirs() -> None:
    """Look at the data directories of nodes; move replicas between them."""


@dirs.command("list")
@click.option("--replicas", "by_replica", is_flag=True, help="A row for each replica instead of each directory.")
@click.option(
    "--coordinator", "coordinator_ids", type=INDEX, multiple=True, metavar="ID", help="Only replicas of this coordinator. Repeatable."
)
@service_options
@output_option
def list_(by_replica: bool, coordinator_ids: Sequence[int], service: ServicePlace, output: str) -> None:
    """List the data directories of every node, with what is in them, and what moves.

    A directory that failed is offline until its node starts again. Of a node that does not answer the rows show what coordinator 0 has
    recorded: `offline` are replicas in a directory that their node did not have online, `no answer` are the others. `lag` is how many
    entries the copy of a move lags.

    Examples: `diskless dirs list --bootstrap-server localhost:9192`,
    `diskless dirs list --replicas --coordinator 3 --bootstrap-server localhost:9192 -o json`
    """
    from cli.looks.dirs import directory_rows, replica_rows
    from cli.service import run

    views = run(_look(service, coordinator_ids))
    if by_replica or coordinator_ids:
        print_rows(replica_rows(views, coordinator_ids), output, REPLICA_COLUMNS, empty="no node has a replica")
    else:
        rows = directory_rows(views)
        columns = (*LIST_COLUMNS, "reason") if any(row["reason"] for row in rows) else LIST_COLUMNS
        print_rows(rows, output, columns, empty="no node told of its directories")
    for one in views:
        if one.view.error:
            say(f"node {one.view.node.node_id} does not answer: {one.view.error}")


async def _look(service: ServicePlace, coordinator_ids: Sequence[int]) -> list[DirsView]:
    from cli.looks.dirs import look_at_dirs
    from cli.looks.service import check_coordinators
    from cli.service import open_client

    async with open_client(service) as client:
        await check_coordinators(client, coordinator_ids, service.timeout_s)
        return await look_at_dirs(client, service.timeout_s)


@dirs.command()
@click.argument("coordinator_ids", metavar="COORDINATOR...", type=INDEX, nargs=-1, required=True)
@click.option("--node", "node_id", type=INDEX, required=True, help="The node whose replicas move.")
@click.option("--to", "path", required=True, help="The data directory, as data.dirs of the node names it.")
@click.option("--no-wait", is_flag=True, help="Return when the moves have begun.")
@service_options
def move(coordinator_ids: Sequence[int], node_id: int, path: str, no_wait: bool, service: ServicePlace) -> None:
    """Move the replicas of coordinators on one node into another of its data directories; commits go on.

    Waits until the replicas are there, and says how far they are; a move goes on without the command. A replica that is there already,
    or on its way, is no error. Which nodes have replicas of a coordinator is up to the group: `diskless coordinator why`.

    Examples: `diskless dirs move 0 3 --node 1 --to /mnt/two --bootstrap-server localhost:9192`,
    `diskless dirs move 0 --node 1 --to /mnt/two --no-wait --bootstrap-server localhost:9192`
    """
    from cli.service import run

    run(_move(list(dict.fromkeys(coordinator_ids)), node_id, path, service, is_waiting=not no_wait))


async def _move(coordinator_ids: Sequence[int], node_id: int, path: str, service: ServicePlace, *, is_waiting: bool) -> None:
    from cli.looks.dirs import ask_dirs, begin_moves
    from cli.outcome import Exit, Failed
    from cli.service import open_client
    from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
    from coordinator.operations.log_dirs import WantedPlace
    from coordinator.protocol.wire import MalformedMessage

    end_s = time.monotonic() + service.timeout_s
    async with open_client(service) as client:
        nodes = await client.admin.nodes()
        node = next((one for one in nodes if one.node_id == node_id), None)
        if node is None:
            known = ", ".join(str(one.node_id) for one in nodes)
            raise Failed(f"there is no node {node_id}; the service has {known or 'none that is registered'}", Exit.NOT_FOUND)
        try:
            directories = await ask_dirs(client, node, service.timeout_s)
            topic = _topic_of(directories, coordinator_ids, node_id)
            errors = await begin_moves(client, node, [WantedPlace(path, topic, one) for one in coordinator_ids], service.timeout_s)
            _check(errors, directories, node_id, path)
            if is_waiting:
                await _wait(client, node, coordinator_ids, path, end_s)
        except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
            raise Failed(f"node {node_id} does not answer: {error}", Exit.UNAVAILABLE) from error


def _topic_of(directories: Sequence[DescribedDirectory], coordinator_ids: Sequence[int], node_id: int) -> str:
    """The name of the metadata topic, of which the node must have these replicas. Raises `Failed`."""
    from cli.outcome import Exit, Failed

    topics = {one.partition: one.topic for directory in directories for one in directory.replicas}
    missing = [str(one) for one in coordinator_ids if one not in topics]
    if missing:
        raise Failed(f"node {node_id} has no replica of coordinator {', '.join(missing)} in a data directory", Exit.NOT_FOUND)
    return topics[coordinator_ids[0]]


def _check(errors: dict[int, ErrorCode], directories: Sequence[DescribedDirectory], node_id: int, path: str) -> None:
    """Raises `Failed` when a replica was not moved."""
    from cli.outcome import Exit, Failed
    from coordinator.kafka.errors import ErrorCode

    for coordinator_id, error in errors.items():
        match error:
            case ErrorCode.NONE:
                continue
            case ErrorCode.LOG_DIR_NOT_FOUND:
                known = ", ".join(one.path for one in directories)
                raise Failed(f"node {node_id} has no data directory {path}; it has {known} (data.dirs)", Exit.NOT_FOUND)
            case ErrorCode.KAFKA_STORAGE_ERROR:
                raise Failed(f"{path} is offline on node {node_id}: repair it and restart the node (`diskless dirs list` has the reason)")
            case _:
                what = f"coordinator {coordinator_id} is not moved on node {node_id}: {error.name} ({int(error)})"
                raise Failed(f"{what}; the log of the node says why (it is loading, or moves already)", Exit.UNAVAILABLE)


async def _wait(client: DisklessClient, node: ServiceNode, coordinator_ids: Sequence[int], path: str, end_s: float) -> None:
    """Say how far the moves are until they are done. Raises `Failed`."""
    import asyncio

    from cli.looks.dirs import ask_dirs, progress_of
    from cli.outcome import Exit, Failed

    told: dict[int, str] = {}
    while True:
        found = progress_of(await ask_dirs(client, node, max(0.1, end_s - time.monotonic())), path, coordinator_ids)
        for one in found:
            text = "is there" if one.is_there else f"{one.copied_lag} entries to go"
            if (one.is_there or one.copied_lag is not None) and told.get(one.coordinator_id) != text:
                told[one.coordinator_id] = text
                say(f"coordinator {one.coordinator_id}: {text}")
        if all(one.is_there for one in found):
            return
        given_up = [str(one.coordinator_id) for one in found if not one.is_there and one.copied_lag is None]
        if given_up:
            raise Failed(f"the move of coordinator {', '.join(given_up)} to {path} was given up; the log of node {node.node_id} says why")
        if time.monotonic() >= end_s:
            raise Failed(f"not every replica is in {path} yet; the moves go on (`diskless dirs list --replicas`)", Exit.TIMEOUT)
        await asyncio.sleep(LOOK_EVERY_S)
