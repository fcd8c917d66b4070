"""What the driver finds out: topics, bounds, offsets by time to the record, and how tasks are shared out by files."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual, Not

from coordinator.client.errors import NotFound
from coordinator.kafka.names import topic_id_text
from tables.source.batch import Narrowing, narrowed, plan_within
from tables.source.loss import DataLoss
from tables.source.options import SourceOptionError
from tables.source.planning import Task
from tests.tables.source.given import OTHER, TOPIC, batch
from tests.tables.source.service import SourceService, source_service, start_at


@pytest.fixture
async def service() -> AsyncIterator[SourceService]:
    async with source_service() as made:
        yield made


def shown(tasks: Sequence[Task]) -> list[list[tuple[str, int, int]]]:
    """Each task as (partition, first offset, end)."""
    return [[(f"{one.topic}-{one.partition}", one.from_offset, one.to_offset) for one in task] for task in tasks]


async def planned(service: SourceService, narrowing: Narrowing | None = None, **options: str) -> list[list[tuple[str, int, int]]]:
    given = batch(**{"splitBy": "partition", **options})
    return shown(await plan_within(service.lookup, given, narrowing or Narrowing()))


async def test_a_batch_query_reads_all_that_is_there(service: SourceService) -> None:
    await service.write({0: 5, 2: 3})
    await service.write({0: 2})
    await service.write({0: 4}, topic="clicks")
    assert await planned(service) == [[("orders-0", 0, 7)], [("orders-2", 0, 3)]]
    assert await planned(service, subscribe="orders,clicks") == [[("clicks-0", 0, 4)], [("orders-0", 0, 7)], [("orders-2", 0, 3)]]
    assert await planned(service, subscribePattern="cl.*") == [[("clicks-0", 0, 4)]]
    assert await planned(service, subscribePattern="cl") == []
    assert await planned(service, assign='{"orders":[2,1]}') == [[("orders-2", 0, 3)]]


async def test_tasks_name_topics_by_id(service: SourceService) -> None:
    await service.write({0: 5})
    [[span]] = await plan_within(service.lookup, batch(), Narrowing())
    assert span.topic_id == TOPIC


async def test_topics_and_partitions_that_do_not_exist_are_named(service: SourceService) -> None:
    with pytest.raises(NotFound, match="topic missing does not exist"):
        await planned(service, subscribe="orders,missing")
    with pytest.raises(SourceOptionError, match="partitions that do not exist: orders-4"):
        await planned(service, assign='{"orders":[0,4]}')


async def test_bounds_by_offset(service: SourceService) -> None:
    await service.write({0: 9, 1: 9})
    ends = '{"orders":{"0":7,"1":-1,"2":-1,"3":-1}}'
    starts = '{"orders":{"0":4,"1":-2,"2":-2,"3":0}}'
    assert await planned(service, startingOffsets=starts, endingOffsets=ends) == [[("orders-0", 4, 7)], [("orders-1", 0, 9)]]
    with pytest.raises(SourceOptionError, match=r"all partitions must be there.*Specified: orders-0\. Assigned: orders-0, orders-1"):
        await planned(service, startingOffsets='{"orders":{"0":4}}')
    with pytest.raises(SourceOptionError, match="starting offset 8 of orders-0 is greater than its ending offset 7"):
        await planned(service, startingOffsets='{"orders":{"0":8,"1":0,"2":0,"3":0}}', endingOffsets=ends.replace("-1", "9"))


async def test_offsets_of_another_topic_of_the_name_are_refused(service: SourceService) -> None:
    own, other = (f'{{"clicks":{{"0":0,"topicId":"{topic_id_text(topic)}"}}}}' for topic in (OTHER, TOPIC))
    assert await planned(service, subscribe="clicks", startingOffsets=own) == []
    with pytest.raises(SourceOptionError, match="those of a topic that was deleted"):
        await planned(service, subscribe="clicks", startingOffsets=other)


async def test_offsets_outside_of_the_log_are_data_loss(service: SourceService, caplog: pytest.LogCaptureFixture) -> None:
    await service.write({0: 9}, topic="clicks")
    start_at(service.cluster, 0, 3, topic_id=OTHER)
    asked = {"subscribe": "clicks", "startingOffsets": '{"clicks":{"0":1}}', "endingOffsets": '{"clicks":{"0":20}}'}
    with pytest.raises(DataLoss, match=r"clicks-0: offsets 1 to 20 .* the log has offsets 3 to 9.*\"failOnDataLoss\" to \"false\""):
        await planned(service, **asked)
    with caplog.at_level(logging.WARNING):
        assert await planned(service, **asked, failOnDataLoss="false") == [[("clicks-0", 3, 9)]]
    assert "clicks-0: offsets 1 to 20" in caplog.text


async def test_a_migrated_topic_is_read_from_its_diskless_log_on_and_says_so(
    service: SourceService, caplog: pytest.LogCaptureFixture
) -> None:
    await service.write({0: 9}, topic="clicks")
    start_at(service.cluster, 0, 3, topic_id=OTHER)
    with caplog.at_level(logging.WARNING):
        assert await planned(service, subscribe="clicks") == [[("clicks-0", 3, 9)]]
    assert "clicks-0: earlier records are in Kafka and are not read, since the topic was migrated" in caplog.text


async def test_bounds_by_time_are_found_to_the_record(service: SourceService) -> None:
    await service.write({0: 10, 1: 10}, from_ms=1000)
    await service.write({0: 10}, from_ms=2000)
    by_time = {"startingTimestamp": "1004", "endingTimestamp": "2003", "assign": '{"orders":[0,1]}'}
    assert await planned(service, **by_time) == [[("orders-0", 4, 13)], [("orders-1", 4, 10)]]
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":2005,"1":1009}}', "assign": '{"orders":[0,1]}'}
    assert await planned(service, **times) == [[("orders-0", 15, 20)], [("orders-1", 9, 10)]]


async def test_a_start_that_no_record_reaches_is_an_error_or_the_end(service: SourceService) -> None:
    await service.write({0: 10, 1: 10}, from_ms=1000)
    late = {"startingTimestamp": "1010", "assign": '{"orders":[0,1]}'}
    with pytest.raises(SourceOptionError, match=r"No offset matched the time 1010 of orders-0.*Strategy=latest"):
        await planned(service, **late)
    assert await planned(service, **late, startingOffsetsByTimestampStrategy="latest") == []


# ---- filters


UTC_1005 = datetime.fromtimestamp(1.005, UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("partition",), 1)], [("orders-1", 0, 10)]),
        ([In(("partition",), (1, 7))], [("orders-1", 0, 10)]),
        ([EqualTo(("topic",), "clicks")], []),
        ([In(("topic",), ("orders", "clicks")), EqualTo(("partition",), 0)], [("orders-0", 0, 20)]),
        ([GreaterThan(("offset",), 3), LessThan(("offset",), 12)], [("orders-0", 4, 12), ("orders-1", 4, 10)]),
        ([GreaterThanOrEqual(("offset",), 3), LessThanOrEqual(("offset",), 3)], [("orders-0", 3, 4), ("orders-1", 3, 4)]),
        ([EqualTo(("offset",), 11)], [("orders-0", 11, 12)]),
        ([EqualTo(("offset",), 2), EqualTo(("offset",), 4)], []),
        ([GreaterThan(("timestamp",), datetime.fromtimestamp(1.5, UTC))], [("orders-0", 10, 20)]),
        ([GreaterThanOrEqual(("timestamp",), UTC_1005)], [("orders-0", 0, 20), ("orders-1", 0, 10)]),  # to the batch: Spark does the rest
        ([LessThan(("timestamp",), UTC_1005)], [("orders-0", 0, 20), ("orders-1", 0, 10)]),
        ([IsNotNull(("offset",)), Not(EqualTo(("partition",), 1))], [("orders-0", 0, 20), ("orders-1", 0, 10)]),
    ],
)
async def test_filters_narrow_what_is_read_and_lose_nothing(service: SourceService, filters: list[Filter], expected: Any) -> None:
    await service.write({0: 10, 1: 10}, from_ms=1000)
    await service.write({0: 10}, from_ms=2000)
    assert await planned(service, narrowed(filters)) == [[one] for one in expected]


# ---- by files


async def test_tasks_are_stretches_of_time_where_files_have_short_runs(service: SourceService) -> None:
    for number in range(8):
        await service.write({0: 10, 1: 10}, from_ms=1000 * (number + 1))
    by_time = [
        [("orders-0", 0, 26), ("orders-1", 0, 20)],
        [("orders-0", 26, 53), ("orders-1", 20, 50)],
        [("orders-0", 53, 80), ("orders-1", 50, 80)],
    ]
    three = {"minPartitions": "3"}
    assert await planned(service, splitBy="objects", **three) == by_time, (
        "the first is cut evenly, the other where its batch of that time is"
    )
    assert await planned(service, splitBy="auto", **three) == by_time
    assert len(await planned(service, splitBy="auto")) == 2, "as many as there are partitions"
    assert len(await planned(service, splitBy="auto", minPartitions="8")) == 8
    assert all(
        sum(end - begin for _, begin, end in task) <= 50 + 2 for task in await planned(service, splitBy="auto", maxRecordsPerPartition="50")
    )


async def test_tasks_are_partitions_where_files_have_long_runs(service: SourceService) -> None:
    await service.write({0: 2, 1: 2}, value=b"v" * 700_000)
    apart = [[("orders-0", 0, 2)], [("orders-1", 0, 2)]]
    assert await planned(service, splitBy="auto") == apart
    assert await planned(service, splitBy="objects") != apart


async def test_one_partition_is_never_a_stretch(service: SourceService) -> None:
    await service.write({0: 9}, topic="clicks")
    assert await planned(service, subscribe="clicks", splitBy="objects") == [[("clicks-0", 0, 9)]]
