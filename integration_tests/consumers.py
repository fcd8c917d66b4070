"""Clients beside those that commit: consumers that follow partitions with FindBatches, and clients that delete records.

A describer asks through the client library whether files have live batches.

A consumer reads on from where its last answer ended, at any node, so that an answer with a hole, a batch that is not
there in the end, or an unjust "out of range" (which would reset a real consumer) is in the history. A deleter moves log
starts to offsets that were told to it. Everything is recorded as it ended; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.client.client import DisklessClient
from coordinator.client.errors import Unavailable
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import ConnectionPool
from coordinator.protocol import messages as m
from integration_tests.history import (
    RETRIABLE_CODES,
    UNKNOWN_CODES,
    Deletion,
    Description,
    Find,
    FoundBatch,
    History,
    StartRead,
    Unknown,
    UserPartition,
)
from integration_tests.routes import Address, Leader, Routes, expect
from integration_tests.unusual_keys import is_plain

FIND_PAUSE_S: Final = 0.2
DELETE_PAUSE_S: Final = 0.7
DESCRIBE_PAUSE_S: Final = 0.15
RECENT_FILES: Final = 30
REPLY_TIMEOUT_S: Final = 4.0
TIMEOUT_MS: Final = 2_000
BATCHES_MAX: Final = 100
NO_LIMIT_BYTES: Final = 2**31 - 1
KEPT_PART: Final = 0.3
"""Of a partition's records, at least so many are left by a deletion."""
OFFSET_OUT_OF_RANGE: Final = 1
EARLIEST: Final = -2


class Consumer:
    """Follows some partitions, in turn, each from offset 0 on."""

    def __init__(self, name: str, partitions: Sequence[UserPartition], nodes: Mapping[int, Address], pool: ConnectionPool) -> None:
        self._name = name
        self._rng = random.Random(name)
        self._nodes = nodes
        self._pool = pool
        self._next_offset = dict.fromkeys(partitions, 0)

    async def run(self, history: History, stopping: threading.Event) -> None:
        """Find until the end is asked for."""
        while not stopping.is_set():
            for where in self._next_offset:
                node_id = self._rng.choice(sorted(self._nodes))
                found = await self._find(where, node_id, history)
                if found is not None:
                    history.finds.append(found)
                    self._move_on(found)
                await asyncio.sleep(FIND_PAUSE_S)  # a load of a rate, not the machine's limit

    def _move_on(self, found: Find) -> None:
        if found.batches:
            self._next_offset[found.where] = found.batches[-1].last_offset + 1
        elif found.error_code == OFFSET_OUT_OF_RANGE:
            self._next_offset[found.where] = max(found.log_start_offset, 0)

    async def _find(self, where: UserPartition, node_id: int, history: History) -> Find | None:
        asked = self._next_offset[where]
        partition = m.FindBatchesPartition(partition_index=where.partition, offset=asked, max_partition_fetch_bytes=NO_LIMIT_BYTES)
        request = m.FindBatchesRequest(
            fetch_max_bytes=NO_LIMIT_BYTES,
            max_batches_per_partition=BATCHES_MAX,
            topics=(m.FindBatchesTopic(topic_id=where.topic_id, partitions=(partition,)),),
            timeout_ms=TIMEOUT_MS,
        )
        invoked_s = time.monotonic()
        try:
            reply = await self._pool.call(self._nodes[node_id].lane(self._name), request, REPLY_TIMEOUT_S)
        except (ConnectionLost, RequestTimedOut):
            return None
        answer = expect(reply, m.FindBatchesResponse).topics[0].partitions[0]
        if answer.error_code in UNKNOWN_CODES:
            history.unknowns.append(Unknown("FindBatches", where, node_id, invoked_s, time.monotonic(), answer.error_code))
            return None
        if answer.error_code in RETRIABLE_CODES:
            return None
        return Find(
            where=where,
            node_id=node_id,
            invoked_s=invoked_s,
            answered_s=time.monotonic(),
            asked=asked,
            error_code=answer.error_code,
            log_start_offset=answer.log_start_offset,
            high_watermark=answer.high_watermark,
            batches=tuple(
                FoundBatch(one.object_key, one.byte_offset, one.byte_size, one.base_offset, one.last_offset) for one in answer.batches
            ),
        )


