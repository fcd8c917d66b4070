"""ScanOrphans as a node answers it, over real replicas: fences are in the logs before anything is deleted."""

from __future__ import annotations

from typing import cast

from coordinator.adapters.objectstore import open_store
from coordinator.core.commands import FenceFiles, FileStanding
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import SCAN_ORPHANS, ScanAction
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.messages import ScanOrphansRequest, ScanOrphansResponse
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.files.rules import ScanRules
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.waiting import attempts

ALL_OLD = ScanRules(age_ms=-60_000)
"""Whatever is in the store is old enough."""


async def scan(started: Running, action: int, *, after_key: str | None = None, timeout_ms: int = TIMEOUT_MS) -> ScanOrphansResponse:
    request = ScanOrphansRequest(action=action, is_forced=False, after_key=after_key, timeout_ms=timeout_ms)
    response = cast(ScanOrphansResponse, await serve(started.node, SCAN_ORPHANS, 0, request))
    assert decode(ScanOrphansResponse, encode(response)) == response
    return response


async def test_a_scan_deletes_what_no_replica_has_and_keeps_what_one_has() -> None:
    store = open_store("memory://")
    async with running(in_memory(partitions=3), MemoryStateStores(), objects=store, orphans=ALL_OLD) as started:
        await started.leads()
        await started.ask(0, place(count=1))
        assert result_of(await started.ask(0, commit("wal/kept", [batch(0, 7)], owner_ids=[0]))).errors == [0]
        for key in ("wal/kept", "wal/orphan 1", "wal/orphan 2"):
            await store.put(key, b"12345")
        looked = await scan(started, ScanAction.LOOK)
        assert [(one.object_key, one.size_bytes, one.reason) for one in looked.found] == [
            ("wal/orphan 1", 5, "never committed"),
            ("wal/orphan 2", 5, "never committed"),
        ]
        assert (looked.is_end, looked.examined, looked.known) == (True, 3, 1)
        behind = await scan(started, ScanAction.LOOK, after_key="wal/orphan 1")
        assert [one.object_key for one in behind.found] == ["wal/orphan 2"]
        assert await store.head("wal/orphan 1") is not None

        begun = await scan(started, ScanAction.BEGIN)
        assert (begun.error_code, begun.is_running) == (ErrorCode.NONE, True)
        async for _ in attempts("the end of the scan"):
            if not (state := await scan(started, ScanAction.TELL)).is_running:
                break
        assert (state.orphans, state.orphan_bytes, state.deleted, state.deleted_bytes) == (2, 10, 2, 10)
        assert (state.started_ms, state.last_error) == (-1, None)
        assert state.finished_ms > 0
        assert [key async for chunk in store.list("wal/") for key in (one.key for one in chunk)] == ["wal/kept"]
        for partition in range(3):
            told = await started.ask(partition, FenceFiles(object_keys=["wal/orphan 1"], created_ms=[-1], is_fencing=False))
            assert [one.standing for one in told] == [FileStanding.FENCED]  # type: ignore[union-attr]


async def test_a_node_that_may_not_scan_says_why() -> None:
    rules = ScanRules(off_because="object.store.url is memory://")
    async with running(in_memory(partitions=1), MemoryStateStores(), orphans=rules) as started:
        assert (await scan(started, ScanAction.BEGIN)).error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await started.leads()
        for action in (ScanAction.BEGIN, ScanAction.LOOK):
            refused = await scan(started, action)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert "object.store.url is memory://" in str(refused.error_message)
        told = await scan(started, ScanAction.TELL)
        assert (told.error_code, told.is_running, told.older_than_ms) == (ErrorCode.NONE, False, -1)


async def test_requests_that_make_no_sense_are_refused() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores(), objects=open_store("memory://"), orphans=ALL_OLD) as started:
        await started.leads()
        wrong = await scan(started, 7)
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        assert "0 (tell), 1 (begin), 2 (look)" in str(wrong.error_message)
        assert (await scan(started, ScanAction.BEGIN, timeout_ms=0)).error_code == ErrorCode.INVALID_REQUEST
