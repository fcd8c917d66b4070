"""The head of a committed file: its properties as a whole."""

from __future__ import annotations

from typing import NamedTuple


class FileHead(NamedTuple):
    """See the module. Times in ms; `created_ms` is -1 when it is unknown; the hash has 16 bytes."""

    object_key: str
    object_format: int
    file_size: int
    uploader_broker_id: int
    owner_ids: list[int]
    created_ms: int
    append_time_ms: int
    content_hash: bytes
