"""Every option of the data source against Spark's Kafka source, and queries beside deletions, kills and a cluster of executors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from coordinator.client.admin import DisklessAdmin
from integration_tests.tables.samples import BEGIN_MS, sample
from integration_tests.tables.sides import BothTopics, Sides, Streamed, Written, progress, rows_of
from integration_tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def filled(sides: Sides) -> BothTopics:
    """Two topics with 900 records in three partitions, whose times go back and forth."""
    both = sides.make("options", 3)
    both.write([one._replace(timestamp_ms=BEGIN_MS + 1000 * ((number * 7) % 900)) for number, one in enumerate(sample(900, partitions=3))])
    return both


TIMES = '{"TOPIC":{"0":%d,"1":%d,"2":%d}}'
BATCH = [
    {},
    {"subscribe": "TOPIC"},
    {"subscribePattern": "TOPI.*".replace("TOPI", "TOPIC")},
    {"assign": '{"TOPIC":[2,0]}'},
    {"startingOffsets": "earliest", "endingOffsets": "latest"},
    {"startingOffsets": '{"TOPIC":{"0":100,"1":-2,"2":300}}', "endingOffsets": '{"TOPIC":{"0":150,"1":7,"2":-1}}'},
    {"startingTimestamp": str(BEGIN_MS + 300_500)},
    {"startingTimestamp": str(BEGIN_MS + 100_000), "endingTimestamp": str(BEGIN_MS + 500_000)},
    {"startingOffsetsByTimestamp": TIMES % (BEGIN_MS + 100_000, BEGIN_MS + 890_000, BEGIN_MS)},
    {"endingOffsetsByTimestamp": TIMES % (BEGIN_MS + 5000, BEGIN_MS + 10**9, BEGIN_MS + 800_000)},
    {"startingTimestamp": str(BEGIN_MS + 10**9), "startingOffsetsByTimestampStrategy": "latest"},
    {"minPartitions": "10"},
    {"maxRecordsPerPartition": "37"},
    {"minPartitions": "20", "maxRecordsPerPartition": "100"},
    {"includeHeaders": "true"},
    {"failOnDataLoss": "false"},
]
OWN = [{}, {"splitBy": "objects"}, {"splitBy": "partition", "fetchBytes": "1m"}]


@pytest.mark.parametrize("options", BATCH, ids=lambda one: ",".join(one) or "none")
def test_each_option_of_a_batch_query(filled: BothTopics, options: dict[str, str]) -> None:
    for own in OWN:
        filled.assert_equal(own=own, **options)


def test_tasks_are_as_many_as_in_sparks_kafka_source(filled: BothTopics) -> None:
    for options in ({}, {"minPartitions": "10"}, {"minPartitions": "40", "maxRecordsPerPartition": "100"}):
        theirs, ours = filled.kafka(**options), filled.ours(**options, splitBy="partition")
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
    # Spark's Kafka source follows this option in streams alone, unless minPartitions asks for more tasks than there are partitions.
    assert filled.ours(maxRecordsPerPartition="37", splitBy="partition").rdd.getNumPartitions() == 27


def test_a_column_alone(filled: BothTopics) -> None:
    frame = filled.ours(columns="timestamp,offset")
    assert frame.columns == ["timestamp", "offset"]
    wanted = filled.kafka().select("timestamp", "offset")
    assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, wanted.collect()))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_compression(sides: Sides, unique_name: Callable[[str], str], compression: str) -> None:
    both = sides.make(unique_name(compression), 2)
    both.write(sample(500), compression_type=compression)
    assert both.assert_equal(includeHeaders="true") == 500


def test_times_of_the_log(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("appended"), 1, message_timestamp_type="LogAppendTime")
    both.write(sample(50, partitions=1))
    assert both.assert_equal(has_times=False) == 50
    [(kind, years)] = both.ours().selectExpr("max(timestampType)", "max(year(timestamp))").collect()
    assert (kind, years) == (1, both.kafka().selectExpr("max(year(timestamp))").collect()[0][0])


STREAM = [
    {"startingOffsets": "earliest"},
    {"startingOffsets": '{"TOPIC":{"0":100,"1":-2,"2":-1}}'},
    {"startingTimestamp": str(BEGIN_MS + 300_500)},
    {"startingOffsetsByTimestamp": TIMES % (BEGIN_MS + 100_000, BEGIN_MS + 890_000, BEGIN_MS)},
    {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "200"},
    {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "200", "minOffsetsPerTrigger": "100", "maxTriggerDelay": "1s"},
    {"startingOffsets": "earliest", "minPartitions": "8"},
    {"startingOffsets": "earliest", "includeHeaders": "true", "subscribePattern": "TOPIC"},
    {"startingOffsets": "earliest", "assign": '{"TOPIC":[1]}'},
]


@pytest.mark.parametrize("options", STREAM, ids=lambda one: ",".join(one))
def test_each_option_of_a_stream(filled: BothTopics, tmp_path: Path, options: dict[str, str]) -> None:
    counts, rows = [], []
    for name, frame in (("kafka", filled.kafka_stream(**options)), ("ours", filled.ours_stream(**options))):
        sink = Streamed(filled.sides.spark, tmp_path / name)
        counts.append([one["numInputRows"] for one in sink.run(frame)])
        rows.append(sink.rows())
    assert counts[1] == counts[0]
    assert rows[1] == rows[0]
    assert rows[1]


def test_a_running_stream_takes_new_topics_and_waits_for_enough(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    name = unique_name("running")
    first = sides.make(f"{name}-1", 1)
    sink = Streamed(sides.spark, tmp_path)
    options = {"subscribePattern": f"{name}.*-diskless", "minOffsetsPerTrigger": "50", "maxTriggerDelay": "1h"}
    query = sink.writer(first.ours_stream(startingOffsets="earliest", **options)).start()
    try:
        wait_until(lambda: query.lastProgress is not None, "the first trigger", 60)
        first.write(sample(40, partitions=1))
        sides.make(f"{name}-2", 1).write(sample(30, partitions=1))
        wait_until(lambda: query.exception() is not None or sum(one.numInputRows for one in query.recentProgress) == 70, "all rows", 60)
        assert query.exception() is None
        assert max(one.numInputRows for one in query.recentProgress) >= 50
        assert progress(query.recentProgress[-1])["sources"][0]["latestOffset"]
    finally:
        query.stop()


def test_a_topic_that_was_created_anew_is_noticed(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    name = unique_name("anew")
    both = sides.make(name, 1)
    both.write(sample(100, partitions=1))
    sink = Streamed(sides.spark, tmp_path)
    frame = both.ours_stream(startingOffsets="earliest")
    sink.run(frame)
    admin = sides.world.admin(sides.gateway)
    for done in admin.delete_topics([both.classic, both.diskless]).values():
        done.result(30)

    async def is_gone() -> bool:
        async with DisklessAdmin(sides.world.service.addresses) as asking:
            return both.diskless not in {one.name for one in await asking.list_topics()}

    wait_until(lambda: asyncio.run(is_gone()), "the topic to be gone")
    again = sides.make(name, 1)
    again.write(sample(150, partitions=1, begin=500))
    with pytest.raises(Exception, match="was deleted and created anew"):
        sink.run(frame)
    tolerant = both.ours_stream(startingOffsets="earliest", failOnDataLoss="false")
    assert [one["numInputRows"] for one in sink.run(tolerant)] == [150]


def test_a_killed_node_beside_a_query_loses_and_doubles_no_row(sides: Sides, unique_name: Callable[[str], str]) -> None:
    """The only node is killed while tasks read, and started again: they wait for it."""
    both = sides.make(unique_name("killed"), 4)
    both.write([Written(number % 4, None, b"v" * 20_000, BEGIN_MS) for number in range(4000)])
    node = sides.world.service.nodes[1]
    frame = both.ours(minPartitions="40", splitBy="partition", fetchBytes="1m").select("partition", "offset")
    found: list[list[tuple[int, int]]] = []
    reading = threading.Thread(target=lambda: found.append(sorted(map(tuple, frame.collect()))))
    frame.limit(1).collect()  # planned, and workers run
    reading.start()
    node.kill()
    node.start()
    reading.join(300)
    assert found == [[(partition, offset) for partition in range(4) for offset in range(1000)]]
    sides.world.service.wait_shared()  # the killed member keeps its partitions for a session


def test_rows_of_a_retained_log_are_those_that_are_there(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("moving"), 1)
    both.write(sample(400, partitions=1))
    frame = both.ours(failOnDataLoss="false", maxRecordsPerPartition="50")
    plan_first = frame.rdd  # offsets are fixed here
    both.delete_before({0: 230})
    assert sorted(row.offset for row in plan_first.collect()) == list(range(230, 400))
    strict = both.ours(maxRecordsPerPartition="50").rdd
    both.delete_before({0: 300})
    with pytest.raises(Exception, match=r"to \d+ \(exclusive\) are not there"):
        strict.collect()
    assert len(rows_of(both.ours())) == 100


def test_the_first_batch_is_the_same_after_a_failure(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """It begins where the failed one did, though the beginning of the log has moved: what is gone of it is data loss."""
    both = sides.make(unique_name("failing"), 1)
    both.write(sample(100, partitions=1))
    sink = Streamed(sides.spark, tmp_path)
    frame = both.ours_stream(startingOffsets="earliest")
    with pytest.raises(Exception, match="is not true"):
        sink.run(frame.where("assert_true(offset < 0) is null"))
    both.write(sample(25, partitions=1, begin=100))
    both.delete_before({0: 30})
    with pytest.raises(Exception, match=r"offsets 0 to 30 \(exclusive\) are not there"):
        sink.run(frame)
    tolerant = both.ours_stream(startingOffsets="earliest", failOnDataLoss="false")
    assert [one["numInputRows"] for one in sink.run(tolerant)] == [70, 25]
    assert [row[1] for row in sink.rows()] == list(range(30, 125))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_deleted_head_ends_a_query_or_is_left_out(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path, fails: str) -> None:
    both = sides.make(unique_name("deleted"), 1)
    both.write(sample(100, partitions=1))
    sink = Streamed(sides.spark, tmp_path)
    frame = both.ours_stream(startingOffsets="earliest", failOnDataLoss=fails)
    sink.run(frame)
    both.write(sample(100, partitions=1, begin=100))
    both.delete_before({0: 150})
    bounds = {"startingOffsets": '{"TOPIC":{"0":120}}', "failOnDataLoss": fails}
    if fails == "true":
        lost = 'failOnDataLoss" to "false"'
        with pytest.raises(Exception, match=lost):
            sink.run(frame)
        with pytest.raises(Exception, match=lost):
            both.ours(**bounds).collect()
    else:
        assert [one["numInputRows"] for one in sink.run(frame)] == [50]
        assert [row[1] for row in sink.rows()] == [*range(100), *range(150, 200)]
        assert both.assert_equal(**bounds) == 50


def test_filters_narrow_what_is_read(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("filters"), 2)
    both.write(sample(200))
    sides.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = {"pushdown": "true"}
        assert both.assert_equal(own=pushed, where="partition = 1 and offset > 20 and offset <= 40 and topic = 'TOPIC'") == 20
        assert both.assert_equal(own=pushed, where=f"timestamp >= timestamp_millis({BEGIN_MS + 150_500})") == 49
    finally:
        sides.spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        both.ours(pushdown="true").collect()


def test_offsets_are_committed_for_tools_that_show_lags(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    both, group = sides.make(unique_name("lag"), 1), unique_name("group")
    both.write(sample(30, partitions=1))
    own = {"groupId": group, "diskless.kafka.bootstrap.servers": sides.gateway.address}
    sink = Streamed(sides.spark, tmp_path)
    sink.run(both.ours_stream(startingOffsets="earliest", **own))
    asking = Consumer({"bootstrap.servers": sides.gateway.address, "group.id": group})
    [found] = asking.committed([TopicPartition(both.diskless, 0)], 30)
    asking.close()
    assert found.offset == 30
