"""What clients see: the view of each listener and zone, made anew when brokers, gateways or leaders of coordinators change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from coordinator.client.errors import ServiceError
from coordinator.runtime.answers.gateway_plan import CoordinatorPlace
from coordinator.runtime.ports import KafkaBroker
from gateway.brokers.cluster import RealCluster
from gateway.ports import Catalogue, DisklessTopic, Session
from gateway.view.model import Gateway
from gateway.view.view import View, view_of

LOG = logging.getLogger(__name__)


class FindsUnfinished(Protocol):
    """Tells shadows whose creation is not finished from classic topics."""

    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        """Return the ids of those topics, by name and id, that may not be shown as classic ones. Raises `BrokerLost`."""


class GatewaySights:
    """Implements `gateway.front.discovery.Sights`. Used on one event loop."""

    def __init__(
        self,
        cluster: RealCluster,
        *,
        gateways: Callable[[], Sequence[Gateway]],
        coordinators: Callable[[], Sequence[CoordinatorPlace]],
        catalogue: Catalogue,
        shadows: FindsUnfinished,
    ) -> None:
        self._cluster = cluster
        self._gateways = gateways
        self._coordinators = coordinators
        self._catalogue = catalogue
        self._shadows = shadows
        self._views: dict[tuple[str, str | None], View] = {}

    def changed(self) -> None:
        """Make views anew when they are wanted next."""
        self._views.clear()

    def of(self, session: Session) -> View:
        """Return the view of a client."""
        return self.view(session.listener, session.zone)

    def view(self, listener: str, zone: str | None) -> View:
        """Return the view of a listener's clients in a zone; that of clients in no zone if no gateway is there."""
        racks = {one.rack for one in self._gateways()}
        zone = zone if zone in racks else None  # clients choose their zone: other names must not fill the memory
        found = self._views.get((listener, zone))
        if found is None:
            found = view_of(self._cluster.brokers, self._gateways(), self._coordinators(), listener=listener, zone=zone)
            self._views[listener, zone] = found
        return found

    def learn(self, answer: Any) -> None:
        """Take note of the brokers that a Metadata answer of a broker names."""
        self._cluster.learn(KafkaBroker(int(one.node_id), one.rack or "", one.host, int(one.port)) for one in answer.brokers)

    def diskless(self, topic_id: bytes) -> DisklessTopic | None:
        """Return the diskless topic of an id."""
        return self._catalogue.identified(topic_id)

    async def grow(self, partitions: Mapping[bytes, int]) -> None:
        """Look diskless topics up, by id, that have more partitions in Kafka than are known here: another gateway has grown them."""
        known = ((self._catalogue.identified(topic_id), number) for topic_id, number in partitions.items())
        if not any(topic is not None and topic.partitions < number for topic, number in known):
            return
        try:
            await self._catalogue.refreshed()
        except ServiceError as error:
            LOG.info("grown topics not listed error=%r; they are shown as they were", str(error))

    async def unfinished(self, topics: Sequence[tuple[str, bytes]]) -> frozenset[bytes]:
        """See `FindsUnfinished`."""
        return await self._shadows.unfinished(topics)
