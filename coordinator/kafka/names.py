"""Text forms and rules of names: topic ids as Kafka prints them, legal topic names, names of topics that stay classic."""

from __future__ import annotations

import base64
import binascii
import re

TOPIC_NAME_CHARACTERS_MAX = 249
_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]+")

ZERO_TOPIC_ID = bytes(16)

METADATA_TOPIC = "__diskless_metadata"
"""The KIP's name of the metadata topic; a service may have another one."""

INTERNAL_TOPICS = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state"}
)
"""Topics that brokers and controllers write themselves. Kafka keeps the same ones out of tiered storage (`isRemoteLogEnabled`)."""


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it: base64url without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(text: str) -> bytes:
    """The 16 bytes of a topic id. Raises ValueError naming the text."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16 or topic_id_text(raw) != text:
        raise ValueError(f"{text!r} is not a topic id: it must be 22 characters of base64url, as Kafka prints them")
    return raw


def illegal_topic_name(name: str) -> str | None:
    """Why Kafka would refuse this topic name, or None."""
    if not name or name in (".", ".."):
        return f"topic name {name!r} is not allowed"
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        return f"topic name has {len(name)} characters; at most {TOPIC_NAME_CHARACTERS_MAX} are allowed"
    if not _LEGAL_NAME.fullmatch(name):
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def why_classic(name: str, metadata_topic: str = METADATA_TOPIC) -> str | None:
    """Why a topic of this name has to be a classic one, or None."""
    # The KIP's name stays reserved where the service has another one: tools and ACLs take it for the metadata topic.
    if name in (metadata_topic, METADATA_TOPIC):
        return f"topic {name} is the metadata topic of the service itself, which stays classic"
    if name in INTERNAL_TOPICS:
        return f"topic {name} is an internal topic of Kafka, which stays classic: the brokers write it themselves"
    return None
