"""The steps of a migration through the client and `diskless migration`, against a node on a real broker that starts again in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.client.client import DisklessClient
from coordinator.client.errors import Fenced, InvalidRequest, NotFound
from coordinator.client.model import PartitionId, SeededBatch, SeededProducer
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST
from coordinator.protocol.messages import CommitBatch
from integration_tests.commands import run
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.levels import LEVEL_LATEST
from tests.commit_batches import commit_batch

B0 = 100
PRODUCER = SeededProducer(7, 2, tuple(SeededBatch(10 * n, 10 * n + 9, 70 + 10 * n, 79 + 10 * n, -1) for n in range(3)))


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("migration"), partitions=2) as service:
        service.start(1)
        level = f"schema level in force level={LEVEL_LATEST}"
        wait_until(lambda: level in service.nodes[1].log_text(), "the newest schema level")
        yield service


def sent(partition: PartitionId, request_id: int, first: int, count: int) -> CommitBatch:
    """A batch of the producer, from a sequence on."""
    return commit_batch(
        partition.topic_id,
        partition.partition,
        records=count,
        at=10 * request_id,
        size=10,
        request_id=request_id,
        producer_id=PRODUCER.producer_id,
        producer_epoch=PRODUCER.producer_epoch,
        sequence=first,
    )


async def test_a_classic_partition_becomes_diskless_and_goes_on_across_b0(service: Service) -> None:
    async with DisklessClient(service.addresses, api_timeout_ms=30_000) as client:
        topic = await client.admin.create_topic("classic", 2, classic_pending=True)
        one, other = (PartitionId(topic.topic_id, index) for index in (0, 1))
        assert (await client.admin.describe_diskless_log(*one)).state == "pending"
        [refused] = await client.list_offsets([(one, LATEST)])
        assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        batches = [sent(one, 0, 20, 10), sent(one, 1, 30, 5)]
        early = await client.commit_file("wal/early", 20, batches)
        assert set(early.error_codes.tolist()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

        numbers = {"start_offset": B0, "prefix_start": 20, "producers": [PRODUCER]}
        for _ in range(2):
            await client.admin.init_diskless_log(*one, leader_epoch=4, **numbers)  # type: ignore[arg-type]
        with pytest.raises(Fenced, match="leader epoch 3 is fenced"):
            await client.admin.init_diskless_log(*one, leader_epoch=3, **numbers)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="begins at offset 100"):
            await client.admin.init_diskless_log(*one, leader_epoch=4, **{**numbers, "start_offset": B0 + 1})  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await client.admin.init_diskless_log(topic.topic_id, 9, leader_epoch=4, **numbers)  # type: ignore[arg-type]

        done = await client.commit_file("wal/early", 20, batches)
        assert done.is_ok
        assert (done.duplicates.tolist(), done.base_offsets.tolist()) == ([True, False], [90, B0])
        await client.admin.report_prefix_start(*one, prefix_start=30, leader_epoch=4)
        found = await client.list_offsets([(one, EARLIEST), (one, EARLIEST_LOCAL), (one, LATEST)])
        assert [each.offset for each in found] == [30, B0, B0 + 5]

        report = await client.admin.repair_diskless_log(*one, start_offset=95, leader_epoch=4, dry_run=True)
        assert (report.previous_start_offset, report.start_offset, report.suffix_start, report.lost_offsets) == (B0, 95, B0, 5)
        with pytest.raises(InvalidRequest, match="records were committed"):
            await client.admin.reset_diskless_log(*one, leader_epoch=5)
        await client.admin.init_diskless_log(*other, start_offset=8, prefix_start=0, leader_epoch=1, producers=())
        await client.admin.reset_diskless_log(*other, leader_epoch=2)
        state = await client.admin.describe_diskless_log(*other)
        assert (state.state, state.start_offset, state.leader_epoch) == ("pending", -1, 2)


async def test_what_was_migrated_is_known_after_a_restart(service: Service) -> None:
    async with DisklessClient(service.addresses, api_timeout_ms=60_000) as client:
        topic = (await client.admin.create_topic("kept", 2, classic_pending=True)).topic_id
        await client.admin.init_diskless_log(topic, 0, start_offset=B0, prefix_start=20, leader_epoch=4, producers=[PRODUCER])
        before = await client.admin.describe_diskless_logs([PartitionId(topic, 0), PartitionId(topic, 1)])
        service.nodes[1].kill()
        service.nodes[1].start()
        assert await client.admin.describe_diskless_logs([PartitionId(topic, 0), PartitionId(topic, 1)]) == before
        done = await client.commit_file("wal/kept", 20, [sent(PartitionId(topic, 0), 0, 20, 10), sent(PartitionId(topic, 0), 1, 30, 5)])
        assert (done.duplicates.tolist(), done.base_offsets.tolist()) == ([True, False], [90, B0])


def test_operators_take_the_steps(service: Service) -> None:
    run(service, "topics", "create", "old", "--partitions", "2", "--classic-pending")
    named = ("migration", "init", "old", "0", "--start-offset", "50", "--prefix-start", "5")
    run(service, *named, "--dry-run", output=False)
    [zero, one] = run(service, "migration", "state", "old")
    assert (zero["state"], zero["start_offset"], one["state"]) == ("pending", -1, "pending")
    assert run(service, *named, "--leader-epoch", "3", "--yes")["start_offset"] == 50
    assert "begins at offset 50" in run(
        service, *named[:4], "--start-offset", "51", "--prefix-start", "5", "--yes", status=Exit.FAILURE, output=False
    )
    run(service, "migration", "repair", "old", "0", "--start-offset", "40", "--dry-run", output=False)
    repaired = run(service, "migration", "repair", "old", "0", "--start-offset", "40", "--yes")
    assert (repaired["start_offset"], repaired["suffix_start"], repaired["high_watermark"]) == (40, 40, 40)
    reset = run(service, "migration", "reset", "old", "0", "--yes")
    assert (reset["state"], reset["leader_epoch"]) == ("pending", 4)
    rows = run(service, "migration", "state", "--state", "pending")
    assert [(row["topic"], row["partition"]) for row in rows if row["topic"] == "old"] == [("old", 0), ("old", 1)]
    run(service, "topics", "create", "born")
    assert "born diskless" in run(service, "migration", "reset", "born", "0", "--yes", status=Exit.FAILURE, output=False)
