"""Kafka's own messages by kio's codec, beside ours."""

from __future__ import annotations

import io

from kio.serial import entity_reader, entity_writer

from coordinator.protocol.codec import Message, decode, encode


def same_as_kio(message: Message) -> Message:
    """Both codecs make and read the same bytes of a message, which is returned."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)  # type: ignore[type-var]
    assert encode(message) == out.getvalue()
    assert decode(type(message), out.getvalue()) == message
    read, size = entity_reader(type(message))(out.getvalue(), 0)  # type: ignore[type-var]
    assert (read, size) == (message, len(out.getvalue()))
    return message
