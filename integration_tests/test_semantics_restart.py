"""The log is the truth: after kill -9, with or without the data directory, every answer is what it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from cli.dev.kafka import Kafka
from coordinator.protocol import messages as m
from coordinator.protocol.commit_file import CommitFileBody
from integration_tests.service import Service
from integration_tests.wire import (
    INVALID_PRODUCER_EPOCH,
    OK,
    OUT_OF_ORDER_SEQUENCE,
    TIMEOUT_MS,
    Batch,
    Result,
    Topic,
    Wire,
    connected,
    file,
    new_key,
)

TIMESTAMPS = (-1, -2, -3, -4, -5, -6, 0, 1_500, 2_000, 2_001, 10**13)


class History:
    """What a client did, and everything it may ask about it."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.topics: list[Topic] = []
        self.sent: list[tuple[CommitFileBody, list[Result]]] = []
        self.unknown = Topic(os.urandom(16), "unknown")

    async def send(self, *batches: Batch, **fields: object) -> None:
        request = file(batches, new_key(), owners=[0, 1, 2], **fields)
        self.sent.append((request, await self.wire.send(request)))

    async def make(self) -> None:
        """Topics that live, grew and went; files that are live, half, empty, spread, rejected and with duplicates."""
        wire = self.wire
        live, grown, gone = [await wire.new_topic(6) for _ in range(3)]
        assert await wire.create((grown.id, grown.name, 9)) == [OK]
        grown = await wire.look_up(grown.id)
        self.topics = [live, grown, gone]
        for n in range(8):
            one = Batch(live, n % 6, count=3, timestamp=1_000 + 700 * (n % 4), producer=7, epoch=1, sequence=3 * (n // 6))
            await self.send(
                one, one, Batch(grown, 8 - n % 3, count=2, is_append_time=n % 2 == 0), Batch(gone, n % 6), replace(one, epoch=0)
            )
            await self.send(Batch(live, n % 6, timestamp=3_000 - n, producer=7, epoch=1, sequence=99), created_ms=time.time_ns() // 10**6)
        await self.send(*(Batch(grown, n, count=1 + n) for n in range(9)), uploader_broker_id=3)
        await wire.truncate((live, 0, -1), (live, 1, 2), (live, 2, 1), (grown, 8, 3))
        assert await wire.delete(gone.id) == [OK]

    async def answers(self) -> list[object]:
        """Every answer that must not change."""
        wire = self.wire
        answers: list[object] = []
        for topic in (*self.topics, self.unknown):
            for partition in range(10):
                answers.append(await wire.offsets(topic, *TIMESTAMPS, partition=partition))
                answers.append(await wire.find(*((topic, partition, offset) for offset in (0, 1, 3, 4, 50)), max_bytes=1_000))
            answers.append(await wire.describe_topic(topic.id))
            answers.append(await wire.create((topic.id, "another-name", 1)) if topic in self.topics else None)
        answers.append(await wire.files(*(one.object_key for one, _ in self.sent), "unknown"))
        for request, first in self.sent:
            assert await wire.send(request) == first
            answers.append(await wire.send(request._replace(file_size=request.file_size + 1)))
        listed = await wire.call(
            m.ListFilesRequest(coordinator_ids=(), after_key="", max_files=1000, states=(), object_keys=(), timeout_ms=TIMEOUT_MS)
        )
        # Each replica notes for itself when a file lost its last batch.
        answers.append([one if one.live_batches else replace(one, since_ms=-1, until_ms=-1) for one in listed.files])
        answers.append([(one.coordinator_id, one.live_partitions) for one in await wire.coordinators()])
        return answers


async def note(service: Service, history: History | None = None) -> tuple[History, list[object]]:
    """Everything the service answers now; without a history it is made first."""
    async with connected(service.addresses[0]) as wire:
        if history is None:
            history = History(wire)
            await history.make()
        history.wire = wire
        return history, await history.answers()


async def go_on(service: Service, history: History) -> None:
    """Producers and offsets continue where they were."""
    live = history.topics[0]
    async with connected(service.addresses[0]) as wire:
        known = Batch(live, 1, count=3, producer=7, epoch=1, sequence=3)
        results = await wire.commit(
            known, replace(known, sequence=9), replace(known, sequence=6), replace(known, epoch=0), owners=[0, 1, 2]
        )
        base = results[0].base
        assert [(one.error, one.base, one.is_duplicate) for one in results] == [
            (OK, base, True),
            (OUT_OF_ORDER_SEQUENCE, -1, False),
            (OK, base + 3, False),
            (INVALID_PRODUCER_EPOCH, -1, False),
        ]
        assert await wire.ends(live, 1) == (2, base + 6)


def test_every_answer_survives_kill_and_the_loss_of_the_data_directory(kafka: Kafka, data_folder: Path) -> None:
    with Service(kafka.bootstrap, data_folder, partitions=3) as service:
        service.start(1)
        node = service.nodes[1]
        history, answers = asyncio.run(note(service))
        node.kill()
        node.start()
        service.wait_shared()
        assert asyncio.run(note(service, history))[1] == answers
        node.kill()
        shutil.rmtree(node.data_folder)
        node.start()
        service.wait_shared()
        assert asyncio.run(note(service, history))[1] == answers
        asyncio.run(go_on(service, history))
