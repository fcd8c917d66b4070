"""Micro-batches of a stream: where they begin and end, with limits, new partitions, deleted topics and restarts."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from coordinator.client.errors import NotFound
from coordinator.kafka.names import topic_id_text
from tables.source.loss import DataLoss
from tables.source.offsets import Positions, read_positions
from tables.source.progress import StreamProgress
from tables.source.stream import DisklessStreamReader
from tests.tables.source.given import OTHER, TOPIC, stream
from tests.tables.source.service import SourceService, source_service, start_at

NEW = bytes(range(2, 18))


@pytest.fixture
async def service() -> AsyncIterator[SourceService]:
    async with source_service() as made:
        yield made


class Query:
    """A stream as Spark runs it: each step plans the next batch, and gives its ranges by partition; None when there is nothing to do."""

    def __init__(self, service: SourceService, *, start: str | None = None, is_limited: bool = True, **options: str) -> None:
        self.now_s = 1000.0
        given = stream(**{"startingOffsets": "earliest", "splitBy": "partition", **options})
        self.progress = StreamProgress(given, service.lookup, now_s=lambda: self.now_s)
        self.is_limited = is_limited
        self.checkpoint = start

    async def step(self) -> dict[str, tuple[int, int]] | None:
        start = self.checkpoint or json.dumps((await self.progress.begin()).as_json())
        end = await self.progress.end_of_batch(read_positions(json.loads(start)), is_limited=self.is_limited)
        text = json.dumps(end.as_json())
        if text == start:
            self.checkpoint = start
            return None
        self.checkpoint = text
        return await self.tasks(start, text)

    async def tasks(self, start: str, end: str) -> dict[str, tuple[int, int]]:
        tasks = await self.progress.tasks(read_positions(json.loads(start)), read_positions(json.loads(end)))
        return {f"{one.topic}-{one.partition}": (one.from_offset, one.to_offset) for task in tasks for one in task}


def offsets(text: str | None, topic: str = "orders") -> Mapping[str, Any]:
    assert text is not None
    return json.loads(text)[topic]


async def test_batches_follow_each_other_and_end_when_there_is_nothing(service: SourceService) -> None:
    await service.write({0: 5, 1: 2})
    query = Query(service)
    assert await query.step() == {"orders-0": (0, 5), "orders-1": (0, 2)}
    assert await query.step() is None
    await service.write({1: 4})
    assert await query.step() == {"orders-1": (2, 6)}
    assert await query.step() is None
    assert offsets(query.checkpoint) == {"0": 5, "1": 6, "2": 0, "3": 0, "topicId": topic_id_text(TOPIC)}


async def test_a_stream_begins_at_the_end_by_default(service: SourceService) -> None:
    await service.write({0: 5})
    query = Query(service, startingOffsets="latest")
    assert await query.step() == {}
    assert await query.step() is None
    await service.write({0: 1})
    assert await query.step() == {"orders-0": (5, 6)}


async def test_limits_cut_batches_and_are_ignored_when_all_is_asked_for(service: SourceService) -> None:
    await service.write({0: 60, 1: 30})
    query = Query(service, maxOffsetsPerTrigger="30")
    assert [await query.step() for _ in range(4)] == [
        {"orders-0": (0, 20), "orders-1": (0, 10)},
        {"orders-0": (20, 40), "orders-1": (10, 20)},
        {"orders-0": (40, 60), "orders-1": (20, 30)},
        None,
    ]
    assert await Query(service, is_limited=False, maxOffsetsPerTrigger="30").step() == {"orders-0": (0, 60), "orders-1": (0, 30)}


async def test_a_batch_waits_for_enough_records_or_for_its_time(service: SourceService) -> None:
    await service.write({0: 1})
    query = Query(service, minOffsetsPerTrigger="10", maxTriggerDelay="60s", maxOffsetsPerTrigger="20")
    assert await query.step() == {"orders-0": (0, 1)}, "the first batch does not wait"
    await service.write({0: 5})
    assert await query.step() is None
    query.now_s += 59
    assert await query.step() is None
    query.now_s += 1
    assert await query.step() == {"orders-0": (1, 6)}
    await service.write({0: 50})
    assert await query.step() == {"orders-0": (6, 26)}


async def test_the_ends_of_an_available_now_run_are_fixed(service: SourceService) -> None:
    await service.write({0: 8})
    query = Query(service, maxOffsetsPerTrigger="5", minOffsetsPerTrigger="5")
    await query.progress.fix_ends()
    await service.write({0: 8})
    service.cluster.topics[TOPIC][1].append(0)
    assert [await query.step() for _ in range(3)] == [{"orders-0": (0, 5)}, {"orders-0": (5, 8)}, None]


async def test_a_restarted_query_goes_on_at_its_checkpoint(service: SourceService) -> None:
    await service.write({0: 5})
    first = Query(service)
    await first.step()
    await service.write({0: 5})
    second = Query(service, start=first.checkpoint)
    assert await second.step() == {"orders-0": (5, 10)}


@pytest.mark.parametrize("more", [{}, {0: 3}])
async def test_the_first_batch_begins_at_the_same_offsets_after_a_restart(service: SourceService, more: Mapping[int, int]) -> None:
    """Spark asks for the initial offsets again while no batch is committed; by then `latest` is another place."""
    await service.write({0: 5, 1: 1})
    query = Query(service, startingOffsets="latest")
    query.checkpoint = json.dumps((await query.progress.begin()).as_json())
    if more:
        await service.write(more)
    first = await query.step()
    assert first == ({"orders-0": (5, 8)} if more else {})
    await service.write({0: 7})
    restarted = Query(service, startingOffsets="latest")
    moved = json.dumps((await restarted.progress.begin()).as_json())
    end = 8 if more else 5
    assert offsets(moved)["0"] == end + 7
    assert query.checkpoint is not None
    assert await restarted.tasks(moved, query.checkpoint) == first
    restarted.checkpoint = query.checkpoint
    assert await restarted.step() == {"orders-0": (end, end + 7)}
    assert "from" not in offsets(restarted.checkpoint)


async def test_new_partitions_and_topics_begin_at_their_beginning(service: SourceService) -> None:
    await service.write({0: 5})
    query = Query(service, subscribePattern=".*", startingOffsets="latest")
    assert await query.step() == {}
    service.cluster.topics[TOPIC][1].append(1)
    service.cluster.add_topic(NEW, "views", 1)
    await service.write({4: 2})
    await service.write({0: 3}, topic="views")
    assert await query.step() == {"orders-4": (0, 2), "views-0": (0, 3)}
    assert await query.step() is None


@pytest.mark.parametrize("fails", [True, False])
async def test_a_new_partition_without_its_beginning_is_data_loss(service: SourceService, fails: bool) -> None:
    query = Query(service, failOnDataLoss=str(fails), startingOffsets="latest")
    assert await query.step() == {}
    service.cluster.topics[TOPIC][1].append(1)
    await service.write({4: 5})
    start_at(service.cluster, 4, 2)
    if fails:
        with pytest.raises(DataLoss, match="Added partition orders-4 starts from 2 instead of 0"):
            await query.step()
    else:
        assert await query.step() == {"orders-4": (2, 5)}


async def test_a_topic_that_was_created_anew_is_noticed_and_never_taken_for_the_old_one(
    service: SourceService, caplog: pytest.LogCaptureFixture
) -> None:
    await service.write({0: 5}, topic="clicks")
    query = Query(service, subscribe="clicks")
    assert await query.step() == {"clicks-0": (0, 5)}
    service.delete(OTHER)
    service.cluster.add_topic(NEW, "clicks", 1)
    await service.write({0: 7}, topic="clicks")
    text = "Topic clicks was deleted and created anew"
    with pytest.raises(DataLoss, match=text):
        await query.step()
    going_on = Query(service, start=query.checkpoint, subscribe="clicks", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert await going_on.step() == {"clicks-0": (0, 7)}
    assert text in caplog.text
    assert offsets(going_on.checkpoint, "clicks") == {"0": 7, "topicId": topic_id_text(NEW)}


@pytest.mark.parametrize("fails", [True, False])
async def test_a_batch_of_a_deleted_topic_is_not_read_from_the_new_one(service: SourceService, fails: bool) -> None:
    """The checkpoint has a batch that was planned and not done; its topic is another one when the query is started again."""
    await service.write({0: 5}, topic="clicks")
    query = Query(service, subscribe="clicks")
    begin = json.dumps((await query.progress.begin()).as_json())
    query.checkpoint = begin
    assert await query.step() == {"clicks-0": (0, 5)}
    service.delete(OTHER)
    service.cluster.add_topic(NEW, "clicks", 1)
    await service.write({0: 9}, topic="clicks")
    again = Query(service, subscribe="clicks", failOnDataLoss=str(fails))
    assert query.checkpoint is not None
    if fails:
        with pytest.raises(DataLoss, match="clicks-0: its topic was deleted, or is not read any longer, before offsets up to 5 were read"):
            await again.tasks(begin, query.checkpoint)
    else:
        assert await again.tasks(begin, query.checkpoint) == {}


@pytest.mark.parametrize("fails", [True, False])
async def test_a_partition_that_is_not_assigned_any_longer_is_data_loss(service: SourceService, fails: bool) -> None:
    """As in Spark's Kafka source, a batch that was planned is read, but for partitions that were new in it; the next one misses them."""
    await service.write({0: 5, 1: 6, 2: 7})
    query = Query(service, assign='{"orders": [0, 1]}')
    await query.step()
    before = query.checkpoint
    await service.write({1: 1})
    wider = Query(service, start=before, assign='{"orders": [0, 1, 2]}')
    assert await wider.step() == {"orders-1": (6, 7), "orders-2": (0, 7)}
    restarted = Query(service, start=wider.checkpoint, assign='{"orders": [0]}', failOnDataLoss=str(fails))
    assert before is not None
    assert wider.checkpoint is not None
    if fails:
        with pytest.raises(DataLoss, match="Cannot find the earliest offset of orders-2: it is not among the partitions that are read"):
            await restarted.tasks(before, wider.checkpoint)
        with pytest.raises(DataLoss, match="orders-1, orders-2 are gone"):
            await restarted.step()
    else:
        assert await restarted.tasks(before, wider.checkpoint) == {"orders-1": (6, 7)}
        await service.write({0: 1})
        assert await restarted.step() == {"orders-0": (5, 6)}


