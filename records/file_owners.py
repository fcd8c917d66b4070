"""The order in which the owners of a file are responsible for the end of its object."""

from __future__ import annotations

import zlib
from collections.abc import Iterable


def in_turn(object_key: str, owner_ids: Iterable[int]) -> list[int]:
    """The owners of a file in the order in which they are responsible for the end of its object, each once.

    Which of two comes first depends on the key alone, not on who else is an owner: a file that was committed again after a partition had
    moved has several lists, and no two of its owners may wait for each other, or hand it over to each other. Keys spread the work.
    """
    of_key = zlib.crc32(object_key.encode())
    return sorted(set(owner_ids), key=lambda one: (zlib.crc32(b"%d" % one, of_key), one))
