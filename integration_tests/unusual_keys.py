"""Object keys that are not in plain form: stores list them in another form, or not at all, so every commit of one must be refused.

The rule is written anew, trusting no product code.
"""

from __future__ import annotations

import re
import time
from random import Random
from typing import Final

from coordinator.client.records.ulid import new_ulid

FORMS: Final = (
    "wal/faults//{}",
    "wal/faults/./{}",
    "wal/faults/x/../{}",
    "../{}",
    "/{}",
    "wal/faults/{}/",
    "wal/faults/tab\t{}",
    "wal/faults/line\n{}",
    "wal/faults/del\x7f{}",
    "wal/faults/none\uffff{}",
)
_UNUSUAL: Final = re.compile("[\0-\x1f\x7f\ufffd-\uffff]")


def unusual_key(rng: Random) -> str:
    """A key that no other file has."""
    return rng.choice(FORMS).format(new_ulid(time.time_ns() // 1_000_000, rng.randbytes(10)))


def is_plain(object_key: str) -> bool:
    """Whether a key is a relative path of segments, none of them empty, "." or "..", of characters that XML has, without controls."""
    return not (_UNUSUAL.search(object_key) or {"", ".", ".."}.intersection(object_key.split("/")))
