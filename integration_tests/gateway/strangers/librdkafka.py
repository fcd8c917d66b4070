"""librdkafka, by confluent-kafka; see README.md."""

import base64
import json
import os
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60.0


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def record(number: int) -> dict[str, object]:
    return {
        "key": None if number % 5 == 0 else f"key-{number % 7}".encode(),
        "value": f"value-{number}".encode(),
        "headers": [("name", b"\x00\xff"), ("other", b"again")] if number % 3 == 0 else [],
    }


def create(bootstrap: str, topic: str, partitions: str) -> None:
    new = NewTopic(topic, int(partitions), 1, config={"diskless.enable": "true"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([new]).values():
        made.result(WAIT_S)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for gone in admin.delete_topics([topic]).values():
        gone.result(WAIT_S)


def produce(bootstrap: str, topic: str, partitions: str, count: str, compression: str, idempotent: str, first_ms: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": compression, "enable.idempotence": idempotent == "1", "linger.ms": 5}
    )

    def note(number: int):  # type: ignore[no-untyped-def]
        def done(error, message) -> None:  # type: ignore[no-untyped-def]
            if error is not None:
                raise KafkaException(error)
            say(number=number, partition=message.partition(), offset=message.offset())

        return done

    for number in range(int(count)):
        producer.produce(
            topic, partition=number % int(partitions), timestamp=int(first_ms) + number, on_delivery=note(number), **record(number)
        )
        producer.poll(0)
    if producer.flush(WAIT_S):
        sys.exit(1)


def consume(bootstrap: str, topic: str, count: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": os.environ.get("STRANGER_GROUP_PROTOCOL", "classic"),
        }
    )
    consumer.subscribe([topic])
    seen, end_s = 0, time.monotonic() + WAIT_S
    while seen < int(count):
        if time.monotonic() > end_s:
            sys.exit(1)
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is not None:
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            raise KafkaException(error)
        key = message.key()
        say(
            partition=message.partition(),
            offset=message.offset(),
            key=None if key is None else base64.b64encode(key).decode(),
            value=message.value().decode(),
            headers=[(one[0], base64.b64encode(one[1]).decode()) for one in message.headers() or []],
            timestamp=message.timestamp()[1],
        )
        seen += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def seek(bootstrap: str, topic: str, timestamp_ms: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "seek"})
    partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
    for found in consumer.offsets_for_times([TopicPartition(topic, one, int(timestamp_ms)) for one in partitions], WAIT_S):
        say(partition=found.partition, offset=found.offset)
    consumer.close()


globals()[sys.argv[1]](*sys.argv[2:])