class Deleter:
    """Deletes records of some partitions, one deletion at a time, and asks for log starts in between."""

    def __init__(self, name: str, owners: Mapping[UserPartition, int], routes: Routes, pool: ConnectionPool) -> None:
        self._name = name
        self._rng = random.Random(name)
        self._owners = owners
        self._routes = routes
        self._pool = pool

    async def run(self, history: History, stopping: threading.Event) -> None:
        """Delete until the end is asked for."""
        partitions = sorted(self._owners)
        while not stopping.is_set():
            await asyncio.sleep(DELETE_PAUSE_S * self._rng.random() * 2)  # a load of a rate
            where = self._rng.choice(partitions)
            leader = self._routes.leaders.get(self._owners[where])
            if leader is None:
                await self._routes.refresh()
                continue
            ends = [found.high_watermark for found in history.finds[-200:] if found.where == where and found.high_watermark >= 0]
            offset = int(max(ends, default=0) * self._rng.uniform(0, 1 - KEPT_PART))
            is_heard = await self._delete(history, where, leader, offset) if offset > 0 else True
            if not is_heard or not await self._read_start(history, where, leader):
                await self._routes.refresh()

    async def _delete(self, history: History, where: UserPartition, leader: Leader, offset: int) -> bool:
        topic = m.DeleteRecordsTopic(
            topic_id=where.topic_id, partitions=(m.DeleteRecordsPartition(partition_index=where.partition, offset=offset),)
        )
        invoked_s = time.monotonic()
        error_code, low_watermark = None, -1
        try:
            request = m.DeleteRecordsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
            reply = await self._pool.call(leader.address.lane(self._name), request, REPLY_TIMEOUT_S)
            answer = expect(reply, m.DeleteRecordsResponse).topics[0].partitions[0]
            error_code, low_watermark = answer.error_code, answer.low_watermark
        except (ConnectionLost, RequestTimedOut):
            pass  # recorded without an answer: it may have taken effect
        history.deletions.append(
            Deletion(
                where=where,
                node_id=leader.node_id,
                invoked_s=invoked_s,
                answered_s=time.monotonic(),
                offset=offset,
                error_code=error_code,
                low_watermark=low_watermark,
            )
        )
        return error_code == 0

    async def _read_start(self, history: History, where: UserPartition, leader: Leader) -> bool:
        asked = m.ListOffsetsPartition(partition_index=where.partition, timestamp=EARLIEST)
        request = m.ListOffsetsRequest(topics=(m.ListOffsetsTopic(topic_id=where.topic_id, partitions=(asked,)),), timeout_ms=TIMEOUT_MS)
        invoked_s = time.monotonic()
        try:
            reply = await self._pool.call(leader.address.lane(self._name), request, REPLY_TIMEOUT_S)
        except (ConnectionLost, RequestTimedOut):
            return False
        answer = expect(reply, m.ListOffsetsResponse).topics[0].partitions[0]
        if answer.error_code in UNKNOWN_CODES:
            history.unknowns.append(Unknown("ListOffsets", where, leader.node_id, invoked_s, time.monotonic(), answer.error_code))
            return False
        if answer.error_code in RETRIABLE_CODES:
            return False
        if answer.error_code != 0:
            raise AssertionError(f"ListOffsets of {where} answered {answer.error_code}: {answer.error_message}")
        history.start_reads.append(
            StartRead(where=where, node_id=leader.node_id, invoked_s=invoked_s, answered_s=time.monotonic(), offset=answer.offset)
        )
        return True


class Describer:
    """Asks all coordinators about a file that was sent a moment ago, and about any other."""

    def __init__(self, name: str, nodes: Mapping[int, Address]) -> None:
        self._name = name
        self._rng = random.Random(name)
        self._nodes = nodes

    async def run(self, history: History, stopping: threading.Event) -> None:
        """Ask until the end is asked for."""
        servers = [f"{address.host}:{address.port}" for address in self._nodes.values()]
        async with DisklessClient(servers, client_id=self._name, request_timeout_ms=TIMEOUT_MS) as client:
            while not stopping.is_set():
                await asyncio.sleep(DESCRIBE_PAUSE_S)  # a load of a rate
                known = list(filter(is_plain, history.files))
                if known:
                    await self._describe(client, history, {self._rng.choice(known[-RECENT_FILES:]), self._rng.choice(known)})

    async def _describe(self, client: DisklessClient, history: History, keys: set[str]) -> None:
        invoked_s = time.monotonic()
        try:
            described = await client.admin.describe_files(sorted(keys), timeout_ms=2 * TIMEOUT_MS)
        except Unavailable:
            return  # nobody could say which coordinators there are
        answered_s = time.monotonic()
        history.descriptions += [
            Description(
                object_key=one.object_key,
                invoked_s=invoked_s,
                answered_s=answered_s,
                error_code=int(one.error),
                has_live_batches=one.has_live_batches,
            )
            for one in described
            if one.error not in RETRIABLE_CODES
        ]
