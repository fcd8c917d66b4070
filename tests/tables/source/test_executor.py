"""Tasks as executors read them: the reader is pickled, opens its own connections, and runs ahead of Spark by a few batches."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from pyspark_diskless import DefaultSource
from records.record_batch import Record
from tables.reading.span import OffsetsDeleted
from tables.source.executor import on_a_thread
from tables.source.schema import SchemaGiven
from tests.client.scripted import scripted
from tests.tables.source.given import TOPIC, chosen
from tests.waiting import until

HEADERS = (("h", b"1"), ("h", None))


@pytest.fixture
async def options(tmp_path: Path) -> AsyncGenerator[dict[str, str]]:
    """Options of a topic with 300 records in two partitions, half of them with headers."""
    (tmp_path / "objects").mkdir()
    url = f"file://{tmp_path / 'objects'}"
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 2)
        async with DisklessClient(cluster.addresses, object_store=open_store(url)) as client:
            for number in range(3):
                written = [Record(timestamp_ms=number, key=b"k", value=b"%d" % one, headers=HEADERS[: one % 3]) for one in range(50)]
                await client.write({("orders", 0): written, ("orders", 1): written})
        yield {"diskless.bootstrap.servers": ",".join(cluster.addresses), "diskless.object.store.url": url, "subscribe": "orders"}


def rows(source: DefaultSource) -> list[dict[str, Any]]:
    """All rows, read as Spark does: the reader plans, and copies of it read."""
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    wanted = to_arrow_schema(source.schema(), timezone="UTC")
    found = []
    for one in partitions:
        copy, partition = pickle.loads(pickle.dumps((reader, one)))
        for batch in copy.read(partition):
            assert batch.schema.equals(wanted), "Spark takes no other schema"
            found += batch.to_pylist()
    return found


@pytest.mark.parametrize("more", [{}, {"splitBy": "objects", "minPartitions": "3"}, {"minPartitions": "7"}])
async def test_a_query_reads_each_record_once(options: dict[str, str], more: dict[str, str]) -> None:
    source = DefaultSource({**options, **more, "includeHeaders": "true"})
    found = await asyncio.to_thread(rows, source)
    assert sorted((row["partition"], row["offset"]) for row in found) == [(place, offset) for place in (0, 1) for offset in range(150)]
    last = max(found, key=lambda row: row["offset"])
    assert (last["topic"], last["key"], last["value"], last["timestampType"]) == ("orders", b"k", b"49", 0)
    assert next(one["value"] for one in found if one["offset"] == 2) == b"2"
    assert next(one["headers"] for one in found if one["offset"] == 2) == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]


async def test_columns_are_those_that_were_chosen_in_their_order(options: dict[str, str]) -> None:
    source = DefaultSource({**options, "columns": "offset,timestamp,headers", "includeHeaders": "true"})
    assert source.schema().names == ["offset", "timestamp", "headers"]
    assert len(await asyncio.to_thread(rows, source)) == 300


async def test_a_schema_of_the_query_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(SchemaGiven, match=r"has a fixed schema, struct<key:binary,value:binary,.*was given struct<key:string,price:int>"):
        DefaultSource(options).reader(StructType().add("key", "string").add("price", "integer"))


def test_a_query_without_tasks_reads_nothing() -> None:
    """Spark makes a task of its own where there is none."""
    source = DefaultSource(chosen({}))
    assert list(source.reader(source.schema()).read(InputPartition(None))) == []
    assert list(source.streamReader(source.schema()).read(InputPartition(None))) == []


async def test_errors_of_a_task_reach_spark(options: dict[str, str]) -> None:
    source = DefaultSource(options)
    reader = source.reader(source.schema())
    [first, *_] = await asyncio.to_thread(reader.partitions)
    for file in Path(options["diskless.object.store.url"].removeprefix("file://")).rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(Exception, match="orders-0 offsets 0 to 49: "):
        await asyncio.to_thread(lambda: list(reader.read(first)))


def test_the_module_that_spark_finds_imports_spark_alone() -> None:
    code = "import sys, pyspark_diskless; print({one.partition('.')[0] for one in sys.modules} & {'coordinator', 'records', 'tables'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"


# ---- the thread of coroutines


class Counted:
    """Numbers, and what became of their generator."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.made = 0
        self.is_closed = threading.Event()
        self._count = count
        self._error = error

    async def numbers(self) -> AsyncGenerator[int]:
        try:
            for number in range(self._count):
                await asyncio.sleep(0)
                self.made = number + 1
                yield number
            if self._error is not None:
                raise self._error
        finally:
            self.is_closed.set()


def test_all_that_a_generator_yields_comes_in_order() -> None:
    assert list(on_a_thread(Counted(100).numbers, ready_max=2)) == list(range(100))
    assert list(on_a_thread(Counted(0).numbers, ready_max=2)) == []


def test_an_error_comes_after_what_was_yielded() -> None:
    with pytest.raises(OffsetsDeleted, match="gone"):
        list(on_a_thread(Counted(3, OffsetsDeleted("gone")).numbers, ready_max=2))
    reading = on_a_thread(Counted(3, OffsetsDeleted("gone")).numbers, ready_max=2)
    assert [next(reading) for _ in range(3)] == [0, 1, 2]


async def test_few_batches_wait_and_a_reader_that_stops_ends_the_thread() -> None:
    counted = Counted(1000)
    reading: Iterator[int] = on_a_thread(counted.numbers, ready_max=2)
    assert next(reading) == 0
    await until(lambda: counted.made == 4, "two that wait, and one that is held")
    before = threading.active_count()
    reading.close()  # type: ignore[attr-defined]
    assert counted.is_closed.is_set()
    assert threading.active_count() == before - 1
    assert counted.made == 4
