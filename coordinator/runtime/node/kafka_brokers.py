"""The brokers of the Kafka cluster, as this node heard of them last.

Invariant: Kafka is asked at most once in `KEPT_S`, however many ask here, and at most one question is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator.runtime.ports import KafkaBroker, KafkaUnavailable

LOG = logging.getLogger("coordinator.brokers")

KEPT_S: Final = 10.0
"""Brokers come and go in minutes; a question to Kafka costs a connection."""
WAIT_S: Final = 1.0
"""How long a new answer is waited for while an older one is there."""


class KafkaBrokers:
    """Asks Kafka when its last answer is old. Used on one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[tuple[KafkaBroker, ...]]]) -> None:
        """`ask` is `Cluster.brokers`."""
        self._ask = ask
        self._asking = asyncio.Lock()
        self._brokers: tuple[KafkaBroker, ...] = ()
        self._heard_s = 0.0
        self._next_s = 0.0

    async def known(self, timeout_s: float) -> tuple[KafkaBroker, ...]:
        """Return the brokers by id: Kafka's answer, or, while it gives none, its last one. Raises `KafkaUnavailable`."""
        try:
            async with asyncio.timeout(min(WAIT_S, timeout_s) if self._brokers else timeout_s), self._asking:
                await self._ask_if_due()
        except (KafkaUnavailable, TimeoutError) as error:
            why = str(error) or "Kafka did not answer in time"
            if not self._brokers:
                raise KafkaUnavailable(why) from error
            LOG.warning("brokers are those of an earlier answer age_ms=%d: %s", self.age_ms, why)
        return self._brokers

    async def _ask_if_due(self) -> None:
        now_s = asyncio.get_running_loop().time
        if self._brokers and now_s() < self._next_s:
            return
        self._next_s = now_s() + KEPT_S
        self._brokers = await self._ask()
        self._heard_s = now_s()

    @property
    def age_ms(self) -> int:
        """How long ago Kafka answered last; -1 if it never did."""
        return int((asyncio.get_running_loop().time() - self._heard_s) * 1000) if self._brokers else -1
