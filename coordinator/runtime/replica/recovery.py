"""The way from following to claiming: find the end of the log, prove membership where it must be proven, then allow the claim."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coordinator.core.events import Event, Invalidated, MayClaim
from coordinator.runtime.ports import KafkaUnavailable, Proof, TopicMissing
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts

LOG = logging.getLogger("coordinator.replica")

PROOF_BACKOFF_S = (0.05, 0.3)
REFUSALS_COUNTED_MAX = 4
"""Each refusal in a row doubles the back-off before the next claim, up to this one."""
RETRY_BACKOFF_S = (0.2, 1.0)


class Recovery:
    """Recovers one replica as often as its core asks for it; `feed` tells the core what came of it."""

    def __init__(
        self,
        identity: ReplicaIdentity,
        ports: ReplicaPorts,
        *,
        feed: Callable[[Event], None],
        on_log_lost: Callable[[str], None],
    ) -> None:
        """`on_log_lost` hears that the log ends before what the replica has read of it."""
        self.refused_terms = 0
        """Terms in a row of which Kafka took no entry, or none but the claim, before one failed."""
        self.refusal = ""
        """Why Kafka refused the last one."""
        self._partition = identity.partition
        self._topic_id = identity.topic_id
        self._cluster = ports.cluster
        self._membership = ports.membership
        self._loop = ports.loop
        self._rng = ports.rng
        self._feed = feed
        self._on_log_lost = on_log_lost
        self._task: asyncio.Task[None] | None = None

    def note_refusal(self, error: str) -> None:
        """Kafka refused an entry of a term."""
        self.refused_terms += 1
        self.refusal = error

    def forget_refusals(self) -> None:
        """Kafka takes entries, or this node stays away for a while."""
        self.refused_terms = 0

    def start(self, *, prove: bool, next_offset: int) -> None:
        """Recover, from the beginning if that is under way; `prove` as in `core.events.Recover`.

        The replica has read everything before `next_offset`.
        """
        self.cancel()
        self._task = self._loop.create_task(self._recover(prove, next_offset), name=f"recover-{self._partition}")

    def cancel(self) -> None:
        """Stop recovering, if that is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _recover(self, prove: bool, next_offset: int) -> None:
        """Find the end of the log (and prove membership after it, so that no later claim goes unnoticed), then allow the claim."""
        if prove:
            await asyncio.sleep(self._rng.uniform(*PROOF_BACKOFF_S) * 2 ** min(self.refused_terms, REFUSALS_COUNTED_MAX))
        while True:
            try:
                topic_id = await self._cluster.topic_id()
                if topic_id != self._topic_id:
                    self._feed(Invalidated("the metadata topic was deleted and created anew"))
                    return
                _, end = await self._cluster.log_range(self._partition)
                if end < next_offset:
                    self._on_log_lost(f"everything before offset {next_offset} was read, but the log ends at {end}")
                    return
                if not prove or await self.prove_membership() is Proof.MEMBER:
                    self._feed(MayClaim(end, self._rng.getrandbits(63) | 1))
                    return
            except (KafkaUnavailable, TopicMissing) as unavailable:
                LOG.warning("recovery waits for Kafka partition=%d error=%r", self._partition, str(unavailable))
            except Exception:
                # Any error, of the system's threads say: without this task the partition would have no leader.
                LOG.exception("recovery failed unforeseen and is tried again partition=%d", self._partition)
            await asyncio.sleep(self._rng.uniform(*RETRY_BACKOFF_S))

    async def prove_membership(self) -> Proof:
        proof: asyncio.Future[Proof] = self._loop.create_future()
        self._membership.prove(self._partition, lambda value: None if proof.done() else proof.set_result(value))
        return await proof
