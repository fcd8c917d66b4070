"""The bounds and retention times that decisions depend on; a part of the configuration, passed in by value."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.kafka.names import METADATA_TOPIC

BATCHES_PER_FILE_BITS = 17
"""An entry of a megabyte holds fewer than 2^17 batches, and the id of a batch has so many bits for its place in the entry."""
FILES_PER_REQUEST_MAX = 1_000
"""Limit of a request that fences, removes or hands over files: its entries are applied at once, on the event loop."""
OBJECT_FORMAT_WAL_MULTI_SEGMENT = 1

MESSAGE_BYTES_MAX = 1_048_588
"""Kafka's own `max.message.bytes`."""
ENTRY_RESERVE_BYTES = 1024
"""Bytes of a message besides its value, with room to spare."""


def entry_bytes_max(message_bytes_max: int) -> int:
    """How large the value of an entry may be where the topic allows messages of so many bytes."""
    return max(1, message_bytes_max - ENTRY_RESERVE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times in milliseconds; `commit_results_retention_ms` is at least `file_commit_max_age_ms`."""

    file_commit_max_age_ms: int = 900_000
    commit_results_retention_ms: int = 1_800_000
    producer_id_expiration_ms: int = 86_400_000
    deleted_topic_retention_ms: int = 7 * 86_400_000
    file_fence_retention_ms: int = 3_600_000
    expiration_interval_ms: int = 60_000
    partitions_per_topic_max: int = 100_000
    groups_in_flight_max: int = 4
    group_batches_max: int = 5000
    entry_bytes_max: int = entry_bytes_max(MESSAGE_BYTES_MAX)
    term_timeout_ms: int = 45_000
    queue_bytes_max: int = 64 << 20
    handed_over_max: int = 1_000_000
    """Remembered batches of producers that go with a partition to its next coordinator: they have to fit one request between nodes."""
    metadata_topic: str = METADATA_TOPIC
    """The topic of this service's own log: no topic of its name is created."""
    kept_prefixes: tuple[str, ...] = ()
    """Below these are the service's own objects in the store: no file of such a key is committed."""
