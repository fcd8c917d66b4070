"""The demo load of `diskless dev up` against a scripted cluster: it goes on when partitions move."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cli.dev.demo import TOPICS, DemoLoad
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.commit_file import decode_commit_file, encode_commit_response
from integration_tests.waiting import wait_until
from tests.client.scripted import ScriptedNode, scripted


def splits(_: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    """Answer a commit as a coordinator does that has the file already without these batches, because their partitions have moved."""
    if request.api_key != ApiKey.COMMIT_FILE:
        return False
    count = len(decode_commit_file(request.data, request.body_offset).batches)
    untold = [-1] * count
    respond(encode_commit_response([int(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * count, untold, untold, untold, [False] * count))
    return True


async def test_a_file_that_a_move_has_split_is_given_up_and_the_next_ones_are_committed(tmp_path: Path) -> None:
    """However often it came, it would not be committed."""
    said: list[str] = []
    async with scripted() as cluster:
        for number, (name, count) in enumerate(TOPICS.items(), start=1):
            cluster.add_topic(bytes([number]) * 16, name, count)
        load = DemoLoad(cluster.addresses, tmp_path, "", said.append)
        await asyncio.to_thread(load.start, 20.0)
        try:
            for node in cluster.nodes.values():
                node.trouble.append(splits)
            await asyncio.to_thread(wait_until, lambda: any("is refused" in one for one in said), "a refused file", 20.0)
            for node in cluster.nodes.values():
                node.trouble.remove(splits)
            committed = load.files + 1
            await asyncio.to_thread(wait_until, lambda: load.files > committed, "committed files", 20.0)
        finally:
            await asyncio.to_thread(load.stop)
        load.look()
    assert not any("waits" in one for one in said), said
