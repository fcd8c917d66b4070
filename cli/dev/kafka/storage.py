"""Formats a node's data folder by hand, which saves the 0.7 s of a JVM per node.

A formatted folder holds `meta.properties` (who this node is) and `bootstrap.checkpoint` (at which feature levels the
cluster begins). The second is the same for every node of a Kafka version and comes from `runtime`, which lets Kafka's
own StorageTool write it once. Invariant: a folder has both files; with `meta.properties` alone Kafka would start at
feature level 0, without the new group protocol.
"""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path

META_FILE = "meta.properties"
CHECKPOINT_FILE = "bootstrap.checkpoint"


class StorageError(Exception):
    """A data folder cannot be used as it is."""


def random_kafka_uuid() -> str:
    """Return a random id in Kafka's text form: 22 characters of base64url, never beginning with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode("ascii")
        if not text.startswith("-"):  # Kafka's tools would read it as an option
            return text


def format_folder(folder: Path, *, cluster_id: str, node_id: int, checkpoint: bytes) -> None:
    """Format a data folder unless it is formatted already. Raises `StorageError` when it belongs to another cluster or node."""
    meta = folder / META_FILE
    if meta.exists():
        _check(meta, cluster_id, node_id)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CHECKPOINT_FILE).write_bytes(checkpoint)
    # Last and by rename: its presence says that the folder is complete.
    lines = ["version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", f"directory.id={random_kafka_uuid()}"]
    temporary = meta.with_suffix(".tmp")
    temporary.write_text("\n".join(lines) + "\n", encoding="ascii")
    os.replace(temporary, meta)


def read_meta(meta: Path) -> dict[str, str]:
    """Read a meta.properties file."""
    lines = [line.strip() for line in meta.read_text(encoding="ascii").splitlines()]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _check(meta: Path, cluster_id: str, node_id: int) -> None:
    found = read_meta(meta)
    expected = {"cluster.id": cluster_id, "node.id": str(node_id)}
    for key, value in expected.items():
        if found.get(key) != value:
            raise StorageError(f"{meta}: {key} is {found.get(key)!r}, expected {value!r}; use another folder or delete this one")
