"""Timestamps of records: which ones a topic takes, and those of ListOffsets that mean a place in the log, not a time."""

from __future__ import annotations

from typing import Final

NO_TIMESTAMP: Final = -1
"""A record without a time."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

AFTER_MAX_MS: Final = 3_600_000
"""How far ahead of the clock timestamps may be where a topic does not say: Kafka's default of `message.timestamp.after.max.ms`."""


def too_far_ahead(timestamp_ms: int, now_ms: int, after_max_ms: int) -> str | None:
    """Return why a topic with this `message.timestamp.after.max.ms` does not take a producer's timestamp, or None."""
    if timestamp_ms - now_ms <= after_max_ms:
        return None
    return (
        f"the timestamp {timestamp_ms} is {timestamp_ms - now_ms} ms ahead of this machine's clock, and message.timestamp.after.max.ms is "
        f"{after_max_ms}: retention would keep the record until its time has come; give timestamps in milliseconds, or raise the setting"
    )


def too_far_behind(timestamp_ms: int, now_ms: int, before_max_ms: int) -> str | None:
    """Return why a topic with this `message.timestamp.before.max.ms` does not take a producer's timestamp, or None; -1 is no timestamp."""
    if timestamp_ms == NO_TIMESTAMP or now_ms - timestamp_ms <= before_max_ms:
        return None
    return (
        f"the timestamp {timestamp_ms} is {now_ms - timestamp_ms} ms behind this machine's clock, and message.timestamp.before.max.ms is"
        f" {before_max_ms}; give timestamps in milliseconds, or raise the setting"
    )
