"""Which objects can be those of files: others stay, whatever keys were committed, and whatever a store lists."""

from __future__ import annotations

from coordinator.object_store import InvalidKey, check_key
from coordinator.store_mark import KEPT


def kept_prefixes(snapshots: str) -> dict[str, str]:
    """The prefixes below which no object is one of a file, each with what its objects are. Snapshots are below `snapshots`."""
    return {snapshots: "a snapshot", **KEPT}


def why_no_file(key: str, kept_prefix: str) -> str:
    """Why an object of this key is not one of a file, as the end of a sentence; empty if it may be one.

    Snapshots are below `kept_prefix`.
    """
    try:
        check_key(key)
    except InvalidKey as invalid:
        return f"no store has an object of its key: {invalid}"
    for prefix, what in kept_prefixes(kept_prefix).items():
        if key.startswith(prefix):
            return f"its key is that of {what}: {key!r}"
    return ""
