"""Settings of topics: names, values and rules are Kafka's, of those that a diskless topic has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from coordinator.kafka.timestamps import AFTER_MAX_MS

CLEANUP_POLICY: Final = "cleanup.policy"
TIMESTAMP_AFTER_MAX_MS: Final = "message.timestamp.after.max.ms"
RETENTION_BYTES: Final = "retention.bytes"
RETENTION_MS: Final = "retention.ms"

UNLIMITED: Final = -1
DELETE: Final = "delete"

_NUMBER = re.compile(r"-1|0|[1-9][0-9]{0,18}")
_INT64_MAX: Final = 2**63 - 1


class ConfigOperation(IntEnum):
    """The change that an alteration makes to a setting; Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigType(IntEnum):
    """The type of a setting: Kafka's numbers."""

    LONG = 5
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A setting of topics. `service_key` is the setting of the service that has the default, None when the default is fixed."""

    name: str
    config_type: ConfigType
    service_key: str | None
    about: str


TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    one.name: one
    for one in (
        TopicConfig(
            name=CLEANUP_POLICY,
            config_type=ConfigType.LIST,
            service_key=None,
            about="What becomes of old batches: delete, when retention.ms or retention.bytes is exceeded.",
        ),
        TopicConfig(
            name=TIMESTAMP_AFTER_MAX_MS,
            config_type=ConfigType.LONG,
            service_key=None,
            about="How far ahead of the clock of who writes them timestamps of producers may be, in milliseconds; later ones are refused.",
        ),
        TopicConfig(
            name=RETENTION_BYTES,
            config_type=ConfigType.LONG,
            service_key="log.retention.bytes",
            about="The bytes of batches that each partition keeps at least; older batches are deleted. -1: no limit.",
        ),
        TopicConfig(
            name=RETENTION_MS,
            config_type=ConfigType.LONG,
            service_key="log.retention.ms",
            about="How long batches are kept, by their largest timestamp, in milliseconds. -1: for ever.",
        ),
    )
}
"""The settings of topics by name, ascending."""


class Retention(NamedTuple):
    """How much of a partition is kept; -1 is no limit."""

    ms: int = UNLIMITED
    size_bytes: int = UNLIMITED

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is ever deleted."""
        return self == UNLIMITED_RETENTION


UNLIMITED_RETENTION: Final = Retention()


def retention_of(settings: Mapping[str, str], default: Retention) -> Retention:
    """Return what the settings of a topic, with the service's defaults, say; values that no rule allows count as not set."""

    return Retention(_number(settings, RETENTION_MS, default.ms), _number(settings, RETENTION_BYTES, default.size_bytes))


def timestamp_after_max_ms(settings: Mapping[str, str]) -> int:
    """Return how far ahead timestamps may be, by the settings of a topic; a value that no rule allows counts as not set."""
    return _number(settings, TIMESTAMP_AFTER_MAX_MS, AFTER_MAX_MS)


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name)
    return default if value is None or not _is_number(name, value) else int(value)


def default_of(name: str, default: Retention) -> str:
    """Return the value that a topic has which sets nothing. Raises KeyError for a setting that topics do not have."""
    return {
        CLEANUP_POLICY: DELETE,
        TIMESTAMP_AFTER_MAX_MS: str(AFTER_MAX_MS),
        RETENTION_BYTES: str(default.size_bytes),
        RETENTION_MS: str(default.ms),
    }[name]


def unknown_topic_config(name: str) -> str | None:
    """Return why a topic cannot have a setting of this name, or None."""
    return None if name in TOPIC_CONFIGS else f"{name!r} is not a setting of diskless topics, which have {', '.join(TOPIC_CONFIGS)}"


def illegal_topic_config(name: str, value: str | None) -> str | None:
    """Return why a topic cannot have this value of a setting, or None."""
    if name not in TOPIC_CONFIGS:
        return unknown_topic_config(name)
    if value is None:
        return f"{name} has no value; name one, or delete the setting"
    if name == CLEANUP_POLICY:
        if value == DELETE:
            return None
        if "compact" in value.split(","):
            return (
                f"{name}={value!r}: only 'delete' is allowed, because batches in shared WAL files are never rewritten, so nothing compacts"
            )
        return f"{name}={value!r}: only 'delete' is allowed"
    least = f"{UNLIMITED} (no limit)" if _least(name) == UNLIMITED else "0"
    return None if _is_number(name, value) else f"{name}={value!r}: a whole number from {least} to {_INT64_MAX} is allowed"


def _least(name: str) -> int:
    return 0 if name == TIMESTAMP_AFTER_MAX_MS else UNLIMITED


def _is_number(name: str, value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None and _least(name) <= int(value) <= _INT64_MAX
