"""Exported tables as other engines see them: each reads every record of the log once, with the columns of the docs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from cli.java.jars import resolve
from cli.outcome import Exit
from cli.spark.session import find_engine
from integration_tests.tables.exported import PARTITIONS, TopicUnderExport
from integration_tests.tables.rest_catalog import RestCatalog
from integration_tests.waiting import wait_until
from spark_jobs.session import open_spark

pytestmark = pytest.mark.long
DELTA_LOCK = Path(__file__).with_name("delta.lock")
DUCKDB = ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5")
"""The newest DuckDB whose reader of Delta is a package, too; its program would fetch the reader from a server of its own."""
SCAN = """
import json, sys
import duckdb, duckdb_extension_delta
[folder, table] = sys.argv[1:]
connection = duckdb.connect()
connection.load_extension(f"{folder}/duckdb_extension_delta/extensions/v{duckdb.__version__}/delta.duckdb_extension")
rows = connection.sql(f"FROM delta_scan('{table}')")
columns = [(name, str(kind)) for name, kind in zip(rows.columns, rows.types)]
found = rows.project('"partition", "offset", hex(value)').order('"partition", "offset"').fetchall()
print(json.dumps([columns, found]))
"""


def fill(topic: TopicUnderExport) -> None:
    """Export twice, the second time with compaction, and once more records behind it."""
    rng = random.Random(12)
    topic.create()
    for arguments in ((), ("--maintain",), ()):
        topic.write(rng, 5)
        topic.once(*arguments)


def test_sparks_own_reader_of_delta(topic: TopicUnderExport, tmp_path: Path) -> None:
    fill(topic)
    (tmp_path / "spark").mkdir()
    engine = find_engine(tmp_path / "spark")
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    engine = replace(engine, jars=[*engine.jars, *resolve(DELTA_LOCK)], settings={**engine.settings, **settings})
    with open_spark("exported", engine) as spark:
        frame = spark.session.read.format("delta").load(topic.to.removeprefix("delta:"))
        assert frame.schema.simpleString() == (
            "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
            "headers:array<struct<key:string,value:binary>>,date:date>"
        )
        found = [tuple(row) for row in frame.select("partition", "offset", "value").orderBy("partition", "offset").collect()]
    assert found == topic.log()


def test_duckdbs_own_reader_of_delta(topic: TopicUnderExport, tmp_path: Path) -> None:
    fill(topic)
    folder = tmp_path / "duckdb"
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder), *DUCKDB], check=True, timeout=300)
    environment = {**os.environ, "PYTHONPATH": str(folder), "HOME": str(tmp_path)}
    command = [sys.executable, "-S", "-c", SCAN, str(folder), topic.to.removeprefix("delta:")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    columns, found = json.loads(done.stdout)
    assert dict(columns) == {
        "key": "BLOB",
        "value": "BLOB",
        "topic": "VARCHAR",
        "partition": "INTEGER",
        "offset": "BIGINT",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "timestampType": "INTEGER",
        "headers": 'STRUCT("key" VARCHAR, "value" BLOB)[]',
        "date": "DATE",
    }
    assert [(partition, offset, bytes.fromhex(value)) for partition, offset, value in found] == topic.log()


def test_an_iceberg_table_of_a_rest_catalog(topic: TopicUnderExport, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    """Also of two exports one ends, and then no row is there twice: the catalog refuses a commit on an old snapshot."""
    with RestCatalog(tmp_path / "catalog") as catalog:
        name = unique_name("orders").replace("-", "_")
        topic.to = f"iceberg:lake.shop.{name}"
        topic.environment = {"PYICEBERG_CATALOG__LAKE__URI": catalog.url}
        fill(topic)
        table = load_catalog("lake", uri=catalog.url).load_table(f"shop.{name}")
        assert table.properties["commit.retry.num-retries"] == "0"
        check(topic, table.scan().to_arrow().to_pylist())
        both = [topic.start("--every", "1s") for _ in range(2)]
        rng = random.Random(13)

        def has_one_ended() -> bool:
            topic.write(rng, 2)
            return any(process.poll() is not None for process in both)

        wait_until(has_one_ended, "one of two exports to end")
        [ended] = [process for process in both if process.poll() is not None]
        assert ended.wait() == Exit.FAILURE
        assert "stop one of" in topic.said()
        topic.end()
        topic.once()
        check(topic, table.refresh().scan().to_arrow().to_pylist())
        status = json.loads(topic.run("status", "-o", "json").stdout)
        assert [(one["next_offset"], one["lag"]) for one in status] == [(len(topic.values[0]), 0)] * PARTITIONS


def check(topic: TopicUnderExport, rows: list[dict[str, object]]) -> None:
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == topic.log()
