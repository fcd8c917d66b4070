"""librdkafka, by confluent-kafka; see README.md."""

import base64
import json
import os
import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60.0


def say(**fields: object) -> None:
    # At once, with the end of the line: the library's own threads write to the same file.
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


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


def until_sigterm() -> threading.Event:
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    return is_over


def write(bootstrap: str, topic: str, partitions: str, name: str, rate: str) -> None:
    is_over = until_sigterm()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": os.environ["STRANGER_CLIENT_ID"],
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "linger.ms": 5,
            "request.timeout.ms": 10_000,
            "message.timeout.ms": 600_000,
        }
    )

    def note(number: int):  # type: ignore[no-untyped-def]
        def done(error, message) -> None:  # type: ignore[no-untyped-def]
            if error is not None:
                say(at=time.time(), number=number, error=str(error))
            else:
                say(at=time.time(), number=number, partition=message.partition(), offset=message.offset())

        return done

    sent = 0
    while not is_over.is_set():
        producer.produce(topic, f"{name} {sent}", partition=sent % int(partitions), on_delivery=note(sent))
        sent += 1
        producer.poll(1 / int(rate))
    producer.flush()
    say(at=time.time(), sent=sent)


def follow(bootstrap: str, topic: str, group: str) -> None:
    is_over = until_sigterm()
    protocol = os.environ.get("STRANGER_GROUP_PROTOCOL", "classic")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": os.environ["STRANGER_CLIENT_ID"],
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
            **({"session.timeout.ms": 10_000} if protocol == "classic" else {}),
        }
    )
    next_offsets: dict[int, int] = {}

    def commit() -> None:
        offsets = dict(next_offsets)
        if not offsets:
            return
        say(at=time.time(), committing=offsets)
        try:
            done = consumer.commit(offsets=[TopicPartition(topic, one, offset) for one, offset in offsets.items()], asynchronous=False)
            if refused := next((one.error for one in done if one.error is not None), None):
                raise KafkaException(refused)
        except KafkaException as error:
            say(at=time.time(), not_committed=str(error))
        else:
            say(at=time.time(), committed=offsets)

    def drop(partitions: list[TopicPartition]) -> None:
        for one in partitions:
            next_offsets.pop(one.partition, None)
        say(at=time.time(), revoked=[one.partition for one in partitions])

    def revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit()
        drop(partitions)

    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: say(at=time.time(), assigned=[one.partition for one in partitions]),
        on_revoke=revoke,
        on_lost=lambda _, partitions: drop(partitions),
    )
    commit_s = time.monotonic()
    while not is_over.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None:
            say(at=time.time(), error=str(message.error()))
        elif message is not None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            say(at=time.time(), partition=partition, offset=offset, value=message.value().decode())
            next_offsets[partition] = offset + 1
        if time.monotonic() > commit_s + 1:
            commit()
            commit_s = time.monotonic()
    commit()
    consumer.close()


globals()[sys.argv[1]](*sys.argv[2:])
