"""Settings of a gateway for what it creates, writes and reads: topics, buffers, memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from coordinator.config.keys import integer, text
from coordinator.config.sections.essential import TOPIC_NAME
from coordinator.kafka.names import METADATA_TOPIC

MIB = 1024 * 1024


def _is_rule(value: str) -> bool:
    try:
        re.compile(value)
    except re.error:
        return False
    return bool(value)


@dataclass(frozen=True, kw_only=True)
class GatewayTopicSettings:
    """Which topics become diskless."""

    gateway_create_diskless: str = text(
        "gateway.create.diskless",
        "requested",
        allowed=_is_rule,
        bounds="requested, all, or a regular expression of whole names",
        why="""Which topics become diskless when clients create them: those that ask for it (diskless.enable=true as a setting, or
        diskless_enable=true in the client id, for kafka-topics refuses settings it does not know), all that can, or also those with such
        a name. Compacted topics and those of Kafka's own are always classic. It must be the same at all gateways.""",
    )
    metadata_topic: str = text(
        "metadata.topic",
        METADATA_TOPIC,
        allowed=lambda value: TOPIC_NAME.fullmatch(value) is not None,
        bounds="a legal Kafka topic name",
        why="""The metadata topic of the service, which never becomes diskless.""",
    )


@dataclass(frozen=True, kw_only=True)
class GatewayDataSettings:
    """Files that are written, and memory."""

    gateway_buffer_bytes: int = integer(
        "gateway.buffer.bytes",
        8 * MIB,
        low=64 * 1024,
        high=256 * MIB,
        why="""Bytes of records after which a WAL file is written. Larger files cost fewer requests at the store, and fewer commits.""",
    )
    gateway_buffer_ms: int = integer(
        "gateway.buffer.ms",
        250,
        low=1,
        high=60_000,
        why="""Time after which records are written however few they are; less when the clients that wrote them wait for it.""",
    )
    gateway_file_gap_ms: int = integer(
        "gateway.file.gap.ms",
        25,
        low=0,
        high=10_000,
        why="""Least time between two small files that are written because clients wait for their acknowledgement. A file is small that
        has less than a 32nd of gateway.buffer.bytes.""",
    )
    gateway_files_per_second_max: int = integer(
        "gateway.files.per.second.max",
        40,
        low=1,
        high=10_000,
        why="""Small files (see gateway.file.gap.ms) that are written each second at most: each costs a request at the object store, and a
        commit, as larger ones do.""",
    )
    gateway_memory_bytes: int = integer(
        "gateway.memory.bytes",
        1024 * MIB,
        low=128 * MIB,
        high=1 << 40,
        why="""Memory for records: those that are written and not acknowledged, those that are read, and the cache. Where the first have
        used their part, Produce requests are read in turn, as others are acknowledged.""",
    )
    object_store_wal_prefix: str = text(
        "object.store.wal.prefix",
        "wal/",
        allowed=lambda value: value.endswith("/") and not value.startswith("/") and len(value) > 1,
        bounds="a prefix of keys that ends with a slash",
        why="""Where WAL files are in the object store, as the nodes have it.""",
    )
    object_store_request_timeout_ms: int = integer(
        "object.store.request.timeout.ms",
        30_000,
        low=100,
        high=600_000,
        why="""Time for one request to the object store, its repetitions included.""",
    )
