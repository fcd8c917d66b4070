"""Ids of data directories (KIP-858): Kafka uuids as text, and the values that name no directory.

A directory id is 16 bytes, as text 22 characters of URL-safe base64, not starting with '-'. The first 100 values are
reserved; Kafka uses (0,0) MIGRATING, (0,1) UNASSIGNED and (0,2) LOST.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container

RESERVED_IDS = 100

MIGRATING = bytes(15) + b"\x00"
"""The replica's node does not say yet in which directory it is."""
UNASSIGNED = bytes(15) + b"\x01"
"""No directory was recorded for the replica yet."""
LOST = bytes(15) + b"\x02"
"""The replica was in a directory that failed before its assignment was recorded."""

_NAMES = {MIGRATING: "MIGRATING", UNASSIGNED: "UNASSIGNED", LOST: "LOST"}


def directory_id_text(directory_id: bytes) -> str:
    """Write a directory id as Kafka does, 22 characters."""
    return base64.urlsafe_b64encode(directory_id).rstrip(b"=").decode("ascii")


def directory_text(directory_id: bytes) -> str:
    """Write a directory id for people: the three values of Kafka that name no directory by their names."""
    return _NAMES.get(directory_id) or directory_id_text(directory_id)


def parse_directory_id(text: str) -> bytes:
    """Read a directory id. Raises ValueError with the rule that is broken."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != 16 or directory_id_text(value) != text:
        raise ValueError("a directory.id has 22 characters of URL-safe base64")
    if is_reserved(value):
        raise ValueError("this directory.id is reserved by Kafka")
    if text.startswith("-"):
        raise ValueError("a directory.id does not start with '-'")
    return value


def is_reserved(directory_id: bytes) -> bool:
    """Tell whether the id is one of the first 100, which name no directory."""
    return int.from_bytes(directory_id, "big") < RESERVED_IDS


def is_online(directory_id: bytes, online: Container[bytes]) -> bool:
    """Tell whether a replica assigned to a directory can be there, given the directories that its node has online.

    As in Kafka: a replica whose directory is not known yet counts as online, one that is LOST does not.
    """
    if directory_id in (UNASSIGNED, MIGRATING):
        return True
    return directory_id != LOST and directory_id in online
