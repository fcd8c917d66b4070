"""The rules that a topic's settings make for the batches written to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator.kafka.topic_configs import timestamp_after_max_ms
from gateway.ports import DisklessTopic

_INT64_MAX: Final = 2**63 - 1
MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of `max.message.bytes`."""


class TopicRules(NamedTuple):
    """See Kafka's settings of topics of the same names."""

    bytes_max: int
    is_append_time: bool
    before_max_ms: int
    after_max_ms: int

    def span_ms(self, now_ms: int) -> tuple[int, int]:
        """The earliest and the latest timestamp that a record may have."""
        return max(now_ms - self.before_max_ms, -_INT64_MAX), min(now_ms + self.after_max_ms, _INT64_MAX)


def rules_of(settings: Mapping[str, str]) -> TopicRules:
    """Read the rules; what is not set has Kafka's default."""
    return TopicRules(
        bytes_max=_number(settings, "max.message.bytes", MESSAGE_BYTES_MAX),
        is_append_time=settings.get("message.timestamp.type") == "LogAppendTime",
        before_max_ms=_number(settings, "message.timestamp.before.max.ms", _INT64_MAX),
        after_max_ms=timestamp_after_max_ms(settings),
    )


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name, "")
    return int(value) if value.isdecimal() and value.isascii() else default


class RulesOfTopics:
    """Keeps the rules of topics as long as their settings are the same object."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Mapping[str, str], TopicRules]] = {}

    def of(self, topic: DisklessTopic) -> TopicRules:
        """The rules of a topic."""
        found = self._known.get(topic.topic_id)
        if found is None or found[0] is not topic.settings:
            if len(self._known) > 100_000:
                self._known.clear()  # topics come and go; the rules are read again
            found = self._known[topic.topic_id] = topic.settings, rules_of(topic.settings)
        return found[1]
