"""Print what Produce costs a gateway, in CPU time of one megabyte: the checks of a request by themselves, and everything from its bytes to
its answer but sockets, store and coordinators.

Requests of version 9 have one partition each, records of 1 KiB, batches of 1 MB, 16 KiB and 1 KiB, plain and compressed. The store
takes files, and the service commits, without doing anything. It prints, it never judges. Run: `python -m benchmarks.gateway_produce`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.client.model import CommitOutcome, FileStandingAt
from coordinator.kafka.acls import AclOperation
from coordinator.security.principal import ANONYMOUS
from gateway.ports import DisklessTopic, Session
from gateway.produce.buffer import BufferLimits
from gateway.produce.checks_loops import check_batches
from gateway.produce.request import ProduceRequest
from gateway.produce.stats import ProduceStats
from gateway.produce.taker import ProduceTaker
from records.compression import Compression
from records.record_batch import Record, encode_batch
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects

MB: Final = 1_000_000
PARTITIONS: Final = 12
CONNECTIONS: Final = 10
IN_FLIGHT: Final = 5
VERSION: Final = 9
TOPIC: Final = DisklessTopic("orders", b"o" * 16, PARTITIONS, {"max.message.bytes": "10000000"}, tuple(range(PARTITIONS)))


class Everything:
    """The catalogue of one topic, rights to everything, and a service that accepts every batch."""

    def named(self, name: str) -> DisklessTopic | None:
        return TOPIC

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        return TOPIC

    async def refreshed(self) -> None:
        """Nothing changes."""

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        return frozenset()

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        return frozenset()

    async def commit_file(self, object_key: str, file_size_bytes: int, batches: Any, **_: object) -> CommitOutcome:
        count = len(batches)
        nothing = np.zeros(count, np.int64)
        return CommitOutcome(
            object_key=object_key,
            owner_ids=(0,),
            error_codes=nothing.astype(np.int16),
            base_offsets=nothing,
            append_times_ms=nothing - 1,
            log_start_offsets=nothing,
            duplicates=nothing.astype(bool),
        )

    async def fence_files(self, coordinator_id: int, keys: Sequence[str], created_ms: Sequence[int], **_: object) -> list[FileStandingAt]:
        return []


class Connection:
    """A session of a client without rights to ask for."""

    def __init__(self, number: int) -> None:
        self.connection_id = number
        self.address = self.listener = ""
        self.relayed_broker_id = None
        self.upstream: Any = None
        self.client_id: str | None = "benchmark"
        self.zone = None


def make_request(batch_bytes: int, compression: Compression, partition: int) -> tuple[bytes, int]:
    """A request with one batch of about so many bytes of records of 1 KiB, and the size of the batch."""
    records = [Record(timestamp_ms=1_700_000_000_000, value=os.urandom(1024)) for _ in range(max(1, batch_bytes // 1024))]
    batch = encode_batch(records, compression=compression)
    length = _varint(len(batch) + 1)
    body = b"\0" + struct.pack(">hi", -1, 30_000) + b"\x02\x07orders\x02" + struct.pack(">i", partition) + length + batch + b"\0\0\0"
    return body, len(batch)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def check_us(body: bytes) -> float:
    """The best CPU time of reading and checking a request, in microseconds."""
    best = float("inf")
    rows, starts, places = bytearray(77), np.empty(1, np.int64), np.empty(1, np.int64)
    for _ in range(max(20, 30 * MB // len(body))):
        began = time.thread_time_ns()
        read = ProduceRequest(body, 0, VERSION)
        row = check_batches(
            read.data, read.spans, 0, 1, VERSION, TOPIC.topic_id, PARTITIONS, 10 * MB, False, 0, 1 << 62,
            memoryview(rows), 0, starts.data, places.data, [], [],
        )  # fmt: skip
        best = min(best, (time.thread_time_ns() - began) / 1000)
        assert row == 1
    return best


async def take_us(bodies: Sequence[bytes], megabytes: int) -> tuple[float, ProduceStats]:
    """The CPU time of taking, filing and answering so many megabytes, in microseconds."""
    loop, stats, all_of_it = asyncio.get_running_loop(), ProduceStats(), Everything()
    objects = FakeObjects(now_ms=lambda: 0)
    taker = ProduceTaker(
        all_of_it,
        all_of_it,
        all_of_it,
        FakeObjectStore(objects),
        memory=RequestMemory(1 << 30),
        stats=stats,
        limits=BufferLimits(file_gap_ms=0, files_per_second_max=100_000),
        now_ms=lambda: 1_700_000_000_000,
    )
    left = megabytes * MB // len(bodies[0])
    done = asyncio.Event()
    unanswered = 0

    def send(session: Connection) -> None:
        nonlocal left, unanswered
        if left <= 0:
            if not unanswered:
                done.set()
            return
        left -= 1
        unanswered += 1
        peer = Peer(session.connection_id, "", "", ANONYMOUS)
        request = IncomingRequest(0, VERSION, 1, "benchmark", bodies[left % len(bodies)], 0, 0, loop.time(), peer)
        taker.take(session, request, lambda _body: answered(session))

    def answered(session: Connection) -> None:
        nonlocal unanswered
        unanswered -= 1
        objects.by_key.clear()
        loop.call_soon(send, session)

    began = time.process_time_ns()
    for session in [Connection(number) for number in range(CONNECTIONS)]:
        for _ in range(IN_FLIGHT):
            send(session)
    await done.wait()
    spent_us = (time.process_time_ns() - began) / 1000
    await taker.close()
    return spent_us, stats


SHAPES: Final = ((MB, Compression.NONE), (16 * 1024, Compression.NONE), (1024, Compression.NONE), (MB, Compression.LZ4))


def measure(shapes: Sequence[tuple[int, Compression]], megabytes: int) -> None:
    """Print a row for each size of batches and codec."""
    print(f"{'batch':>10} {'codec':>7} {'check us/MB':>12} {'whole us/MB':>12} {'us/request':>11} {'files':>6}")
    for batch_bytes, codec in shapes:
        made = [make_request(batch_bytes, codec, partition) for partition in range(PARTITIONS)]
        bodies = [body for body, _ in made]
        checked = check_us(bodies[0]) * MB / made[0][1]
        spent, stats = asyncio.run(take_us(bodies, megabytes))
        whole = spent * MB / stats.size_bytes
        print(f"{batch_bytes:>10} {codec.name.lower():>7} {checked:>12.0f} {whole:>12.0f} {spent / stats.requests:>11.1f} {stats.files:>6}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_produce", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100, help="how much is taken for each row (100)")
    measure(SHAPES, parser.parse_args().megabytes)


if __name__ == "__main__":
    main()
