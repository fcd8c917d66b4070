"""Coordinators on virtual time: logs of batches, nodes that answer late, wait, and fail. The port is that of `gateway.tails.lanes`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coordinator.client.errors import SERVED, Refusal
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.find_batches import BatchLocation
from tests.waiting import virtual_time

BATCH_BYTES = 100


class Log:
    def __init__(self) -> None:
        self.batches: list[BatchLocation] = []
        self.start = 0
        self.end = 0

    def append(self, records: int = 1, key: str = "wal/x") -> BatchLocation:
        batch = BatchLocation(
            len(self.batches), key, 2, BATCH_BYTES * len(self.batches), BATCH_BYTES, self.end, self.end + records - 1, 0, 0, 0
        )
        self.batches.append(batch)
        self.end += records
        return batch


class ScriptedCoordinators:
    """All logs of the service, asked over a network that takes `delay_s` each way."""

    def __init__(self, delay_s: float = 0.001) -> None:
        self.delay_s = delay_s
        self.logs: dict[PartitionId, Log] = {}
        self.deleted: set[PartitionId] = set()
        self.failing: set[PartitionId] = set()
        """Partitions that are answered with an error that heals."""
        self.down: Exception | None = None
        self.asked: list[tuple[int, int]] = []
        """(partitions, wait in milliseconds) of each question."""
        self.polls_under_way = 0
        self._changed = asyncio.Event()

    def log(self, partition: PartitionId) -> Log:
        return self.logs.setdefault(partition, Log())

    def append(self, partition: PartitionId, records: int = 1) -> BatchLocation:
        batch = self.log(partition).append(records)
        self.tell()
        return batch

    def delete(self, partition: PartitionId) -> None:
        self.deleted.add(partition)
        self.tell()

    def truncate(self, partition: PartitionId, start: int) -> None:
        log = self.log(partition)
        log.start = start
        log.batches = [one for one in log.batches if one.last_offset >= start]
        self.tell()

    def tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def find_batches(
        self,
        fetches: Sequence[FetchFrom],
        *,
        fetch_bytes_max: int,
        batches_per_partition_max: int = 0,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> list[PartitionBatches]:
        self.asked.append((len(fetches), max_wait_ms))
        loop = asyncio.get_running_loop()
        await virtual_time(self.delay_s)
        until_s = loop.time() + max_wait_ms / 1000
        self.polls_under_way += max_wait_ms > 0
        try:
            while True:
                if self.down is not None:
                    raise self.down
                changed = self._changed
                found = self._find(fetches, fetch_bytes_max, batches_per_partition_max)
                size = sum(one.byte_size for each in found for one in each.batches)
                left_s = until_s - loop.time()
                if size >= min_bytes or any(one.error for one in found) or left_s <= 0:
                    break
                try:
                    async with asyncio.timeout(left_s):
                        await changed.wait()
                except TimeoutError:
                    pass
        finally:
            self.polls_under_way -= max_wait_ms > 0
        await virtual_time(self.delay_s)
        return found

    def _find(self, fetches: Sequence[FetchFrom], bytes_max: int, batches_max: int) -> list[PartitionBatches]:
        left = bytes_max
        results = []
        for partition, offset, partition_max in fetches:
            log = self.log(partition)
            code = ErrorCode.NONE
            if partition in self.deleted:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            elif partition in self.failing:
                code = ErrorCode.NOT_COORDINATOR
            elif not log.start <= offset <= log.end:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            if code is not ErrorCode.NONE:
                results.append(PartitionBatches(refusal=Refusal(code, "scripted"), log_start_offset=log.start, high_watermark=log.end))
                continue
            batches: list[BatchLocation] = []
            room = min(partition_max, left)
            for batch in log.batches:
                if batch.last_offset >= offset and room > 0 and (not batches_max or len(batches) < batches_max):
                    batches.append(batch)
                    room -= batch.byte_size
                    left -= batch.byte_size
            results.append(PartitionBatches(refusal=SERVED, log_start_offset=log.start, high_watermark=log.end, batches=tuple(batches)))
        return results
