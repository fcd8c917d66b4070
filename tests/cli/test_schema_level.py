"""`diskless coordinator level` and `raise-level` against a scripted cluster."""

from __future__ import annotations

import asyncio
import json

from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from records.levels import LEVEL_LATEST
from tests.client.scripted import ScriptedCluster, scripted


async def run(cluster: ScriptedCluster, *args: str, answer: str = "") -> Result:
    """Run a command in a thread of its own, as it has an event loop of its own."""
    command = ["coordinator", *args, "--bootstrap-server", ",".join(cluster.addresses), "--timeout", "20"]
    result = await asyncio.to_thread(CliRunner().invoke, root, command, prog_name="diskless", input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


async def shown(cluster: ScriptedCluster) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((await run(cluster, "level", "-o", "json")).stdout)
    return rows


async def test_the_level_in_force_and_that_of_each_node_are_shown() -> None:
    async with scripted() as cluster:
        cluster.register((2, 1))
        assert await shown(cluster) == [
            {"node": 1, "level_in_force": 1, "highest_level": LEVEL_LATEST, "gone": False},
            {"node": 2, "level_in_force": 1, "highest_level": 1, "gone": False},
        ]
        assert (await run(cluster, "level")).stdout.split()[:6] == ["NODE", "LEVEL", "IN", "FORCE", "HIGHEST", "LEVEL"]


async def test_a_node_in_the_way_is_named_and_one_that_is_gone_is_not() -> None:
    async with scripted() as cluster:
        cluster.register((7, 1))
        refused = await run(cluster, "raise-level", str(LEVEL_LATEST), "--yes")
        assert refused.exit_code == Exit.FAILURE
        assert "node 7 (up to level 1) is in the way and does not answer" in refused.stderr
        assert "or name it with --gone-node if it is gone" in refused.stderr
        assert "node 7 supports levels up to 1" in refused.stderr
        assert cluster.directory.schema_level == 1
        raised = await run(cluster, "raise-level", str(LEVEL_LATEST), "--gone-node", "7", "--yes")
        assert raised.exit_code == Exit.OK, raised.stderr
        assert "node 7 (up to level 1) counts as gone" in raised.stderr
        assert f"schema level {LEVEL_LATEST} is in force" in raised.stderr
        assert [(row["node"], row["level_in_force"], row["gone"]) for row in await shown(cluster)] == [
            (1, LEVEL_LATEST, False),
            (2, LEVEL_LATEST, False),
            (7, LEVEL_LATEST, True),
        ]
        again = await run(cluster, "raise-level", "1", "--yes")
        assert (again.exit_code, "is in force already" in again.stderr) == (Exit.OK, True)


async def test_nothing_is_raised_on_trial_or_without_consent() -> None:
    async with scripted() as cluster:
        trial = await run(cluster, "raise-level", str(LEVEL_LATEST), "--dry-run")
        assert trial.exit_code == Exit.OK
        assert f"would be raised from 1 to {LEVEL_LATEST}" in trial.stderr
        denied = await run(cluster, "raise-level", str(LEVEL_LATEST), answer="n\n")
        assert denied.exit_code == Exit.FAILURE
        assert cluster.directory.schema_level == 1
        assert (await run(cluster, "raise-level", str(LEVEL_LATEST), answer="y\n")).exit_code == Exit.OK
        assert cluster.directory.schema_level == LEVEL_LATEST


async def test_an_unknown_level_is_refused() -> None:
    async with scripted() as cluster:
        refused = await run(cluster, "raise-level", str(LEVEL_LATEST + 1), "--yes")
        assert refused.exit_code == Exit.USAGE
        assert f"schema level {LEVEL_LATEST + 1} is not known to this version" in refused.stderr
        assert "--gone-node" not in refused.stderr


async def test_a_node_that_answers_is_not_gone() -> None:
    async with scripted() as cluster:
        cluster.register((1, LEVEL_LATEST - 1), (77, LEVEL_LATEST - 1))
        advice = await run(cluster, "raise-level", str(LEVEL_LATEST), "--dry-run")
        lines = {line.split()[1]: line for line in advice.stderr.splitlines() if line.startswith("node ")}
        assert "--gone-node" not in lines["1"]
        assert "schema.level.max" in lines["1"]
        assert "does not answer" in lines["77"]
        assert "--gone-node" in lines["77"]
        refused = await run(cluster, "raise-level", str(LEVEL_LATEST), "--gone-node", "1", "--yes")
        assert refused.exit_code == Exit.USAGE
        assert "node 1 answers, so it is not gone" in refused.stderr
        assert cluster.directory.schema_level == LEVEL_LATEST - 1
