"""`restore report` asks a service for its files in every state, and once more of a file whose object is not there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.core.file_state import FileState
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from tests.client.scripted import ScriptedNode, scripted
from tests.decoding import decode_request

KNOWN = {
    ("wal/handed-over", 0): FileState.HANDED_OVER,
    ("wal/handed-over", 1): FileState.LIVE,
    ("wal/half", 1): FileState.LIVE,
    ("wal/lost", 0): FileState.LIVE,
    ("wal/lost", 1): FileState.LIVE,
    ("wal/removed", 0): FileState.REMOVED,
    ("wal/trimmed", 0): FileState.LIVE,
    ("wal/trimmed", 1): FileState.LIVE,
}
STORED = ("wal/half", "wal/handed-over")


def tells_files(_node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    """Answer as nodes of a service that was not restored, with the files of `KNOWN` in the states that are asked for."""
    if request.api_key == ApiKey.FINISH_RESTORE:
        respond(
            encode(
                m.FinishRestoreResponse(
                    error_code=0, restore_id=bytes(16), is_finished=False, old_cluster_id="", old_topic_id=bytes(16), coordinators=()
                )
            )
        )
        return True
    if request.api_key == ApiKey.DESCRIBE_FILES:
        # The last batch of one of them was deleted after it was listed.
        described = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
        assert isinstance(described, m.DescribeFilesRequest)
        told = [
            m.DescribeFileResult(
                object_key=one.object_key, has_live_batches=one.object_key != "wal/trimmed", error_code=0, error_message=None
            )
            for one in described.files
        ]
        respond(encode(m.DescribeFilesResponse(files=tuple(told))))
        return True
    if request.api_key != ApiKey.LIST_FILES:
        return False
    asked = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
    assert isinstance(asked, m.ListFilesRequest)
    states = asked.states or (FileState.LIVE, FileState.EMPTY, FileState.WAITING, FileState.DELETABLE)
    files = [
        m.ListFilesFile(
            object_key=key,
            coordinator_id=one,
            size=1,
            batch_count=1,
            live_batches=int(state is FileState.LIVE),
            append_time_ms=1,
            owner_ids=(0, 1) if state is FileState.LIVE else (),
            state=state,
            since_ms=1,
            until_ms=-1,
            owners_before=(),
        )
        for (key, one), state in sorted(KNOWN.items())
        if one in asked.coordinator_ids and state in states
    ]
    respond(encode(m.ListFilesResponse(error_code=0, files=tuple(files), last_key=None, more=False)))
    return True


async def test_no_file_is_reported_that_was_handed_over_or_deleted_meanwhile(tmp_path: Path) -> None:
    for key in STORED:
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(b"x")
    async with scripted(coordinators=2) as cluster:
        for node in cluster.nodes.values():
            node.trouble.append(tells_files)
        line = ["restore", "report", "--bootstrap-server", ",".join(cluster.addresses), "--object-store-url", f"file://{tmp_path}"]
        told = await asyncio.to_thread(CliRunner().invoke, root, [*line, "-o", "json"], prog_name="diskless")
    assert told.exit_code == Exit.AUDIT, (told.output, told.exception)
    rows = [(row["finding"], row["object_key"], row["coordinators"]) for row in json.loads(told.stdout)]
    assert rows == [("partly known", "wal/half", [0]), ("missing", "wal/lost", [0, 1])]
