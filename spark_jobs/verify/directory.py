"""The directory of metadata partition 0, rebuilt: placements, deletions, nodes, schema level.

As in replicas, a deletion is dated by the first file behind it: the log has no other clock.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from records.model import FeatureLevelSet, NodeRegistered, PlacedRange, Record, TopicDeleting, TopicPlaced
from spark_jobs.verify.tally import Tally


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


@dataclass(slots=True)
class RebuiltDirectory:
    """Changed by `apply`, `date` and `forget` only."""

    placed: dict[bytes, Placed] = field(default_factory=dict)
    deleted: dict[bytes, DeletedTopicName] = field(default_factory=dict)
    nodes: dict[int, NodeRegistered] = field(default_factory=dict)
    schema_level: int = 1
    has_changed: bool = False

    def apply(self, record: Record, offset: int) -> bool:
        """Apply a record if it is one of the directory's; returns whether it was."""
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
                    name, ranges = (placed.name, placed.ranges) if placed is not None else ("", ())
                    going = DeletedTopicName(name=name, ranges=ranges, confirmed=False, order_offset=offset)
                self.deleted[record.topic_id] = replace(going, confirmed=record.confirmed)
            case NodeRegistered():
                self.nodes[record.node_id] = record
            case FeatureLevelSet():
                self.schema_level = max(self.schema_level, record.level)
            case _:
                return False
        self.has_changed = True
        return True

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
        for topic_id, gone in self.deleted.items():
            tally.add_directory("deletion", topic_id.hex(), asdict(gone))
        for node in self.nodes.values():
            says = asdict(node) | {"incarnation_id": node.incarnation_id.hex()}
            tally.add_directory("node", str(says.pop("node_id")), says)
        tally.add_directory("schema level", "", {"level": self.schema_level})
