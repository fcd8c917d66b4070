"""Gateways with their racks, as the monitor gets them: asked of their group over connections of our own, because librdkafka tells no
metadata of members.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from cli.kafka.cluster import KafkaPlace
from cli.looks.gateways import find_gateways
from cli.outcome import Failed
from spark_jobs.monitor.topic import TopicBroker

LOG = logging.getLogger("monitor")

ASK_EVERY_S: Final = 60.0
ASK_TIMEOUT_S: Final = 2.0


class GatewayRacks:
    """Asks at most every `ASK_EVERY_S`. While Kafka does not tell, those stay that it told last, and the reason is logged once."""

    def __init__(self, kafka: KafkaPlace, group_id: str) -> None:
        self._kafka = kafka
        self._group_id = group_id
        self._known: list[TopicBroker] = []
        self._failure = ""
        self._due_s = 0.0

    def __call__(self) -> list[TopicBroker]:
        """Return the gateways as uploaders. Blocks."""
        if time.monotonic() < self._due_s:
            return self._known
        self._due_s = time.monotonic() + ASK_EVERY_S
        try:
            found = asyncio.run(find_gateways(self._kafka, self._group_id, ASK_TIMEOUT_S))
        except Failed as error:
            if str(error) != self._failure:
                LOG.warning("the racks of gateways are not known: %s", error)
            self._failure = str(error)
        else:
            self._failure = ""
            self._known = [TopicBroker(one.node_id, one.rack, next((at.host for at in one.listeners.values()), "")) for one in found]
        return self._known
