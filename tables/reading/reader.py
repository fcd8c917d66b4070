"""Spans of diskless topics are read as Arrow's `RecordBatch`es: found, fetched and decoded at the same time.

Any node tells where the batches are; the objects that hold them are read in bulk; two threads decode.
Invariant: the rows of a partition come in the order of offsets, each once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from typing import Final

import pyarrow as pa

from coordinator.object_store import ObjectStore
from tables.reading.arrow import record_batches
from tables.reading.fetching import FetchedBatch, Fetcher
from tables.reading.places import Coordinators, SpanPlaces
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
    places = SpanPlaces(client, spans, options, counts)
    decoding: deque[_Decoding] = deque()
    group: list[FetchedBatch] = []
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
    try:
        async with aclosing(Fetcher(places, store, options, counts).batches()) as fetching:
            async for fetched in fetching:
                for full in _groups(group, fetched, options):
                    decoding.append(_Decoding(pool, record_batches(full, options, counts)))
                    while len(decoding) > THREADS:
                        async with aclosing(decoding.popleft().batches()) as batches:
                            async for one in batches:
                                yield one
        if group:
            decoding.append(_Decoding(pool, record_batches(group, options, counts)))
        while decoding:
            async with aclosing(decoding.popleft().batches()) as batches:
                async for one in batches:
                    yield one
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _groups(group: list[FetchedBatch], fetched: Iterable[FetchedBatch], options: ReadOptions) -> Iterator[list[FetchedBatch]]:
    """Add batches to a group; yield it, and begin anew, whenever it has about as much as one `RecordBatch` holds."""
    for one in fetched:
        group.append(one)
        rows = sum(each.batch.location.last_offset - each.batch.location.base_offset + 1 for each in group)
        if rows >= options.batch_rows or sum(len(each.data) for each in group) >= options.batch_bytes:
            yield group.copy()
            group.clear()


class _Decoding:
    """A group of batches on its way through a thread, one step ahead of the reader."""

    def __init__(self, pool: ThreadPoolExecutor, steps: Iterator[pa.RecordBatch]) -> None:
        self._pool = pool
        self._steps = steps
        self._step: Future[pa.RecordBatch | None] = pool.submit(next, steps, None)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch]:
        """Yield what the threads have decoded."""
        while (batch := await asyncio.wrap_future(self._step)) is not None:
            self._step = self._pool.submit(next, self._steps, None)
            yield batch
