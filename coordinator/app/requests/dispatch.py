"""From a request on a connection to an operation of the node, and back to encoded bytes.

What happens to a request is said by its declaration (`operations.table`). CommitFile, and mostly ListOffsets and FindBatches
(`reads.py`), have codecs of their own and are answered by callback without a task; everything else runs as a task that this
object owns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import Handler, IncomingRequest, Peer, RequestRun, Respond, TakeRun, run_of_one
from coordinator.app.requests.access import Access, AllowedTopics
from coordinator.app.requests.commits import CommitDesk
from coordinator.app.requests.fair_reads import FairReads
from coordinator.app.requests.long_polls import POINTS_MAX
from coordinator.app.requests.ordering import ConnectionOrder
from coordinator.app.requests.reads import Reads
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Lane, Operation, TopicScope
from coordinator.operations.files import COMMIT_FILE
from coordinator.operations.first_error import first_error
from coordinator.operations.partitions import FIND_BATCHES, LIST_OFFSETS
from coordinator.operations.table import OPERATIONS
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.framing_loops import Body
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.node.node import Node
from coordinator.security.acls import Rules

LOG = logging.getLogger("coordinator.dispatch")

Take = Callable[[IncomingRequest, Respond], None]
TakeInScope = Callable[[IncomingRequest, Respond, AllowedTopics], None]


class Dispatcher(Handler):
    """The server's `Handler` of a node."""

    def __init__(
        self,
        node: Node,
        metrics: Metrics,
        rules: Rules,
        operations: Iterable[Operation] = OPERATIONS,
        node_principals: Collection[str] = (),
        node_listener: str = "",
        *,
        poll_points_max: int = POINTS_MAX,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """Polls wait for at most `poll_points_max` partitions together; `cpu_s` tells the CPU seconds that the loop's thread has used."""
        operations = tuple(operations)
        self._node = node
        self.access = Access(operations, rules, node_principals, node_listener)
        self._operations = {one.key: one for one in operations}
        self._metrics = metrics
        self.answered: Counter[tuple[str, int]] = Counter()
        """Requests answered, by operation and first error."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._order = ConnectionOrder()
        self._fair_reads = FairReads(cpu_s)
        reads = self._reads = Reads(
            node=node,
            metrics=metrics,
            order=self._order,
            fair_reads=self._fair_reads,
            answered=self.answered,
            spawn=self._spawn,
            poll_points_max=poll_points_max,
        )
        self._commits = CommitDesk(node=node, metrics=metrics, order=self._order, answered=self.answered)
        self._runs: Mapping[int, TakeRun] = {COMMIT_FILE.key: self._take_commits}
        in_scope = {LIST_OFFSETS.key: reads.list_offsets, FIND_BATCHES.key: reads.find_batches}
        by_callback: Mapping[int, Take] = {COMMIT_FILE.key: self._commit, **in_scope}
        self._take: Mapping[int, Take] = {
            one.key: by_callback[one.key] if one.has_own_codec else partial(self._run, one) for one in operations
        }
        self._take_in_scope: Mapping[int, TakeInScope] = {
            one.key: in_scope.get(one.key) or partial(self._run, one) for one in operations if one.by_topic is not None
        }

    async def close(self) -> None:
        """Cancel what is not answered yet."""
        self._reads.polls.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """Take a request; see `Handler`. What cannot be decoded raises here, so that the server closes the connection."""
        self._reads.polls.hasten(request.peer.connection_id)
        if request.api_key in self.access.allowed(request.peer) or self.access.may_look(request):
            self._take[request.api_key](request, respond)
        elif (scope := self.access.allowed_topics(request, self._node.view.topic_name)) is not None:
            self._take_in_scope[request.api_key](request, respond, scope)
        else:
            self._refuse(request, respond)

    def replace_rules(self, rules: Rules) -> None:
        """Decide by other rules from now on; requests that wait are answered with what there is, and judged anew when they are repeated."""
        self._reads.polls.hasten_all()
        self.access.replace(rules)

    def gone(self, peer: Peer) -> None:
        """Wait no longer for what a connection that has ended asked for."""
        self._reads.polls.gone(peer.connection_id)

    @property
    def polls_waiting(self) -> int:
        """Requests that wait for batches to come, and are not answered."""
        return self._reads.polls.waiting

    @property
    def runs(self) -> Mapping[int, TakeRun]:
        """See `Handler`."""
        return self._runs

    def _take_commits(self, run: RequestRun) -> None:
        if COMMIT_FILE.key in self.access.allowed(run.peer):
            self._reads.polls.hasten(run.peer.connection_id)
            self._commits.take(run)
            return
        for request, respond in run.each():
            self.handle(request, respond)

    def _refuse(self, request: IncomingRequest, respond: Respond) -> None:
        operation, outcome = self._operations[request.api_key], self.access.refusal(request)
        respond(operation.refusal(request.api_version, request.data, request.body_offset, outcome))
        self.answered[(operation.name, outcome.error)] += 1

    def _run(self, operation: Operation, request: IncomingRequest, respond: Respond, scope: TopicScope | None = None) -> None:
        message = operation.decode(request.api_version, request.data, request.body_offset)
        if operation.lane is Lane.UNORDERED:
            self._spawn(self._answer(operation, message, request, scope, respond))
            return

        def answered(body: Body | None) -> None:
            respond(body)
            self._order.leave(request.peer.connection_id)

        def start() -> bool:
            self._spawn(self._answer(operation, message, request, scope, answered))
            return True

        self._order.enter(request.peer.connection_id, operation.lane, start)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _commit(self, request: IncomingRequest, respond: Respond) -> None:
        self._commits.take(run_of_one(request, respond))

    async def _answer(
        self, operation: Operation, message: Message, request: IncomingRequest, scope: TopicScope | None, respond: Respond
    ) -> None:
        work = partial(self._body, operation, request.api_version, message, request.peer.listener, scope)
        try:
            body: bytes | None = await (self._fair_reads.take(request.peer.connection_id, work) if operation.is_unbounded else work())
        except Exception:
            # A client whose request cannot be answered must not wait for ever: its connection is closed.
            LOG.exception("request failed api=%s peer=%s", operation.name, request.peer.address)
            self.answered[(operation.name, ErrorCode.UNKNOWN_SERVER_ERROR)] += 1
            body = None
        respond(body)
        self._metrics.observe("request_seconds", self._loop.time() - request.received_s, operation.name)

    async def _body(self, operation: Operation, version: int, message: Message, listener: str, scope: TopicScope | None) -> bytes:
        by_topic = operation.by_topic
        if scope is None or by_topic is None or by_topic.narrow is None:
            answer = await serve(self._node, operation, version, message, listener)
        else:
            answer = await serve(self._node, operation, version, by_topic.whole(message), listener)
            answer = by_topic.narrow(version, message, answer, scope)
        self.answered[(operation.name, first_error(answer))] += 1
        return encode(answer)
