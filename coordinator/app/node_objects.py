"""The object store of a node, which holds WAL files and snapshots, as its settings name it."""

from __future__ import annotations

from coordinator.adapters.objectstore import StoreOptionError, open_store
from coordinator.config.settings import Settings
from coordinator.object_store import ObjectStore
from coordinator.runtime.failures import FatalError


def open_objects(settings: Settings) -> ObjectStore | None:
    """Open the store without talking to it; None for memory://, which would show each process other objects. Raises `FatalError`."""
    if settings.object_store_url.scheme == "memory":
        return None
    try:
        return open_store(
            settings.object_store_url, settings.object_store_option, request_timeout_ms=settings.object_store_request_timeout_ms
        )
    except StoreOptionError as error:
        raise FatalError(str(error)) from error
