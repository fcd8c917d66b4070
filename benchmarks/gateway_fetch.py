"""Print what Fetch costs a gateway: CPU per MB of records, from the request's bytes on a socket to the answer's.

One connection reads partitions from their beginning, over and over, with the settings of a consumer (1 MiB of a partition, 50 MB in all).
Batches are in the cache (own files), in the cache with LogAppendTime, or in a local store, from which each round reads anew. The client is
a process of its own; the log is in memory, so the coordinator's part is not in it. `taker` is the time without sockets.
Run: `python -m benchmarks.gateway_fetch [--seconds 2]`. It prints, it never judges.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from coordinator.adapters.objectstore import open_store
from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond
from coordinator.adapters.server.server import Server
from coordinator.app.process.timers import CoalescingLoop
from coordinator.client.model import FetchFrom, PartitionBatches
from coordinator.object_store import ObjectStore
from coordinator.protocol.find_batches import BatchLocation
from gateway.fetch.limits import MIB, FetchLimits, FetchStats
from gateway.fetch.reads import BatchReader
from gateway.fetch.taker import FetchTaker
from gateway.front.apis import OWN, PortApis
from gateway.kafka_apis import KafkaApi
from records.record_batch import Record, encode_batch
from tests.gateway.fetch.kio_fetch import encoded
from tests.gateway.fetch.world import TOPIC, OneSession, TopicRights, Topics, fetch_request

NOW_MS = 1_700_000_000_000
FILES, FILE_BYTES = 8, 8 * MIB
VERSION = 16


class Beginning:
    """A finder that knows the first batches of each partition, and gives everyone those."""

    def __init__(self, batches: Sequence[Sequence[BatchLocation]]) -> None:
        self._batches = batches

    async def find(self, fetches: Sequence[FetchFrom], *, min_bytes: int, max_bytes: int, max_wait_ms: int) -> Sequence[PartitionBatches]:
        found = []
        for partition, _, bytes_max in fetches:
            some, size = [], 0
            for batch in self._batches[partition.partition]:
                if size >= bytes_max:
                    break
                some.append(batch)
                size += batch.byte_size
            found.append(PartitionBatches(log_start_offset=0, high_watermark=10**9, batches=tuple(some)))
        return found

    def watch(self, *_: object) -> None:
        """Promise nothing."""


class Served(Handler):
    """Hands Fetch to its taker."""

    def __init__(self, taker: FetchTaker) -> None:
        self._taker = taker

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self._taker.take(OneSession(), request, respond)


def client(port: int, frame: bytes, seconds: float, results: multiprocessing.Queue[tuple[int, float]]) -> None:
    """Send one request after the other; tells bytes and seconds."""
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        buffer = memoryview(bytearray(64 * MIB))
        begin, total = time.monotonic(), 0
        while time.monotonic() < begin + seconds:
            connection.sendall(frame)
            connection.recv_into(buffer, 4, socket.MSG_WAITALL)
            (left,) = struct.unpack(">i", buffer[:4])
            total += left
            while left:
                left -= connection.recv_into(buffer, min(left, len(buffer)))
        results.put((total, time.monotonic() - begin))


def files_of(batch_bytes: int, *, kind: int) -> tuple[dict[str, bytes], list[list[BatchLocation]]]:
    """Files in which each partition has its share, and where the batches are."""
    batch = encode_batch([Record(timestamp_ms=1_000, value=b"v" * (batch_bytes - 80))])
    files, batches = {}, [[] for _ in range(TOPIC.partitions)]
    for number in range(FILES):
        key, count = f"wal/{number}", FILE_BYTES // len(batch)
        files[key] = batch * count
        for place in range(count):
            partition = batches[place * TOPIC.partitions // count]
            base = len(partition)
            partition.append(BatchLocation(1, key, 2, place * len(batch), len(batch), base, base, NOW_MS, 1_000, kind))
    return files, batches


async def measure(batch_bytes: int, *, kind: int, store: ObjectStore | None, seconds: float) -> str:
    """Measure one kind of data; returns the figures of a row."""
    files, batches = files_of(batch_bytes, kind=kind)
    limits = FetchLimits(cache_bytes=0 if store else 256 * MIB, tail_bytes_max=64 * MIB)
    stats = FetchStats()
    reader = BatchReader(store or open_store("memory://"), limits, stats, now_ms=lambda: NOW_MS)
    for key, data in files.items():
        if store is None:
            reader.cache.keep_own(key, data)
        else:
            await store.put(key, data)
    taker = FetchTaker(Topics(TOPIC), TopicRights(), Beginning(batches), reader, limits, stats)
    body = encoded(fetch_request(*((n, 0) for n in range(TOPIC.partitions)), version=VERSION))
    head = struct.pack(">hhih", 1, VERSION, 7, -1) + b"\0"
    frame = struct.pack(">i", len(head) + len(body)) + head + body

    loop = asyncio.get_running_loop()
    cpu_s, out = time.process_time(), stats.bytes_out
    end_s = loop.time() + seconds
    while loop.time() < end_s:
        done = loop.create_future()
        taker.take(OneSession(), IncomingRequest(1, VERSION, 7, None, head + body, len(head), 1, loop.time(), None), done.set_result)
        await done
        del done
    taker_ms = (time.process_time() - cpu_s) * 1000 / ((stats.bytes_out - out) / MIB)

    server = Server(Served(taker), PortApis(OWN, {KafkaApi.FETCH}, ()))
    port = await server.start("127.0.0.1", 0)
    results: multiprocessing.Queue[tuple[int, float]] = multiprocessing.Queue()
    child = multiprocessing.Process(target=client, args=(port, frame, seconds, results))
    child.start()
    cpu_s, reads_s = time.process_time(), stats.store_reads
    total, took_s = await asyncio.to_thread(results.get)
    whole_ms = (time.process_time() - cpu_s) * 1000 / (total / MIB)
    await asyncio.to_thread(child.join)
    await server.stop(1000)
    await taker.close()
    await reader.close()
    return f"{taker_ms:8.2f} {whole_ms:8.2f} {total / MIB / took_s:8.0f} {stats.store_reads - reads_s:8d}"


async def run(seconds: float) -> None:
    print(f"{'batches':>10} {'data':>16} {'taker':>8} {'whole':>8} {'MB/s':>8} {'reads':>8}   (taker, whole: CPU ms/MB)")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "objects").mkdir()
        for batch_bytes in (1_000_000, 16_384, 1_000):
            for name, kind, is_stored in (("own", 0, False), ("own, append time", 1, False), ("local store", 0, True)):
                store = open_store(f"file://{folder}/objects") if is_stored else None
                row = await measure(batch_bytes, kind=kind, store=store, seconds=seconds)
                print(f"{batch_bytes:10d} {name:>16} {row}", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="what Fetch costs a gateway")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each row is measured, twice (default 2)")
    with asyncio.Runner(loop_factory=CoalescingLoop) as runner:
        runner.run(run(parser.parse_args(arguments).seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
