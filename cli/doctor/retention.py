"""Partitions that timestamps in the future keep from retention, as `diskless retention` and `diskless doctor` tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.doctor.diagnosis import Diagnosis, Health, skipped
from cli.output import time_text

if TYPE_CHECKING:
    from coordinator.client.calls.retention import EnforcedRetention

RETENTION = "retention"


def diagnose_retention(enforced: Sequence[EnforcedRetention], names: Mapping[bytes, str]) -> list[Diagnosis]:
    """Findings about the partitions that a look found held, and about coordinators that could not be looked at."""
    found = held_partitions(enforced, names)
    found += [skipped(RETENTION, f"coordinator {one.coordinator_id} cannot be looked at: {one.message}") for one in enforced if one.error]
    return found or [Diagnosis(health=Health.OK, check=RETENTION, finding="no timestamp in the future keeps records from retention")]


def held_partitions(enforced: Sequence[EnforcedRetention], names: Mapping[bytes, str]) -> list[Diagnosis]:
    """A warning for each partition that is held, by topic and partition."""
    held = [(names.get(one.partition.topic_id, ""), one) for each in enforced for one in each.held]
    return [
        Diagnosis(
            health=Health.WARNING,
            check=RETENTION,
            finding=f"{topic}-{one.partition.partition}: the first batch has the timestamp {time_text(one.timestamp_ms)}, in the future;"
            " until then retention.ms deletes nothing of the partition",
            remedy="where its first records may go, the others follow by retention: diskless records delete"
            f" {topic} {one.partition.partition} --before-offset {one.next_offset}; have their producer give milliseconds",
        )
        for topic, one in sorted(held)
    ]
