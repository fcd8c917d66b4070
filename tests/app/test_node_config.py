"""The limits of the core are those of the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coordinator.app.node_config import HANDED_OVER_BYTES, node_config
from coordinator.config.load import load_settings
from coordinator.core.limits import Limits
from coordinator.protocol.codec import encode
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import AdoptPartitionBatch, AdoptPartitionRequest

OTHER_NAMES = {
    "partitions_per_topic_max": "max_partitions_per_topic",
    "group_batches_max": "group_max_batches",
    "term_timeout_ms": "leader_term_timeout_ms",
    "queue_bytes_max": "partition_pending_max_bytes",
}
NO_SETTINGS = {"entry_bytes_max", "kept_prefixes", "handed_over_max"}
"""The first is asked of Kafka, the second follows from several settings, the third from the size of a request."""


def test_every_limit_is_that_of_its_setting(tmp_path: Path) -> None:
    essential = {"node.id": "1", "bootstrap.servers": "nowhere:1", "data.dirs": str(tmp_path), "object.store.url": f"file://{tmp_path}"}
    settings = load_settings(overrides=essential)
    names = {name: OTHER_NAMES.get(name, name) for name in Limits.__slots__ if name not in NO_SETTINGS}
    defaults = {setting: getattr(settings, setting) for setting in names.values()}
    changed = {
        setting: f"{value}-{place}" if isinstance(value, str) else value + place
        for place, (setting, value) in enumerate(defaults.items(), start=1)
    }
    limits = node_config(replace(settings, **changed), []).limits
    assert {setting: getattr(limits, name) for name, setting in names.items()} == changed
    assert limits.handed_over_max * HANDED_OVER_BYTES <= settings.socket_request_max_bytes


def test_a_batch_of_a_producer_that_is_handed_over_is_no_larger_than_is_reckoned() -> None:
    one, more = (len(encode(blank(AdoptPartitionRequest, producers=(blank(AdoptPartitionBatch),) * count))) for count in (1, 1_001))
    assert (more - one) / 1_000 <= HANDED_OVER_BYTES
