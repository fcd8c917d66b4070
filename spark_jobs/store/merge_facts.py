"""Plain facts of the log: claims, snapshots, topics, nodes and directories. The newest entry wins; nothing is judged here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from records.model import (
    Endpoint,
    FeatureLevelSet,
    LeadershipClaimed,
    NodeRegistered,
    PartitionCreated,
    Record,
    ReplicasAssignedToDirs,
    SnapshotCommitted,
    TopicConfigured,
    TopicDeleted,
    TopicDeleting,
    TopicPlaced,
)
from spark_jobs.scan.summary import EventRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import insert_new, upsert

CLAIM = upsert("claim", "kpart,entry_offset", "kpart", "epoch", "term", "node_id", "entry_offset", "append_ms")
_SNAPSHOT = upsert(
    "snapshot", "kpart,entry_offset",
    "kpart", "entry_offset", "mark_offset", "end_offset", "epoch", "size_bytes", "location", "digest", "append_ms",
)  # fmt: skip
_NODE = upsert("node", "node_id", "node_id", "rack", "endpoints", "schema_level_max", "incarnation", "drain")
_HAPPENING = upsert("happening", "kpart,entry_offset,kind", "kpart", "entry_offset", "append_ms", "kind", "node_id", "level")
_NODE_OF_CLAIM = upsert("node", "node_id", "node_id", "rack", "endpoints")
_NODE_DIRECTORY = insert_new("node_directory", "node_id", "directory_id")
_REPLICA_DIRECTORY = upsert("replica_directory", "node_id,kpart", "node_id", "kpart", "directory_id")
_LEVEL = upsert("feature", "name", "name", "level")
# An id comes back only long after it was deleted; partitions of the log are read at different speeds.
MORE_PARTITIONS = "case when topic.partitions > excluded.partitions then topic.partitions else excluded.partitions end"
_NAMED = """insert into topic (topic_id, name, partitions, deleted_ms) values (?,?,?,null) on conflict (topic_id) do update set
    name = excluded.name, deleted_ms = case when topic.deleted_ms > ? then topic.deleted_ms end, partitions ="""
_PLACED = f"{_NAMED} excluded.partitions"
_CREATED = f"{_NAMED} {MORE_PARTITIONS}"
_DELETED = """insert into topic (topic_id, name, partitions, deleted_ms) values (?,null,null,?)
    on conflict (topic_id) do update set deleted_ms = coalesce(topic.deleted_ms, excluded.deleted_ms)"""


def merge_fact(db: StoreConnection, row: EventRow, record: Record) -> None:
    """Take over what a record says, if it is such a fact."""
    match record:
        case LeadershipClaimed():
            db.execute(CLAIM, (row.kpart, record.epoch, record.term, record.node_id, row.offset, row.append_ms))
            db.execute(_NODE_OF_CLAIM, (record.node_id, record.rack, _text(record.endpoints)))
        case SnapshotCommitted():
            numbers = (record.mark_offset, record.end_offset, record.epoch, record.size_bytes)
            db.execute(_SNAPSHOT, (row.kpart, row.offset, *numbers, record.location, record.digest, row.append_ms))
        case TopicPlaced():
            count = sum(placed.num_partitions for placed in record.ranges)
            db.execute(_PLACED, (record.topic_id, record.name, count, row.append_ms))
        case PartitionCreated():
            end = record.first_partition + record.num_partitions
            db.execute(_CREATED, (record.topic_id, record.name, end, row.append_ms))
        case TopicConfigured():
            settings = json.dumps(dict(zip(record.names, record.values, strict=True)))
            db.execute("update topic set settings = ? where topic_id = ?", (settings, record.topic_id))
        case TopicDeleting() | TopicDeleted():
            db.execute(_DELETED, (record.topic_id, row.append_ms))
        case NodeRegistered():
            facts = (record.node_id, record.rack, _text(record.endpoints), record.schema_level_max, record.incarnation_id, record.drain)
            db.execute(_NODE, facts)
            db.execute("delete from node_directory where node_id = ?", (record.node_id,))
            db.executemany(_NODE_DIRECTORY, [(record.node_id, one) for one in record.log_dirs])
        case ReplicasAssignedToDirs():
            homes = [(record.node_id, kpart, one.directory_id) for one in record.assignments for kpart in one.partitions]
            db.executemany(_REPLICA_DIRECTORY, homes)
        case FeatureLevelSet():
            db.execute(_LEVEL, ("schema", record.level))
        case _:
            return


def note_happening(db: StoreConnection, row: EventRow, record: Record) -> None:
    """Note that a node started or a schema level came into force; called before `merge_fact` takes the record over."""
    if isinstance(record, NodeRegistered):
        known = db.execute("select incarnation, schema_level_max from node where node_id = ?", (record.node_id,)).fetchone()
        if known is None or known[0] != record.incarnation_id:
            is_other = known is not None and known[1] not in (None, record.schema_level_max)
            kind = "deployment" if is_other else "start"
            db.execute(_HAPPENING, (row.kpart, row.offset, row.append_ms, kind, record.node_id, record.schema_level_max))
    elif isinstance(record, FeatureLevelSet):
        db.execute(_HAPPENING, (row.kpart, row.offset, row.append_ms, "level", None, record.level))


def _text(endpoints: Sequence[Endpoint]) -> str:
    return ",".join(f"{one.listener}://{one.host}:{one.port}" for one in endpoints)
