"""A program for Spark that a user might write: queries of the format `diskless`, whose rows it prints as JSON.

    python queries_program.py '{"conf": {"spark.master": ...}, "queries": [{"kind": "batch", "options": {...}}]}'

It runs where nothing of the tests is installed, and imports PySpark alone.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("topic", "partition", "offset", "CAST(value AS STRING) AS value")
WAIT_S = 150


def main(asked: Mapping[str, Any]) -> None:
    """Run the queries and print the list of what they give."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tables")
    for key, value in asked["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    kinds: dict[str, Callable[[SparkSession, Mapping[str, Any]], dict[str, Any]]] = {"batch": run_batch, "stream": run_stream}
    given = []
    for query in asked["queries"]:
        try:
            given.append(kinds[query["kind"]](spark, query))
        except Exception as error:  # noqa: BLE001 - the test looks at its text
            given.append({"error": str(error)})
    spark.stop()
    print(json.dumps(given))


def run_batch(spark: SparkSession, query: Mapping[str, Any]) -> dict[str, Any]:
    """Read a topic, and tell its plan."""
    frame = spark.read.format("diskless").options(**query["options"]).load().selectExpr(*COLUMNS)
    rows = rows_of(frame)
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain(extended=True)
        frame.explain(mode="formatted")
    return {"rows": rows, "plan": plan.getvalue()}


def run_stream(spark: SparkSession, query: Mapping[str, Any]) -> dict[str, Any]:
    """Read what is there from where the last run ended."""
    frame = spark.readStream.format("diskless").options(**query["options"]).load().selectExpr(*COLUMNS)
    writer = frame.writeStream.format("parquet").option("path", f"{query['folder']}/rows")
    running = writer.option("checkpointLocation", f"{query['folder']}/checkpoint").trigger(availableNow=True).start()
    if not running.awaitTermination(WAIT_S):
        raise TimeoutError(f"the stream still runs: {running.status}")
    counts = [json.loads(one.json)["numInputRows"] for one in running.recentProgress]
    return {"rows": rows_of(spark.read.parquet(f"{query['folder']}/rows")), "counts": [count for count in counts if count]}


def rows_of(frame: DataFrame) -> list[list[Any]]:
    """All rows, by topic, partition and offset."""
    return sorted([list(row) for row in frame.collect()], key=lambda row: row[:3])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
