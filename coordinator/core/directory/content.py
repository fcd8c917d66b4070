"""Directory, committed snapshots, stretches and the restore of the log as plain values: JSON, and the items that the digest counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from coordinator.core.directory.directory import UNDATED, Deletion, Directory, Placement
from coordinator.core.moves import Move, Stretch, row_of_stretch, stretch_of_row
from records.model import EarlierStretch, Endpoint, NodeRegistered, PlacedRange, Restored, SnapshotCommitted

Content = dict[str, Any]
"""Lists of placements, settings of topics, deletions, nodes, directories of replicas, and snapshots with the fields of their records, the
schema level, and the restore or null."""

_BYTES_OF_RESTORED = ("restore_id", "old_topic_id", "sha256", "digest")


class Restoration(NamedTuple):
    """The restore that a log began with; `is_finished` once an operator has said so, in partition 0."""

    begun: Restored
    is_finished: bool


def content_of(
    directory: Directory, snapshots: Sequence[SnapshotCommitted], restoration: Restoration | None, stretches: Mapping[bytes, Stretch]
) -> Content:
    """The content of a directory, committed snapshots, restore and stretches, independent of what happens to them later."""
    return {
        "placements": [asdict(p) | {"topic_id": p.topic_id.hex()} for p in directory.placements.values()],
        "topic_settings": [
            {"topic_id": topic_id.hex(), "settings": dict(settings)} for topic_id, settings in directory.topic_settings.items()
        ],
        "deletions": [asdict(d) | {"topic_id": d.topic_id.hex()} for d in directory.deletions.values()],
        "nodes": [_node_content(node) for node in directory.nodes.values()],
        "replica_dirs": [
            {"replica": f"{node_id}-{partition}", "directory_id": directory_id.hex()}
            for (node_id, partition), directory_id in directory.replica_dirs.items()
        ],
        "snapshots": [asdict(one) | {"sha256": one.sha256.hex(), "digest": one.digest.hex()} for one in snapshots],
        "schema_level": directory.schema_level,
        "restored": None if restoration is None else _restored_row(restoration),
        "stretches": [row_of_stretch(key, stretch) for key, stretch in stretches.items()],
        "moves": [asdict(move) | {"topic_id": move.topic_id.hex()} for move in directory.moves.values()],
        "earlier": [
            {"partition": key.hex(), "stretches": [asdict(one) for one in stretches]} for key, stretches in directory.earlier.items()
        ],
        "are_moves_settled": directory.are_moves_settled,
        "last_move_id": directory.last_move_id,
    }


def _restored_row(restoration: Restoration) -> Content:
    row = asdict(restoration.begun)
    return row | {name: row[name].hex() for name in _BYTES_OF_RESTORED} | {"finished": restoration.is_finished}


def items_of(content: Content) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Kind, key and content of an item: the arguments of `hash_item`."""
    for what, identity, items in (
        ("placement", "topic_id", content["placements"]),
        ("topic settings", "topic_id", content["topic_settings"]),
        ("deletion", "topic_id", content["deletions"]),
        ("node", "node_id", content["nodes"]),
        ("replica directory", "replica", content["replica_dirs"]),
        ("snapshot", "end_offset", content["snapshots"]),
        ("stretch", "partition", content["stretches"]),
        ("move", "move_id", content["moves"]),
        ("earlier stretches", "partition", content["earlier"]),
    ):
        for item in items:
            yield what, str(item[identity]), {name: value for name, value in item.items() if name != identity}
    yield "schema level", "", {"level": content["schema_level"]}
    if content["last_move_id"] or not content["are_moves_settled"]:
        yield "moves", "", {"last_move_id": content["last_move_id"], "are_settled": content["are_moves_settled"]}
    if content["restored"] is not None:
        yield "restored", "", content["restored"]


class Contents(NamedTuple):
    """The parts of the stored content besides the directory."""

    snapshots: tuple[SnapshotCommitted, ...]
    restoration: Restoration | None
    stretches: dict[bytes, Stretch]


def restore_content(directory: Directory, text: str) -> Contents:
    """Fill an empty directory from content as JSON, whose proof was checked; returns the remaining content."""
    stored = json.loads(text)
    for row in stored["placements"]:
        row |= {"topic_id": bytes.fromhex(row["topic_id"]), "ranges": tuple(PlacedRange(**r) for r in row["ranges"])}
        placement = Placement(**row)
        directory.placements[placement.topic_id] = placement
        directory.names[placement.name] = placement.topic_id
        if not placement.confirmed:
            directory.unconfirmed.add(placement.topic_id)
    directory.topic_settings = {bytes.fromhex(row["topic_id"]): row["settings"] for row in stored["topic_settings"]}
    for row in stored["deletions"]:
        row |= {"topic_id": bytes.fromhex(row["topic_id"]), "ranges": tuple(PlacedRange(**r) for r in row["ranges"])}
        deletion = Deletion(**row | {"others": tuple(row["others"])})
        directory.deletions[deletion.topic_id] = deletion
        if not deletion.confirmed:
            directory.unconfirmed.add(deletion.topic_id)
        if deletion.time_ms == UNDATED:
            directory.undated.add(deletion.topic_id)
    for row in stored["nodes"]:
        row |= {"endpoints": [Endpoint(**e) for e in row["endpoints"]], "incarnation_id": bytes.fromhex(row["incarnation_id"])}
        node = NodeRegistered(**row | {"log_dirs": [bytes.fromhex(one) for one in row["log_dirs"]]})
        directory.nodes[node.node_id] = node
    for row in stored["replica_dirs"]:
        node_id, partition = map(int, row["replica"].split("-"))
        directory.replica_dirs[node_id, partition] = bytes.fromhex(row["directory_id"])
    directory.schema_level = stored["schema_level"]
    snapshots = tuple(
        SnapshotCommitted(**row | {"sha256": bytes.fromhex(row["sha256"]), "digest": bytes.fromhex(row["digest"])})
        for row in stored["snapshots"]
    )
    for row in stored["moves"]:
        move = Move(**row | {"topic_id": bytes.fromhex(row["topic_id"])})
        directory.moves[move.key] = move
    directory.earlier = {
        bytes.fromhex(row["partition"]): tuple(EarlierStretch(**one) for one in row["stretches"]) for row in stored["earlier"]
    }
    directory.are_moves_settled, directory.last_move_id = stored["are_moves_settled"], stored["last_move_id"]
    return Contents(
        snapshots,
        None if stored["restored"] is None else _restoration_of(stored["restored"]),
        dict(map(stretch_of_row, stored["stretches"])),
    )


def _node_content(node: NodeRegistered) -> Content:
    return asdict(node) | {"incarnation_id": node.incarnation_id.hex(), "log_dirs": [one.hex() for one in node.log_dirs]}


def _restoration_of(row: Content) -> Restoration:
    is_finished = row.pop("finished")
    return Restoration(Restored(**row | {name: bytes.fromhex(row[name]) for name in _BYTES_OF_RESTORED}), is_finished)
