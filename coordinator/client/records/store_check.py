"""The object store of a writer is compared with that of the service before anything is uploaded: by the mark of the service in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from coordinator.client.errors import Unavailable
from coordinator.client.routing.discovery import DIRECTORY
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.store_mark import MarkedService, WrongStore, is_marked, mark_key

if TYPE_CHECKING:
    from coordinator.client.model import ClusterDescription
    from coordinator.object_store import ObjectStore

MARKED_S: Final = 5.0
"""A leader of the directory has marked the store of its service after so long, which it does first."""
PAUSE_S: Final = 0.2


class Describer(Protocol):
    """The operation of the service that a check needs; `DisklessAdmin` has it."""

    async def describe_coordinators(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Describe all coordinators."""


async def check_store(describer: Describer, store: ObjectStore, timeout_ms: int) -> None:
    """Return when the store has the mark of the client's service, or the service marks none.

    Raises `WrongStore` when it has not, `Unavailable` while no node can tell, and `StoreError` and its kinds.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_ms / 1000
    led_since_s: float | None = None
    while True:
        left_ms = max(1, round((until_s - loop.time()) * 1000))
        described = await describer.describe_coordinators(timeout_ms=left_ms)
        if described.cluster_id is not None:
            service = MarkedService(cluster_id=described.cluster_id, topic_id=topic_id_text(described.metadata_topic_id))
            if not described.is_store_marked or await is_marked(store, service):
                return
            if any(one.coordinator_id == DIRECTORY and one.leader_id >= 0 for one in described.coordinators):
                led_since_s = loop.time() if led_since_s is None else led_since_s
                if loop.time() >= min(led_since_s + MARKED_S, until_s - PAUSE_S):
                    raise WrongStore(
                        f"{store.location} is not the object store of this service ({service}): it has no object {mark_key(service)}, by"
                        " which the service marks its store; use the store that object.store.url of the nodes names"
                    )
        if loop.time() + PAUSE_S >= until_s:
            raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no node could tell in time whether {store.location} is the service's")
        await asyncio.sleep(PAUSE_S)