@pytest.mark.parametrize("fails", [True, False])
async def test_a_topic_that_is_gone_is_data_loss_of_a_pattern(service: SourceService, fails: bool) -> None:
    await service.write({0: 5}, topic="clicks")
    query = Query(service, subscribePattern=".*", failOnDataLoss=str(fails))
    assert await query.step() == {"clicks-0": (0, 5)}
    service.delete(OTHER)
    await service.write({0: 1})
    if fails:
        with pytest.raises(DataLoss, match="clicks-0 are gone"):
            await query.step()
    else:
        assert await query.step() == {"orders-0": (0, 1)}


async def test_a_subscribed_topic_that_is_gone_ends_the_query(service: SourceService) -> None:
    query = Query(service, subscribe="clicks", failOnDataLoss="false")
    await query.step()
    service.delete(OTHER)
    with pytest.raises(NotFound, match="topic clicks does not exist"):
        await query.step()


@pytest.mark.parametrize("fails", [True, False])
async def test_an_end_that_went_back_is_data_loss(service: SourceService, fails: bool) -> None:
    await service.write({0: 5}, topic="clicks")
    query = Query(service, subscribe="clicks", failOnDataLoss=str(fails))
    await query.step()
    service.cluster.ends[OTHER + bytes(4)] = 3
    if fails:
        with pytest.raises(DataLoss, match="offset of clicks-0 was changed from 5 to 3"):
            await query.step()
    else:
        assert await query.step() == {}


async def test_offsets_that_were_written_by_hand_have_no_ids(service: SourceService) -> None:
    await service.write({0: 5}, topic="clicks")
    query = Query(service, start='{"clicks": {"0": 2}}', subscribe="clicks")
    assert await query.step() == {"clicks-0": (2, 5)}


async def test_the_latest_offsets_are_reported_for_lags(service: SourceService) -> None:
    await service.write({0: 60})
    query = Query(service, maxOffsetsPerTrigger="10")
    assert query.progress.latest is None
    assert await query.step() == {"orders-0": (0, 10)}
    assert isinstance(query.progress.latest, Positions)
    assert offsets(json.dumps(query.progress.latest.as_json()))["0"] == 60


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "9"}, ReadMaxRows(9)),
        ({"minOffsetsPerTrigger": "8"}, ReadMinRows(8)),
        ({"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "8"}, ReadMaxRows(9)),
    ],
)
def test_spark_is_told_that_a_stream_has_a_limit(options: dict[str, str], limit: object) -> None:
    assert DisklessStreamReader(stream(**options)).getDefaultReadLimit() == limit
