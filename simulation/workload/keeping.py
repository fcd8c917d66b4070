"""The client of a run that changes how long topics are kept, and how much of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from coordinator.core.commands import AlterTopicConfigs, ConfigChange, Outcome, TopicAlteration
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.topic_configs import RETENTION_BYTES, RETENTION_MS, ConfigOperation
from coordinator.runtime.node.node import Node
from simulation.judge import JudgedTopic
from simulation.workload.clients import TIMEOUT_MS, Asker

VALUES = {RETENTION_MS: ("-1", "-1", "300", "1500"), RETENTION_BYTES: ("-1", "-1", "0", "50")}


class KeepingClient(Asker):
    """Sets the retention of some topic at whatever node; one that does not lead the directory does not answer."""

    pause_s = (0.2, 1.5)

    async def _turn(self) -> None:
        rng, clients = self._rng, self._clients
        topics = [topic for topic in clients.judge.topics.values() if topic.is_created and not topic.is_going]
        if topics:
            name = rng.choice(sorted(VALUES))
            await clients.ask(rng.randrange(clients.nodes), self._work(rng.choice(topics), name, rng.choice(VALUES[name])))

    def _work(self, topic: JudgedTopic, name: str, value: str) -> Callable[[Node], Awaitable[None]]:
        judged = self._clients.judge.retention
        change = ConfigChange(name=name, operation=ConfigOperation.SET, value=value)
        command = AlterTopicConfigs(alterations=[TopicAlteration(topic=topic.name, changes=(change,))])

        async def work(node: Node) -> None:
            if node.replicas.is_leading(DIRECTORY_PARTITION):
                [outcome] = cast(list[Outcome], await node.replicas[DIRECTORY_PARTITION].ask(command, TIMEOUT_MS))
                if judged is not None and not outcome.error:
                    judged.altered(topic.topic_id, name, value)

        return work
