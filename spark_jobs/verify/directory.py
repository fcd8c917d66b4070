"""The directory of metadata partition 0, rebuilt: placements, settings of topics, deletions, nodes and the directories of
their replicas, schema level; and of each the newest committed snapshots.

As in replicas, a deletion is dated by the next file of the log, which has no other clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from records.model import (
    Endpoint,
    FeatureLevelSet,
    MovesSettled,
    NodeRegistered,
    PartitionAdopted,
    PartitionMoved,
    PartitionMoving,
    PartitionReleased,
    PlacedRange,
    Record,
    ReplicasAssignedToDirs,
    Restored,
    RestoreFinished,
    SnapshotCommitted,
    TopicConfigured,
    TopicDeleting,
    TopicPlaced,
)
from spark_jobs.moves import NO_MOVE, cut_ranges
from spark_jobs.verify.tally import Tally

SNAPSHOTS_REMEMBERED = 3
MOVES_LEVEL = 2
"""The schema level from which on partitions move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A topic that was placed. `order_offset` is the entry that placed its newest partitions."""

    name: str
    ranges: tuple[PlacedRange, ...]
    confirmed: bool
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopicName:
    """A topic that is going or gone, with the name it had; `time_ms` 0: no file came since."""

    name: str
    ranges: tuple[PlacedRange, ...]
    confirmed: bool
    order_offset: int
    time_ms: int = 0
    others: tuple[int, ...] = ()
    """Coordinators that have older batches of its partitions, or were about to get some."""


@dataclass(slots=True)
class RebuiltDirectory:
    """Changed by `apply`, `date` and `forget` only."""

    placed: dict[bytes, Placed] = field(default_factory=dict)
    settings: dict[bytes, dict[str, str]] = field(default_factory=dict)
    deleted: dict[bytes, DeletedTopicName] = field(default_factory=dict)
    nodes: dict[int, NodeRegistered] = field(default_factory=dict)
    replica_dirs: dict[str, str] = field(default_factory=dict)
    schema_level: int = 1
    snapshots: list[SnapshotCommitted] = field(default_factory=list)
    restored: dict[str, object] | None = None
    """The restore that the log began with: its fields as they are counted, and whether an operator has called it finished."""
    moves: dict[str, PartitionMoving] = field(default_factory=dict)
    """Orders of moves that are not carried out, by partition, as hexadecimal digits of its key."""
    earlier: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    """The parts that partitions which moved have in other coordinators."""
    stretches: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The partitions that came to this coordinator, or went, by a move."""
    last_move_id: int = 0
    are_moves_settled: bool = True
    has_changed: bool = False

    def apply(self, record: Record, offset: int) -> bool:
        """Apply a record if it is one of the directory's, or a committed snapshot; returns whether it was."""
        match record:
            case TopicPlaced():
                known = self.placed.get(record.topic_id)
                # A confirmation orders nothing new.
                order = known.order_offset if known is not None and record.confirmed else offset
                ranges = tuple(record.ranges)
                self.placed[record.topic_id] = Placed(name=record.name, ranges=ranges, confirmed=record.confirmed, order_offset=order)
                self.deleted.pop(record.topic_id, None)
            case TopicDeleting():
                going = self.deleted.get(record.topic_id)
                if going is None:
                    placed = self.placed.pop(record.topic_id, None)
                    self.settings.pop(record.topic_id, None)
                    name, ranges = (placed.name, placed.ranges) if placed is not None else ("", ())
                    others = () if placed is None else self._others(record.topic_id, ranges)
                    going = DeletedTopicName(name=name, ranges=ranges, confirmed=False, order_offset=offset, others=others)
                    self.moves = {key: one for key, one in self.moves.items() if one.topic_id != record.topic_id}
                    self.earlier = {key: one for key, one in self.earlier.items() if not key.startswith(record.topic_id.hex())}
                self.deleted[record.topic_id] = replace(going, confirmed=record.confirmed)
            case TopicConfigured():
                self.settings.pop(record.topic_id, None)
                if record.names and record.topic_id in self.placed:
                    self.settings[record.topic_id] = dict(zip(record.names, record.values, strict=True))
            case NodeRegistered():
                self.nodes[record.node_id] = record
            case ReplicasAssignedToDirs():
                for one in record.assignments:
                    for partition in one.partitions:
                        self.replica_dirs[f"{record.node_id}-{partition}"] = one.directory_id.hex()
            case PartitionMoving():
                self.last_move_id = max(self.last_move_id, record.move_id)
                if record.topic_id in self.placed:
                    self.moves[_key(record)] = record
                    self._place(record, record.from_coordinator)
            case PartitionMoved():
                move = self.moves.get(_key(record))
                if move is not None and move.move_id == record.move_id:
                    del self.moves[_key(record)]
                    kept = [one for one in record.earlier if one.coordinator_id != move.to_coordinator]
                    self.earlier[_key(record)] = [asdict(one) for one in kept]
                    self._place(record, move.to_coordinator)
            case MovesSettled():
                self.are_moves_settled, self.last_move_id = True, max(self.last_move_id, record.last_move_id)
            case FeatureLevelSet():
                self.schema_level = max(self.schema_level, record.level)
            case RestoreFinished():
                if self.restored is None or self.restored["restore_id"] != record.restore_id.hex():
                    return True
                self.restored = self.restored | {"finished": True}
            case SnapshotCommitted():
                if self.snapshots and record.end_offset <= self.snapshots[-1].end_offset:
                    return True
                self.snapshots = [*self.snapshots, record][-SNAPSHOTS_REMEMBERED:]
            case _:
                return False
        self.has_changed = True
        return True

    def _others(self, topic_id: bytes, ranges: tuple[PlacedRange, ...]) -> tuple[int, ...]:
        had = {one["coordinator_id"] for key, parts in self.earlier.items() if key.startswith(topic_id.hex()) for one in parts}
        coming = {one.to_coordinator for one in self.moves.values() if one.topic_id == topic_id}
        return tuple(sorted(int(str(one)) for one in (had | coming) - {placed.coordinator_id for placed in ranges}))

    def _place(self, record: PartitionMoving | PartitionMoved, owner: int) -> None:
        placed = self.placed[record.topic_id]
        self.placed[record.topic_id] = replace(placed, ranges=tuple(cut_ranges(placed.ranges, record.partition, owner)))

    def release(self, record: PartitionReleased, entry_id: int) -> None:
        """A partition goes on in another coordinator."""
        known = self.stretches.get(_key(record), {"base_offset": 0, "move_id": NO_MOVE, "earlier": []})
        released = {"move_id": record.move_id, "to_coordinator": record.to_coordinator, "time_ms": record.time_ms, "entry_id": entry_id}
        self.stretches[_key(record)] = known | {"released": released}
        self.has_changed = True

    def adopt(self, record: PartitionAdopted) -> None:
        """A partition goes on in this coordinator."""
        earlier = [asdict(one) for one in record.earlier]
        self.stretches[_key(record)] = {"base_offset": record.base_offset, "move_id": record.move_id, "earlier": earlier, "released": None}
        self.has_changed = True

    def newest_move(self, key: bytes) -> int:
        """The newest move that the stretch of a partition here took part in, or NO_MOVE."""
        stretch = self.stretches.get(key.hex())
        if stretch is None:
            return NO_MOVE
        return int((stretch["released"] or stretch)["move_id"])

    def forget_stretches(self, topic_id: bytes) -> None:
        """A topic was deleted in this coordinator."""
        left = {key: one for key, one in self.stretches.items() if not key.startswith(topic_id.hex())}
        self.has_changed |= len(left) < len(self.stretches)
        self.stretches = left

    def restore(self, record: Restored) -> None:
        """The log goes on from a snapshot of another one: its snapshots are none of this log, and its orders are given once more."""
        self.restored = _says(record) | {"finished": False}
        self.snapshots = []
        self.placed = {topic_id: replace(one, confirmed=False) for topic_id, one in self.placed.items()}
        self.deleted = {topic_id: replace(one, confirmed=False) for topic_id, one in self.deleted.items()}
        self.are_moves_settled = self.schema_level < MOVES_LEVEL
        self.has_changed = True

    def date(self, time_ms: int) -> None:
        """A file was appended: deletions before it that have no time get this one."""
        for topic_id, gone in self.deleted.items():
            if gone.time_ms == 0:
                self.deleted[topic_id] = replace(gone, time_ms=time_ms)

    def forget(self, before_ms: int) -> None:
        """Forget the finished deletions of before a time."""
        self.deleted = {key: gone for key, gone in self.deleted.items() if not (gone.confirmed and 0 < gone.time_ms < before_ms)}

    def tally(self, tally: Tally) -> None:
        """Count every item."""
        if not self.has_changed:
            return
        for topic_id, placed in self.placed.items():
            tally.add_directory("placement", topic_id.hex(), asdict(placed))
        for topic_id, settings in self.settings.items():
            tally.add_directory("topic settings", topic_id.hex(), {"settings": settings})
        for topic_id, gone in self.deleted.items():
            tally.add_directory("deletion", topic_id.hex(), asdict(gone))
        for node in self.nodes.values():
            says = _says(node) | {"log_dirs": [one.hex() for one in node.log_dirs]}
            tally.add_directory("node", str(says.pop("node_id")), says)
        for replica, directory_id in self.replica_dirs.items():
            tally.add_directory("replica directory", replica, {"directory_id": directory_id})
        for one in self.snapshots:
            says = _says(one)
            tally.add_directory("snapshot", str(says.pop("end_offset")), says)
        tally.add_directory("schema level", "", {"level": self.schema_level})
        if self.restored is not None:
            tally.add_directory("restored", "", self.restored)
        for key, stretch in self.stretches.items():
            tally.add_directory("stretch", key, stretch)
        for order in self.moves.values():
            says = asdict(order) | {"topic_id": order.topic_id.hex()}
            tally.add_directory("move", str(says.pop("move_id")), says)
        for key, parts in self.earlier.items():
            tally.add_directory("earlier stretches", key, {"stretches": parts})
        if self.last_move_id or not self.are_moves_settled:
            tally.add_directory("moves", "", {"last_move_id": self.last_move_id, "are_settled": self.are_moves_settled})


