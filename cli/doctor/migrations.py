"""Migrations of classic topics that are under way, as `diskless doctor` tells of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cli.doctor.diagnosis import Diagnosis, Health
from coordinator.printable import quoted

CHECK = "migrations"
ASKED_MAX = 5_000
"""Limit of the partitions that are asked about: each is asked at its leader."""


def diagnose_migrations(states: Sequence[tuple[str, str]]) -> list[Diagnosis]:
    """Topics with partitions that are pending; `states` are the topic and the state of each partition that was asked."""
    partitions, pending = Counter(topic for topic, _ in states), Counter(topic for topic, state in states if state == "pending")
    return [
        Diagnosis(
            health=Health.WARNING,
            check=CHECK,
            finding=f"topic {topic}: {count} of {partitions[topic]} partitions are not diskless yet, and take nothing",
            remedy="go on with `diskless migration start {0}`, or take it back with `diskless migration abort {0}`".format(quoted(topic)),
        )
        for topic, count in sorted(pending.items())
    ] or [Diagnosis(health=Health.OK, check=CHECK, finding="no migration of a classic topic is under way")]
