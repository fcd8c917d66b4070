"""The member of the consumer group whose assignment is the permission to claim metadata partitions.

One thread owns the consumer; the event loop queues commands to it. The member fetches nothing: an assigned partition is
positioned at the end and paused.

Rules kept here:
- Leaving is `unsubscribe()`, never silence: under KIP-848 a client that stops polling stays a member.
- The watchdog: while the event loop does not call `alive()` within half the session timeout, the thread leaves, and it
  joins again only after the loop was heard once more, so that a hung process does not keep partitions.
- The proof of membership is an asynchronous, generation-checked offset commit with a deadline of its own; a synchronous
  one blocks for seconds during a rebalance. It succeeds for partitions of others too, hence the partition must also be
  in the current assignment, both when it is asked and when it is answered.
- The thread survives every exception: it counts, logs, backs off and joins with a new consumer.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from coordinator.adapters.kafka.bridge import post, wait_for_end
from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.runtime.ports import MembershipListener, Proof

LOG = logging.getLogger("coordinator.kafka.membership")

POLL_S = 0.05
"""Upper bound of the delay of a command."""
POLL_WITHOUT_PARTITIONS_S = 0.2
"""The same for a member without partitions, which has nothing to prove and nothing to hand over. An assignment ends the wait."""
PROOF_TIMEOUT_S = 3.0
BACKOFF_MIN_S = 0.5
BACKOFF_MAX_S = 10.0

NOT_A_MEMBER_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID, KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH, KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FENCED, KafkaError._ASSIGNMENT_LOST, KafkaError._UNKNOWN_GROUP,
    }
)  # fmt: skip

GroupProtocol = Literal["classic", "consumer"]
OnProof = Callable[[Proof], None]


class _Proving(NamedTuple):
    partition: int
    deadline_s: float
    callback: OnProof


class KafkaMembership:
    """`Membership` over a consumer that never fetches."""

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
        group_protocol: GroupProtocol = "classic",
        proof_timeout_s: float = PROOF_TIMEOUT_S,
        kafka_properties: Mapping[str, Any] | None = None,
        stats: KafkaStats | None = None,
    ) -> None:
        """With `group_protocol="consumer"` the broker decides session timeout and heartbeat; ours times the watchdog."""
        self._loop = loop
        self._topic = topic
        self._proof_timeout_s = proof_timeout_s
        self._loop_silence_max_s = session_timeout_ms / 2000
        self.stats = stats if stats is not None else KafkaStats()
        fixed: dict[str, Any] = {
            "group.id": group_id,
            "group.protocol": group_protocol,
            "max.poll.interval.ms": max(10_000, session_timeout_ms + 5_000),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "on_commit": self._on_commit,
        }
        if group_protocol == "classic":
            fixed["partition.assignment.strategy"] = "cooperative-sticky"
            fixed["session.timeout.ms"] = session_timeout_ms
            fixed["heartbeat.interval.ms"] = heartbeat_interval_ms
        self._properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="member",
            defaults={"fetch.wait.max.ms": 100},
            fixed=fixed,
            user=kafka_properties or {},
            stats=self.stats,
        )
        # Loop only.
        self._listener: MembershipListener | None = None
        # Shared: single assignments, or under the condition.
        self._condition = threading.Condition()
        self._questions: deque[_Proving] = deque()
        self._wish = 0  # counts join() and leave(): reports of the thread for an older wish are dropped
        self._is_wanted = False
        self._closing = False
        self._alive_at_s = time.monotonic()
        # Membership thread only.
        self._consumer: Consumer | None = None
        self._is_subscribed = False
        self._subscribed_wish = 0
        self._is_fatal = False
        self._assigned: frozenset[int] = frozenset()
        self._proving: dict[int, _Proving] = {}
        self._proof_number = 0
        self._backoff_s = BACKOFF_MIN_S
        self._thread = threading.Thread(target=self._run, name="kafka-membership", daemon=True)

    # ---- on the loop

    def start(self) -> None:
        """Start the thread; the group is joined by `join`."""
        self._thread.start()

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Leave and end; False when the thread did not end in time (it is a daemon)."""
        self.leave()
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        return await wait_for_end(self._thread, timeout_s)

    def join(self, listener: MembershipListener) -> None:
        """Join the group; `listener` hears the whole assignment after every rebalance, also when it is unchanged."""
        self._listener = listener
        self.alive()
        self._wish_for(is_wanted=True)

    def leave(self) -> None:
        """Leave the group at once (idempotent); the listener hears an empty assignment."""
        if not self._is_wanted:
            return
        self._wish_for(is_wanted=False)
        self._loop.call_soon(self._tell, self._wish, frozenset())

    def prove(self, partition: int, callback: OnProof) -> None:
        """Ask the group coordinator; the callback comes on the loop within the proof timeout and a poll."""
        if self._closing:
            self._loop.call_soon(callback, Proof.NOT_A_MEMBER)
            return
        with self._condition:
            self._questions.append(_Proving(partition, time.monotonic() + self._proof_timeout_s, callback))
            self._condition.notify_all()

    def alive(self) -> None:
        """Note that the event loop is alive; call it several times per session timeout."""
        self._alive_at_s = time.monotonic()

    def _wish_for(self, *, is_wanted: bool) -> None:
        with self._condition:
            self._wish += 1
            self._is_wanted = is_wanted
            self._condition.notify_all()

    def _tell(self, wish: int, partitions: frozenset[int]) -> None:
        if wish == self._wish and self._listener is not None:
            self._listener.on_assignment(partitions)

    # ---- in the membership thread

    def _run(self) -> None:
        while not self._closing:
            try:
                self._step()
            except Exception:
                # The loop that follows assignments must not die: this node would never claim a partition again.
                self.stats.member_failures += 1
                LOG.exception("group membership failed; joining again in %.1f s", self._backoff_s)
                self._start_over()
        try:
            self._leave_group()
        except KafkaException as error:
            LOG.warning("leaving the group failed, the session will expire instead: %s", error)
        self._answer_all(Proof.NOT_A_MEMBER)
        self._close_consumer()

    def _step(self) -> None:
        with self._condition:
            is_wanted, wish = self._is_wanted, self._wish
        is_wanted = is_wanted and self._is_loop_heard()
        if self._is_subscribed and (not is_wanted or wish != self._subscribed_wish):
            if not self._is_loop_heard():
                self.stats.member_watchdog_leaves += 1
                LOG.error(
                    "the event loop was silent for %.1f s, half the session timeout: leaving the group until it answers",
                    self._loop_silence_max_s,
                )
            self._leave_group()
        if is_wanted and not self._is_subscribed:
            self._join_group(wish)
        self._ask_questions()
        self._poll()
        self._expire_proofs()
        if self._is_fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL, "the group member failed for good"))

    def _is_loop_heard(self) -> bool:
        return time.monotonic() - self._alive_at_s <= self._loop_silence_max_s

    def _poll(self) -> None:
        consumer = self._consumer
        if consumer is None:
            with self._condition:
                self._condition.wait_for(lambda: self._closing or bool(self._questions) or self._is_wanted, POLL_S)
            return
        message = consumer.poll(POLL_S if self._assigned or self._proving else POLL_WITHOUT_PARTITIONS_S)
        if message is None:
            return
        error = message.error()
        if error is None:
            return  # fetched before the pause took hold; it means nothing here
        self.stats.member_errors[error.name()] += 1
        if error.fatal():
            LOG.error("group member: %s", error)
            self._is_fatal = True

    def _join_group(self, wish: int) -> None:
        if self._consumer is None:
            self._consumer = Consumer(self._properties)
        self._subscribed_wish = wish
        self._is_subscribed = True
        self._consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _leave_group(self) -> None:
        if not self._is_subscribed or self._consumer is None:
            return
        self._is_subscribed = False
        self._assigned = frozenset()
        self._report()
        self._consumer.unsubscribe()

    def _start_over(self) -> None:
        self._is_subscribed = False
        self._is_fatal = False
        self._assigned = frozenset()
        self._report()
        self._close_consumer()
        end_s = time.monotonic() + self._backoff_s
        while not self._closing and (rest_s := end_s - time.monotonic()) > 0:
            self._answer_all(Proof.NOT_A_MEMBER)
            with self._condition:
                self._condition.wait_for(lambda: self._closing or bool(self._questions), rest_s)
        self._backoff_s = min(BACKOFF_MAX_S, self._backoff_s * 2)

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            consumer.close()
        except (KafkaException, RuntimeError) as error:
            LOG.warning("closing the group member failed: %s", error)

    # ---- assignments

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.stats.member_assignments += 1
        self._backoff_s = BACKOFF_MIN_S
        at_end = [TopicPartition(item.topic, item.partition, OFFSET_END) for item in partitions]
        consumer.incremental_assign(at_end)
        if at_end:
            consumer.pause(at_end)
        if self._is_subscribed:
            self._assigned |= {item.partition for item in partitions}
            self._report()

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.stats.member_revoked += 1
        self._take_away(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.stats.member_lost += 1
        LOG.warning("group membership is unknown: partitions %s are lost", sorted(item.partition for item in partitions))
        self._take_away(consumer, partitions)

    def _take_away(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        consumer.incremental_unassign(list(partitions))
        if self._is_subscribed:
            self._assigned -= {item.partition for item in partitions}
            self._report()

    def _report(self) -> None:
        post(self._loop, self._tell, self._subscribed_wish, self._assigned)

    # ---- proofs

    def _ask_questions(self) -> None:
        while self._questions:
            question = self._questions.popleft()
            consumer = self._consumer
            if consumer is None or not self._is_subscribed or question.partition not in self._assigned:
                self._answer(question, Proof.NOT_A_MEMBER)
                continue
            # The committed offset is never read; as a number it tells the answers of several questions apart.
            self._proof_number += 1
            try:
                consumer.commit(offsets=[TopicPartition(self._topic, question.partition, self._proof_number)], asynchronous=True)
            except KafkaException as error:
                self._answer(question, self._proof_of(question.partition, error.args[0]))
                continue
            self._proving[self._proof_number] = question

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        for item in partitions:
            question = self._proving.pop(item.offset, None)
            if question is not None:
                self._answer(question, self._proof_of(question.partition, error if error is not None else item.error))

    def _proof_of(self, partition: int, error: KafkaError | None) -> Proof:
        if error is None:
            return Proof.MEMBER if self._is_subscribed and partition in self._assigned else Proof.NOT_A_MEMBER
        self.stats.member_errors[error.name()] += 1
        return Proof.NOT_A_MEMBER if error.code() in NOT_A_MEMBER_ERRORS else Proof.ASK_AGAIN

    def _expire_proofs(self) -> None:
        now_s = time.monotonic()
        for number in [number for number, question in self._proving.items() if now_s >= question.deadline_s]:
            self._answer(self._proving.pop(number), Proof.ASK_AGAIN)

    def _answer_all(self, proof: Proof) -> None:
        while self._proving:
            self._answer(self._proving.popitem()[1], proof)
        while self._questions:
            self._answer(self._questions.popleft(), proof)

    def _answer(self, question: _Proving, proof: Proof) -> None:
        self.stats.proofs[proof.name] += 1
        post(self._loop, question.callback, proof)
