"""Sends the elements of a call to the leaders of their coordinators: one request to each node, repeated after errors that may heal,
until the deadline.

An operation has a list of elements, each with a target: a coordinator id, or a partition's 20-byte key. Elements whose
leader is the same node go there together; nodes are asked at the same time and retried apart, so one that is dead
holds up only its own elements. Answers stand in the order of the elements.
Never raises for an element: what could not be served has a refusal.
Invariant: a write that may have taken effect and has no final answer at the deadline is refused with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from typing import Final, Generic, TypeVar

from coordinator.client.errors import Refusal, Unavailable
from coordinator.client.model import ServiceNode
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.discovery import Discovery
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import Deadline, RetryPolicy
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import AnsweredBy, Operation
from coordinator.protocol.wire import MalformedMessage

R = TypeVar("R")

Target = int | bytes

READS: Final = "read"
COMMITS: Final = "commit"
ADMIN: Final = "admin"

NOT_CREATED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID})
"""May heal, but only if somebody creates or initialises the partition."""
HEALING: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
MOVED: Final = ErrorCode.FENCED_LEADER_EPOCH
"""To a commit: the partition of a batch has moved, and the node does not lead where it is. Who leads that has to decide on the batch."""
_MAY_BE_ELSEWHERE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_COORDINATOR})
"""The partition may not be where it was: it was created anew, or has moved to another coordinator."""
_WRONG_NODE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, MOVED})
# Codes after which a write may be in the log nevertheless.
_OUTCOME_UNKNOWN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR})


class RoutedCall(ABC, Generic[R]):
    """One request of a caller: what goes to a node, and how its answers read."""

    operation: Operation
    """The declaration says who answers, and whether a lost answer leaves the outcome open."""
    purpose: str
    wait_for_creation: bool = False
    is_long: bool = False
    """Whether serving may take as long as the caller waits: then one attempt has all of the time that is left."""
    waits_ms: int = 0
    """How much longer than others an attempt may take, because the node waits."""
    goes_together: bool = False
    """Whether all elements go to one node, which must be of those that any node answers, and the call ends when it has served some."""

    @property
    def is_write(self) -> bool:
        """Whether the request may have changed something when its answer is lost."""
        return self.operation.is_write

    @property
    @abstractmethod
    def targets(self) -> Sequence[Target]:
        """The target of each element."""

    @abstractmethod
    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[R]:
        """Send the elements at `places` in one request; return their answers in that order. Raises what the pool raises."""

    @abstractmethod
    def refusal_of(self, answer: R) -> Refusal:
        """The error that decides whether an element is sent again."""

    @abstractmethod
    def refused(self, place: int, refusal: Refusal) -> R:
        """The answer of an element that was not served."""


class Routing:
    """Carries out operations. Used on one event loop."""

    def __init__(
        self, *, pool: ConnectionPool, discovery: Discovery, policy: RetryPolicy, rng: random.Random, request_timeout_ms: int
    ) -> None:
        self._pool = pool
        self._discovery = discovery
        self._policy = policy
        self._rng = rng
        self._request_timeout_ms = request_timeout_ms

    async def perform(self, request: RoutedCall[R], deadline: Deadline) -> list[R]:
        """Answer every element, at the latest at the deadline."""
        run = _Run(request, deadline, self._pool, self._discovery, self._policy, self._rng, self._request_timeout_ms)
        await run.drive(range(len(request.targets)), 0)
        return run.finish()


class _Run(Generic[R]):
    """One operation under way."""

    def __init__(
        self,
        request: RoutedCall[R],
        deadline: Deadline,
        pool: ConnectionPool,
        discovery: Discovery,
        policy: RetryPolicy,
        rng: random.Random,
        request_timeout_ms: int,
    ) -> None:
        self._request = request
        self._deadline = deadline
        self._pool = pool
        self._discovery = discovery
        self._policy = policy
        self._rng = rng
        self._request_timeout_ms = request_timeout_ms
        self._targets = request.targets
        # If any node may answer, a node that fails or a leader that is missing does not hold up other elements.
        self._is_served_by_standbys = request.operation.answered_by is AnsweredBy.ANY_NODE
        self._answers: dict[int, R] = {}
        self._uncertain: set[int] = set()
        self._standbys: dict[int, list[ServiceNode]] = {}
        self._tried: dict[int, set[tuple[str, int]]] = {}  # by element: addresses that could not serve it
        retried = HEALING | NOT_CREATED if request.wait_for_creation else HEALING
        self._retried = frozenset(map(int, retried))

    async def drive(self, places: Sequence[int], attempt: int) -> None:
        """Send, and send again what may heal; elements that lie on several nodes go their own ways from then on."""
        while places:
            groups, refused = await self._route(places)
            if len(groups) + bool(refused) > 1:
                works = [self._drive_group(node, group, attempt) for node, group in groups.items()]
                await _together([*works, self._drive_left(refused, attempt)])
                return
            for node, group in groups.items():
                await self._exchange(node, group)
            places = await self._left(places, attempt)
            attempt += 1

    def finish(self) -> list[R]:
        """The answers in order."""
        if self._request.is_write:
            for place in self._uncertain:
                if self._code(place) in self._retried:
                    last = self._request.refusal_of(self._answers[place])
                    what = (
                        f"it may have taken effect; repeat it unchanged to learn its outcome. Last answer: {last.code.name}: {last.message}"
                    )
                    self._answers[place] = self._request.refused(place, Refusal(ErrorCode.REQUEST_TIMED_OUT, what))
        return [self._answers[place] for place in range(len(self._targets))]

    async def _drive_group(self, node: ServiceNode, group: Sequence[int], attempt: int) -> None:
        await self._exchange(node, group)
        await self._drive_left(group, attempt)

    async def _drive_left(self, places: Sequence[int], attempt: int) -> None:
        await self.drive(await self._left(places, attempt), attempt + 1)

    async def _left(self, places: Sequence[int], attempt: int) -> list[int]:
        """The elements to send again, after a pause; none when time is up, or when others of a call that goes together were served."""
        left = [place for place in places if self._code(place) in self._retried]
        if self._request.goes_together and len(left) < len(places):
            return []
        if left and not await self._deadline.pause(self._policy, attempt, self._rng):
            return []
        return left

    def _code(self, place: int) -> int:
        return int(self._request.refusal_of(self._answers[place]).code)

    def _refuse(self, places: Iterable[int], refusal: Refusal) -> None:
        """Note refusals. After the deadline an earlier answer of a node is kept, which says more than that time is up."""
        for place in places:
            if place not in self._answers or not self._deadline.is_over:
                self._answers[place] = self._request.refused(place, refusal)

    async def _route(self, places: Sequence[int]) -> tuple[dict[ServiceNode, list[int]], list[int]]:
        """The elements by the leader that serves them now, and those that none serves, which are refused."""
        try:
            coordinators = await self._coordinators(places)
            leaders = await self._discovery.leaders({c for c in coordinators.values() if isinstance(c, int)}, self._deadline)
        except Unavailable as unavailable:
            self._refuse(places, Refusal(unavailable.code, unavailable.message))
            return {}, list(places)
        groups: dict[ServiceNode, list[int]] = {}
        refused: list[int] = []
        for place, coordinator in coordinators.items():
            leader = leaders[coordinator] if isinstance(coordinator, int) else coordinator
            if self._is_served_by_standbys and isinstance(coordinator, int):
                leader = await self._leader_or_standby(place, coordinator, leader)
            if isinstance(leader, Refusal):
                self._refuse([place], leader)
                refused.append(place)
            else:
                groups.setdefault(leader, []).append(place)
        if self._request.goes_together and len(groups) > 1:
            most = max(groups, key=lambda node: len(groups[node]))
            groups = {most: sorted(place for group in groups.values() for place in group)}
        return groups, refused

    async def _leader_or_standby(self, place: int, coordinator: int, leader: ServiceNode | Refusal) -> ServiceNode | Refusal:
        """The leader first; then, each once, its standbys, and the other nodes, which may follow by now; then from the beginning."""
        tried = self._tried.setdefault(place, set())
        if isinstance(leader, ServiceNode) and leader.address not in tried:
            return leader
        if coordinator not in self._standbys:
            self._standbys[coordinator] = await self._discovery.standbys(coordinator, self._deadline)
        for standby in self._standbys[coordinator]:
            if standby.address not in tried:
                return standby
        del self._standbys[coordinator]
        others = [node for node in self._discovery.nodes_known() if node.address not in tried]
        if others:
            return self._rng.choice(others)
        tried.clear()
        return leader

    async def _coordinators(self, places: Sequence[int]) -> dict[int, int | Refusal]:
        keys = {target for place in places if isinstance(target := self._targets[place], bytes)}
        owners = await self._discovery.owners(keys, self._deadline) if keys else {}
        found: dict[int, int | Refusal] = {}
        for place in places:
            target = self._targets[place]
            found[place] = target if isinstance(target, int) else owners[target]
        return found

    async def _exchange(self, node: ServiceNode, places: Sequence[int]) -> None:
        """Send elements to a node and note their answers."""
        line = Line(node.host, node.port, self._request.purpose)
        for place in places:
            # An element that was served is not asked again.
            self._tried.setdefault(place, set()).add(node.address)
        timeout_s = (
            self._deadline.remaining_s
            if self._request.is_long
            else self._deadline.at_most_ms(self._request_timeout_ms + self._request.waits_ms)
        )
        try:
            answers = await self._request.send(self._pool, line, places, timeout_s)
        except (ConnectionLost, RequestTimedOut) as error:
            self._discovery.forget_node(node)
            was_sent = isinstance(error, RequestTimedOut) or error.was_sent
            if was_sent:
                self._uncertain.update(places)
            code = ErrorCode.REQUEST_TIMED_OUT if was_sent else ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._refuse(places, Refusal(code, f"node {node.node_id}: {error}"))
            return
        except MalformedMessage as error:
            what = f"node {node.node_id} at {line.host}:{line.port}: its reply cannot be read ({error})"
            self._refuse(places, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}; do client and node run compatible versions?"))
            return
        for place, answer in zip(places, answers, strict=True):
            self._answers[place] = answer
            self._learn(node, place)

    def _learn(self, node: ServiceNode, place: int) -> None:
        """Forget what an answer proves wrong."""
        code, target = self._code(place), self._targets[place]
        if code in _OUTCOME_UNKNOWN:
            self._uncertain.add(place)
        elif code not in self._retried:
            self._uncertain.discard(place)
        if code in _WRONG_NODE:
            known = {target: target} if isinstance(target, int) else self._discovery.owners_known([target])
            for coordinator in (known or {}).values():
                self._discovery.forget_leader(coordinator, node)
        if code in _MAY_BE_ELSEWHERE and isinstance(target, bytes):
            self._discovery.forget_topic(target[:16])


async def _together(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all; if one raises, the others are cancelled and that exception is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
