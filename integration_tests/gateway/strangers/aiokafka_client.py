"""aiokafka; see README.md."""

import asyncio
import base64
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

WAIT_S = 60.0


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


async def create(bootstrap: str, topic: str, partitions: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    answer = await admin.create_topics([NewTopic(topic, int(partitions), 1, topic_configs={"diskless.enable": "true"})])
    await admin.close()
    if any(one[1] for one in answer.topic_errors):
        sys.exit(str(answer))


async def delete(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    answer = await admin.delete_topics([topic])
    await admin.close()
    if any(one[1] for one in answer.topic_error_codes):
        sys.exit(str(answer))


async def produce(bootstrap: str, topic: str, partitions: str, count: str, compression: str, idempotent: str, first_ms: str) -> None:
    codec = None if compression == "none" else compression
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent == "1", acks="all", linger_ms=5
    )
    await producer.start()
    sent = []
    for number in range(int(count)):
        headers = [("name", b"\x00\xff"), ("other", b"again")] if number % 3 == 0 else []
        key = None if number % 5 == 0 else f"key-{number % 7}".encode()
        place = {"partition": number % int(partitions), "timestamp_ms": int(first_ms) + number}
        sent.append(await producer.send(topic, f"value-{number}".encode(), key=key, headers=headers, **place))
    for number, future in enumerate(sent):
        known = await asyncio.wait_for(future, WAIT_S)
        say(number=number, partition=known.partition, offset=known.offset)
    await producer.stop()


async def consume(bootstrap: str, topic: str, count: str, group: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    async with asyncio.timeout(WAIT_S):
        for _ in range(int(count)):
            one = await consumer.getone()
            say(
                partition=one.partition,
                offset=one.offset,
                key=None if one.key is None else base64.b64encode(one.key).decode(),
                value=one.value.decode(),
                headers=[(name, base64.b64encode(value).decode()) for name, value in one.headers],
                timestamp=one.timestamp,
            )
    await consumer.commit()
    await consumer.stop()


async def seek(bootstrap: str, topic: str, timestamp_ms: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap)
    await consumer.start()
    partitions = [TopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic))]
    for place, found in (await consumer.offsets_for_times(dict.fromkeys(partitions, int(timestamp_ms)))).items():
        say(partition=place.partition, offset=-1 if found is None else found.offset)
    await consumer.stop()


asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
