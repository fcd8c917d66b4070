"""The map of the service: nodes, the leader of each coordinator, the coordinator of each partition; asked once and remembered.

Placement never changes, so it is forgotten only with its topic. A leader is forgotten when a node says that it is not
the leader, or when a node cannot be reached: then everything that node led. Requests that miss the same thing at the
same time share one question.
Never sends what changes anything. Invariant: an unknown topic or partition is reported only after the directory's
leader has confirmed it, because any other node may lag behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar, cast

from coordinator.client.errors import NOT_ALLOWED, InvalidRequest, NotAuthorized, Refusal, Unavailable, refusal_of
from coordinator.client.model import PartitionId, ServiceNode
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.identify import ServerKind, complaint_as_node
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import Deadline, RetryPolicy, server_timeout_ms
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, topic_id_text
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopic,
    DescribeTopicsTopicResult,
)
from coordinator.protocol.wire import MalformedMessage

COORDINATOR_KEY_TYPE: Final = 100
DIRECTORY: Final = 0
"""The coordinator that places topics."""
ATTEMPT_TIMEOUT_MS: Final = 3_000
IDENTIFY_MS: Final = 1_000
STANDBYS_ASKED: Final = 3
"""So many standbys are asked for when a leader does not answer a read."""
SURE: Final = NOT_ALLOWED | {ErrorCode.NONE}
"""Answers to DescribeTopics that need no word of the directory's leader."""
STRANGERS: Final = (ServerKind.BROKER, ServerKind.HTTP)
"""Kinds of servers that are taken for nodes by mistake, and do not become nodes by waiting."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Shared(Generic[K, V]):
    """Sends one question for all callers that miss a key at the same time."""

    def __init__(self, ask: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._ask = ask
        self._asking: dict[K, asyncio.Task[Mapping[K, V]]] = {}
        self._tasks: set[asyncio.Task[Mapping[K, V]]] = set()

    async def get(self, keys: Iterable[K], deadline: Deadline) -> dict[K, V]:
        """Answers for the keys as far as they came before the deadline. Raises what asking raises."""
        wanted = set(keys)
        new = [key for key in wanted if key not in self._asking]
        if new:
            task = asyncio.ensure_future(self._run(new))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            self._asking.update(dict.fromkeys(new, task))
        tasks = {self._asking[key] for key in wanted}
        if tasks:
            await asyncio.wait(tasks, timeout=deadline.remaining_s)
        found: dict[K, V] = {}
        for task in tasks:
            if task.done() and not task.cancelled():
                found.update((key, value) for key, value in task.result().items() if key in wanted)
        return found

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, keys: list[K]) -> Mapping[K, V]:
        try:
            return await self._ask(keys)
        finally:
            for key in keys:
                del self._asking[key]

    def _done(self, task: asyncio.Task[Mapping[K, V]]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: those who waited may have given up


class Discovery:
    """See the module's text. Used on one event loop."""

    def __init__(self, pool: ConnectionPool, bootstrap: Sequence[tuple[str, int]], policy: RetryPolicy, rng: random.Random) -> None:
        if not bootstrap:
            raise ValueError("no bootstrap server is given; name at least one as host:port")
        self._pool = pool
        self._policy = policy
        self._rng = rng
        self._bootstrap = list(bootstrap)
        # In the order in which they are asked: one that failed, or misled us, goes to the end.
        self._addresses = list(bootstrap)
        self._nodes: dict[int, ServiceNode] = {}
        self.cluster_id: str | None = None
        """The service's Kafka cluster, as the node said that told of the nodes last."""
        self._nodes_are_stale = True
        self._is_service_known = False
        """Whether one of the addresses was a node: none is suspected to be another server then."""
        self._leaders: dict[int, ServiceNode] = {}
        self._owners: dict[bytes, int] = {}
        self._keys_of_topic: dict[bytes, list[bytes]] = {}
        self._finding: _Shared[int, ServiceNode | Refusal] = _Shared(self._find_leaders)
        self._placing: _Shared[bytes, DescribeTopicsTopicResult] = _Shared(self._find_placements)

    async def close(self) -> None:
        """End the questions under way."""
        await self._finding.close()
        await self._placing.close()

    # ---- asking anybody

    async def ask(self, message: Message, deadline: Deadline) -> Message:
        """Ask one node after the other, in rounds, until one answers. Raises Unavailable, which names each node's failure.

        Raises NotAuthorized when all that were asked refuse this client, or are not believed, and InvalidRequest when none of them
        is a node: later rounds would end like that, too.
        """
        attempt, why = 0, "the deadline passed"
        while True:
            failures: list[str] = []
            refusals = 0
            for address in list(self._addresses):
                if deadline.is_over:
                    break
                try:
                    return await self._pool.call(Line(*address, "discovery"), message, deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
                except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
                    failures.append(str(error))
                    refusals += isinstance(error, ConnectionLost) and error.is_refused
                    self._doubt(address)
            if failures and refusals == len(failures):
                raise NotAuthorized(ErrorCode.SASL_AUTHENTICATION_FAILED, "; ".join(dict.fromkeys(failures)))
            if failures and attempt == 0:
                await self._refuse_strangers(deadline)
            why = "; ".join(failures) or why
            if not await deadline.pause(self._policy, attempt, self._rng):
                raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no node answers {type(message).__name__}: {why}")
            attempt += 1

    async def _refuse_strangers(self, deadline: Deadline) -> None:
        """Raise InvalidRequest when all bootstrap servers are known to be something else than nodes."""
        if self._is_service_known or deadline.is_over:
            return
        found = await self._pool.identify(self._bootstrap, deadline.at_most_ms(IDENTIFY_MS))
        if all(one.kind in STRANGERS for one in found):
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, "; ".join(complaint_as_node(one) or "" for one in found))

    def _doubt(self, address: tuple[str, int]) -> None:
        if address in self._addresses:
            self._addresses.remove(address)
            self._addresses.append(address)

    # ---- nodes

    async def nodes(self, deadline: Deadline) -> tuple[ServiceNode, ...]:
        """Ask for the nodes of the service, by id. Raises Unavailable."""
        await self._refresh_nodes(deadline)
        return tuple(self._nodes[node_id] for node_id in sorted(self._nodes))

    def nodes_known(self) -> list[ServiceNode]:
        """The nodes of the service as far as they were asked for."""
        return list(self._nodes.values())

    async def _refresh_nodes(self, deadline: Deadline) -> None:
        # Kafka's messages are imported when they are first sent, because that takes time in which most commands are done.
        import kio.schema.metadata.v12 as metadata_v12

        request = metadata_v12.MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        response = await self.ask(cast(Message, request), deadline)
        told = cast(metadata_v12.MetadataResponse, response)
        self.cluster_id = told.cluster_id
        self._nodes = {int(b.node_id): ServiceNode(int(b.node_id), b.host, int(b.port), b.rack) for b in told.brokers}
        self._nodes_are_stale = False
        known = {*self._bootstrap, *(node.address for node in self._nodes.values())}
        kept = [address for address in self._addresses if address in known]
        self._addresses = kept + sorted(known - set(kept))

    # ---- leaders

    async def leaders(self, coordinator_ids: Iterable[int], deadline: Deadline) -> dict[int, ServiceNode | Refusal]:
        """The leaders of coordinators, or why there is none just now. Raises Unavailable when no node answers."""
        wanted = set(coordinator_ids)
        found: dict[int, ServiceNode | Refusal] = {i: self._leaders[i] for i in wanted if i in self._leaders}
        missing = wanted - found.keys()
        if missing:
            found |= await self._finding.get(missing, deadline)
            late = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "its leader was not found in time; retry")
            found |= dict.fromkeys(wanted - found.keys(), late)
        return found

    async def _find_leaders(self, coordinator_ids: list[int]) -> dict[int, ServiceNode | Refusal]:
        deadline = Deadline.after_ms(2 * ATTEMPT_TIMEOUT_MS)
        if self._nodes_are_stale:
            await self._refresh_nodes(deadline)
        found = await self.find_coordinators([str(i) for i in coordinator_ids], deadline)
        answers = dict(zip(coordinator_ids, found, strict=True))
        self._leaders.update((i, answer) for i, answer in answers.items() if isinstance(answer, ServiceNode))
        self._is_service_known |= bool(self._leaders)
        if not self._is_service_known:
            # A Kafka broker answers, too: it has no such coordinators.
            await self._refuse_strangers(deadline)
        return answers

    async def find_coordinators(self, keys: Sequence[str], deadline: Deadline) -> list[ServiceNode | Refusal]:
        """Ask FindCoordinator for keys (a coordinator id, or `<topicId>:<partition>`), in one request. Raises Unavailable."""
        import kio.schema.find_coordinator.v6 as find_coordinator_v6
        from kio.static.primitive import i8

        request = find_coordinator_v6.FindCoordinatorRequest(key_type=i8(COORDINATOR_KEY_TYPE), coordinator_keys=tuple(keys))
        response = cast(find_coordinator_v6.FindCoordinatorResponse, await self.ask(cast(Message, request), deadline))
        found: dict[str, ServiceNode | Refusal] = {}
        for one in response.coordinators:
            refusal = refusal_of(int(one.error_code.value), one.error_message)
            node = ServiceNode(int(one.node_id), one.host, int(one.port))
            found[one.key] = node if refusal.code is ErrorCode.NONE else refusal
        silent = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the node's answer does not name it; retry")
        return [found.get(key, silent) for key in keys]

    async def standbys(self, coordinator_id: int, deadline: Deadline) -> list[ServiceNode]:
        """The nodes that stand by for a coordinator, as far as one that answers knows; none when none does."""
        try:
            found = await self.find_coordinators([f"{coordinator_id}/{number}" for number in range(1, STANDBYS_ASKED + 1)], deadline)
        except Unavailable:
            return []
        return [one for one in found if isinstance(one, ServiceNode)]

    def forget_leader(self, coordinator_id: int, node: ServiceNode) -> None:
        """Forget who leads a coordinator, if it is still believed to be `node`; ask another node next time."""
        if self._leaders.get(coordinator_id) == node:
            del self._leaders[coordinator_id]
            self._doubt(self._addresses[0])

    def forget_node(self, node: ServiceNode) -> None:
        """Forget everything that a node is believed to lead: it cannot be reached."""
        self._leaders = {i: leader for i, leader in self._leaders.items() if leader != node}
        self._nodes_are_stale = True
        self._doubt(node.address)

    # ---- placement

    def owners_known(self, keys: Iterable[bytes]) -> dict[bytes, int] | None:
        """The coordinators of partitions (20-byte keys) if all are known already."""
        owners = self._owners
        try:
            return {key: owners[key] for key in keys}
        except KeyError:
            return None

    async def owners(self, keys: Iterable[bytes], deadline: Deadline) -> dict[bytes, int | Refusal]:
        """The coordinators of partitions (20-byte keys), or why there is none. Raises Unavailable when no node answers."""
        wanted = set(keys)
        topic_ids = {key[:16] for key in wanted if key not in self._owners}
        described = await self._placing.get(topic_ids, deadline) if topic_ids else {}
        # The node asked may not know yet that a topic has grown.
        short = {i for i in topic_ids if i in described and described[i].error_code == 0 and self._lacks(i, wanted)}
        if short:
            topics = [DescribeTopicsTopic(topic_id=i, name=None) for i in short]
            described |= self._placed(await self._confirm(topics, deadline))
        return {key: self._owners[key] if key in self._owners else _unplaced(key, described.get(key[:16])) for key in wanted}

    def _lacks(self, topic_id: bytes, keys: Iterable[bytes]) -> bool:
        return any(key[:16] == topic_id and key not in self._owners for key in keys)

    async def _find_placements(self, topic_ids: list[bytes]) -> dict[bytes, DescribeTopicsTopicResult]:
        deadline = Deadline.after_ms(2 * ATTEMPT_TIMEOUT_MS)
        return self._placed(await self.describe_topics([DescribeTopicsTopic(topic_id=i, name=None) for i in topic_ids], deadline))

    def _placed(self, topics: Iterable[DescribeTopicsTopicResult]) -> dict[bytes, DescribeTopicsTopicResult]:
        """Remember placements."""
        described = {topic.topic_id: topic for topic in topics}
        for topic_id, topic in described.items():
            self.forget_topic(topic_id)
            keys = [PartitionId(topic_id, one.partition_index).key for one in topic.partitions]
            self._keys_of_topic[topic_id] = keys
            self._owners.update(zip(keys, (one.coordinator_id for one in topic.partitions), strict=True))
        return described

    def forget_topic(self, topic_id: bytes) -> None:
        """Forget where a topic's partitions are: a coordinator does not know it, or they have moved."""
        for key in self._keys_of_topic.pop(topic_id, ()):
            del self._owners[key]

    async def describe_topics(self, topics: Sequence[DescribeTopicsTopic], deadline: Deadline) -> list[DescribeTopicsTopicResult]:
        """Describe topics, in order; none means all, and one without a name and with an error is then a refusal to tell which there are.

        What a node does not know is asked of the directory's leader. Raises Unavailable.
        """
        response = await self.ask(_describe_request(topics, deadline), deadline)
        results = _topics_described(topics, response)
        self._is_service_known = True
        unsure = [place for place, one in enumerate(results) if one.error_code not in SURE]
        if unsure and not topics:
            return await self._confirm((), deadline)
        if unsure:
            confirmed = await self._confirm([topics[place] for place in unsure], deadline)
            for place, one in zip(unsure, confirmed, strict=True):
                results[place] = one
        return results

    async def with_bounds(self, topics: Sequence[DescribeTopicsTopicResult], deadline: Deadline) -> list[DescribeTopicsTopicResult]:
        """Have leaders tell where logs begin and end, of partitions whose coordinators the node does not follow that described them.

        What no leader tells in time stays -1. Raises Unavailable.
        """
        missing = {one.coordinator_id for topic in topics for one in topic.partitions if one.high_watermark < 0}
        leaders = await self.leaders(missing, deadline)
        asked: dict[ServiceNode, dict[bytes, DescribeTopicsTopic]] = {}
        for topic in topics:
            for one in topic.partitions:
                leader = leaders.get(one.coordinator_id)
                if one.high_watermark < 0 and isinstance(leader, ServiceNode):
                    asked.setdefault(leader, {})[topic.topic_id] = DescribeTopicsTopic(topic_id=topic.topic_id, name=None)
        answers = await asyncio.gather(*(self._described_by(node, list(wanted.values()), deadline) for node, wanted in asked.items()))
        told = {
            (topic.topic_id, one.partition_index): one
            for answer in answers
            for topic in answer
            for one in topic.partitions
            if one.high_watermark >= 0
        }
        return [
            replace(
                topic,
                partitions=tuple(
                    one if one.high_watermark >= 0 else told.get((topic.topic_id, one.partition_index), one) for one in topic.partitions
                ),
            )
            for topic in topics
        ]

    async def _described_by(
        self, node: ServiceNode, topics: Sequence[DescribeTopicsTopic], deadline: Deadline
    ) -> Sequence[DescribeTopicsTopicResult]:
        """Topics as one node describes them; none when it does not answer."""
        try:
            line = Line(*node.address, "discovery")
            answer = await self._pool.call(line, _describe_request(topics, deadline), deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
        except (ConnectionLost, RequestTimedOut, MalformedMessage):
            self.forget_node(node)
            return ()
        return cast(DescribeTopicsResponse, answer).topics

    async def _confirm(self, topics: Sequence[DescribeTopicsTopic], deadline: Deadline) -> list[DescribeTopicsTopicResult]:
        """Describe topics, or all, by the directory's leader; COORDINATOR_NOT_AVAILABLE for each when it does not answer."""
        leader = (await self.leaders([DIRECTORY], deadline))[DIRECTORY]
        what = "that the topic does not exist" if topics else "which topics there are"
        why = f"nobody can confirm {what}: {leader.message if isinstance(leader, Refusal) else leader.address}"
        if isinstance(leader, ServiceNode):
            line = Line(*leader.address, "discovery")
            try:
                response = await self._pool.call(line, _describe_request(topics, deadline), deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
                return _topics_described(topics, response)
            except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
                self.forget_node(leader)
                why = f"{why}: {error}"
        return [
            DescribeTopicsTopicResult(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=why,
                topic_id=one.topic_id,
                name=one.name,
                partitions=(),
                configs=(),
            )
            for one in topics or [DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name=None)]
        ]


def _describe_request(topics: Sequence[DescribeTopicsTopic], deadline: Deadline) -> Message:
    timeout_ms = server_timeout_ms(deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
    return DescribeTopicsRequest(topics=tuple(topics), timeout_ms=timeout_ms)


def _topics_described(topics: Sequence[DescribeTopicsTopic], response: Message) -> list[DescribeTopicsTopicResult]:
    described = cast(DescribeTopicsResponse, response).topics
    if topics and len(described) != len(topics):
        raise MalformedMessage(f"{len(topics)} topics were asked for, {len(described)} are described")
    return list(described)


def _unplaced(key: bytes, topic: DescribeTopicsTopicResult | None) -> Refusal:
    partition = PartitionId(key[:16], int.from_bytes(key[16:], "big", signed=True))
    if topic is None:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {partition} was not found in time; retry")
    if topic.error_code in NOT_ALLOWED or topic.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return refusal_of(topic.error_code, topic.error_message)
    if topic.error_code != 0:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"topic id {topic_id_text(partition.topic_id)} is not known; create the topic first")
    what = f"topic {topic.name} has no partition {partition.partition}; it has {len(topic.partitions)}"
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
