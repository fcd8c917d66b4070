"""Python's search for reference cycles, put off while a micro-batch is worked on.

A micro-batch makes tens of thousands of tuples that live until its end and hold no cycles; looking through them again and
again took a third of the time of a merge.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Search for no reference cycles inside the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
