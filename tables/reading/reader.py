"""Spans of diskless topics are read as Arrow's `RecordBatch`es: found, fetched and decoded at the same time.

Any node tells where the batches are; the objects that hold them are read in bulk; two threads decode.
Invariant: the rows of a partition come in the order of offsets, each once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import Final

import pyarrow as pa

from coordinator.object_store import ObjectStore
from tables.reading.arrow import record_batches
from tables.reading.coordinators import Coordinators
from tables.reading.fetching import FetchedBatch, Fetcher
from tables.reading.places import SpanPlaces
from tables.reading.span import ReadCounts, ReadOptions, Span

THREADS: Final = 2
"""Threads that decode, for each read."""


async def read_spans(
    client: Coordinators, store: ObjectStore, spans: Sequence[Span], options: ReadOptions, *, counts: ReadCounts | None = None
) -> AsyncGenerator[pa.RecordBatch]:
    """Yield the records of spans. Spans of several partitions are read object by object where their batches lie in the same objects.

    `counts`, if given, tells what was left out, as far as the options allow that. Raises OffsetsDeleted, BelowMigration, WrongObject for a
    damaged batch, NotFound for a topic that is deleted, Unavailable and other `ServiceError`s, StoreError.
    """
    counts = ReadCounts() if counts is None else counts
    fetcher = Fetcher(SpanPlaces(client, spans, options, counts), store, options, counts)
    decoding: deque[_Decoding] = deque()
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
    try:
        async with aclosing(_groups(fetcher, options)) as groups:
            async for group in groups:
                if group:
                    decoding.append(_Decoding(pool, record_batches(group, options, counts)))
                while len(decoding) > (THREADS if group else 0):
                    if (one := await decoding[0].take()) is None:
                        decoding.popleft()
                    else:
                        yield one
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def _groups(fetcher: Fetcher, options: ReadOptions) -> AsyncGenerator[list[FetchedBatch]]:
    """Yield batches in groups that make about one `RecordBatch` each, and at last an empty group."""
    group: list[FetchedBatch] = []
    rows = size = 0
    async with aclosing(fetcher.batches()) as fetching:
        async for fetched in fetching:
            for one in fetched:
                group.append(one)
                rows += one.batch.location.last_offset - one.batch.location.base_offset + 1
                size += len(one.data)
                if rows >= options.batch_rows or size >= options.batch_bytes:
                    yield group
                    group, rows, size = [], 0, 0
    if group:
        yield group
    yield []


class _Decoding:
    """A group of batches on its way through a thread, one step ahead of the reader."""

    def __init__(self, pool: ThreadPoolExecutor, steps: Iterator[pa.RecordBatch]) -> None:
        self._pool = pool
        self._steps = steps
        self._step: Future[pa.RecordBatch | None] = pool.submit(next, steps, None)

    async def take(self) -> pa.RecordBatch | None:
        """Return what the thread has decoded next; None at the end."""
        batch = await asyncio.wrap_future(self._step)
        if batch is not None:
            self._step = self._pool.submit(next, self._steps, None)
        return batch
