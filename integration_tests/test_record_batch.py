"""A real broker takes batches of our encoder, checks them, and hands them to an ordinary consumer as we meant them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from records.compression import Compression
from records.record_batch import ProducerSequence, Record, encode_batch

UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER = 3, 6
NOW_MS = 1_700_000_000_000
RECORDS = [
    Record(
        timestamp_ms=NOW_MS + n,
        key=b"k%d" % n if n % 3 else None,
        value=bytes([n]) * (n * 45) if n % 5 else None,
        headers=(("h", b"x"),) * (n % 3),
    )
    for n in range(200)
]


async def produce(bootstrap: str, topic: str, batch: bytes) -> tuple[int, int]:
    """Send one Produce request (version 7, the first that takes zstd) and return (error code, base offset)."""
    name = topic.encode()
    body = struct.pack(">h", -1) + struct.pack(">h", -1) + struct.pack(">i", 10_000)
    body += struct.pack(">i", 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">i", 1) + struct.pack(">i", 0) + struct.pack(">i", len(batch)) + batch
    request = struct.pack(">hhih", 0, 7, 1, -1) + body
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(struct.pack(">i", len(request)) + request)
        async with asyncio.timeout(60):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            answer = await reader.readexactly(size)
    finally:
        writer.close()
        await writer.wait_closed()
    at = 4 + 4 + 2 + len(name) + 4 + 4
    code, base_offset = struct.unpack_from(">hq", answer, at)
    return code, base_offset


async def produce_when_led(bootstrap: str, topic: str, batch: bytes) -> tuple[int, int]:
    """Produce once the broker knows the new topic and leads it; until then it writes nothing and says so."""
    async with asyncio.timeout(60):
        while True:
            answer = await produce(bootstrap, topic, batch)
            if answer[0] not in (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER):
                return answer


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_broker_accepts_the_batch_and_a_consumer_reads_it(
    bootstrap: str, unique_name: Callable[[str], str], codec: Compression, is_idempotent: bool
) -> None:
    topic = unique_name("batches")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Another codec on the topic makes the broker unpack every record and pack it anew, in Java.
    for name in (topic, topic + "-repacked"):
        config = {"compression.type": "producer" if name == topic else "gzip" if codec is not Compression.GZIP else "zstd"}
        admin.create_topics([NewTopic(name, 1, config=config)])[name].result(30)
        producer = ProducerSequence(producer_id=4711, producer_epoch=0, base_sequence=0) if is_idempotent else None
        batch = encode_batch(RECORDS, compression=codec, producer=producer)
        assert await produce_when_led(bootstrap, name, batch) == (0, 0)
        assert consume(bootstrap, name) == [
            (n, one.timestamp_ms, one.key, one.value, [(h, v) for h, v in one.headers] or None) for n, one in enumerate(RECORDS)
        ]


def consume(bootstrap: str, topic: str) -> list[tuple[int | None, int, bytes | None, bytes | None, object]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int | None, int, bytes | None, bytes | None, object]] = []
    try:
        while len(found) < len(RECORDS):
            messages = consumer.consume(len(RECORDS), timeout=60)
            assert messages, f"only {len(found)} of {len(RECORDS)} records arrived within 60 s"
            for message in messages:
                assert message.error() is None
                found.append((message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers()))
    finally:
        consumer.close()
    return found
