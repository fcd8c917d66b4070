"""All records of a topic, read by the service's own client, which knows nothing of gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from coordinator.adapters.objectstore import open_store
from coordinator.client import DisklessClient
from coordinator.object_store import ObjectStore
from integration_tests.service import Service
from records.record_batch import StoredRecord

OPTION = "object.store.option."


def stored_records(
    service: Service, topic: str, store: ObjectStore | None = None, starts: Mapping[int, int] | None = None
) -> list[StoredRecord]:
    """Read them from the service's object store; `store` is a shorter way to it. Partitions in `starts` are read from there on."""

    async def read() -> list[StoredRecord]:
        async with DisklessClient(service.addresses, object_store=store or _store_of(service)) as client:
            return [record async for record in client.read(topic, offset=starts)]

    return asyncio.run(read())


def _store_of(service: Service) -> ObjectStore:
    given = service.properties
    options = {name.removeprefix(OPTION).replace(".", "_"): value for name, value in given.items() if name.startswith(OPTION)}
    return open_store(given["object.store.url"], options)
