"""Kafka's variable-length building blocks: varints and sections of tagged fields, and the two errors of the codec.

Knows no message. Every function takes the end of the readable bytes and never reads past it.
"""

from __future__ import annotations

from typing import Final

from coordinator.errors import DisklessError

STRING_BYTES_MAX: Final = 0x7FFF
EXPLANATIONS: Final = (".error_message", ".evidence", ".last_contradiction", ".last_error", ".last_failure", "problem", "reason")
"""Endings of the fields of answers that hold a text for people."""
CUT: Final = b" ... (cut)"
VARINT_MAX: Final = 0x7FFF_FFFF


class MalformedMessage(DisklessError):
    """These bytes are not a message of the expected form; the text says where and why."""


class UnencodableMessage(DisklessError, ValueError):
    """A value does not fit its Kafka type; the text names the field."""


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 31 bits; returns (value, next position)."""
    if position < end and (byte := data[position]) < 0x80:
        return byte, position + 1
    value = shift = 0
    while shift < 35:
        if position >= end:
            raise MalformedMessage(f"the bytes end inside a varint at {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > VARINT_MAX:
                break
            return value, position
        shift += 7
    raise MalformedMessage(f"the varint before {position} is larger than {VARINT_MAX}")


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if 0 <= value < 0x80:
        return bytes((value,))
    if not 0 <= value <= VARINT_MAX:
        raise UnencodableMessage(f"{value} is no length or tag: outside [0, {VARINT_MAX}]")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_text(data: bytes, position: int, size: int, end: int, where: str, errors: str = "strict") -> tuple[str, int]:
    """Read `size` bytes of UTF-8. Raises MalformedMessage, for other bytes only when `errors` says so."""
    if size > STRING_BYTES_MAX:
        raise MalformedMessage(f"{where}: a string of {size} bytes is longer than {STRING_BYTES_MAX}")
    stop = position + size
    if stop > end:
        raise MalformedMessage(f"{where}: the bytes end inside a string of {size} bytes")
    try:
        return str(data[position:stop], "utf-8", errors), stop
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"{where}: a string is not UTF-8") from error


def text_bytes(value: str, where: str) -> bytes:
    """Encode a string's content, within Kafka's limit of 32 767 bytes. Raises `UnencodableMessage`.

    Explanations are cut to that, and lone surrogates in them escaped: they quote what was asked for, and an answer must always be possible.
    """
    try:
        raw = value.encode()
    except UnicodeEncodeError as error:
        if not where.endswith(EXPLANATIONS):
            raise UnencodableMessage(f"{where}: the string holds a lone surrogate") from error
        raw = value.encode(errors="backslashreplace")
    if len(raw) > STRING_BYTES_MAX:
        if where.endswith(EXPLANATIONS):
            return raw[: STRING_BYTES_MAX - len(CUT)].decode(errors="ignore").encode() + CUT
        raise UnencodableMessage(f"{where}: a string of {len(raw)} bytes is longer than {STRING_BYTES_MAX}")
    return raw


def compact_string(value: str | None, where: str) -> bytes:
    """Encode a compact nullable string."""
    if value is None:
        return b"\0"
    raw = text_bytes(value, where)
    return varint(len(raw) + 1) + raw


def read_tagged_fields(data: bytes, position: int, end: int, known: frozenset[int]) -> tuple[dict[int, tuple[int, int]], int]:
    """Find the known tagged fields of a section and skip the others; ({tag: (start, end)}, position after the section)."""
    found: dict[int, tuple[int, int]] = {}
    count, position = read_varint(data, position, end)
    for _ in range(count):
        tag, position = read_varint(data, position, end)
        size, position = read_varint(data, position, end)
        if size > end - position:
            raise MalformedMessage(f"tagged field {tag}: the bytes end inside its {size} bytes")
        if tag in known:
            # Kafka reads what each says, one after the other; which of them it then has depends on their sizes.
            if tag in found:
                raise MalformedMessage(f"tagged field {tag} comes twice")
            found[tag] = (position, position + size)
        position += size
    return found, position
