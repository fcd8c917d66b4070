"""Settings of topics: names, values and rules are Kafka's, of those that a diskless topic has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from coordinator.kafka.timestamps import AFTER_MAX_MS

CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
TIMESTAMP_AFTER_MAX_MS: Final = "message.timestamp.after.max.ms"
TIMESTAMP_BEFORE_MAX_MS: Final = "message.timestamp.before.max.ms"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
RETENTION_BYTES: Final = "retention.bytes"
RETENTION_MS: Final = "retention.ms"

UNLIMITED: Final = -1
SHADOW_SETTINGS: Final = {MAX_MESSAGE_BYTES: "0"}
"""The settings of a shadow, Kafka's empty topic beside a diskless one: who reaches a broker past the gateways can write nothing there."""
DELETE: Final = "delete"
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
MESSAGE_BYTES_MAX: Final = 1_048_588
"""The size of a batch, with its header, that a topic takes which does not say: Kafka's default of `max.message.bytes`."""

_NUMBER = re.compile(r"-1|0|[1-9][0-9]{0,18}")
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class ConfigOperation(IntEnum):
    """The change that an alteration makes to a setting; Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigType(IntEnum):
    """The type of a setting: Kafka's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
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
            name=MAX_MESSAGE_BYTES,
            config_type=ConfigType.INT,
            service_key=None,
            about="The largest batch that who writes it may commit, in bytes, as it is compressed, with its header.",
        ),
        TopicConfig(
            name=TIMESTAMP_AFTER_MAX_MS,
            config_type=ConfigType.LONG,
            service_key=None,
            about="How far ahead of the clock of who writes them timestamps of producers may be, in milliseconds; later ones are refused.",
        ),
        TopicConfig(
            name=TIMESTAMP_BEFORE_MAX_MS,
            config_type=ConfigType.LONG,
            service_key=None,
            about="How far behind the clock of who writes them timestamps of producers may be, in milliseconds; earlier ones are refused.",
        ),
        TopicConfig(
            name=TIMESTAMP_TYPE,
            config_type=ConfigType.STRING,
            service_key=None,
            about="Which time records have: CreateTime, that of their producers, or LogAppendTime, that of their coordinator.",
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


class MessageRules(NamedTuple):
    """What a topic demands of batches, of whoever writes them."""

    bytes_max: int
    is_log_append_time: bool
    before_max_ms: int
    after_max_ms: int


def message_rules(settings: Mapping[str, str]) -> MessageRules:
    """Return what the settings of a topic demand of batches; values that no rule allows count as not set."""
    return MessageRules(
        bytes_max=_number(settings, MAX_MESSAGE_BYTES, MESSAGE_BYTES_MAX),
        is_log_append_time=settings.get(TIMESTAMP_TYPE) == LOG_APPEND_TIME,
        before_max_ms=_number(settings, TIMESTAMP_BEFORE_MAX_MS, _INT64_MAX),
        after_max_ms=_number(settings, TIMESTAMP_AFTER_MAX_MS, AFTER_MAX_MS),
    )


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name)
    return default if value is None or not _is_number(name, value) else int(value)


def default_of(name: str, default: Retention) -> str:
    """Return the value that a topic has which sets nothing. Raises KeyError for a setting that topics do not have."""
    return {
        CLEANUP_POLICY: DELETE,
        MAX_MESSAGE_BYTES: str(MESSAGE_BYTES_MAX),
        TIMESTAMP_AFTER_MAX_MS: str(AFTER_MAX_MS),
        TIMESTAMP_BEFORE_MAX_MS: str(_INT64_MAX),
        TIMESTAMP_TYPE: CREATE_TIME,
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
    if name == TIMESTAMP_TYPE:
        return None if value in (CREATE_TIME, LOG_APPEND_TIME) else f"{name}={value!r}: {CREATE_TIME} or {LOG_APPEND_TIME} is allowed"
    least, most = _bounds(name)
    text = f"{UNLIMITED} (no limit)" if least == UNLIMITED else str(least)
    return None if _is_number(name, value) else f"{name}={value!r}: a whole number from {text} to {most} is allowed"


def _bounds(name: str) -> tuple[int, int]:
    least = UNLIMITED if name in (RETENTION_BYTES, RETENTION_MS) else 0
    return least, _INT32_MAX if name == MAX_MESSAGE_BYTES else _INT64_MAX


def _is_number(name: str, value: str) -> bool:
    least, most = _bounds(name)
    return _NUMBER.fullmatch(value) is not None and least <= int(value) <= most
