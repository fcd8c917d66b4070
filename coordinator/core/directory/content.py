"""The directory as plain values that can be written as JSON, and as the items that the state digest counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from coordinator.core.directory.directory import UNDATED, Deletion, Directory, Placement
from records.model import Endpoint, NodeRegistered, PlacedRange

Content = dict[str, Any]
"""Lists of placements, deletions and nodes with the fields of their records, and the schema level."""


def content_of(directory: Directory) -> Content:
    """The content of a directory, independent of what happens to it later."""
    return {
        "placements": [asdict(p) | {"topic_id": p.topic_id.hex()} for p in directory.placements.values()],
        "deletions": [asdict(d) | {"topic_id": d.topic_id.hex()} for d in directory.deletions.values()],
        "nodes": [asdict(node) | {"incarnation_id": node.incarnation_id.hex()} for node in directory.nodes.values()],
        "schema_level": directory.schema_level,
    }


def items_of(content: Content) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Kind, key and content of an item: the arguments of `hash_item`."""
    for what, identity, items in (
        ("placement", "topic_id", content["placements"]),
        ("deletion", "topic_id", content["deletions"]),
        ("node", "node_id", content["nodes"]),
    ):
        for item in items:
            yield what, str(item[identity]), {name: value for name, value in item.items() if name != identity}
    yield "schema level", "", {"level": content["schema_level"]}


def restore_directory(directory: Directory, text: str) -> None:
    """Fill an empty directory from its content as JSON, which was proven to be what was written."""
    stored = json.loads(text)
    for row in stored["placements"]:
        row |= {"topic_id": bytes.fromhex(row["topic_id"]), "ranges": tuple(PlacedRange(**r) for r in row["ranges"])}
        placement = Placement(**row)
        directory.placements[placement.topic_id] = placement
        directory.names[placement.name] = placement.topic_id
        if not placement.confirmed:
            directory.unconfirmed.add(placement.topic_id)
    for row in stored["deletions"]:
        row |= {"topic_id": bytes.fromhex(row["topic_id"]), "ranges": tuple(PlacedRange(**r) for r in row["ranges"])}
        deletion = Deletion(**row)
        directory.deletions[deletion.topic_id] = deletion
        if not deletion.confirmed:
            directory.unconfirmed.add(deletion.topic_id)
        if deletion.time_ms == UNDATED:
            directory.undated.add(deletion.topic_id)
    for row in stored["nodes"]:
        row |= {"endpoints": [Endpoint(**e) for e in row["endpoints"]], "incarnation_id": bytes.fromhex(row["incarnation_id"])}
        node = NodeRegistered(**row)
        directory.nodes[node.node_id] = node
    directory.schema_level = stored["schema_level"]
