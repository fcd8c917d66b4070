"""The real brokers, as Kafka named them last, and which of them a connection goes to.

Brokers are asked every few seconds over a connection with the gateway's own login; what Metadata answers of clients name is taken note of
between two looks. Invariant: a broker that was known once stays known until a look does not find it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from coordinator.adapters.kafka.brokers import describe_brokers
from coordinator.adapters.kafka.link import BrokerLost, Place
from coordinator.runtime.ports import KafkaBroker

LOG = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
LOOK_TIMEOUT_S: Final = 10.0


class RealCluster:
    """See the module. Used on one event loop."""

    def __init__(self, properties: Mapping[str, Any], changed: Callable[[], None]) -> None:
        """`properties` are librdkafka's: bootstrap servers, client id and security. `changed` is called after every change."""
        self._properties = properties
        self._changed = changed
        self._brokers: dict[int, KafkaBroker] = {}
        self._rng = random.Random()
        self.are_known = asyncio.Event()
        """Set once the brokers were found."""

    @property
    def brokers(self) -> tuple[KafkaBroker, ...]:
        """The brokers in service, by id."""
        return tuple(self._brokers[broker_id] for broker_id in sorted(self._brokers))

    async def follow(self) -> None:
        """Look again and again. Ends by being cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S if self.are_known.is_set() else LOOK_EVERY_S / 4)

    async def look(self) -> None:
        """Ask for the brokers; what fails is logged, and the brokers known before stay."""
        try:
            found = await asyncio.to_thread(describe_brokers, self._properties, LOOK_TIMEOUT_S)
        except KafkaException as error:
            LOG.warning("brokers not found error=%r; those known stay", str(error))
            return
        if dict(self._brokers) != (now := {one.broker_id: one for one in found}):
            LOG.info("brokers found brokers=%s", [f"{one.broker_id}:{one.host}:{one.port}" for one in found])
            self._brokers = now
            self._changed()
        self.are_known.set()

    def learn(self, brokers: Iterable[KafkaBroker]) -> None:
        """Take note of brokers that an answer named."""
        news = {one.broker_id: one for one in brokers if self._brokers.get(one.broker_id) != one}
        if news:
            self._brokers.update(news)
            self._changed()

    async def any_place(self, unreached: Collection[Place]) -> Place:
        """Return where some broker is, other than those that cannot be reached. Raises `BrokerLost`."""
        places = [(one.host, one.port) for one in self._brokers.values()]
        if not (left := [one for one in places if one not in unreached]):
            raise BrokerLost("no other broker of the cluster is known" if places else "no broker of the cluster is known yet")
        return self._rng.choice(left)

    async def place(self, broker_id: int, unreached: Collection[Place]) -> Place:
        """Return where a broker is. Raises `BrokerLost`, also if it was not reached there."""
        broker = self._brokers.get(broker_id)
        if broker is None or (broker.host, broker.port) in unreached:
            raise BrokerLost(f"broker {broker_id} is not in service")
        return broker.host, broker.port
