"""The folder of a local object store, made or refused when a node starts.

The node keeps snapshots in it and gives out places in WAL files: what is wrong with the folder would otherwise show when the first
snapshot or file is uploaded or read. Only a node makes the folder; `diskless doctor` and the other commands look and say what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path

from coordinator.config.values import StoreUrl
from records.durable import sync


class StoreFolderError(Exception):
    """The folder of the object store cannot be used; the text names it, what is wrong, and the remedy."""


def prepare_store_folder(url: StoreUrl) -> None:
    """Make the folder of a `file://` store if it is missing, and see that it can be used. Raises `StoreFolderError`."""
    if url.scheme != "file":
        return
    folder = Path(url.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
    except FileExistsError:
        raise StoreFolderError(
            f"object.store.url={url}: {folder} is a file, and a folder is needed; move it away, or correct the URL"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreFolderError(
            f"object.store.url={url}: {folder} cannot be made ({reason}); mount it, or correct owner and mode"
        ) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreFolderError(f"object.store.url={url}: this process may not read and write {folder}; correct its owner and mode")
