"""A client that uploads files into the folder of the object store and commits them, without a gateway."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.records.ulid import new_key
from coordinator.protocol.messages import CommitBatch
from integration_tests.service import Service
from tests.commit_batches import commit_batch

TOPIC = "orders"
PARTITIONS = 12
PAUSE_S = 0.05
RECORDS = 10
PRODUCER_ID = 7_000


class Uploader:
    """Commits files with batches of several coordinators until it is stopped; every second file is of one idempotent producer."""

    def __init__(self, service: Service, folder: Path | None = None) -> None:
        """`folder` is that of the object store, unless the URL of the nodes says so."""
        self.folder = folder or Path(service.properties["object.store.url"].removeprefix("file://"))
        self.topic = TOPIC
        self._service = service
        self._random = random.Random(7)
        self._sequences: Counter[int] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="uploader")
        self.committed = 0
        self._thread.start()

    def stop(self) -> None:
        """End it after the running commit."""
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        async with DisklessClient(self._service.addresses) as client:
            topic_id = (await client.admin.create_topic(self.topic, PARTITIONS)).topic_id
            while not self._stop.is_set():
                batches = self._batches(topic_id, is_idempotent=self.committed % 2 == 1)
                size = sum(batch.size for batch in batches)
                key = f"wal/{new_key(time.time_ns() // 1_000_000, os.urandom(10))}"
                object_file = self.folder / key
                object_file.parent.mkdir(parents=True, exist_ok=True)
                object_file.write_bytes(bytes(size))
                while not await self._commit(client, key, size, batches):
                    if self._stop.is_set():
                        return
                self.committed += 1
                await asyncio.sleep(PAUSE_S)

    async def _commit(self, client: DisklessClient, key: str, size: int, batches: list[CommitBatch]) -> bool:
        try:
            (await client.commit_file(key, size, batches, timeout_ms=5000)).raise_for_errors()
        except ServiceError:
            return False
        return True

    def _batches(self, topic_id: bytes, *, is_idempotent: bool) -> list[CommitBatch]:
        batches, position = [], 0
        for partition in sorted(self._random.sample(range(PARTITIONS), self._random.randint(1, 6))):
            size = self._random.randint(100, 2000)
            sequence = self._sequences[partition] if is_idempotent else -1
            self._sequences[partition] += RECORDS if is_idempotent else 0
            batches.append(batch_of(topic_id, partition, position, size, sequence))
            position += size
        return batches

    def stored(self) -> tuple[int, int]:
        """How many files were uploaded, and their bytes; the store also has the place of the last orphan scan."""
        sizes = self.sizes()
        return len(sizes), sum(sizes.values())

    def sizes(self) -> dict[str, int]:
        """The sizes of the files in the store, by key."""
        found = {path: path.stat().st_size for path in (self.folder / "wal").rglob("*") if path.is_file()}
        return {str(path.relative_to(self.folder)): size for path, size in found.items()}


def batch_of(topic_id: bytes, partition: int, position: int, size: int, sequence: int) -> CommitBatch:
    """A batch at a place of its file; one with a `sequence` that is not -1 is of the idempotent producer."""
    return commit_batch(
        topic_id,
        partition,
        records=RECORDS,
        at=position,
        size=size,
        timestamp_ms=time.time_ns() // 1_000_000,
        producer_id=PRODUCER_ID if sequence >= 0 else -1,
        sequence=sequence,
    )
