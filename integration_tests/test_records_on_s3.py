"""Records go through a real S3 and a real node: large files in parts, reads in ranges, a damaged object named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.records.wal_objects import WrongObject
from coordinator.store_mark import WrongStore
from integration_tests.s3 import RealS3
from integration_tests.service import Service
from records.record_batch import Record

MIB = 1024 * 1024


@pytest.fixture
def on_s3(kafka: Kafka, s3: RealS3, data_folder: Path) -> Iterator[Service]:
    """A node whose store is below `client` in the bucket."""
    options = {f"object.store.option.{name.replace('_', '.')}": value for name, value in s3.options().items()}
    with Service(kafka.bootstrap, data_folder, partitions=3, properties={"object.store.url": s3.url("client"), **options}) as made:
        yield made.start(1)


async def test_records_larger_than_a_part_are_written_and_read_back(on_s3: Service, s3: RealS3, unique_name: Callable[[str], str]) -> None:
    store = s3.open("client")
    async with DisklessClient(on_s3.addresses, object_store=s3.open("elsewhere")) as client:
        await client.admin.create_topic("orders", 1)
        with pytest.raises(WrongStore, match="s3://objects/elsewhere is not the object store of this service"):
            await client.write({("orders", 0): [Record(timestamp_ms=1, value=b"lost")]})
    async with DisklessClient(on_s3.addresses, object_store=store, api_timeout_ms=60_000) as client:
        topic = unique_name("topic")
        await client.admin.create_topic(topic, 3, settings={"max.message.bytes": str(2 * MIB)})
        small = await client.write({(topic, 0): [Record(timestamp_ms=1, value=b"small")]})
        values = [os.urandom(MIB) for _ in range(18)]
        large = await client.write({(topic, place): [Record(timestamp_ms=2, value=v) for v in values[place::3]] for place in range(3)})

        assert s3.parts(f"client/{small.object_key}") == 1
        assert s3.parts(f"client/{large.object_key}") == 3
        assert large.offsets == {(topic, 0): [*range(1, 7)], (topic, 1): [*range(6)], (topic, 2): [*range(6)]}
        for place in range(3):
            expected = [b"small", *values[0::3]] if place == 0 else values[place::3]
            assert [record.value async for record in client.read(topic, place)] == expected
        assert [record.offset async for record in client.read(topic, 0, offset=5, fetch_bytes_max=1)] == [5, 6]

        data = bytearray(await store.get(large.object_key))
        data[-1] ^= 1
        await store.put(large.object_key, bytes(data))
        reading = client.read(topic, 2)
        assert [(await anext(reading)).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(WrongObject, match=rf"{topic}-2 offsets 5 to 5: {large.object_key} \["):
            await anext(reading)
