"""The service as the client and the admin use it: connections, the map of the service, deadlines, and an end.

One `Service` may be shared. Invariant: once it is closed, every operation ends in `ClientClosed`, also those under way.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypedDict, TypeVar, Unpack, cast
from weakref import WeakSet

from coordinator.client.errors import NOT_ALLOWED, SERVED, ClientClosed, NotFound, Refusal, ServiceError, Unavailable, refusal_of
from coordinator.client.model import ClusterDescription, PartitionDescription, RecordedDirectory, ServiceNode, TopicDescription
from coordinator.client.routing.addresses import parse_servers
from coordinator.client.routing.discovery import Discovery
from coordinator.client.routing.pool import CONNECT_TIMEOUT_S, ConnectionPool
from coordinator.client.routing.retry import Deadline, RetryPolicy
from coordinator.client.routing.routed_call import HEALING, NOT_CREATED, RoutedCall, Routing
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, topic_id_text
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeTopicsTopic,
    DescribeTopicsTopicResult,
)
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity

R = TypeVar("R")
T = TypeVar("T")


class ServiceOptions(TypedDict, total=False):
    """See `Service`."""

    client_id: str | None
    request_timeout_ms: int
    api_timeout_ms: int
    connect_timeout_ms: int
    retry: RetryPolicy | None
    security: ClientSecurity
    rng: random.Random | None


class Service:
    """See the module's text. Used on one event loop."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str | None = None,
        request_timeout_ms: int = 10_000,
        api_timeout_ms: int = 60_000,
        connect_timeout_ms: int = int(CONNECT_TIMEOUT_S * 1000),
        retry: RetryPolicy | None = None,
        security: ClientSecurity = PLAIN_TEXT,
        rng: random.Random | None = None,
        pool: ConnectionPool | None = None,
    ) -> None:
        """Connects when first used. Raises InvalidArgument for servers that are not `host:port`.

        `request_timeout_ms` bounds one attempt, `api_timeout_ms` an operation that gives no timeout of its own. A
        `pool` that is given is used for all connections, and closed with the service.
        """
        self._policy = retry or RetryPolicy()
        self._rng = rng or random.Random()
        self.api_timeout_ms = api_timeout_ms
        self._is_closed = False
        self._deadlines: WeakSet[Deadline] = WeakSet()
        self.pool = pool or ConnectionPool(client_id=client_id, security=security, connect_timeout_s=connect_timeout_ms / 1000)
        self.discovery = Discovery(self.pool, parse_servers(bootstrap_servers), self._policy, self._rng)
        self._routing = Routing(
            pool=self.pool, discovery=self.discovery, policy=self._policy, rng=self._rng, request_timeout_ms=request_timeout_ms
        )

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for deadline in list(self._deadlines):
            deadline.pass_now()
        await self.discovery.close()
        await self.pool.close()

    def deadline(self, timeout_ms: int | None) -> Deadline:
        """Return the deadline of an operation that begins. Raises ClientClosed."""
        if self._is_closed:
            raise ClientClosed
        deadline = Deadline.after_ms(self.api_timeout_ms if timeout_ms is None else timeout_ms)
        self._deadlines.add(deadline)
        return deadline

    async def pause(self, attempt: int, deadline: Deadline) -> bool:
        """Pause before an operation is tried again; False, and no pause, when none would fit in."""
        return await deadline.pause(self._policy, attempt, self._rng)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Turn errors of operations that the end of this service cut off into `ClientClosed`."""
        try:
            yield
        except ServiceError as error:
            if self._is_closed:
                raise ClientClosed from error
            raise

    async def perform(self, call: RoutedCall[R], deadline: Deadline) -> list[R]:
        """Answer every element of a call, at the latest at the deadline. Raises ClientClosed."""
        with self.ending():
            answers = await self._routing.perform(call, deadline)
        if self._is_closed and any(call.refusal_of(answer).code is not ErrorCode.NONE for answer in answers):
            raise ClientClosed
        return answers

    async def perform_one(self, call: RoutedCall[R], timeout_ms: int | None) -> R:
        """Answer a call that has one element. Raises ClientClosed."""
        [answer] = await self.perform(call, self.deadline(timeout_ms))
        return answer

    async def ask(self, message: Message, deadline: Deadline) -> Message:
        """Ask any node. Raises Unavailable, ClientClosed, and as `Discovery.ask`."""
        with self.ending():
            return await self.discovery.ask(message, deadline)

    async def until_served(
        self, ask: Callable[[], Awaitable[tuple[T, Refusal]]], deadline: Deadline, retried: frozenset[ErrorCode] = HEALING
    ) -> tuple[T, Refusal]:
        """Ask until the refusal is none that may heal, or no time is left; return the last answer. Raises as `ask`, ClientClosed."""
        attempt = 0
        with self.ending():
            while True:
                answer, refusal = await ask()
                if refusal.code not in retried or not await deadline.pause(self._policy, attempt, self._rng):
                    if self._is_closed and refusal.code is not ErrorCode.NONE:
                        raise ClientClosed
                    return answer, refusal
                attempt += 1

    # ---- what any node tells

    async def describe_coordinators(self, coordinator_ids: Sequence[int], deadline: Deadline) -> ClusterDescription:
        """Describe coordinators (none named means all) and nodes, as one node sees them. Raises Unavailable, ClientClosed."""
        request = DescribeCoordinatorsRequest(coordinator_ids=tuple(coordinator_ids))
        response = cast(DescribeCoordinatorsResponse, await self.ask(request, deadline))
        refusal_of(response.error_code, response.error_message).raise_for_error()
        return ClusterDescription(
            cluster_id=response.cluster_id,
            metadata_topic_id=response.metadata_topic_id,
            is_store_marked=response.is_store_marked,
            node_id=response.node_id,
            coordinators=response.coordinators,
            nodes=tuple(
                ServiceNode(
                    one.node_id,
                    one.host,
                    one.port,
                    one.rack,
                    tuple(RecordedDirectory(each.directory_id, each.is_online, each.coordinator_ids) for each in one.directories),
                    one.drain,
                )
                for one in response.nodes
            ),
        )

    async def coordinator_ids(self, deadline: Deadline) -> list[int]:
        """Return the ids of all coordinators. Raises Unavailable when no node can name them, ClientClosed."""
        nothing = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the nodes know of no coordinator yet; retry")

        async def ask() -> tuple[list[int], Refusal]:
            found = sorted(one.coordinator_id for one in (await self.describe_coordinators((), deadline)).coordinators)
            # A node that is starting knows of none, and "no coordinator" would make "no file" of every question.
            return found, SERVED if found else nothing

        found, refusal = await self.until_served(ask, deadline)
        refusal.raise_for_error()
        return found

    async def describe_topics(self, topics: Sequence[str | bytes], deadline: Deadline) -> list[TopicDescription]:
        """Describe topics by name or 16-byte id, in order; none named means all. Raises NotFound, NotAuthorized, Unavailable,
        ClientClosed.
        """
        asked = [
            DescribeTopicsTopic(topic_id=one, name=None)
            if isinstance(one, bytes)
            else DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name=one)
            for one in topics
        ]

        async def ask() -> tuple[list[DescribeTopicsTopicResult], Refusal]:
            results = await self.discovery.describe_topics(asked, deadline)
            refusals = [refusal_of(one.error_code, one.error_message) for one in results]
            for topic, refusal in zip(topics, refusals, strict=False):
                if refusal.code in NOT_CREATED:
                    name = topic_id_text(topic) if isinstance(topic, bytes) else topic
                    raise NotFound(refusal.code, f"topic {name} does not exist; list the topics to see which do")
            return results, next((refusal for refusal in refusals if refusal.code is not ErrorCode.NONE), SERVED)

        results, refusal = await self.until_served(ask, deadline, _MAY_HEAL)
        refusal.raise_for_error()
        return [_topic(one) for one in await self.discovery.with_bounds(results, deadline)]

    def forget_topics(self, topic_ids: Collection[bytes]) -> None:
        """Ask anew where the partitions of topics are."""
        for topic_id in topic_ids:
            self.discovery.forget_topic(topic_id)

    async def owners(
        self, keys: set[bytes], deadline: Deadline, *, wait_for_creation: bool
    ) -> tuple[dict[bytes, int], dict[bytes, Refusal]]:
        """Return the coordinators of partitions by their keys, and refusals of those that were not found before the deadline."""
        known = self.discovery.owners_known(keys)
        if known is not None:
            return known, {}
        retried = HEALING | NOT_CREATED if wait_for_creation else HEALING

        async def ask() -> tuple[dict[bytes, int | Refusal], Refusal]:
            try:
                found = await self.discovery.owners(keys, deadline)
            except Unavailable as unavailable:
                found = dict.fromkeys(keys, Refusal(unavailable.code, unavailable.message))
            refusals = [one for one in found.values() if isinstance(one, Refusal)]
            # A final refusal ends it, whatever may heal beside it.
            return found, next((one for one in refusals if one.code not in retried), refusals[0] if refusals else SERVED)

        found, _ = await self.until_served(ask, deadline, retried)
        owners = {key: one for key, one in found.items() if isinstance(one, int)}
        return owners, {key: one for key, one in found.items() if isinstance(one, Refusal)}


_MAY_HEAL = frozenset(ErrorCode) - NOT_ALLOWED - {ErrorCode.NONE}


class ServiceUser:
    """The beginning and the end of a client and of an admin: an async context manager that closes its service."""

    def __init__(self, servers: str | Sequence[str] | Service, **options: Unpack[ServiceOptions]) -> None:
        """Takes bootstrap servers and the options of `Service`, or the service of another one to share. Raises InvalidArgument."""
        self._service = servers if isinstance(servers, Service) else Service(servers, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; operations under way, and later ones, raise ClientClosed."""
        await self._service.close()

    async def describe_topics(self, topics: Sequence[str | bytes] = (), *, timeout_ms: int | None = None) -> list[TopicDescription]:
        """Topics by name or 16-byte id, in order; none named means all, by name. Raises NotFound, NotAuthorized, Unavailable."""
        return await self._service.describe_topics(topics, self._service.deadline(timeout_ms))

    async def describe_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> TopicDescription:
        """One topic by name or 16-byte id. Raises NotFound, NotAuthorized, Unavailable."""
        return (await self.describe_topics([topic], timeout_ms=timeout_ms))[0]


def _topic(one: DescribeTopicsTopicResult) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            partition=p.partition_index,
            coordinator_id=p.coordinator_id,
            leader_id=p.leader_id,
            log_start_offset=p.log_start_offset,
            high_watermark=p.high_watermark,
        )
        for p in one.partitions
    )
    settings = {config.name: config.value for config in one.configs}
    return TopicDescription(topic_id=one.topic_id, name=one.name or "", partitions=partitions, settings=settings)
