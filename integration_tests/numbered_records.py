"""Numbered records in every partition of a topic, written by the service's own client without pause and read back.

The record at offset n has the number n, whatever happens meanwhile: a block ends with `check`, which reads what is there.

    with NumberedRecords(service.addresses, service.properties["object.store.url"], "moved", 4) as records:
        records.wait_flowing()
        ...faults...
    records.check()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

from coordinator.client import DisklessClient, Record, open_store
from coordinator.client.errors import TimedOut, Unavailable
from coordinator.client.model import PartitionId
from coordinator.client.records.writing import WriteRefused, WriteUndecided
from coordinator.kafka.errors import ErrorCode
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.work_in_thread import WorkInThread
from records.record_batch import StoredRecord

TIMEOUT_MS: Final = 60_000


class NumberedRecords(WorkInThread):
    """See the module's text: a context manager that writes until it is left, where the error of a writer is raised."""

    def __init__(self, addresses: Sequence[str], store_url: str, topic: str, partitions: int, *, pause_s: float = 0.0) -> None:
        """`pause_s` is between two writes to a partition."""
        super().__init__("numbered-records")
        self._addresses = addresses
        self._store_url = store_url
        self._topic = topic
        self._pause_s = pause_s
        self._has_ended = False
        self.written = [0] * partitions
        self.starts = [0] * partitions
        """From where on records are still to be read: those before were, and may have been deleted."""
        self.slowest_s = 0.0
        """The longest that a write took."""

    @property
    def is_running(self) -> bool:
        """Whether records are written; writers end early only by an error, which `wait_flowing` and leaving the block raise."""
        return self._work is not None and not self._stopping.is_set()

    def wait_flowing(self, more: int = 1, timeout_s: float = WAIT_S) -> None:
        """Wait until every partition has got some more records."""
        wanted = [one + more for one in self.written]

        def is_flowing() -> bool:
            self._check_running("the writers have")
            return all(one >= least for one, least in zip(self.written, wanted, strict=True))

        wait_until(is_flowing, f"{more} more records in every partition of {self._topic}", timeout_s)

    def check(self) -> None:
        """Fail unless what was written is there, once and in order."""
        print(f"records {self.written}, slowest write {self.slowest_s:.3f} s")
        for partition, end in enumerate(self.written):
            asyncio.run(self._read(partition, end, is_end=True))

    async def delete_older(self, client: DisklessClient, partition: int, kept: int) -> int:
        """Read the records of a partition but so many, and delete them; returns where the partition starts then, at least.

        Raises AssertionError when they are not what was written, `DisklessError`.
        """
        end = self.written[partition] - kept
        if end > self.starts[partition]:
            await self._read(partition, end)
            self.starts[partition] = end  # also when it is not known whether they were deleted
        await delete_before(client, self._topic, partition, self.starts[partition])
        return self.starts[partition]

    def _client(self) -> DisklessClient:
        return DisklessClient(self._addresses, object_store=open_store(self._store_url))

    async def _run(self) -> None:
        """Raises what a write raises, unless that is decided by a repetition, or nothing was written."""
        async with self._client() as client:
            ended = await asyncio.gather(*(self._write(client, one) for one in range(len(self.written))), return_exceptions=True)
        for failure in ended:
            if failure is not None:
                raise failure

    async def _write(self, client: DisklessClient, partition: int) -> None:
        """After the failure of another one this ends as well, but not in the middle of a write."""
        try:
            await self._write_on(client, partition)
        finally:
            self._has_ended = True

    async def _write_on(self, client: DisklessClient, partition: int) -> None:
        while not (self._stopping.is_set() or self._has_ended):
            began_s = time.monotonic()
            try:
                await client.write({(self._topic, partition): [Record(value=b"%d" % self.written[partition])]}, timeout_ms=TIMEOUT_MS)
            except WriteUndecided as undecided:
                if not await self._decide(client, undecided):
                    continue
            except (TimedOut, Unavailable):
                continue
            self.written[partition] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            await asyncio.sleep(self._pause_s)  # a load of a rate

    @staticmethod
    async def _decide(client: DisklessClient, undecided: WriteUndecided) -> bool:
        """Learn whether records were written. Raises what a write raises, other than that the partition has moved."""
        while True:
            try:
                await client.commit_uploaded(undecided.uploaded, timeout_ms=TIMEOUT_MS)
                return True
            except WriteUndecided:
                continue
            except WriteRefused as refused:
                if refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise
                return False

    async def _read(self, partition: int, end: int, *, is_end: bool = False) -> None:
        """Fail unless the records up to there are those that were written, and, with `is_end`, no more are."""
        async with (
            self._client() as client,
            aclosing(client.read(self._topic, partition, offset=self.starts[partition], timeout_ms=TIMEOUT_MS)) as records,
        ):
            some = records if is_end else until_offset(records, end)
            found = [(one.offset, int(one.value or b"")) async for one in some]
        wanted = [(one, one) for one in range(self.starts[partition], end)]
        assert found == wanted, _difference(self._topic, partition, found, wanted)


async def until_offset(records: AsyncIterable[StoredRecord], end: int) -> AsyncIterator[StoredRecord]:
    """The records of a partition before an offset, which is there or will be."""
    async for one in records:
        if one.offset >= end:
            return
        yield one
        if one.offset + 1 == end:
            return


async def delete_before(client: DisklessClient, topic: str, partition: int, offset: int) -> None:
    """Delete the records of a partition before an offset. Raises `DisklessError`."""
    topic_id = (await client.describe_topic(topic, timeout_ms=TIMEOUT_MS)).topic_id
    [deleted] = await client.admin.delete_records([(PartitionId(topic_id, partition), offset)], timeout_ms=TIMEOUT_MS)
    deleted.raise_for_error()


def _difference(topic: str, partition: int, found: Sequence[tuple[int, int]], wanted: Sequence[tuple[int, int]]) -> str:
    """Where the first record is that is not the one that was written there."""
    at = next((at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), min(len(found), len(wanted)))
    shown = [list(some[max(0, at - 2) : at + 5]) for some in (found, wanted)]
    return (
        f"{topic}:{partition} has {len(found)} records, {len(wanted)} were written; offsets and numbers from the first difference: {shown}"
    )
