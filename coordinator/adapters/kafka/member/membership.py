"""The member of the consumer group whose assignment is the permission to claim metadata partitions.

One thread with an event loop of its own is the member; the node's loop hands it commands, and hears assignments. So heartbeats go on
while the node's loop is busy.

Rules kept here:
- An assignment holds until the next one, through rebalances and while the coordinator of the group is away. It ends when the group says
  that it does not know this member.
- The watchdog: while the node's loop does not call `alive()` within half the session timeout, the thread leaves, and it joins again
  only after the loop was heard once more, so that a hung process does not keep partitions.
- The proof of membership is a heartbeat of the generation that assigned the partition, with a deadline. During a rebalance there is
  none. The partition must be in the current assignment both when it is asked and when it is answered.
- The thread survives every exception: it counts, logs, backs off and joins again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.bootstrap import Bootstrap
from coordinator.adapters.kafka.bridge import post, wait_for_end
from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace, in_turns
from coordinator.adapters.kafka.member.classic import ClassicMember
from coordinator.adapters.kafka.member.consumer_protocol import PROTOCOL_TYPE
from coordinator.adapters.kafka.member.coordinator import GroupCoordinator, GroupRefused, GroupTrouble
from coordinator.adapters.kafka.member.role import NodeRole
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.assignor.group import NOT_ASSIGNED, GroupAssignment
from coordinator.core.assignor.member import GroupMember
from coordinator.runtime.ports import MembershipListener, Proof

LOG = logging.getLogger("coordinator.kafka.membership")

PROTOCOL: Final = "diskless-1"
"""The name says the form of what members tell: a member with another one cannot join."""
LOOK_S: Final = 0.5
"""How often the watchdog looks, which is told in seconds; commands wake it."""
PROOF_TIMEOUT_S: Final = 3.0
BACKOFF_MIN_S: Final = 0.2
BACKOFF_MAX_S: Final = 5.0
_NOT_A_MEMBER: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.group_id_not_found})

OnProof = Callable[[Proof], None]


class _Proving(NamedTuple):
    partition: int
    callback: OnProof


class KafkaMembership:
    """`Membership` over a connection of its own."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        bootstrap_servers: str,
        topic: str,
        group_id: str,
        client_id: str,
        session_timeout_ms: int = 6_000,
        heartbeat_interval_ms: int = 250,
        proof_timeout_s: float = PROOF_TIMEOUT_S,
        kafka_properties: Mapping[str, Any] | None = None,
        stats: KafkaStats | None = None,
    ) -> None:
        """Raises `KafkaException` for security that connections of our own do not know."""
        self.stats = stats if stats is not None else KafkaStats()
        self._loop = loop
        self._group_id = group_id
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._proof_timeout_s = proof_timeout_s
        self._loop_silence_max_s = session_timeout_ms / 2000
        bootstrap = Bootstrap.of({**(kafka_properties or {}), "bootstrap.servers": bootstrap_servers, "client.id": client_id})
        self._bootstrap = bootstrap
        self._any_place = in_turns(bootstrap.servers)
        # Node's loop only.
        self._listener: MembershipListener | None = None
        # Shared: single assignments.
        self._told = (GroupMember(node_id=-1), 0)
        self._wish = 0  # counts join() and leave(): reports of the thread for an older wish are dropped
        self._is_wanted = False
        self._closing = False
        self._alive_at_s = time.monotonic()
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        # Membership thread only.
        self._woken: asyncio.Event
        self._member: ClassicMember | None = None
        self._member_wish = 0
        self._assigned: frozenset[int] = frozenset()
        self._backoff_s = BACKOFF_MIN_S
        self._proofs: set[asyncio.Task[None]] = set()
        self._role = NodeRole(topic, told=lambda: self._told, on_taken=self._take, on_removed=self._removed)
        self._thread = threading.Thread(target=self._run, name="kafka-membership", daemon=True)

    # ---- on the node's loop

    def start(self) -> None:
        """Start the thread; the group is joined by `join`."""
        self._thread.start()

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Leave and end; False when the thread did not end in time (it is a daemon)."""
        self.leave()
        self._closing = True
        self._wake()
        return await wait_for_end(self._thread, timeout_s)

    def join(self, listener: MembershipListener) -> None:
        """Join the group; `listener` hears the whole assignment after every rebalance, also when it is unchanged."""
        self._listener = listener
        self.alive()
        self._wish += 1
        self._is_wanted = True
        self._wake()

    def leave(self) -> None:
        """Leave the group at once (idempotent); the listener hears `NOT_ASSIGNED`."""
        if not self._is_wanted:
            return
        self._wish += 1
        self._is_wanted = False
        self._wake()
        self._loop.call_soon(self._tell_listener, self._wish, NOT_ASSIGNED)

    def tell(self, member: GroupMember, partitions: int) -> None:
        """Set what the others are told in the next round, and how many partitions there are to be assigned."""
        self._told = member, partitions

    def refresh(self, why: str) -> None:
        """Ask for a round, in which what was told last counts."""
        if self._thread_loop is not None:
            post(self._thread_loop, self._refresh, why)

    def prove(self, partition: int, callback: OnProof) -> None:
        """Ask the group coordinator; the callback comes on the loop within the proof timeout."""
        question = _Proving(partition, callback)
        if self._closing or self._thread_loop is None or not post(self._thread_loop, self._begin_proof, question):
            self._loop.call_soon(callback, Proof.NOT_A_MEMBER)

    def alive(self) -> None:
        """Note that the event loop is alive; call it several times per session timeout."""
        self._alive_at_s = time.monotonic()

    def _tell_listener(self, wish: int, assignment: GroupAssignment) -> None:
        if wish == self._wish and self._listener is not None:
            self._listener.on_assignment(assignment)

    def _wake(self) -> None:
        if self._thread_loop is not None:
            post(self._thread_loop, lambda: self._woken.set())

    # ---- in the membership thread

    def _run(self) -> None:
        while not self._closing:
            try:
                asyncio.run(self._serve())
            except Exception:
                # The thread that follows assignments must not die: this node would never claim a partition again.
                self.stats.member_failures += 1
                LOG.exception("group membership failed; joining again in %.1f s", self._backoff_s)
                self._forget_assignment()
                time.sleep(self._backoff_s)

    async def _serve(self) -> None:
        self._woken = asyncio.Event()
        self._thread_loop = asyncio.get_running_loop()
        while not self._closing:
            self._woken.clear()
            if self._is_wanted and self._is_loop_heard():
                await self._be_member_until_unwanted()
            else:
                await self._wait(LOOK_S)
        for proof in self._proofs:
            proof.cancel()
        await asyncio.gather(*self._proofs, return_exceptions=True)

    async def _be_member_until_unwanted(self) -> None:
        wish = self._member_wish = self._wish
        coordinator = GroupCoordinator(self._group_id, self._connect, self._any_place)
        member = self._member = ClassicMember(
            coordinator,
            self._role,
            protocol_type=PROTOCOL_TYPE,
            protocol=PROTOCOL,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._session_timeout_ms,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
        )
        work = asyncio.get_running_loop().create_task(self._stay_member(member, coordinator), name="group-member")
        try:
            while wish == self._wish and not self._closing and self._is_loop_heard() and not work.done():
                await self._wait(LOOK_S, work)
            if not self._is_loop_heard():
                self.stats.member_watchdog_leaves += 1
                LOG.error(
                    "the event loop was silent for %.1f s, half the session timeout: leaving the group until it answers",
                    self._loop_silence_max_s,
                )
        finally:
            work.cancel()
            self._member = None
            self._forget_assignment()
            [ended] = await asyncio.gather(work, return_exceptions=True)
            try:
                await member.leave("the node leaves")
            except (GroupTrouble, BrokerLost, TimeoutError) as error:
                LOG.warning("leaving the group failed, the session will expire instead: %s", str(error) or "no answer in time")
            coordinator.drop("the node left the group")
        if isinstance(ended, Exception):
            raise ended

    async def _stay_member(self, member: ClassicMember, coordinator: GroupCoordinator) -> None:
        """Take part in rounds until it is cancelled."""
        while True:
            try:
                await member.join()
                self._backoff_s = BACKOFF_MIN_S
                await member.stay()
            except (GroupTrouble, GroupRefused, BrokerLost, TimeoutError) as error:
                self.stats.member_errors[error.code.name if isinstance(error, GroupRefused) else type(error).__name__] += 1
                LOG.warning("group %s is not reached: %s; what is assigned stays", self._group_id, str(error) or "no answer in time")
                coordinator.drop(str(error))
                await asyncio.sleep(self._backoff_s)
                self._backoff_s = min(BACKOFF_MAX_S, self._backoff_s * 2)

    async def _wait(self, seconds: float, work: asyncio.Task[None] | None = None) -> None:
        """Wait until a command comes, or `work` ends, for so long at most."""
        woken = asyncio.get_running_loop().create_task(self._woken.wait())
        try:
            await asyncio.wait([woken] if work is None else [woken, work], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self._woken.clear()

    def _is_loop_heard(self) -> bool:
        return time.monotonic() - self._alive_at_s <= self._loop_silence_max_s

    def _connect(self, find: FindPlace) -> BrokerLink:
        return BrokerLink(find, self._bootstrap.security, self._bootstrap.client_id, logs_in=True)

    def _refresh(self, why: str) -> None:
        if self._member is not None:
            self._member.refresh(why)

    # ---- assignments

    def _take(self, assignment: GroupAssignment) -> None:
        self.stats.member_assignments += 1
        self._assigned = assignment.leads
        post(self._loop, self._tell_listener, self._member_wish, assignment)

    def _removed(self) -> None:
        self.stats.member_lost += 1
        LOG.warning("the group does not know this member any longer: partitions %s are lost", sorted(self._assigned))
        self._forget_assignment()

    def _forget_assignment(self) -> None:
        self._assigned = frozenset()
        post(self._loop, self._tell_listener, self._member_wish, NOT_ASSIGNED)

    # ---- proofs

    def _begin_proof(self, question: _Proving) -> None:
        proof = asyncio.get_running_loop().create_task(self._prove(question), name="proof-of-membership")
        self._proofs.add(proof)
        proof.add_done_callback(self._proofs.discard)

    async def _prove(self, question: _Proving) -> None:
        answer = Proof.NOT_A_MEMBER
        try:
            answer = await self._ask_proof(question.partition)
        finally:
            self.stats.proofs[answer.name] += 1
            post(self._loop, question.callback, answer)

    async def _ask_proof(self, partition: int) -> Proof:
        member = self._member
        if member is None or partition not in self._assigned:
            return Proof.NOT_A_MEMBER
        if not member.is_in_generation:
            return Proof.ASK_AGAIN
        generation = member.generation
        try:
            async with asyncio.timeout(self._proof_timeout_s):
                code = await member.heartbeat()
        except (GroupTrouble, BrokerLost, TimeoutError) as error:
            self.stats.member_errors[type(error).__name__] += 1
            return Proof.ASK_AGAIN
        if code is not ErrorCode.none:
            self.stats.member_errors[code.name] += 1
            return Proof.NOT_A_MEMBER if code in _NOT_A_MEMBER else Proof.ASK_AGAIN
        if self._member is not member or partition not in self._assigned:
            return Proof.NOT_A_MEMBER
        return Proof.MEMBER if member.is_in_generation and member.generation == generation else Proof.ASK_AGAIN
