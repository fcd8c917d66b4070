"""The settings that topics have of their own, as metadata partition 0 knows them; for all others a topic has the service's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core.commands import OK, AlterTopicConfigs, ConfigChange, Outcome, TopicAlteration
from coordinator.core.directory.directory import Directory
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import ConfigOperation, illegal_topic_config, unknown_topic_config
from records.model import Record, TopicConfigured


def settings_of(directory: Directory, topic_id: bytes) -> Mapping[str, str]:
    """Return the settings that a topic has of its own."""
    return directory.topic_settings.get(topic_id, {})


def configured(topic_id: bytes, settings: Mapping[str, str]) -> TopicConfigured:
    """Return what the log says of a topic that has these settings."""
    names = sorted(settings)
    return TopicConfigured(topic_id=topic_id, names=names, values=[settings[name] for name in names])


def check_created(directory: Directory, topic_id: bytes, name: str, settings: Sequence[tuple[str, str]]) -> Outcome | None:
    """Return why a topic cannot be created, or grow, with settings; a topic that exists must have just these."""
    wanted = dict(settings)
    if len(wanted) < len(settings):
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"topic {name}: a setting is in the request twice")
    for key, value in settings:
        complaint = illegal_topic_config(key, value)
        if complaint is not None:
            return Outcome(error=ErrorCode.INVALID_CONFIG, message=f"topic {name}: {complaint}")
    if wanted and topic_id in directory.placements and wanted != settings_of(directory, topic_id):
        message = f"topic {name} exists with other settings ({_text(settings_of(directory, topic_id))}); alter those"
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    return None


def decide_alter(directory: Directory, command: AlterTopicConfigs) -> tuple[list[Record], list[Outcome]]:
    """Decide IncrementalAlterConfigs: one outcome per topic, and the settings to log; a topic's changes are made together or not at all."""
    names = [one.topic for one in command.alterations]
    records: list[Record] = []
    outcomes: list[Outcome] = []
    for one in command.alterations:
        topic_id = directory.names.get(one.topic)
        if names.count(one.topic) > 1:
            message = f"topic {one.topic} is in the request twice"
            outcomes.append(Outcome(error=ErrorCode.INVALID_REQUEST, message=message))
        elif topic_id is None:
            message = f"topic {one.topic!r} is not known; create it, or list the topics to see which there are"
            outcomes.append(Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
        else:
            before = settings_of(directory, topic_id)
            after = _altered(one, before)
            if isinstance(after, Outcome):
                outcomes.append(after)
                continue
            outcomes.append(OK)
            if after != before and not command.is_dry_run:
                records.append(configured(topic_id, after))
    return records, outcomes


def _altered(alteration: TopicAlteration, before: Mapping[str, str]) -> dict[str, str] | Outcome:
    """The settings after the changes, or why they are refused."""
    after, seen = dict(before), set[str]()
    for change in alteration.changes:
        refusal = _refusal(change, seen)
        if refusal is not None:
            return Outcome(error=refusal[0], message=f"topic {alteration.topic}: {refusal[1]}")
        seen.add(change.name)
        if change.operation == ConfigOperation.DELETE:
            after.pop(change.name, None)
        elif change.value is not None:
            after[change.name] = change.value
    return after


def _refusal(change: ConfigChange, seen: set[str]) -> tuple[ErrorCode, str] | None:
    if change.name in seen:
        return ErrorCode.INVALID_REQUEST, f"{change.name} is in the request twice"
    if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        return ErrorCode.INVALID_CONFIG, f"{change.name}: its value is set or deleted as a whole; nothing is appended or subtracted"
    if change.operation not in tuple(ConfigOperation):
        return ErrorCode.INVALID_REQUEST, f"{change.name}: operation {change.operation} is not one of 0 (set) to 3 (subtract)"
    is_deleted = change.operation == ConfigOperation.DELETE
    complaint = unknown_topic_config(change.name) if is_deleted else illegal_topic_config(change.name, change.value)
    return None if complaint is None else (ErrorCode.INVALID_CONFIG, complaint)


def _text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items())) or "none of its own"