def directory_from(content: Mapping[str, Any]) -> RebuiltDirectory:
    """The directory as a snapshot has it, in JSON. Raises KeyError, TypeError, ValueError when that has other fields."""
    return RebuiltDirectory(
        placed={bytes.fromhex(row["topic_id"]): Placed(**_of_topic(row)) for row in content["placements"]},
        settings={bytes.fromhex(row["topic_id"]): row["settings"] for row in content["topic_settings"]},
        deleted={bytes.fromhex(row["topic_id"]): DeletedTopicName(**_of_topic(row)) for row in content["deletions"]},
        nodes={row["node_id"]: _node(row) for row in content["nodes"]},
        replica_dirs={row["replica"]: row["directory_id"] for row in content["replica_dirs"]},
        schema_level=content["schema_level"],
        snapshots=[
            SnapshotCommitted(**row | {"sha256": bytes.fromhex(row["sha256"]), "digest": bytes.fromhex(row["digest"])})
            for row in content["snapshots"]
        ],
        restored=content["restored"],
        moves={_key(order): order for order in (_order(row) for row in content["moves"])},
        earlier={row["partition"]: row["stretches"] for row in content["earlier"]},
        stretches={row["partition"]: {name: value for name, value in row.items() if name != "partition"} for row in content["stretches"]},
        last_move_id=content["last_move_id"],
        are_moves_settled=content["are_moves_settled"],
        has_changed=True,
    )


