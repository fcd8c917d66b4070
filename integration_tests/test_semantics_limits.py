"""Rules whose limits are settings, on a node where these are short."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from cli.dev.kafka import Kafka
from integration_tests.service import Service
from integration_tests.waiting import LOOK_EVERY_S
from integration_tests.wire import (
    DUPLICATE_RESOURCE,
    INVALID_PARTITIONS,
    OK,
    TIMEOUT_S,
    Batch,
    Wire,
    connected,
    file,
    refused,
)

RETENTION_MS = 1_000
LIMITS = {
    "file.commit.max.age.ms": str(RETENTION_MS),
    "commit.results.retention.ms": str(RETENTION_MS),
    "clock.skew.max.ms": "500",
    "max.partitions.per.topic": "5",
    "producer.id.expiration.ms": str(RETENTION_MS),
    "expiration.interval.ms": "100",
}


@pytest.fixture(scope="module")
def limited(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("limited"), partitions=1, properties=LIMITS) as made:
        yield made.start(1)


@pytest.fixture
async def wire(limited: Service) -> AsyncIterator[Wire]:
    async with connected(limited.addresses[0]) as made:
        yield made


async def test_results_are_kept_for_a_time_and_the_key_for_ever(wire: Wire) -> None:
    topic = await wire.new_topic()
    request = file([Batch(topic, count=2), Batch(topic, producer=1, epoch=0, sequence=0)])
    started_s = time.monotonic()
    first = await wire.send(request)
    assert [one.base for one in first] == [0, 2]
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            answer = await wire.send(request)
            if answer != first:
                break
            await asyncio.sleep(LOOK_EVERY_S)
    assert answer == [refused(DUPLICATE_RESOURCE)] * 2
    assert time.monotonic() - started_s >= RETENTION_MS / 1000
    assert await wire.send(request._replace(file_size=1_000)) == [refused(DUPLICATE_RESOURCE)] * 2
    # Never a second acceptance, also when the file has become empty.
    assert await wire.truncate((topic, 0, -1)) == [(OK, 3)]
    assert await wire.files(request.object_key) == [(OK, False)]
    assert await wire.send(request) == [refused(DUPLICATE_RESOURCE)] * 2
    assert await wire.ends(topic) == (3, 3)


async def test_the_number_of_partitions_of_a_topic_is_limited_when_it_grows_too(wire: Wire) -> None:
    topic_id, name = os.urandom(16), f"topic-{uuid.uuid4().hex}"
    assert await wire.create((topic_id, name, 6)) == [INVALID_PARTITIONS]
    assert await wire.create((topic_id, name, 5)) == [OK]
    assert await wire.create((topic_id, name, 6)) == [INVALID_PARTITIONS]
    assert len((await wire.look_up(topic_id)).coordinators) == 5
