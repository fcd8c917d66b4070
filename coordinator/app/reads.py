"""ListOffsets and FindBatches between a connection and the node: answered by callback, and by a task only where one has to wait.

A request is answered exactly once, and lets what stands behind it in its connection go on; one that fails closes its connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import Request, Respond
from coordinator.app.fair_reads import FairReads
from coordinator.app.ordering import ConnectionOrder
from coordinator.core.commands import FoundBatches, FoundOffset
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation, bad_timeout
from coordinator.operations.first_error import first_found_error
from coordinator.operations.partitions import (
    FIND_BATCHES,
    LIST_OFFSETS,
    find_batches_body,
    find_batches_points,
    list_offsets_body,
    list_offsets_queries,
)
from coordinator.protocol.find_batches import FindBatches, decode_find_batches
from coordinator.protocol.list_offsets import ListOffsets, decode_list_offsets
from coordinator.runtime.applied import find_applied_batches
from coordinator.runtime.node import Node

LOG = logging.getLogger("coordinator.reads")

W = TypeVar("W", ListOffsets, FindBatches)
F = TypeVar("F", FoundOffset, FoundBatches)
Answered: TypeAlias = Callable[[list[F] | Exception], None]


class _Answering(NamedTuple, Generic[W, F]):
    """The differences between ListOffsets and FindBatches."""

    name: str
    observe: Callable[[float], None]
    body: Callable[[W, Sequence[F]], bytes]


class Reads:
    """The reads of one process; shares the order of connections and the counts with everything else."""

    def __init__(
        self,
        *,
        node: Node,
        metrics: Metrics,
        order: ConnectionOrder,
        fair_reads: FairReads,
        answered: Counter[tuple[str, int]],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        def observe(operation: Operation) -> Callable[[float], None]:
            return metrics.series("request_seconds", operation.name).observe

        self._node = node
        self._order = order
        self._fair_reads = fair_reads
        self._counts = answered
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._listing = _Answering(LIST_OFFSETS.name, observe(LIST_OFFSETS), list_offsets_body)
        self._finding = _Answering(FIND_BATCHES.name, observe(FIND_BATCHES), find_batches_body)

    def list_offsets(self, request: Request, respond: Respond) -> None:
        """Take a ListOffsets request. Raises MalformedMessage."""
        wanted = decode_list_offsets(request.data, request.body_offset)
        self._order.start(request.connection_id, LIST_OFFSETS.lane, self._start_list, wanted, request, respond)

    def find_batches(self, request: Request, respond: Respond) -> None:
        """Take a FindBatches request. Raises MalformedMessage."""
        wanted = decode_find_batches(request.data, request.body_offset)
        self._order.start(request.connection_id, FIND_BATCHES.lane, self._start_find, wanted, request, respond)

    def _start_list(self, wanted: ListOffsets, request: Request, respond: Respond) -> bool:
        answered = partial(self._answer, self._listing, wanted, request, respond)
        try:
            queries = list_offsets_queries(wanted)
            if wanted.timeout_ms <= 0:
                answered([FoundOffset(bad_timeout(wanted.timeout_ms))] * len(queries))
            elif not self._node.router.list_offsets_here(queries, wanted.timeout_ms, answered):
                self._spawn(self._wait(partial(self._node.router.list_offsets, queries, wanted.timeout_ms), answered))
        except Exception as error:  # noqa: BLE001 - `_answer` raises it again
            answered(error)
        return True

    def _start_find(self, wanted: FindBatches, request: Request, respond: Respond) -> bool:
        points, refusal = find_batches_points(wanted)
        limits = wanted.fetch_max_bytes, wanted.max_batches_per_partition
        answered = partial(self._answer, self._finding, wanted, request, respond)
        if refusal is not None:
            answered([FoundBatches(outcome=refusal, batches=[])] * len(points))
            return True
        if self._fair_reads.begin(request.connection_id):
            start_s = time.thread_time()
            found = self._attempt(partial(find_applied_batches, self._node.view, points, *limits))
            if found is not None:
                answered(found)
            self._fair_reads.end(request.connection_id, time.thread_time() - start_s)
            if found is not None:
                return True
        find = partial(self._node.router.find_batches, points, *limits, wanted.timeout_ms)
        self._spawn(self._fair_reads.take(request.connection_id, self._wait(find, answered)))
        return True

    @staticmethod
    def _attempt(find: Callable[[], list[FoundBatches] | None]) -> list[FoundBatches] | Exception | None:
        try:
            return find()
        except Exception as error:  # noqa: BLE001 - `_answer` raises it again
            return error

    @staticmethod
    async def _wait(find: Callable[[], Awaitable[list[F]]], answered: Answered[F]) -> None:
        try:
            found: list[F] | Exception = await find()
        except Exception as error:  # noqa: BLE001 - `_answer` raises it again
            found = error
        answered(found)

    def _answer(self, answering: _Answering[W, F], wanted: W, request: Request, respond: Respond, found: list[F] | Exception) -> None:
        """Answer, or close the connection when that is not possible: no client may wait for ever."""
        error: int = ErrorCode.UNKNOWN_SERVER_ERROR
        body: bytes | None = None
        try:
            if isinstance(found, Exception):
                raise found
            body = answering.body(wanted, found)
            error = first_found_error(found)
        except Exception:
            LOG.exception("request failed api=%s peer=%s", answering.name, request.peer)
        respond(body)
        self._counts[(answering.name, error)] += 1
        answering.observe(self._loop.time() - request.received_s)
        self._order.leave(request.connection_id)
