"""The keys of durable snapshots: `<prefix>/<cluster id>/<topic id>/<partition>/<end offset>-<epoch>-<suffix>.checkpoint`.

A key tells which log a snapshot is of and how far it reaches; the suffix is random, so that no two uploads share a key. Parsing is
strict: a key that is not exactly what is made here names no snapshot, and is neither listed nor removed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from coordinator.kafka.names import parse_topic_id, topic_id_text
from records.snapshot import parse_snapshot_name, snapshot_name

_SUFFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_EXTENSION = ".checkpoint"
_KEY = re.compile(
    r"(?:(?P<prefix>.+)/)?(?P<cluster_id>[^/]+)/(?P<topic_id>[^/]+)/(?P<partition>[0-9]{1,10})/"
    r"(?P<name>[0-9]{20}-[0-9]{10})-(?P<suffix>[^/]+)\.checkpoint"
)


class SnapshotKey(NamedTuple):
    """The parts of a key; `prefix` is empty or has no slash at its ends."""

    prefix: str
    cluster_id: str
    topic_id: bytes
    partition: int
    end_offset: int
    epoch: int
    suffix: str

    def text(self) -> str:
        """Return the key. Raises ValueError for parts of which none can be made."""
        if _SUFFIX.fullmatch(self.suffix) is None:
            raise ValueError(f"suffix {self.suffix!r} of a snapshot: must be 1 to 64 of A-Z a-z 0-9 _ -")
        name = snapshot_name(self.end_offset, self.epoch).removesuffix(_EXTENSION)
        return f"{snapshot_folder(self.prefix, self.cluster_id, self.topic_id, self.partition)}{name}-{self.suffix}{_EXTENSION}"


def snapshot_folder(prefix: str, cluster_id: str, topic_id: bytes, partition: int) -> str:
    """Return what the keys of one partition's snapshots begin with; it ends with a slash. Raises ValueError as `SnapshotKey.text`."""
    if _CLUSTER_ID.fullmatch(cluster_id) is None or set(cluster_id) == {"."}:
        raise ValueError(f"cluster id {cluster_id!r}: keys of snapshots are made of 1 to 200 of A-Z a-z 0-9 . _ -")
    if len(topic_id) != 16 or partition < 0:
        raise ValueError(f"no snapshots of topic id {topic_id.hex()} and partition {partition}")
    folder = f"{cluster_id}/{topic_id_text(topic_id)}/{partition}/"
    return f"{prefix}/{folder}" if prefix else folder


def parse_snapshot_key(key: str) -> SnapshotKey | None:
    """Return the parts of a key; None for any key that `SnapshotKey.text` does not make."""
    parts = _KEY.fullmatch(key)
    if parts is None:
        return None
    snapshot_id = parse_snapshot_name(parts["name"] + _EXTENSION)
    if snapshot_id is None:
        return None
    try:
        topic_id = parse_topic_id(parts["topic_id"])
        found = SnapshotKey(parts["prefix"] or "", parts["cluster_id"], topic_id, int(parts["partition"]), *snapshot_id, parts["suffix"])
        return found if found.text() == key else None
    except ValueError:
        return None
