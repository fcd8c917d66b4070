"""The time that a node without state takes to catch up with a long log in Kafka.

    python -m benchmarks.cold_start [--batches N] [--batches-per-file N] [--rounds N]

A Kafka of one broker gets the log of `benchmarks.replay`; then a coordinator process is started with an empty data
directory. Printed are the seconds from the moment it serves until it has applied the log, and until its
state database has all of it. Found and started is what `diskless dev` would use.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.replay import Log
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import find_kafka
from coordinator.core.log_entry import ReadEntry
from records.entry_key import decode_key

TOPIC = "__diskless_metadata-cold-start"
LOOK_EVERY_S = 0.01
TIMEOUT_S = 120.0


def epoch_in_force(bootstrap: str) -> int:
    """The epoch of the newest claim in the metadata partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "cold-start", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        epoch = 0
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise AssertionError(f"the end of {TOPIC} was not reached within {TIMEOUT_S:g} s")
            if message.error() is not None:
                return epoch
            key = decode_key(message.key())
            epoch = max(epoch, 0 if key is None else key.epoch)
    finally:
        consumer.close()


def write_log(bootstrap: str, entries: list[ReadEntry]) -> None:
    """Append the entries to the metadata partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for entry in entries:
        producer.produce(TOPIC, entry.value, entry.key, partition=0)
    if left := producer.flush(TIMEOUT_S):
        raise AssertionError(f"{left} of {len(entries)} entries were not written within {TIMEOUT_S:g} s")


def wait_until_at(node: CoordinatorProcess, metric: str, offset: int) -> float:
    """Wait until a metric of the node reaches an offset; returns the time."""
    deadline = time.perf_counter() + TIMEOUT_S
    while node.metric(metric) < offset:
        if time.perf_counter() > deadline:
            raise AssertionError(f"{metric} is {node.metric(metric):.0f} after {TIMEOUT_S:g} s, {offset} was waited for\n{node.log_tail()}")
        time.sleep(LOOK_EVERY_S)
    return time.perf_counter()


def main() -> None:
    """Print one line per round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--batches-per-file", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, find_kafka(Path(name) / "kafka") as kafka:
        properties = {"metadata.topic": TOPIC, "group.id": "cold-start-nodes", "diskless.metadata.topic.num.partitions": "1"}
        node = CoordinatorProcess(1, bootstrap=kafka.bootstrap, folder=Path(name) / "node", properties=properties)
        try:
            node.start()
            node.wait_ready()
            node.terminate()
            entries = Log(options.batches_per_file).entries(options.batches, epoch=epoch_in_force(kafka.bootstrap) + 1)
            write_log(kafka.bootstrap, entries)
            for _ in range(options.rounds):
                shutil.rmtree(node.data_folder)
                node.start()
                node.wait_serving()
                started = time.perf_counter()
                applied = wait_until_at(node, "log_end_offset", len(entries)) - started
                written = wait_until_at(node, "state_applied_offset", len(entries)) - started
                what = f"{options.batches} batches in files of {options.batches_per_file}"
                print(f"{what}: applied after {applied:.2f} s, written after {written:.2f} s")
                node.terminate()
        finally:
            node.close()


if __name__ == "__main__":
    main()
