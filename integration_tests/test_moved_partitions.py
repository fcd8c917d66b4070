"""Partitions move between coordinators of real nodes that are killed, while records are written and read: each is there once, in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Self, TypeAlias

import pytest
from confluent_kafka import Consumer, TopicPartition

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from integration_tests import commands
from integration_tests.faults.partition_moves import QUICK_RETENTION, PartitionMoves
from integration_tests.numbered_records import NumberedRecords
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from records.codec import decode_entry
from records.model import PartitionAdopted, PartitionMoved, PartitionMoving, PartitionReleased

COORDINATORS = 4
MOVED = "moved"
Step: TypeAlias = PartitionMoving | PartitionReleased | PartitionAdopted | PartitionMoved
ROUNDS = COORDINATORS - 1
"""A partition has been in each coordinator then."""


@pytest.fixture
def service(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    with Service(kafka.bootstrap, data_folder, partitions=COORDINATORS) as made:
        yield made.start(3)


def _records(service: Service) -> NumberedRecords:
    return NumberedRecords(service.addresses, service.properties["object.store.url"], MOVED, COORDINATORS)


def _move(service: Service, partition: str, to: str) -> None:
    commands.run(service, "partitions", "move", partition, "--to", to, "--timeout", "60")


class Steps:
    """Sees the entries of the metadata topic as they come, from when it is made on."""

    def __init__(self, service: Service) -> None:
        settings = {"bootstrap.servers": service.bootstrap, "group.id": "looks only", "fetch.wait.max.ms": 5, "log_level": 0}
        self._consumer = Consumer(settings)
        places = [TopicPartition(service.topic, one) for one in range(COORDINATORS)]
        for place in places:
            _, place.offset = self._consumer.get_watermark_offsets(place, WAIT_S)
        self._consumer.assign(places)

    def wait_for(self, step: type[Step], partition: int) -> None:
        """Return as soon as a step of the move of a partition is in the log."""

        def is_there() -> bool:
            message = self._consumer.poll(0.5)
            records = [] if message is None or message.error() else decode_entry(message.value() or b"")
            return any(isinstance(one, step) and one.partition == partition for one in records)

        wait_until(is_there, f"{step.__name__} of partition {partition}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _is_ready(node: CoordinatorProcess) -> bool:
    try:
        return node.readiness()[0]
    except OSError:
        return False


def _leader(service: Service, coordinator: int) -> CoordinatorProcess:
    """The node that leads a coordinator."""

    def leading() -> list[CoordinatorProcess]:
        return [node for node in service.nodes.values() if coordinator in node.readiness()[1]["leading"]]  # type: ignore[operator]

    wait_until(lambda: len(leading()) == 1, f"a leader of coordinator {coordinator}", excused=OSError)
    return leading()[0]


@pytest.mark.long
def test_each_record_is_there_once_whoever_is_killed_at_a_step_of_a_move(service: Service) -> None:
    commands.run(service, "topics", "create", MOVED, "--partitions", str(COORDINATORS), output=False)
    table = list(product((PartitionMoving, PartitionReleased, PartitionAdopted, PartitionMoved), ("from", "to", "directory")))
    with ThreadPoolExecutor(1) as pool, _records(service) as records:
        records.wait_flowing(4)
        for number, (step, victim) in enumerate(table):
            partition = number % COORDINATORS
            at = commands.run(service, "topics", "describe", MOVED)[partition]["coordinator"]
            to = (at + 1) % COORDINATORS
            killed = _leader(service, {"from": at, "to": to, "directory": 0}[victim])
            with Steps(service) as steps:
                moving = pool.submit(_move, service, f"{MOVED}:{partition}", str(to))
                steps.wait_for(step, partition)
                killed.kill()
            killed.start()
            moving.result(120)
            assert commands.run(service, "topics", "describe", MOVED)[partition]["coordinator"] == to
            _wait_for_records(service, records)
    records.check()


def _wait_for_records(service: Service, records: NumberedRecords) -> None:
    """Wait until all nodes are ready, and every partition has got more records."""
    wait_until(lambda: all(one.readiness()[0] for one in service.nodes.values()), "all nodes", excused=OSError)
    records.wait_flowing()


@pytest.mark.long
def test_each_record_is_there_once_whatever_is_killed_while_partitions_move(service: Service) -> None:
    commands.run(service, "topics", "create", MOVED, "--partitions", str(COORDINATORS), output=False)
    rng = random.Random(7)
    with ThreadPoolExecutor(1) as pool, _records(service) as records:
        records.wait_flowing(4)
        for number in range(ROUNDS):
            where = {row["partition"]: row["coordinator"] for row in commands.run(service, "topics", "describe", MOVED)}
            for partition, coordinator in where.items():
                to = str((coordinator + 1) % COORDINATORS)
                moving = pool.submit(_move, service, f"{MOVED}:{partition}", to)
                if number:
                    killed = service.nodes[rng.randint(1, 3)]
                    others = [node for node in service.nodes.values() if node is not killed]
                    wait_until(lambda: any(map(_is_ready, others)), "another node, for the command")  # noqa: B023 - awaited
                    killed.kill()
                    killed.start()
                moving.result(120)
            _wait_for_records(service, records)
    records.check()


def test_a_partition_moves_back_and_forth_while_its_older_records_are_deleted(kafka: Kafka, data_folder: Path) -> None:
    """As often as a run under faults wants: it returns to a coordinator as soon as nothing of it is left there."""
    with Service(kafka.bootstrap, data_folder, partitions=2, properties=QUICK_RETENTION) as service:
        service.start(1)
        commands.run(service, "topics", "create", MOVED, "--partitions", "1", output=False)
        at = commands.run(service, "topics", "describe", MOVED)[0]["coordinator"]
        with NumberedRecords(service.addresses, service.properties["object.store.url"], MOVED, 1) as records:
            said: list[str] = []
            with PartitionMoves(
                service.addresses, MOVED, 2, lambda partition: lambda client: records.delete_older(client, partition, 5)
            ) as moves:
                for number in range(5):
                    records.wait_flowing(10)
                    moves.begin(0, random.Random(number), said.append)
                    moves.wait()
                records.wait_flowing()
        assert said == [f"partition 0 moved from {one} to {1 - one}" for one in (at, 1 - at, at, 1 - at, at)]
        assert records.starts[0] > 0
        records.check()
