"""Carries out what the directory decided: tells owners which partitions they have and which topics are gone.

Runs only where replica 0 leads, from committed state alone, so the next leader resumes where this one stopped. Every
step is idempotent: owners may be told twice, and a confirmation that is no news is not logged. Internal requests carry
the offset that ordered them, and an owner remembers deletions even of topics it never had, so a delayed create cannot
bring a deleted topic back.

Beside that the leader raises the schema level as soon as all nodes agree to a higher one: those that are registered, and
those that are members of the group and therefore about to be.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import cast

from coordinator.core.commands import (
    Answer,
    Command,
    ConfirmDeleted,
    ConfirmPlaced,
    CreateTopics,
    DeleteTopics,
    DescribeStretches,
    DrainNode,
    OrderMoves,
    Outcome,
    PlacePartitions,
    RaiseSchemaLevel,
    RegisterNode,
    RemoveTopics,
    TopicRemoval,
    TopicShare,
    WantedMove,
    WantedTopic,
)
from coordinator.core.directory.directory import DIRECTORY_PARTITION, Deletion, Placement, working_nodes
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.protocol.messages import (
    PlacePartitionsRequest,
    PlacePartitionsResponse,
    PlacePartitionsTopic,
    RemoveTopicsRequest,
    RemoveTopicsResponse,
    RemoveTopicsTopic,
)
from coordinator.runtime.ports import KafkaUnavailable, group_client_id
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.leader_calls import NotYet, call_leader
from coordinator.runtime.routing.move_worker import MoveWorker
from coordinator.runtime.routing.stretch_questions import not_followed, returning

LOG = logging.getLogger("coordinator.directory")

TELL_TIMEOUT_MS = 5_000
RETRY_S = (0.05, 0.5)
TOPICS_AT_ONCE_MAX = 32
CLAIMS_POLL_S = 0.02

TOLD_IN_VAIN = ErrorCode.UNKNOWN_TOPIC_ID
"""An owner says that the topic is deleted: the directory will hear of it too."""


class DirectoryWorker:
    """See the module's text; one per node, at work while replica 0 leads here."""

    def __init__(self, context: NodeContext, *, node: RegisterNode) -> None:
        self._replicas = context.replicas
        self._view = context.view
        self._router = context.router
        self._context = context
        self._clock_ms = context.clock_ms
        self._node = node
        self._carrying: dict[bytes, asyncio.Task[None]] = {}
        self._waiting: dict[bytes, list[asyncio.Future[None]]] = {}
        self.moves = MoveWorker(context)
        self._level: asyncio.Task[None] | None = None
        self._said: str | None = None

    def start(self) -> None:
        """Begin to watch the directory."""
        self._level = asyncio.get_running_loop().create_task(self._keep_level(), name="schema-level")

    async def close(self) -> None:
        """Stop all work; what is left is the next leader's."""
        tasks = [*self._carrying.values(), *([self._level] if self._level is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.moves.close()

    # ---- requests of clients

    async def order_moves(self, wanted: list[WantedMove], timeout_ms: int, *, is_dry_run: bool) -> list[Outcome] | Outcome:
        """Order moves of partitions, which are carried out afterwards; one outcome for all where this node does not lead the directory,
        or did not until they were decided.
        """
        replica = self._replicas.leading(DIRECTORY_PARTITION)
        if replica is None:
            return self._router.not_led(DIRECTORY_PARTITION)
        unclaimed = self._unclaimed()
        eligible = frozenset(one for one in self._replicas.ids() if one not in unclaimed)
        deadline_ms = self._clock_ms() + timeout_ms
        returned: frozenset[bytes] = frozenset()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 2000):
                returned = await returning(self._context, wanted)
        command = OrderMoves(moves=wanted, eligible=eligible, returning=returned, is_dry_run=is_dry_run)
        outcomes = cast(list[Outcome] | Outcome, await replica.ask(command, max(1, deadline_ms - self._clock_ms())))
        self.directory_changed()
        return outcomes

    async def create_topics(self, topics: list[WantedTopic], timeout_ms: int) -> list[Outcome]:
        """Place topics and wait until every owner has its partitions, or answer REQUEST_TIMED_OUT while the work goes on."""
        replica = self._replicas.leading(DIRECTORY_PARTITION)
        if replica is None:
            return [self._router.not_led(DIRECTORY_PARTITION)] * len(topics)
        deadline_ms = self._clock_ms() + timeout_ms
        if any(self._is_growing(topic) for topic in topics):
            await self._await_claims(min(self._context.pauses.claims_s * 1000, timeout_ms / 2))
        command = self._create(topics)
        outcomes = cast(list[Outcome], await replica.ask(command, max(1, deadline_ms - self._clock_ms())))
        for topic, outcome in zip(topics, outcomes, strict=True):
            if outcome.error is ErrorCode.NONE and outcome.message is not None:
                LOG.warning("topic %s: %s", topic.name, outcome.message)
        return await self._when_confirmed([topic.topic_id for topic in topics], outcomes, deadline_ms)

    async def delete_topics(self, topic_ids: list[bytes], timeout_ms: int) -> list[Outcome]:
        """Delete topics and wait until every owner has logged it, or answer REQUEST_TIMED_OUT while the work goes on."""
        replica = self._replicas.leading(DIRECTORY_PARTITION)
        if replica is None:
            return [self._router.not_led(DIRECTORY_PARTITION)] * len(topic_ids)
        deadline_ms = self._clock_ms() + timeout_ms
        outcomes = cast(list[Outcome], await replica.ask(DeleteTopics(topic_ids=topic_ids), timeout_ms))
        return await self._when_confirmed(topic_ids, outcomes, deadline_ms)

    def _is_growing(self, topic: WantedTopic) -> bool:
        """Whether a request asks for partitions that are not there yet."""
        placement = self._view.placement(topic.topic_id)
        return placement is None or placement.num_partitions < topic.num_partitions

    def _unclaimed(self) -> list[int]:
        """The coordinators that nobody leads or is about to, as far as this node knows.

        Of those that are followed here, the ones that were never claimed, of the others, those that the group has given to no node.
        """
        followed = {one.partition: one.view for one in self._replicas.followed()}
        never = [partition for partition, view in followed.items() if view is None or view.fence.epoch == 0]
        return never + [one for one in self._replicas.ids() if one not in followed and one not in self._view.group_leaders]

    async def _await_claims(self, patience_ms: float) -> None:
        """Wait until every coordinator was claimed once: partitions stay where they are, and a service that starts claims all soon."""
        deadline_ms = self._clock_ms() + patience_ms
        while self._unclaimed() and self._clock_ms() < deadline_ms:  # noqa: ASYNC110 - claims are read by other replicas
            await asyncio.sleep(CLAIMS_POLL_S)

    def _create(self, topics: list[WantedTopic]) -> CreateTopics:
        """Collect the inputs that the core needs to place topics.

        How many partitions a coordinator was given is known by the directory: this node's copies of coordinators led elsewhere
        are behind, and topics created one after the other would all go to those.
        """
        directory = self._view.directory
        given: Counter[int] = Counter()
        for placement in () if directory is None else directory.placements.values():
            for placed in placement.ranges:
                given[placed.coordinator_id] += placed.num_partitions
        without = self._unclaimed()
        eligible = [one for one in self._replicas.ids() if one not in without]
        leaders = {one: leader.node_id for one in eligible if (leader := self._view.leader(one)) is not None}
        return CreateTopics(topics=topics, eligible={one: given[one] for one in eligible}, leaders=leaders, without=without)

    async def _when_confirmed(self, topic_ids: list[bytes], outcomes: list[Outcome], deadline_ms: int) -> list[Outcome]:
        self.directory_changed()
        confirmed: list[Outcome] = []
        for topic_id, outcome in zip(topic_ids, outcomes, strict=True):
            if outcome.error is ErrorCode.NONE and not await self._confirmed(topic_id, deadline_ms):
                what = f"topic id {topic_id_text(topic_id)}: not every coordinator has done its part yet"
                message = f"{what}; the work goes on, and repeating the request is safe"
                outcome = Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message=message)
            confirmed.append(outcome)
        return confirmed

    async def _confirmed(self, topic_id: bytes, deadline_ms: int) -> bool:
        # Only a leader has the whole directory: a replica that was loaded anew a moment ago knows nothing that is left to confirm.
        while self._replicas.is_leading(DIRECTORY_PARTITION):
            if not self._is_unconfirmed(topic_id):
                return True
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(topic_id, []).append(waiter)
            try:
                async with asyncio.timeout(max(0, deadline_ms - self._clock_ms()) / 1000):
                    await waiter
            except TimeoutError:
                return False
        return False

    def _is_unconfirmed(self, topic_id: bytes) -> bool:
        directory = self._view.directory
        return directory is not None and topic_id in directory.unconfirmed

    # ---- carrying out

    def directory_changed(self) -> None:
        """The directory, or the leadership of replica 0, changed: wake waiters and see what there is to carry out."""
        directory = self._view.directory
        for topic_id in list(self._waiting):
            if directory is None or topic_id not in directory.unconfirmed or not self._replicas.is_leading(DIRECTORY_PARTITION):
                for waiter in self._waiting.pop(topic_id):
                    if not waiter.done():
                        waiter.set_result(None)
        if directory is None or not self._replicas.is_leading(DIRECTORY_PARTITION):
            self.moves.progress.clear()
            return
        self.moves.look(directory)
        if not directory.are_moves_settled:
            return  # where partitions belong is not known yet; the entry that says so brings us here again
        for topic_id in directory.unconfirmed:
            if len(self._carrying) >= TOPICS_AT_ONCE_MAX:
                break
            if topic_id not in self._carrying:
                task = asyncio.get_running_loop().create_task(self._carry_out(topic_id), name=f"directory-{topic_id.hex()}")
                self._carrying[topic_id] = task
                task.add_done_callback(partial(self._carried_out, topic_id))

    def _carried_out(self, topic_id: bytes, task: asyncio.Task[None]) -> None:
        del self._carrying[topic_id]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            LOG.error("directory work failed topic_id=%s error=%r", topic_id.hex(), error)
            asyncio.get_running_loop().call_later(RETRY_S[1], self.directory_changed)
            return
        self.directory_changed()

    async def _carry_out(self, topic_id: bytes) -> None:
        """Tell all owners until they agree, then confirm; ends when the directory is led elsewhere."""
        while self._replicas.is_leading(DIRECTORY_PARTITION) and self._is_unconfirmed(topic_id):
            directory = self._view.directory
            if directory is None:
                return
            placement, deletion = directory.placements.get(topic_id), directory.deletions.get(topic_id)
            done = False
            if placement is not None:
                done = await self._place(placement)
            elif deletion is not None:
                done = await self._remove(deletion)
            if not done:
                await asyncio.sleep(self._context.rng.uniform(*RETRY_S))

    async def _place(self, placement: Placement) -> bool:
        shares: dict[int, list[TopicShare]] = {}
        directory = self._view.directory
        for placed in placement.ranges:
            key = partition_key(placement.topic_id, placed.first_partition)
            if directory is not None and placed.num_partitions == 1 and (key in directory.earlier or key in directory.moves):
                continue  # it comes by its move, with all that it had, and is never created anew
            share = TopicShare(
                topic_id=placement.topic_id,
                name=placement.name,
                first_partition=placed.first_partition,
                num_partitions=placed.num_partitions,
                order_offset=placement.order_offset,
                classic_pending=placed.classic_pending,
            )
            shares.setdefault(placed.coordinator_id, []).append(share)
        told = await asyncio.gather(*(self._tell(owner, PlacePartitions(shares=mine)) for owner, mine in shares.items()))
        if not all(told):
            return False
        return await self._confirm(ConfirmPlaced(topic_id=placement.topic_id, ranges=list(placement.ranges)))

    async def _remove(self, deletion: Deletion) -> bool:
        owners = sorted({placed.coordinator_id for placed in deletion.ranges})
        removal = RemoveTopics(removals=[TopicRemoval(topic_id=deletion.topic_id, order_offset=deletion.order_offset)])
        # Those that have only earlier stretches come last: their objects may be deleted once no reader is sent there by the others.
        for some in (owners, deletion.others):
            if not all(await asyncio.gather(*(self._tell(owner, removal) for owner in some))):
                return False
        return await self._confirm(ConfirmDeleted(topic_id=deletion.topic_id))

    async def _confirm(self, command: ConfirmPlaced | ConfirmDeleted) -> bool:
        answer = await self._replicas[DIRECTORY_PARTITION].ask(command, TELL_TIMEOUT_MS)
        return isinstance(answer, Outcome) and answer.error is ErrorCode.NONE

    async def _tell(self, owner: int, command: PlacePartitions | RemoveTopics) -> bool:
        """Tell one owner, here or elsewhere; True when it has logged everything."""
        replica = self._replicas.leading(owner)
        if replica is not None:
            answer = await replica.ask(command, TELL_TIMEOUT_MS)
            return all(outcome.error in (ErrorCode.NONE, TOLD_IN_VAIN) for outcome in cast(list[Outcome], answer))
        told: PlacePartitionsResponse | RemoveTopicsResponse
        try:
            if isinstance(command, PlacePartitions):
                told = await call_leader(self._context, owner, _place_request(owner, command), PlacePartitionsResponse)
            else:
                told = await call_leader(self._context, owner, _remove_request(owner, command), RemoveTopicsResponse)
        except NotYet as not_yet:
            LOG.info("topics wait for an owner: %s", not_yet)
            return False
        return all(topic.error_code in (ErrorCode.NONE, TOLD_IN_VAIN) for topic in told.topics)

    # ---- requests of other nodes

    async def serve(self, coordinator_id: int, command: Command, count: int, timeout_ms: int) -> Sequence[object]:
        """Do what another node asks of a coordinator, if we lead it; returns one answer for each of `count` elements."""
        replica = self._replicas.leading(coordinator_id)
        if replica is None:
            return [self._router.not_led(coordinator_id)] * count
        if isinstance(command, DescribeStretches) and (missing := not_followed(self._context, command)) is not None:
            return [missing] * count
        answer: Answer = await replica.ask(command, timeout_ms)
        return [answer] if isinstance(answer, Outcome) else cast(Sequence[object], answer)

    # ---- the schema level

    async def _keep_level(self) -> None:
        """See to it that the schema level rises when it can."""
        while True:
            try:
                await self.raise_to_agreed_level()
            except Exception:
                LOG.exception("the schema level could not be looked at; it is tried again")
            await asyncio.sleep(self._context.pauses.level_check_s * self._context.rng.uniform(0.5, 1.0))

    def _say(self, message: str) -> None:
        """Warn an operator once, not every second, of a state that lasts until a person acts."""
        if message != self._said:
            LOG.warning(message)
        self._said = message

    async def raise_schema_level(self, level: int, gone_node_ids: frozenset[int], timeout_ms: int) -> Outcome:
        """Raise the schema level, 0 to change nothing; after a success the directory here has every change acknowledged before."""
        replica = self._replicas.leading(DIRECTORY_PARTITION)
        if replica is None:
            return self._router.not_led(DIRECTORY_PARTITION)
        return cast(Outcome, await replica.ask(RaiseSchemaLevel(level=level, gone_node_ids=gone_node_ids), timeout_ms))

    async def drain_node(self, node_id: int, drain: int, timeout_ms: int) -> Outcome:
        """Have a node give up what it leads, or lead again."""
        replica, directory = self._replicas.leading(DIRECTORY_PARTITION), self._view.directory
        if replica is None or directory is None:
            return self._router.not_led(DIRECTORY_PARTITION)
        try:
            client_ids = await self._context.cluster.group_members()
        except KafkaUnavailable as unavailable:
            message = f"the members of the group are not known, so the last one that leads may be this one: {unavailable}; retry"
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message)
        members = frozenset(one for one in directory.nodes if group_client_id(one) in client_ids)
        return cast(Outcome, await replica.ask(DrainNode(node_id=node_id, drain=drain, members=members), timeout_ms))

    async def raise_to_agreed_level(self) -> None:
        """Raise the level to the highest that all agree to, if we lead the directory.

        A member of the group that is not registered at that level may be one that only just starts, of an earlier version
        perhaps: nothing is raised until it has said what it can.
        """
        directory = self._view.directory
        if directory is None or not self._replicas.is_leading(DIRECTORY_PARTITION):
            return
        nodes = working_nodes(directory)
        if all(node.incarnation_id != self._node.incarnation_id for node in nodes):
            return  # this process is not registered yet
        level = min([self._node.schema_level_max, *(node.schema_level_max for node in nodes)])
        if level <= directory.schema_level:
            if level < self._node.schema_level_max:
                behind = ", ".join(str(node.node_id) for node in nodes if node.schema_level_max == level)
                self._say(f"schema level {level} stays in force: nodes {behind} agree to none above it")
            return
        try:
            members = await self._context.cluster.group_members()
        except KafkaUnavailable as unavailable:
            self._say(f"schema level {level} waits for a description of the group: {unavailable}")
            return
        strangers = members - {group_client_id(node.node_id) for node in nodes}
        if strangers:
            self._say(f"schema level {level} waits for members of the group that are not registered for it: {', '.join(sorted(strangers))}")
        elif group_client_id(self._node.node_id) not in members:
            # Brokers describe a group they do not know as one without members.
            self._say(f"schema level {level} waits for a description of the group with this node in it")
        else:
            outcome = await self.raise_schema_level(level, frozenset(), TELL_TIMEOUT_MS)
            if outcome.error is ErrorCode.NONE:
                LOG.info("schema level raised level=%d", level)
            else:
                self._say(f"schema level {level} cannot be raised yet: {outcome.error.name}: {outcome.message}")


def _place_request(owner: int, command: PlacePartitions) -> PlacePartitionsRequest:
    topics = tuple(
        PlacePartitionsTopic(
            topic_id=share.topic_id,
            name=share.name,
            first_partition=share.first_partition,
            num_partitions=share.num_partitions,
            order_offset=share.order_offset,
            classic_pending=share.classic_pending,
        )
        for share in command.shares
    )
    return PlacePartitionsRequest(coordinator_id=owner, topics=topics, timeout_ms=TELL_TIMEOUT_MS)


def _remove_request(owner: int, command: RemoveTopics) -> RemoveTopicsRequest:
    topics = tuple(RemoveTopicsTopic(topic_id=removal.topic_id, order_offset=removal.order_offset) for removal in command.removals)
    return RemoveTopicsRequest(coordinator_id=owner, topics=topics, timeout_ms=TELL_TIMEOUT_MS)
