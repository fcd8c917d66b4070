"""Commands that name coordinators, against a scripted cluster: one that does not exist is told at once, and so is a leader that is away."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from tests.client.scripted import ScriptedCluster, ScriptedNode, Trouble, scripted

PRUNE = ("log", "prune", "--dry-run")
NAMING = [
    (*PRUNE, "--partition"),
    ("snapshots", "take", "--coordinator"),
    ("snapshots", "list", "--coordinator"),
    ("snapshots", "verify", "--object-store-url", "file://{here}", "--coordinator"),
    ("snapshots", "download", "--object-store-url", "file://{here}", "--to", "{here}/copy.checkpoint", "--coordinator"),
    ("dirs", "list", "--replicas", "--coordinator"),
    ("files", "list", "--coordinator"),
]


async def run(cluster: ScriptedCluster, *words: str) -> Result:
    """Run a command in a thread of its own, as it has an event loop of its own."""
    line = [*words, "--bootstrap-server", ",".join(cluster.addresses), "--timeout", "20"]
    result = await asyncio.to_thread(CliRunner().invoke, root, line, prog_name="diskless")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def tells_of_snapshots(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    """Answer DescribeSnapshots as a node does that has no snapshot yet of any coordinator of the cluster."""
    if request.api_key != ApiKey.DESCRIBE_SNAPSHOTS:
        return False
    coordinators = tuple(
        m.DescribeSnapshotsCoordinator(error_code=0, coordinator_id=one, log_start_offset=0, prune_reason="waits", snapshots=())
        for one in node.cluster.leaders
    )
    respond(encode(m.DescribeSnapshotsResponse(cluster_id="c", topic_id=bytes(16), node_id=node.node_id, coordinators=coordinators)))
    return True


@pytest.mark.parametrize("words", NAMING, ids=lambda words: "-".join(words[:2]))
async def test_a_coordinator_that_does_not_exist_is_named_with_those_that_do(words: tuple[str, ...], tmp_path: Path) -> None:
    async with scripted() as cluster:
        told = await run(cluster, *(word.format(here=tmp_path) for word in words), "99")
        assert told.exit_code == Exit.NOT_FOUND, told.output
        assert "there is no coordinator 99; the service has 4: 0 to 3" in told.stderr
        assert told.stdout == ""
        # Nobody was asked to do anything: only what nodes know was looked at.
        asked = {ApiKey(request.api_key) for node in cluster.nodes.values() for request in node.seen}
        assert not asked & {ApiKey.TAKE_SNAPSHOT, ApiKey.DESCRIBE_SNAPSHOTS, ApiKey.LIST_FILES}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [PRUNE, ("snapshots", "list")], ids="-".join)
async def test_a_coordinator_that_exists_is_told_of(words: tuple[str, ...]) -> None:
    name = "--partition" if words is PRUNE else "--coordinator"
    async with scripted() as cluster:
        for node in cluster.nodes.values():
            node.trouble.append(tells_of_snapshots)
        told = await run(cluster, *words, name, "3", "-o", "json")
        assert told.exit_code == Exit.OK, told.stderr
        assert [row["coordinator"] for row in json.loads(told.stdout)] == ([3] if words is PRUNE else [])


def knows_only(count: int) -> Trouble:
    """Describe the first so many coordinators, as a node does that has not seen yet that the metadata topic has grown."""

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != ApiKey.DESCRIBE_COORDINATORS:
            return False
        told = decode(m.DescribeCoordinatorsResponse, node.answer(request))
        respond(encode(replace(told, coordinators=told.coordinators[:count])))
        return True

    return trouble


# How many coordinators the two nodes know, which one is named, and the beginning of the error (none: the command goes on).
KNOWN = [
    ((4, 4), 3, ""),
    ((2, 4), 3, ""),
    ((4, 2), 3, ""),
    ((0, 4), 3, ""),
    ((2, 4), 4, "there is no coordinator 4; the service has 4: 0 to 3"),
    ((4, 2), 4, "there is no coordinator 4; the service has 4: 0 to 3"),
    ((0, 4), 4, "there is no coordinator 4; the service has 4: 0 to 3"),
    ((2, 2), 3, "there is no coordinator 3; the service has 2: 0 to 1"),
    ((0, 0), 9, ""),
]


@pytest.mark.parametrize(("known", "named", "error"), KNOWN, ids=lambda value: str(value).split(";")[0])
async def test_a_coordinator_exists_as_soon_as_any_node_knows_it(known: tuple[int, int], named: int, error: str) -> None:
    async with scripted() as cluster:
        for node, count in zip(cluster.nodes.values(), known, strict=True):
            node.trouble += [tells_of_snapshots, knows_only(count)]
        told = await run(cluster, "snapshots", "list", "--coordinator", str(named))
        assert told.exit_code == (Exit.NOT_FOUND if error else Exit.OK), told.stderr
        assert error in told.stderr


async def test_a_node_that_does_not_answer_vouches_for_no_coordinator() -> None:
    async with scripted() as cluster:
        await cluster.nodes[2].server.stop(0)
        told = await run(cluster, "snapshots", "list", "--coordinator", "9")
        assert told.exit_code == Exit.NOT_FOUND
        assert "there is no coordinator 9; the service has 4: 0 to 3" in told.stderr


# Which of the coordinators 0 to 3 have no leader, which are named, which are shown, and for which the error asks.
LEADERLESS: list[tuple[set[int], list[int], list[int], str]] = [
    (set(), [], [0, 1, 2, 3], ""),
    ({1}, [], [0, 2, 3], " for coordinator 1"),
    ({1, 3}, [], [0, 2], " for coordinator 1, 3"),
    ({1}, [1, 2], [2], " for coordinator 1"),
    ({1}, [2], [2], ""),
    ({1}, [1], [], " for coordinator 1"),
    ({0, 1, 2, 3}, [], [], " for coordinator 0, 1, 2, 3"),
]


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(("leaderless", "named", "shown", "whose"), LEADERLESS, ids=str)
async def test_a_log_whose_leader_does_not_answer_is_asked_for_again(
    leaderless: set[int], named: list[int], shown: list[int], whose: str, output: str
) -> None:
    async with scripted() as cluster:
        for node in cluster.nodes.values():
            node.trouble.append(tells_of_snapshots)
        cluster.leaders |= dict.fromkeys(leaderless, -1)
        told = await run(cluster, *PRUNE, *(f"--partition={one}" for one in named), "-o", output)
    assert told.exit_code == (Exit.UNAVAILABLE if whose else Exit.OK), told.output
    assert (f"no leader answers{whose}; `diskless coordinator status` says more" in told.stderr) is bool(whose)
    if not shown:
        assert told.stdout == ""  # no table that looks like an answer
    elif output == "json":
        assert [row["coordinator"] for row in json.loads(told.stdout)] == shown
    else:
        assert [line.split()[0] for line in told.stdout.splitlines()[1:]] == list(map(str, shown))


async def test_nodes_that_know_no_coordinator_yet_show_no_empty_table() -> None:
    async with scripted() as cluster:
        cluster.leaders.clear()
        for node in cluster.nodes.values():
            node.trouble.append(tells_of_snapshots)
        told = await run(cluster, *PRUNE)
    assert (told.exit_code, told.stdout) == (Exit.UNAVAILABLE, "")
    assert "no leader answers; `diskless coordinator status` says more" in told.stderr
