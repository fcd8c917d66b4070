"""A diskless topic as a DataFrame is what Spark's Kafka source makes of a classic topic with the same records, in batches and streams."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from integration_tests.tables.samples import BEGIN_MS, sample
from integration_tests.tables.sides import Sides, Streamed

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).parents[2] / "docs/topics-as-tables.md"


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


def test_a_wrong_option_is_named_where_the_frame_is_made(sides: Sides) -> None:
    with pytest.raises(Exception, match="is not supported by the diskless source; use diskless"):
        sides.spark.read.format("diskless").option("kafka.bootstrap.servers", "kafka:9092").option("subscribe", "orders").load()
    with pytest.raises(Exception, match="use subscribe: load"):
        sides.spark.read.format("diskless").options(**sides.access, subscribe="orders").load("/orders")


def test_an_empty_topic_has_no_rows(sides: Sides, unique_name: Callable[[str], str]) -> None:
    both = sides.make(unique_name("empty"), 2)
    assert both.assert_equal(includeHeaders="true") == 0


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
