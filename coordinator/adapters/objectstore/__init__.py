"""The object store: WAL files, durable snapshots.

    store = open_store(settings.object_store_url, settings.object_store_option)

`port` says what a store does, `store` and `local` do it over obstore.
"""

from coordinator.adapters.objectstore.opening import StoreOptionError, open_store
from coordinator.adapters.objectstore.port import (
    Deleted,
    InvalidKey,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreDenied,
    StoredObject,
    StoreError,
    StoreUnavailable,
)

__all__ = [
    "Deleted",
    "InvalidKey",
    "ObjectExists",
    "ObjectMissing",
    "ObjectStore",
    "StoreDenied",
    "StoreError",
    "StoreOptionError",
    "StoreUnavailable",
    "StoredObject",
    "open_store",
]
