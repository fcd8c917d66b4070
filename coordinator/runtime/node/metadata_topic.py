"""The metadata topic under a node: waited for or created at the start, safe to lead on, and the same one while the node lives.

A topic that would lose acknowledged data, is gone, or is another one than before, ends the process (`FatalError`). A node whose data
directories hold state had a topic: it does not create an empty one in place of that. That it cannot be
looked at, because Kafka is unreachable or refuses, is counted and tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from coordinator.core.topic_rules import ReplicaSets, Severity, check_topic, may_lead, wanted_config
from coordinator.kafka.names import topic_id_text
from coordinator.runtime.failures import FatalError
from coordinator.runtime.node.config import NodeConfig
from coordinator.runtime.ports import Cluster, ClusterRefused, KafkaUnavailable, TopicFacts, TopicMissing
from coordinator.store_mark import MarkedService

LOG = logging.getLogger("coordinator.node")

MISSING_CHECKS_MAX = 3
"""The topic counts as deleted when this number of checks in a row miss it: a restarting broker may not know it yet."""


class MetadataTopic:
    """See the module's text; one per node."""

    def __init__(self, *, config: NodeConfig, cluster: Cluster, rng: random.Random) -> None:
        self.facts: TopicFacts | None = None
        """The topic as it was described last; None before that."""
        self.failed_checks: Counter[str] = Counter()
        """How often the topic could not be looked at while the node served, by reason."""
        self._config = config
        self._cluster = cluster
        self._rng = rng

    def service(self) -> MarkedService | None:
        """The log of this node; None before Kafka was reached."""
        return None if self.facts is None else MarkedService(cluster_id=self.facts.cluster_id, topic_id=topic_id_text(self.facts.topic_id))

    async def count_partitions(self) -> int:
        """The number of partitions that the topic has now. Raises `KafkaUnavailable`, `TopicMissing`."""
        return len((await self._cluster.describe_topic()).partitions)

    async def await_safe(self) -> TopicFacts:
        """Wait for a topic that is safe to lead on. Raises `FatalError`, `ClusterRefused`."""
        facts = await self._await_topic()
        self._check(facts)
        self.facts = facts
        return facts

    async def is_there(self) -> bool:
        """Whether the topic is there, as far as one can know; raises `FatalError` when it is another one."""
        try:
            topic_id = await self._cluster.topic_id()
        except KafkaUnavailable as unavailable:
            self._note_failed_check(unavailable)
            return True
        except TopicMissing:
            return False
        self._check_same_topic(topic_id)
        return True

    async def guard(self, facts: TopicFacts, *, use: Callable[[TopicFacts], Awaitable[None]], note_round: Callable[[], None]) -> None:
        """Look at the topic every few seconds, for ever: its id, its settings, its replicas.

        `use` gets the facts of each look that found nothing wrong; `note_round` is called at the beginning and after each look
        that succeeded. Raises `FatalError`.
        """
        note_round()
        missing = 0
        while True:
            await asyncio.sleep(self._config.topic_check_interval_ms / 1000)
            missing = 0 if await self.is_there() else missing + 1
            if missing >= MISSING_CHECKS_MAX:
                raise FatalError(f"topic {facts.topic} was deleted under the running service: its acknowledged entries are gone")
            if missing:
                continue
            try:
                now = await self._cluster.describe_topic()
                self._check_same_topic(now.topic_id)  # the topic may have been created anew since the check above
                self.facts = now
                self._check(now)
                await use(now)
            except (KafkaUnavailable, TopicMissing) as unavailable:
                self._note_failed_check(unavailable)
                continue
            note_round()

    async def _await_topic(self) -> TopicFacts:
        """Wait for Kafka, and for the topic, which is created when allowed. Raises `FatalError`, `ClusterRefused`."""
        missing = 0
        while True:
            try:
                return await self._cluster.describe_topic()
            except TopicMissing:
                missing += 1
                if not self._config.topic_auto_create or not self._config.state_found_in:
                    await self._create_topic()
                elif missing >= MISSING_CHECKS_MAX:
                    raise FatalError(self._vanished()) from None
            except ClusterRefused:
                raise
            except KafkaUnavailable as unavailable:
                LOG.warning("waiting for Kafka error=%r", str(unavailable))
            await asyncio.sleep(self._rng.uniform(*self._config.pauses.kafka_retry_s))

    def _vanished(self) -> str:
        return (
            f"topic {self._config.topic} does not exist, but {self._config.state_found_in} holds the state of a service that had it: it was"
            " deleted, or bootstrap.servers leads to another Kafka. An empty one is not put in its place: `diskless restore start` makes it"
            " anew from the snapshots in the object store; to give up what was committed, run `diskless init`"
        )

    async def _create_topic(self) -> None:
        config = self._config
        if not config.topic_auto_create:
            raise FatalError(
                f"topic {config.topic} does not exist and diskless.metadata.topic.auto.create is false: run `diskless init`, or allow it"
            )
        try:
            await self._cluster.create_topic(
                partitions=config.topic_partitions,
                replication_factor=config.expectations.replication_factor,
                config=wanted_config(config.expectations),
            )
            LOG.info("metadata topic created topic=%s partitions=%d", config.topic, config.topic_partitions)
        except ClusterRefused:
            raise
        except KafkaUnavailable as unavailable:
            LOG.warning("metadata topic cannot be created yet error=%r", str(unavailable))

    def _check(self, facts: TopicFacts) -> None:
        """Refuse to lead on a topic that would lose acknowledged data silently. Raises `FatalError`."""
        replica_sets = [ReplicaSets(partition=p.partition, replicas=p.replicas, in_sync=p.in_sync) for p in facts.partitions]
        findings = check_topic(topic=facts.topic, config=facts.config, partitions=replica_sets, expectations=self._config.expectations)
        for finding in findings:
            if finding.severity is Severity.WARN:
                LOG.warning(
                    "metadata topic key=%s value=%s reason=%r remedy=%r", finding.key, finding.value, finding.reason, finding.remedy
                )
        if not may_lead(findings):
            refused = [f for f in findings if f.severity is Severity.REFUSE]
            lines = "; ".join(f"{f.key}={f.value}: {f.reason}. Fix: {f.remedy}" for f in refused)
            raise FatalError(f"topic {facts.topic} is not safe to lead on: {lines}")

    def _check_same_topic(self, topic_id: bytes) -> None:
        """Raise `FatalError` when the topic is another one."""
        if self.facts is not None and topic_id != self.facts.topic_id:
            raise FatalError(
                f"topic {self._config.topic} was deleted and created anew while the service was running: its state belongs to the old"
                " topic. Start again with empty data directories to serve the new one, or restore the old one"
            )

    def _note_failed_check(self, error: KafkaUnavailable | TopicMissing) -> None:
        reason = "refused" if isinstance(error, ClusterRefused) else "missing" if isinstance(error, TopicMissing) else "unavailable"
        self.failed_checks[reason] += 1
        LOG.warning("metadata topic cannot be checked reason=%s error=%r", reason, str(error))
