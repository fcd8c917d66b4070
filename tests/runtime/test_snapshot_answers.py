"""TakeSnapshot and DescribeSnapshots as a node answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from coordinator.adapters.metrics.registry import Metrics
from coordinator.app.telemetry import MetricsTelemetry, node_samples
from coordinator.core.commands import OK
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import DESCRIBE_SNAPSHOTS, TAKE_SNAPSHOT
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.messages import (
    DescribeSnapshotsCoordinator,
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    TakeSnapshotRequest,
    TakeSnapshotResponse,
    TakeSnapshotResult,
)
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.snapshots.keeper import STEPS
from coordinator.runtime.snapshots.rules import SnapshotRules
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects, SnapshotFault
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

ON_DEMAND = SnapshotRules(interval_ms=0)
"""No snapshot is due by itself."""


@asynccontextmanager
async def leading(objects: FakeObjects) -> AsyncIterator[Running]:
    """A node that leads three coordinators; the first has a committed file."""
    async with running(in_memory(partitions=3), MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        await started.ask(0, place(count=1))
        assert result_of(await started.ask(0, commit("a", [batch(0, 7)], owner_ids=[0]))).errors == [0]
        yield started


async def take(started: Running, *coordinator_ids: int, timeout_ms: int = TIMEOUT_MS) -> list[TakeSnapshotResult]:
    request = TakeSnapshotRequest(coordinator_ids=coordinator_ids, timeout_ms=timeout_ms)
    response = cast(TakeSnapshotResponse, await serve(started.node, TAKE_SNAPSHOT, 0, request))
    assert decode(TakeSnapshotResponse, encode(response)) == response
    return list(response.results)


async def describe(started: Running, *coordinator_ids: int) -> list[DescribeSnapshotsCoordinator]:
    request = DescribeSnapshotsRequest(coordinator_ids=coordinator_ids)
    response = cast(DescribeSnapshotsResponse, await serve(started.node, DESCRIBE_SNAPSHOTS, 0, request))
    assert decode(DescribeSnapshotsResponse, encode(response)) == response
    return list(response.coordinators)


async def test_a_snapshot_of_each_coordinator_that_is_named_is_committed_once() -> None:
    objects = FakeObjects(now_ms=loop_ms)
    async with leading(objects) as started:
        [taken] = await take(started, 0, 0)
        assert (taken.error_code, taken.error_message, taken.coordinator_id) == (ErrorCode.NONE, None, 0)
        [described] = await describe(started, 0)
        [newest] = described.snapshots
        assert (newest.end_offset, newest.size_bytes) == (taken.end_offset, taken.size_bytes)
        assert newest.end_offset == newest.mark_offset + 1
        assert len(objects.by_key[newest.location].data) == newest.size_bytes
        assert described.applied_offset > newest.mark_offset
        assert described.age_ms >= 0
        assert described.step is None
        assert described.last_error is None


async def test_metrics_tell_of_snapshots_what_is_known() -> None:
    async with leading(FakeObjects(now_ms=loop_ms)) as started:

        def samples() -> dict[str, float]:
            found = node_samples(started.node, loop_ms)
            return {one.name: one.value for one in found if one.labels == (0,)}

        before = samples()
        assert before["snapshot_lag_entries"] == before["log_end_offset"]
        assert not {"snapshot_size_bytes", "snapshot_age_seconds"} & set(before)
        [taken] = await take(started, 0)
        after = samples()
        assert after["snapshot_size_bytes"] == taken.size_bytes
        assert after["snapshot_lag_entries"] == after["log_end_offset"] - taken.end_offset
        assert after["snapshot_age_seconds"] >= 0
        assert after["snapshot_digest_mismatches_total"] == 0
        steps = {one.labels[1] for one in node_samples(started.node, loop_ms) if one.name == "snapshot_failures_total"}
        assert steps == set(STEPS)


async def test_times_to_take_and_to_load_snapshots_are_histograms() -> None:
    kafka, durable = in_memory(partitions=1), FakeDurableSnapshots(FakeObjects(now_ms=loop_ms))
    metrics = Metrics()

    def count(name: str) -> float:
        lines = metrics.render().decode().splitlines()
        found = [line for line in lines if line.startswith(f"diskless_coordinator_snapshot_{name} ")]
        return float(found[0].split()[-1]) if found else 0.0

    generated, proven, loaded = "generation_seconds_count", 'load_seconds_count{reason="proof"}', 'load_seconds_count{reason="replica"}'
    async with running(kafka, MemoryStateStores(), durable=durable, telemetry=MetricsTelemetry(metrics)) as started:
        await started.leads()
        for taken in (1, 2):
            assert await started.node.workers.snapshots.take(0, TIMEOUT_MS) == OK
            assert (count(generated), count(loaded)) == (taken, 0)
        await started.until(lambda: kafka.logs[0].start_offset > 0, "the log to be pruned, behind an own proof")
        assert count(proven) == 1
    # A start without a database, of which the log is not enough.
    async with running(kafka, MemoryStateStores(), durable=durable, telemetry=MetricsTelemetry(metrics)) as started:
        await started.leads()
        assert (count(generated), count(loaded)) == (2, 1)


async def test_without_names_all_that_are_led_are_taken_and_all_described() -> None:
    async with leading(FakeObjects(now_ms=loop_ms)) as started:
        before = await describe(started)
        assert [(one.coordinator_id, one.snapshots, one.age_ms) for one in before] == [(0, (), -1), (1, (), -1), (2, (), -1)]
        taken = await take(started)
        assert [(one.coordinator_id, one.error_code) for one in taken] == [(0, 0), (1, 0), (2, 0)]
        again = await take(started, 0)
        [described] = await describe(started, 0)
        # The newest one comes first.
        assert [one.end_offset for one in described.snapshots] == [again[0].end_offset, taken[0].end_offset]


async def test_a_coordinator_that_is_not_led_here_is_refused_and_the_others_are_served() -> None:
    async with leading(FakeObjects(now_ms=loop_ms)) as started:
        unknown, taken = await take(started, 9, 0)
        assert (unknown.error_code, unknown.end_offset, unknown.size_bytes) == (ErrorCode.NOT_COORDINATOR, -1, -1)
        assert unknown.error_message is not None
        assert "9" in unknown.error_message
        assert taken.error_code == ErrorCode.NONE
        [described, missing] = await describe(started, 0, 9)
        assert described.error_code == ErrorCode.NONE
        assert missing.error_code == ErrorCode.RESOURCE_NOT_FOUND
        assert "no coordinator 9" in (missing.error_message or "")


async def test_no_time_is_refused() -> None:
    async with leading(FakeObjects(now_ms=loop_ms)) as started:
        [refused] = await take(started, 0, timeout_ms=0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert [one.snapshots for one in await describe(started, 0)] == [()]


async def test_a_store_that_refuses_is_told_and_nothing_is_committed() -> None:
    objects = FakeObjects(now_ms=loop_ms, fault_of=lambda call, _: SnapshotFault.REFUSED if call == "upload" else SnapshotFault.NONE)
    async with leading(objects) as started:
        [refused] = await take(started, 0)
        assert refused.error_code != ErrorCode.NONE
        assert "upload" in (refused.error_message or "")
        [described] = await describe(started, 0)
        assert described.snapshots == ()
