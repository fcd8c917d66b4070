"""`batches find` of a partition that has moved: what each coordinator has of it ends before the partition does."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from tests.client.scripted import ScriptedNode, scripted
from tests.decoding import decode_request

TOPIC = bytes([7]) * 16
KEY = TOPIC + bytes(4)
BATCHES, BYTES = 5, 10
STRETCH_ENDS = (2, 3, BATCHES)


def answers_of_stretches(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    """Answer FindBatches as the coordinator of the offset does, with what it has of the partition."""
    if request.api_key != ApiKey.FIND_BATCHES:
        return False
    asked = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
    assert isinstance(asked, m.FindBatchesRequest)
    wanted = asked.topics[0].partitions[0]
    end = next(one for one in STRETCH_ENDS if wanted.offset < one or one == BATCHES)
    answer = decode(m.FindBatchesResponse, node.answer(request))
    [topic] = answer.topics
    [found] = topic.partitions
    within = [one for one in found.batches if one.last_offset < end][: wanted.max_partition_fetch_bytes // BYTES]
    if asked.max_batches_per_partition:
        within = within[: asked.max_batches_per_partition]
    told = replace(found, high_watermark=end, batches=tuple(within))
    respond(encode(replace(answer, topics=(replace(topic, partitions=(told,)),))))
    return True


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--offset", "1"), [1, 2, 3, 4]),
        (("--offset", "5"), []),
        (("--max-batches", "1"), [0]),
        (("--max-batches", "2"), [0, 1]),
        (("--max-batches", "3"), [0, 1, 2]),
        (("--max-bytes", "10"), [0]),
        (("--max-bytes", "30"), [0, 1, 2]),
    ],
    ids=lambda one: " ".join(map(str, one)),
)
async def test_what_is_found_goes_on_where_the_partition_did(words: tuple[str, ...], offsets: list[int]) -> None:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 1)
        cluster.ends[KEY] = BATCHES
        cluster.logs[KEY] = [
            m.FindBatchesBatchInfo(
                batch_id=number,
                object_key="wal/1",
                magic=2,
                byte_offset=number * BYTES,
                byte_size=BYTES,
                base_offset=number,
                last_offset=number,
                log_append_timestamp=1,
                batch_max_timestamp=1,
                timestamp_type=0,
            )
            for number in range(BATCHES)
        ]
        for node in cluster.nodes.values():
            node.trouble.append(answers_of_stretches)
        line = ["batches", "find", "orders", "0", *words, "--bootstrap-server", ",".join(cluster.addresses), "-o", "json"]
        told = await asyncio.to_thread(CliRunner().invoke, root, line, prog_name="diskless")
        assert told.exit_code == Exit.OK, told.stderr
        assert [row["base_offset"] for row in json.loads(told.stdout)] == offsets
        assert told.stderr.strip().endswith("log start 0, high watermark 5")
