"""The control records of a log, which Kafka writes after a transaction. They take offsets, and no client gives them to its caller.

Only an outsider writes to the metadata topic in a transaction, and its entries are void. Its control records are void entries, too,
without key and value; so replicas need not stop at offsets that a client leaves out, if all of them are proven to be such records. Anything
else that is missing was lost. Blocks: used in worker threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from coordinator.adapters.kafka.broker import refused
from coordinator.adapters.kafka.partition_leaders import NoSuchTopic, PartitionLeaders
from coordinator.adapters.kafka.partition_log import READ_UNCOMMITTED, PartitionLog
from coordinator.runtime.ports import LogEntry


def read_control_records(
    properties: Mapping[str, Any], topic: str, partition: int, first: int, stop: int, timeout_s: float
) -> list[LogEntry] | None:
    """Return void entries for the control records of a partition from offset `first` on; None unless all of `[first, stop)` are theirs.

    A log with one such record may have very many, so those after `stop` that came with the answer are included. `properties` are
    librdkafka's. The offsets must lie below the high watermark. Raises `KafkaException`.
    """
    found: list[LogEntry] = []
    try:
        log = PartitionLog(PartitionLeaders(topic, properties, timeout_s), partition)
        for piece in log.pieces(first, stop, isolation=READ_UNCOMMITTED):
            for header in piece.headers:
                if header.is_control:
                    offsets = range(max(first, header.base_offset), header.last_offset + 1)
                    found += [LogEntry(offset, header.max_timestamp_ms, None, None) for offset in offsets]
                elif header.base_offset < stop and header.last_offset >= first:
                    return None
    except NoSuchTopic as missing:
        raise refused(KafkaError.UNKNOWN_TOPIC_OR_PART, str(missing)) from missing
    return found if [entry.offset for entry in found[: stop - first]] == list(range(first, stop)) else None
