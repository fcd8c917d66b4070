"""kafka-python, which is pure Python; see README.md."""

import base64
import json
import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

WAIT_S = 60.0


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def create(bootstrap: str, topic: str, partitions: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, int(partitions), 1, topic_configs={"diskless.enable": "true"})])
    admin.close()


def delete(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_topics([topic])
    admin.close()


def produce(bootstrap: str, topic: str, partitions: str, count: str, compression: str, idempotent: str, first_ms: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        enable_idempotence=idempotent == "1",
        acks="all",
        linger_ms=5,
    )
    sent = []
    for number in range(int(count)):
        headers = [("name", b"\x00\xff"), ("other", b"again")] if number % 3 == 0 else []
        key = None if number % 5 == 0 else f"key-{number % 7}".encode()
        value = f"value-{number}".encode()
        place = {"partition": number % int(partitions), "timestamp_ms": int(first_ms) + number}
        sent.append(producer.send(topic, value=value, key=key, headers=headers, **place))
    for number, future in enumerate(sent):
        known = future.get(WAIT_S)
        say(number=number, partition=known.partition, offset=known.offset)
    producer.close()


def consume(bootstrap: str, topic: str, count: str, group: str) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    seen, end_s = 0, time.monotonic() + WAIT_S
    while seen < int(count):
        if time.monotonic() > end_s:
            sys.exit(1)
        for records in consumer.poll(5_000, max_records=int(count) - seen).values():
            for one in records:
                say(
                    partition=one.partition,
                    offset=one.offset,
                    key=None if one.key is None else base64.b64encode(one.key).decode(),
                    value=one.value.decode(),
                    headers=[(name, base64.b64encode(value).decode()) for name, value in one.headers],
                    timestamp=one.timestamp,
                )
                seen += 1
    consumer.commit()
    consumer.close()


def seek(bootstrap: str, topic: str, timestamp_ms: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partitions = [TopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic))]
    for place, found in consumer.offsets_for_times(dict.fromkeys(partitions, int(timestamp_ms))).items():
        say(partition=place.partition, offset=-1 if found is None else found.offset)
    consumer.close()


globals()[sys.argv[1]](*sys.argv[2:])
