"""All records of a topic, read by the service's own client, which knows nothing of gateways."""

from __future__ import annotations

import asyncio

from coordinator.adapters.objectstore import open_store
from coordinator.client import DisklessClient
from integration_tests.service import Service
from records.record_batch import StoredRecord

OPTION = "object.store.option."


def stored_records(service: Service, topic: str) -> list[StoredRecord]:
    """Read them from the service's object store."""

    async def read() -> list[StoredRecord]:
        given = service.properties
        options = {name.removeprefix(OPTION).replace(".", "_"): value for name, value in given.items() if name.startswith(OPTION)}
        store = open_store(given["object.store.url"], options)
        async with DisklessClient(service.addresses, object_store=store) as client:
            return [record async for record in client.read(topic)]

    return asyncio.run(read())
