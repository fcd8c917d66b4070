"""Which topics become diskless when a client creates them (`gateway.create.diskless`), and with which settings.

A request says so by `diskless.enable` (KIP-1150), which Kafka never sees. Kafka's own `kafka-topics` refuses settings that it does not know
before it asks a broker, so a client may say the same in its client id, as `diskless_enable=true`. Where neither says anything, a topic
becomes diskless only if the rule covers its name and a diskless topic can have every setting that was asked for; any other one, such as a
compacted one, becomes classic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import METADATA_TOPIC, illegal_topic_name, why_classic
from coordinator.kafka.topic_configs import illegal_topic_config

ENABLE: Final = "diskless.enable"
"""The setting of a topic by which a client asks for a diskless one."""
_IN_CLIENT_ID: Final = re.compile(r"(?:^|[ ,|])diskless_enable=(true|false)(?:$|[ ,|])")
REQUESTED: Final = "requested"
ALL: Final = "all"


class Wanted(NamedTuple):
    """What is to be created: `settings` of a diskless topic, those of Kafka else; or why it is refused."""

    is_diskless: bool
    settings: Mapping[str, str | None]
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class CreationRule:
    """The setting `gateway.create.diskless`: `requested`, `all`, or a regular expression of names."""

    def __init__(self, text: str, metadata_topic: str = METADATA_TOPIC) -> None:
        """Raises ValueError for an expression that is none."""
        try:
            self._names = None if text in (REQUESTED, ALL) else re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!r} is neither {REQUESTED!r} nor {ALL!r} nor a regular expression: {error}") from error
        self._is_all = text == ALL
        self._metadata_topic = metadata_topic

    def covers(self, name: str) -> bool:
        """Return whether a topic of this name becomes diskless when a request does not say."""
        is_meant = self._is_all or (self._names is not None and self._names.fullmatch(name) is not None)
        return is_meant and why_classic(name, self._metadata_topic) is None and illegal_topic_name(name) is None

    def wanted(self, name: str, settings: Mapping[str, str | None], client_id: str | None = None) -> Wanted:
        """Return what a request to create a topic asks for. Its settings count before its client id, and that before the rule."""
        said = _IN_CLIENT_ID.search(client_id or "")
        if said is not None:
            settings = {ENABLE: said[1], **settings}
        rest = {key: value for key, value in settings.items() if key != ENABLE}
        faults = [fault for key, value in rest.items() if (fault := illegal_topic_config(key, value)) is not None]
        if ENABLE not in settings:
            return Wanted(self.covers(name) and not faults, rest)
        asked = (settings[ENABLE] or "").strip().lower()
        if asked not in ("true", "false"):
            text = f"Invalid value {settings[ENABLE]} for configuration {ENABLE}: true or false is allowed"
            return Wanted(False, rest, ErrorCode.INVALID_CONFIG, text)
        if asked == "false":
            return Wanted(False, rest)
        if reserved := why_classic(name, self._metadata_topic):
            return Wanted(True, rest, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{reserved}; choose another name for a diskless topic")
        return Wanted(True, rest, ErrorCode.INVALID_CONFIG if faults else ErrorCode.NONE, "; ".join(faults) or None)
