"""The rules that the settings of topics make for batches (`coordinator.kafka.topic_configs`), kept while they stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.kafka.topic_configs import MessageRules, message_rules
from gateway.ports import DisklessTopic

_KEPT_MAX: Final = 100_000
_INT64_MAX: Final = 2**63 - 1


def span_ms(rules: MessageRules, now_ms: int) -> tuple[int, int]:
    """Return the earliest and the latest timestamp that a record may have."""
    return max(now_ms - rules.before_max_ms, -_INT64_MAX), min(now_ms + rules.after_max_ms, _INT64_MAX)


class RulesOfTopics:
    """Keeps the rules of topics as long as their settings are the same object."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Mapping[str, str], MessageRules]] = {}

    def of(self, topic: DisklessTopic) -> MessageRules:
        """The rules of a topic."""
        found = self._known.get(topic.topic_id)
        if found is None or found[0] is not topic.settings:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()  # topics come and go; the rules are read again
            found = self._known[topic.topic_id] = topic.settings, message_rules(topic.settings)
        return found[1]
