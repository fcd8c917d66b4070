"""A task: the records of its spans as Arrow batches, found and fetched by this process.

Coroutines run on a thread of their own: objects are fetched while Spark takes what was read before.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

from tables.reading.span import HEADERS, OffsetsDeleted, ReadOptions
from tables.source.access import open_client, open_objects
from tables.source.loss import data_loss
from tables.source.options import SourceOptions
from tables.source.planning import Task

if TYPE_CHECKING:
    import pyarrow

    from tables.source.classic import ClassicReader

T = TypeVar("T")
BATCHES_READY: Final = 2
"""How many batches wait for Spark."""


def read_task(options: SourceOptions, task: Task) -> Iterator[pyarrow.RecordBatch]:
    """Yield the records of a task, in the order of offsets in each partition. Raises DataLoss and what `read_spans` does."""
    return on_a_thread(lambda: _batches(options, task), ready_max=BATCHES_READY) if task else iter(())


async def _batches(options: SourceOptions, task: Task) -> AsyncGenerator[pyarrow.RecordBatch]:
    # Imported where records are read: planners need no Arrow.
    from tables.reading.reader import read_spans

    read_options = ReadOptions(
        columns=options.columns,
        include_headers=HEADERS in options.columns,
        fetch_bytes=options.fetch_bytes,
        fail_on_data_loss=options.fail_on_data_loss,
        on_damage=options.on_damage,
        timeout_s=options.access.timeout_ms / 1000,
    )
    store, classic = open_objects(options.access), classic_parts(options)
    async with open_client(options.access, store) as client:
        if classic is not None:
            parts, task = await classic.shared_out(client, task)
            for span in parts:
                async with aclosing(classic.read(span, read_options)) as batches:
                    async for batch in batches:
                        yield batch
        try:
            async with aclosing(read_spans(client, store, task, read_options)) as batches:
                async for batch in batches:
                    yield batch
        except OffsetsDeleted as error:
            raise data_loss(str(error)) from error


def classic_parts(options: SourceOptions) -> ClassicReader | None:
    """Return what reads the classic parts of migrated topics, if Kafka's address is given."""
    if not options.kafka_servers:
        return None
    # Imported where it is needed: it brings Kafka's client.
    from tables.source.classic import ClassicReader

    return ClassicReader(options)


def on_a_thread(make: Callable[[], AsyncGenerator[T]], *, ready_max: int) -> Iterator[T]:
    """Yield what an asynchronous generator does, which runs ahead by so many on an event loop of its own. Raises what it raises.

    When this generator is closed before its end, the other one is cancelled and closed, too.
    """
    ready: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    room = asyncio.Semaphore(ready_max)

    async def run() -> None:
        try:
            async with aclosing(make()) as made:
                async for one in made:
                    await room.acquire()
                    ready.put((one,))
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that reads
            ready.put(error)
        else:
            ready.put(None)

    loop = asyncio.new_event_loop()
    running = loop.create_task(run())

    def drive() -> None:
        loop.run_until_complete(running)
        loop.run_until_complete(loop.shutdown_default_executor())

    thread = threading.Thread(target=drive, name="diskless-read", daemon=True)
    thread.start()
    try:
        while (taken := ready.get()) is not None:
            if isinstance(taken, BaseException):
                raise taken
            loop.call_soon_threadsafe(room.release)
            yield taken[0]
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join()
        loop.close()  # not before: the last batches are taken when the coroutine has ended
