"""Produce while the store fails, nodes and gateways die: every acknowledged record is there once, and order is kept."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.failing_s3 import FailingS3, Fault
from integration_tests.gateway.test_produce import WAIT_S, Written, producer, stored
from integration_tests.gateway.world import World
from integration_tests.s3 import RealS3, find_gateway
from integration_tests.service import Service

PARTITIONS = 4
FAILS_OFTEN = [Fault.NONE] * 38 + [Fault.REFUSED] * 4 + [Fault.RESET, Fault.CUT_REQUEST, Fault.LOST_ANSWER, Fault.CUT_ANSWER, Fault.HANGS]


class FaultyWorld(World):
    """A world of two nodes over an S3, which gateways reach through a proxy that fails as it is told."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, **settings: str) -> None:
        """`settings` are those of its gateway."""
        super().__init__(folder, runtime)
        self._settings = settings
        self.s3 = RealS3(find_gateway(), folder)

    def __enter__(self) -> Self:
        self.kafka.start()
        self.s3.__enter__()
        self.failing = FailingS3(self.s3)
        self.failing.__enter__()
        self.options = {f"object.store.option.{name.replace('_', '.')}": value for name, value in self.s3.options().items()}
        properties = {"object.store.url": self.s3.url("service"), **self.options}
        self.service = Service(self.kafka.bootstrap, self.folder / "nodes", partitions=4, properties=properties)
        self.service.start(2)
        self.start(1001, **{**self.options, "object.store.option.endpoint": self.failing.endpoint, **self._settings})
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(None, None, None)
        self.failing.__exit__(*raised)
        self.s3.__exit__(*raised)


@pytest.fixture
def world(broker_runtime: BrokerRuntime, tmp_path: Path) -> Iterator[FaultyWorld]:
    with FaultyWorld(tmp_path, broker_runtime) as made:
        yield made


class Load:
    """Idempotent producers of librdkafka's that write numbers to all partitions until they are told to end."""

    def __init__(self, world: FaultyWorld, producers: int = 3) -> None:
        self._world = world
        self.topic = f"faults-{uuid.uuid4().hex[:8]}"
        world.create(world.gateways[1001], self.topic, PARTITIONS, is_diskless=True)
        self.written = [Written() for _ in range(producers)]
        self.sent = [0] * producers
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._produce, args=(number,)) for number in range(producers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(3 * WAIT_S)

    def _produce(self, number: int) -> None:
        gateway, written = self._world.gateways[1001], self.written[number]
        client = producer(
            gateway,
            enable_idempotence="true",
            linger_ms="5",
            message_timeout_ms="150000",
            request_timeout_ms="10000",
            retry_backoff_ms="50",
        )
        while not self._is_over.is_set():
            self.sent[number] += 1
            value = b"%d %d" % (self.sent[number], number)
            client.produce(self.topic, value + bytes(200), partition=self.sent[number] % PARTITIONS, on_delivery=written)
            client.poll(0.002)
        client.flush(2 * WAIT_S)

    @property
    def acknowledged(self) -> int:
        return sum(len(one.offsets) for one in self.written)

    def wait_for_more(self, count: int, timeout_s: float = WAIT_S) -> None:
        """Wait until so many more records are acknowledged."""
        wanted, until = self.acknowledged + count, time.monotonic() + timeout_s
        while self.acknowledged < wanted:
            assert time.monotonic() < until, f"{self.acknowledged} of {wanted} records are acknowledged"
            time.sleep(0.1)

    def check(self) -> None:
        """Compare what is stored with what was acknowledged."""
        assert not [error for one in self.written for error in one.errors]
        assert [len(one.offsets) for one in self.written] == self.sent
        found = stored(self._world, self.topic)
        values = [record.value or b"" for record in found]
        assert len(values) == len(set(values))
        acknowledged = {value: place for one in self.written for value, place in one.offsets.items()}
        assert {value: (record.partition, record.offset) for value, record in zip(values, found, strict=True)} == acknowledged
        order = defaultdict(list)
        for record in found:
            number, who = (record.value or b"").rstrip(b"\0").split()
            order[who, record.partition].append(int(number))
        for numbers in order.values():
            assert numbers == sorted(numbers)


@pytest.mark.long
def test_a_store_that_fails_loses_and_doubles_nothing(world: FaultyWorld) -> None:
    load = Load(world)
    with load:
        load.wait_for_more(500)
        world.failing.faults = FAILS_OFTEN
        load.wait_for_more(3_000, 3 * WAIT_S)
        world.failing.faults = [Fault.HANGS]
        time.sleep(12)  # longer than clients wait for an answer
        world.failing.faults = [Fault.NONE]
        load.wait_for_more(500)
    assert world.failing.seen[Fault.CUT_REQUEST] + world.failing.seen[Fault.LOST_ANSWER] > 0
    load.check()


@pytest.mark.long
def test_nodes_that_die_lose_and_double_nothing(world: FaultyWorld) -> None:
    load = Load(world)
    with load:
        load.wait_for_more(500)
        for node_id in (1, 2):
            node = world.service.nodes[node_id]
            node.kill()
            load.wait_for_more(300)
            node.start()
            world.service.wait_shared()
            load.wait_for_more(300)
    load.check()


def test_a_gateway_that_dies_loses_and_doubles_nothing(world: FaultyWorld) -> None:
    load = Load(world)
    world.failing.faults = [Fault.NONE] * 9 + [Fault.LOST_ANSWER]
    with load:
        for _ in range(3):
            load.wait_for_more(300)
            world.gateways[1001].kill()
            world.gateways[1001].start()
            world.gateways[1001].wait_ready()
        world.gateways[1001].terminate()
        world.gateways[1001].start()
        load.wait_for_more(300)
    load.check()