def _says(record: NodeRegistered | Restored | SnapshotCommitted) -> dict[str, object]:
    """The fields of a record, bytes in hexadecimal digits."""
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(record).items()}


def _key(record: PartitionMoving | PartitionMoved | PartitionReleased | PartitionAdopted) -> str:
    """The key of a partition, 20 bytes, as hexadecimal digits."""
    return (record.topic_id + record.partition.to_bytes(4, "big")).hex()


def _order(row: Mapping[str, Any]) -> PartitionMoving:
    return PartitionMoving(**{**row, "topic_id": bytes.fromhex(row["topic_id"])})


def _of_topic(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a topic but for its id."""
    taken: dict[str, Any] = {"ranges": tuple(PlacedRange(**one) for one in row["ranges"])}
    if "others" in row:
        taken["others"] = tuple(row["others"])
    return {name: value for name, value in row.items() if name != "topic_id"} | taken


def _node(row: Mapping[str, Any]) -> NodeRegistered:
    decoded = {
        "endpoints": [Endpoint(**one) for one in row["endpoints"]],
        "incarnation_id": bytes.fromhex(row["incarnation_id"]),
        "log_dirs": [bytes.fromhex(one) for one in row["log_dirs"]],
    }
    return NodeRegistered(**{**row, **decoded})
