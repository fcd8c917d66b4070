"""What is published of a node: levels per coordinator, requests by error, the event loop's lag."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.adapters.metrics import TABLE, Metrics
from coordinator.app.telemetry import MetricsTelemetry, kafka_samples, node_samples, request_samples
from coordinator.app.version import installed_version
from coordinator.core.commands import OK, CommitResult, FoundBatches, Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.first_error import first_commit_error, first_error, first_found_error
from coordinator.protocol.messages import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse, RegisterNodeResponse
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place
from tests.runtime.data_directories import over
from tests.runtime.nodes import in_memory, running
from tests.waiting import block_loop, until


def test_the_first_error_of_an_answer_is_found_where_it_is() -> None:
    assert first_error(RegisterNodeResponse(error_code=16, error_message="")) == 16
    partitions = [
        ListOffsetsPartitionResponse(partition_index=place, error_code=code, error_message=None, timestamp=-1, offset=-1)
        for place, code in enumerate([0, 3, 7])
    ]
    assert first_error(ListOffsetsResponse(topics=(ListOffsetsTopicResponse(topic_id=bytes(16), partitions=tuple(partitions)),))) == 3
    assert first_error(ListOffsetsResponse(topics=(ListOffsetsTopicResponse(topic_id=bytes(16), partitions=(partitions[0],)),))) == 0
    assert first_commit_error(CommitResult.refused(2, ErrorCode.NOT_COORDINATOR, "")) == 16
    assert first_commit_error(CommitResult.refused(2, ErrorCode.NONE, None)) == 0
    refused = Outcome(error=ErrorCode.OFFSET_OUT_OF_RANGE, message="")
    assert first_found_error([FoundBatches(outcome=OK, batches=[]), FoundBatches(outcome=refused, batches=[])]) == 1


def test_errors_go_by_kafkas_names() -> None:
    answered = {("COMMIT_FILE", 0): 5, ("COMMIT_FILE", 7): 2, ("METADATA", 12345): 1}
    assert [(one.labels, one.value) for one in request_samples(answered)] == [
        (("COMMIT_FILE", "NONE"), 5),
        (("COMMIT_FILE", "REQUEST_TIMED_OUT"), 2),
        (("METADATA", "12345"), 1),
    ]


async def test_a_leader_shows_its_epoch_and_replicas_their_digest() -> None:
    async with running(in_memory(), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(1, place(count=1))
        await started.ask(1, commit("a", [batch(0, 3)], owner_ids=[1]))
        replica = started.node.replicas[1]
        shard = replica.view
        assert shard is not None
        await started.until(lambda: replica.writer.written_offset == shard.state.applied_offset, "the state to be written")
        found = {(one.name, one.labels): one.value for one in node_samples(started.node, lambda: 0)}
    assert found[("leading", (1,))] == 1
    assert found[("leader_epoch", (1,))] == 1
    assert found[("live_partitions", (0,))] == 0
    assert found[("live_partitions", (1,))] == 1
    assert found[("pending_bytes", (1,))] == 0
    assert found[("state_applied_offset", (1,))] == found[("log_end_offset", (1,))]
    assert found[("state_digest", (0,))] != found[("state_digest", (1,))]
    # Prometheus keeps floats: no bit may be lost.
    assert int(float(found[("state_digest", (1,))])).to_bytes(6) == replica.writer.digest.to_bytes()[:6]
    assert found[("node_info", (1, "", installed_version()))] == 1


async def test_a_replica_that_could_not_be_loaded_counts_as_failed() -> None:
    async with running(in_memory(), MemoryStateStores()) as started:
        await started.leads()
        started.node.replicas[1].view = None
        assert {one.labels: one.value for one in node_samples(started.node, lambda: 0) if one.name == "partitions"}[("loading",)] == 1
        started.node.replicas[1].unloadable = "the log starts too late"
        assert {one.labels: one.value for one in node_samples(started.node, lambda: 0) if one.name == "partitions"}[("failed",)] == 1


def test_kafka_counters_are_there_before_the_first_error() -> None:
    found = {one.name for one in kafka_samples(KafkaStats())}
    assert {"produce_errors_total", "producer_failures_total", "membership_events_total"} <= found
    assert found <= {metric.name for metric in TABLE}


def test_a_blocked_event_loop_is_seen() -> None:
    metrics = Metrics()

    def seen(what: str) -> float:
        lines = metrics.render().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if f"event_loop_lag_seconds_{what}" in line)

    async def blocked() -> None:
        async with running(in_memory(), MemoryStateStores(), telemetry=MetricsTelemetry(metrics)) as started:
            started.node.start()
            await until(lambda: seen("count"), "a tick")
            before = seen("count")
            block_loop(0.3)
            await until(lambda: seen("count") != before, "the next tick")

    # The loops of the other tests do not see that they stand still.
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(blocked())
    assert seen("sum") > 0.15


async def test_data_directories_and_their_assignments_are_measured(tmp_path: Path) -> None:
    kafka = in_memory()
    async with over(kafka, tmp_path / "one", tmp_path / "two") as started:
        await started.leads()

        def value(name: str, *labels: str) -> float | None:
            found = {one.labels: one.value for one in node_samples(started.node, lambda: 0) if one.name == name}
            return found.get(labels)

        await started.until(lambda: value("queued_replica_to_dir_assignments") == 0, "the homes to be recorded")
        await started.until(lambda: value("log_directory_free_bytes", str(tmp_path / "two")) is not None, "the sizes to be known")
        assert value("offline_log_directories") == 0
        assert value("log_directory_bytes", str(tmp_path / "two")) == shutil.disk_usage(tmp_path).total
        (tmp_path / "two").rename(tmp_path / "gone")
        await started.until(lambda: value("offline_log_directories") == 1, "the loss to be found")
        assert value("log_directory_offline", str(tmp_path / "one")) == 0
        assert value("log_directory_offline", str(tmp_path / "two")) == 1
        assert value("log_directory_free_bytes", str(tmp_path / "two")) is None
        await started.until(lambda: value("replica_to_dir_assignment_wait_seconds") == 0, "the new homes to be recorded")
