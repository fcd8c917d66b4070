"""The object store (`coordinator.object_store`) over obstore: WAL files, durable snapshots.

store = open_store(settings.object_store_url, settings.object_store_option)
"""

from coordinator.adapters.objectstore.opening import StoreFolderMissing, StoreOptionError, open_store

__all__ = ["StoreFolderMissing", "StoreOptionError", "open_store"]
