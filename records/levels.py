"""The schema levels of the log, as numbers, and the file that holds each.

A level is never changed or removed once it is released, because logs live for ever. A new level appends a line here and a
file to `schemas/`; the newest one is also the source of the record classes (`python -m codegen`).
"""

from __future__ import annotations

from typing import Final

FILE_OF_LEVEL: Final = {1: "metadata-entry-v1.avsc", 2: "metadata-entry-v2.avsc"}
"""2: `TransactionBegan` says how many entries follow; at this level transactions (KIP-868) are written."""

LEVEL_LATEST: Final = max(FILE_OF_LEVEL)
