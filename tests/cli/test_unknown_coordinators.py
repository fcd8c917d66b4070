"""Commands that name coordinators, against a scripted cluster: one that does not exist is told at once, and so is a leader that is away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from tests.client.scripted import ScriptedCluster, ScriptedNode, scripted

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


async def test_a_log_whose_leader_does_not_answer_is_asked_for_again() -> None:
    async with scripted() as cluster:
        for node in cluster.nodes.values():
            node.trouble.append(tells_of_snapshots)
        cluster.leaders[1] = -1
        some = await run(cluster, *PRUNE, "--partition", "1", "--partition", "2", "-o", "json")
        assert some.exit_code == Exit.UNAVAILABLE
        assert [row["coordinator"] for row in json.loads(some.stdout)] == [2]
        assert "no leader answers for coordinator 1; `diskless coordinator status` says more" in some.stderr
        cluster.leaders = dict.fromkeys(cluster.leaders, -1)
        none = await run(cluster, *PRUNE)
        assert none.exit_code == Exit.UNAVAILABLE
        assert "no leader answers; `diskless coordinator status` says more" in none.stderr
