"""ListOffsets and FindBatches between a connection and the node: each is attempted at once, and gets a task only where one has to wait.

A request is answered exactly once, and lets later requests of its connection go on; one that fails closes its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.app.requests.access import AllowedTopics
from coordinator.app.requests.fair_reads import FairReads
from coordinator.app.requests.long_polls import LongPoll, LongPolls
from coordinator.app.requests.ordering import ConnectionOrder
from coordinator.core.commands import FetchPoint, FoundBatches, FoundOffset, OffsetQuery, Outcome
from coordinator.kafka.batches import partition_key
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
from coordinator.protocol.find_batches import FindBatchesBody, decode_find_batches
from coordinator.protocol.list_offsets import ListOffsetsBody, decode_list_offsets
from coordinator.runtime.node.node import Node
from coordinator.runtime.routing.applied import find_applied_batches

LOG = logging.getLogger("coordinator.reads")

W = TypeVar("W", ListOffsetsBody, FindBatchesBody)
E = TypeVar("E", OffsetQuery, FetchPoint)
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
        poll_points_max: int,
    ) -> None:
        def observe(operation: Operation) -> Callable[[float], None]:
            return metrics.series("request_seconds", operation.name).observe

        self._node = node
        self._order = order
        self._fair_reads = fair_reads
        self._counts = answered
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self.polls = LongPolls(node, poll_points_max)
        self._listing = _Answering(LIST_OFFSETS.name, observe(LIST_OFFSETS), list_offsets_body)
        self._finding = _Answering(FIND_BATCHES.name, observe(FIND_BATCHES), find_batches_body)

    def list_offsets(self, request: IncomingRequest, respond: Respond, scope: AllowedTopics | None = None) -> None:
        """Take a ListOffsets request, of all topics or of those in `scope`. Raises MalformedMessage."""
        wanted = decode_list_offsets(request.data, request.body_offset)
        self._order.start(request.peer.connection_id, LIST_OFFSETS.lane, self._start_list, wanted, request, respond, scope)

    def find_batches(self, request: IncomingRequest, respond: Respond, scope: AllowedTopics | None = None) -> None:
        """Take a FindBatches request, of all topics or of those in `scope`. Raises MalformedMessage."""
        wanted = decode_find_batches(request.data, request.body_offset)
        self._order.start(request.peer.connection_id, FIND_BATCHES.lane, self._start_find, wanted, request, respond, scope)

    def _start_list(self, wanted: ListOffsetsBody, request: IncomingRequest, respond: Respond, scope: AllowedTopics | None) -> bool:
        answered = partial(self._answer, self._listing, wanted, request, respond)
        queries, timeout_ms = list_offsets_queries(wanted), wanted.timeout_ms
        if timeout_ms <= 0:
            answered([FoundOffset(bad_timeout(timeout_ms))] * len(queries))
        elif scope is not None and not _is_within(wanted, scope):
            find = partial(self._node.router.list_offsets, timeout_ms=timeout_ms)
            self._spawn(self._wait(partial(self._of_allowed, scope, queries, find, FoundOffset, timeout_ms), answered))
        elif not self._attempt(partial(self._node.router.list_offsets_here, queries, timeout_ms, answered), answered):
            self._spawn(self._wait(partial(self._node.router.list_offsets, queries, timeout_ms), answered))
        return True

    def _start_find(self, wanted: FindBatchesBody, request: IncomingRequest, respond: Respond, scope: AllowedTopics | None) -> bool:
        answered = partial(self._answer, self._finding, wanted, request, respond)
        points, refusal = find_batches_points(wanted)
        if refusal is not None:
            answered([FoundBatches(outcome=refusal, batches=[])] * len(points))
            return True
        connection_id = request.peer.connection_id
        if scope is not None and not _is_within(wanted, scope):
            # An error ends a poll, and so there is none to wait with.
            allowed = partial(self._of_allowed, scope, points, self._finder(wanted), _not_found, wanted.timeout_ms)
            self._spawn(self._fair_reads.take(connection_id, self._wait, allowed, answered))
            return True
        find = partial(self._find, connection_id, points, wanted)
        if wanted.max_wait_ms > 0 and wanted.min_bytes > 0:
            attempt = partial(self._in_turn, connection_id)
            answered_poll = partial(self._answer_poll, wanted, request, respond)
            find(LongPoll(self.polls, connection_id, wanted, points, find=find, attempt=attempt, answered=answered_poll).take)
        else:
            find(answered)
        return True

    def _find(self, connection_id: int, points: list[FetchPoint], wanted: FindBatchesBody, answered: Answered[FoundBatches]) -> None:
        """Answer without waiting for batches to come."""
        limits = wanted.fetch_max_bytes, wanted.max_batches_per_partition
        here = partial(self._find_here, points, limits, answered)
        if not self._attempt(partial(self._fair_reads.attempt, connection_id, here), answered):
            find = partial(self._finder(wanted), points)
            self._spawn(self._fair_reads.take(connection_id, self._wait, find, answered))

    def _finder(self, wanted: FindBatchesBody) -> Callable[[list[FetchPoint]], Awaitable[list[FoundBatches]]]:
        return partial(
            self._node.router.find_batches,
            max_bytes=wanted.fetch_max_bytes,
            batches_per_partition=wanted.max_batches_per_partition,
            timeout_ms=wanted.timeout_ms,
        )

    async def _of_allowed(
        self,
        scope: AllowedTopics,
        elements: Sequence[E],
        find: Callable[[list[E]], Awaitable[list[F]]],
        refused: Callable[[Outcome], F],
        timeout_ms: int,
    ) -> list[F]:
        """Answer the elements of the topics in `scope`, and refuse the others."""
        problem = await self._node.router.settle({partition_key(one.topic_id, one.partition) for one in elements}, timeout_ms)
        verdicts: dict[bytes, Outcome | None] = {}
        for topic_id in {one.topic_id for one in elements}:
            is_unsure = problem is not None and not scope.knows(topic_id)
            verdicts[topic_id] = problem if is_unsure else None if scope.allows(topic_id, None) else scope.refusal(topic_id, None)
        left = [one for one in elements if verdicts[one.topic_id] is None]
        found = iter(await find(left) if left else ())
        return [next(found) if (why := verdicts[one.topic_id]) is None else refused(why) for one in elements]

    def _in_turn(self, connection_id: int, work: Callable[[], bool]) -> None:
        """Do work, which raises nothing and returns True, when its turn comes."""

        async def later() -> None:
            work()

        if not self._fair_reads.attempt(connection_id, work):
            self._spawn(self._fair_reads.take(connection_id, later))

    def _answer_poll(
        self, wanted: FindBatchesBody, request: IncomingRequest, respond: Respond, waited_s: float, found: list[FoundBatches] | Exception
    ) -> None:
        """Answer a poll; the time for which it waited for batches is not that of its serving."""
        self._answer(self._finding, wanted, request._replace(received_s=request.received_s + waited_s), respond, found)

    def _find_here(self, points: Sequence[FetchPoint], limits: tuple[int, int], answered: Answered[FoundBatches]) -> bool:
        """Answer from what the replicas have applied. False when that may have to wait."""
        found = find_applied_batches(self._node.view, points, *limits)
        if found is None:
            return False
        answered(found)
        return True

    @staticmethod
    def _attempt(here: Callable[[], bool], answered: Answered[F]) -> bool:
        """Answer without a task. False when one has to wait, so that nothing is answered yet."""
        try:
            return here()
        except Exception as error:  # noqa: BLE001 - `_answer` raises it again
            answered(error)
            return True

    @staticmethod
    async def _wait(find: Callable[[], Awaitable[list[F]]], answered: Answered[F]) -> None:
        """Answer from a task."""
        try:
            found: list[F] | Exception = await find()
        except Exception as error:  # noqa: BLE001 - `_answer` raises it again
            found = error
        answered(found)

    def _answer(
        self, answering: _Answering[W, F], wanted: W, request: IncomingRequest, respond: Respond, found: list[F] | Exception
    ) -> None:
        """Answer, or close the connection when that is not possible: no client may wait for ever."""
        error: int = ErrorCode.UNKNOWN_SERVER_ERROR
        body: bytes | None = None
        try:
            if isinstance(found, Exception):
                raise found
            body = answering.body(wanted, found)
            error = first_found_error(found)
        except Exception:
            LOG.exception("request failed api=%s peer=%s", answering.name, request.peer.address)
        respond(body)
        self._counts[(answering.name, error)] += 1
        answering.observe(self._loop.time() - request.received_s)
        self._order.leave(request.peer.connection_id)


def _is_within(wanted: ListOffsetsBody | FindBatchesBody, scope: AllowedTopics) -> bool:
    """Tell whether all topics of a request are known, and in the scope."""
    return all(scope.knows(topic_id) and scope.allows(topic_id, None) for topic_id, _ in wanted.topics)


def _not_found(outcome: Outcome) -> FoundBatches:
    return FoundBatches(outcome=outcome, batches=[])
