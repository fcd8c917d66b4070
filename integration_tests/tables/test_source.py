"""A diskless topic as a DataFrame is what Spark's Kafka source makes of a classic topic with the same records, in batches and streams."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from cli.dev.kafka import BrokerRuntime
from cli.spark.batch import batch_session
from integration_tests.gateway.world import World
from integration_tests.tables.samples import BEGIN_MS, sample
from integration_tests.tables.sides import Sides, Streamed

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).parents[2] / "docs/topics-as-tables.md"


@pytest.fixture(scope="module")
def sides(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with World(tmp_path_factory.mktemp("world"), broker_runtime) as world, batch_session("source", None, ()) as spark:
        world.start(1001)
        yield Sides(world, spark)


def test_a_batch_query_gives_equal_rows(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("batch"), 2)
    both.write(sample(300))
    both.write(sample(300, begin=300), compression_type="zstd")
    assert both.assert_equal(includeHeaders="true") == 600
    assert both.assert_equal(own={"splitBy": "objects", "minPartitions": "3"}, includeHeaders="true") == 600
    bounds = {"startingOffsets": '{"TOPIC":{"0":17,"1":-2}}', "endingOffsets": '{"TOPIC":{"0":290,"1":-1}}'}
    assert both.assert_equal(**bounds, minPartitions="5") == 273 + 300
    assert both.assert_equal(startingTimestamp=str(BEGIN_MS + 100_500), endingTimestamp=str(BEGIN_MS + 400_000)) == 299


def test_a_stream_gives_equal_rows_and_batches_and_goes_on_from_its_checkpoint(
    sides: Sides, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    both = sides.make(unique_name("stream"), 2)
    sinks = [Streamed(sides.spark, tmp_path / name) for name in ("kafka", "ours")]
    frames = [source(startingOffsets="earliest", maxOffsetsPerTrigger="250") for source in (both.kafka_stream, both.ours_stream)]
    for turn in range(3):
        if turn == 2:
            both.add_partitions(3)
        both.write(sample(600, partitions=3 if turn == 2 else 2, begin=600 * turn))
        kafka, ours = (sink.run(frame) for sink, frame in zip(sinks, frames, strict=True))
        assert [one["numInputRows"] for one in ours] == [one["numInputRows"] for one in kafka]
        assert len(ours) == 3
        rows = sinks[1].rows()
        assert rows == sinks[0].rows()
        assert len(rows) == 600 * (turn + 1)
        for each in (kafka, ours):
            assert each[0]["sources"][0]["latestOffset"] != each[0]["sources"][0]["endOffset"], "the lag is shown"
        [(_, ends)] = ours[-1]["sources"][0]["endOffset"].items()
        assert ends.pop("topicId")
        assert [ends] == list(kafka[-1]["sources"][0]["endOffset"].values())


def test_the_first_batch_is_the_same_after_a_failure(sides: Sides, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    both = sides.make(unique_name("failing"), 1)
    both.write(sample(100, partitions=1))
    sink = Streamed(sides.spark, tmp_path)
    frame = both.ours_stream(startingOffsets="latest")
    query = sink.writer(frame.where("assert_true(offset < 0) is null")).start()
    try:
        both.write(sample(50, partitions=1, begin=100))
        with pytest.raises(Exception, match="is not true"):
            query.awaitTermination(120)
    finally:
        query.stop()
    both.write(sample(25, partitions=1, begin=150))
    assert [one["numInputRows"] for one in sink.run(frame)] == [50, 25]
    assert [row[1] for row in sink.rows()] == list(range(100, 175))


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


def test_a_wrong_option_is_named_where_the_frame_is_made(sides: Sides) -> None:
    with pytest.raises(Exception, match="is not supported by the diskless source; use diskless"):
        sides.spark.read.format("diskless").option("kafka.bootstrap.servers", "kafka:9092").option("subscribe", "orders").load()
    with pytest.raises(Exception, match="use subscribe: load"):
        sides.spark.read.format("diskless").options(**sides.access, subscribe="orders").load("/orders")


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


def test_an_empty_topic_has_no_rows(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("empty"), 2)
    assert both.assert_equal(includeHeaders="true") == 0


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


def test_the_tour_of_the_page_runs_as_it_is_written(sides: Sides, tmp_path: Path) -> None:
    """The cells of the page in one session, and what it says they print."""
    cells = re.findall(r"^```(python|text)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in cells].count("text") == 3
    here = {
        "node-1:9192": sides.access["diskless.bootstrap.servers"],
        "s3://my-bucket/diskless": sides.access["diskless.object.store.url"],
        "/data/checkpoints": str(tmp_path),
    }
    session: dict[str, object] = {}
    printed = io.StringIO()
    for kind, text in cells:
        if kind == "text":
            assert printed.getvalue().strip() == text.strip()
            continue
        for given, meant in here.items():
            text = text.replace(given, meant)
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(text, str(PAGE), "exec"), session)
