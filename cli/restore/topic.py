"""Writes the beginnings of restored logs: the new metadata topic, and the first entry of each of its partitions.

Partition 0 is written first, because nodes serve no partition that lacks the restore which partition 0 begins with. The entry at offset
0 decides whether a beginning was written, whatever the broker reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.outcome import Exit, Failed
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.names import topic_id_text
from coordinator.runtime.loading.restored import beginning_in
from records.codec import encode_entry, encode_key
from records.log import RESTORED_KEY
from records.model import Restored

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.restore.plan import OldLog
    from coordinator.adapters.kafka.cluster import KafkaAdmin

RESTORED_LEVEL = 1
"""Entries of this schema level are valid in any log."""

BEGIN_AGAIN = "another process wrote to the topic: stop all nodes, delete it, and begin again"


async def begun_entries(cluster: KafkaAdmin, topic: str, partitions: int) -> dict[int, Restored]:
    """The restores that the partitions of a topic begin with. Raises `Failed` when one has other entries, and Kafka's errors."""
    begun: dict[int, Restored] = {}
    for partition in range(partitions):
        start, end = await cluster.log_range(partition)
        if end == 0:
            continue
        entry = await cluster.read_entry(partition, 0) if start == 0 else None
        found = None if entry is None else beginning_in(entry.key, entry.value)
        if found is None or found.restored.metadata_partition != partition:
            raise Failed(
                f"topic {topic} is in use: partition {partition} has the entries {start} to {end - 1}, which begin with no restore. Name"
                " another topic (--metadata-topic), or, if nothing in it is needed, stop all nodes and delete it"
            )
        begun[partition] = found.restored
    return begun


def check_begun(begun: Mapping[int, Restored], log: OldLog, topic: str, partitions: int) -> None:
    """Raise `Failed` unless what is there is one restore of this log in a topic of its size."""
    if not begun:
        return
    first = begun.get(DIRECTORY_PARTITION)
    if first is None:
        raise Failed(f"topic {topic}: partition {min(begun)} begins with a restore and partition 0 does not: {BEGIN_AGAIN}")
    for partition, one in begun.items():
        if one.restore_id != first.restore_id or one.partition_count != first.partition_count:
            raise Failed(f"topic {topic}: partitions 0 and {partition} begin with two different restores: {BEGIN_AGAIN}")
        if (one.old_cluster_id, one.old_topic_id) != (log.cluster_id, log.topic_id):
            old = f"cluster {one.old_cluster_id}, topic id {topic_id_text(one.old_topic_id)}"
            raise Failed(f"topic {topic} begins with a restore of another metadata topic ({old})", Exit.USAGE)
    if first.partition_count > partitions:
        raise Failed(f"topic {topic} has {partitions} partitions, the restore that it begins with {first.partition_count}: {BEGIN_AGAIN}")


async def write_entries(
    place: KafkaPlace, cluster: KafkaAdmin, entries: Sequence[Restored], begun: Mapping[int, Restored], timeout_s: float
) -> None:
    """Write the entries that are not there yet, that of partition 0 first. Raises `Failed` and Kafka's errors."""
    from coordinator.adapters.kafka.producing.single_message import write_message

    key = encode_key(RESTORED_KEY)
    for entry in entries:
        partition = entry.metadata_partition
        if partition in begun:
            continue
        value = encode_entry([entry], RESTORED_LEVEL)
        unconfirmed = await asyncio.to_thread(
            write_message,
            bootstrap_servers=place.bootstrap_servers,
            topic=place.topic,
            partition=partition,
            key=key,
            value=value,
            timeout_s=timeout_s,
            kafka_properties=place.properties,
        )
        stands = await cluster.read_entry(partition, 0)
        if stands is None:
            reason = unconfirmed or "the broker confirmed it, and the log is empty"
            raise Failed(f"partition {partition}: its beginning was not written: {reason}; run the command again", Exit.UNAVAILABLE)
        if (stands.key, stands.value) != (key, value):
            raise Failed(f"partition {partition} of topic {place.topic}: the restore is not at offset 0: {BEGIN_AGAIN}")
