"""Freed memory of records is kept for the next ones.

Records are held in blocks of up to some megabytes that live for a fraction of a second. The C library gives such a block back to the system
as soon as it is free, or with it the end of the heap, and each page of the next block is a fault that costs more than copying into it.
"""

from __future__ import annotations

import ctypes
from typing import Final

KEPT_BYTES: Final = 64 * 1024 * 1024
"""As much free memory stays at the end of the heap."""
BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024
"""Larger blocks are mappings of their own, which go back to the system when they are freed; glibc takes no larger number."""
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Tell the C library of this process; returns whether it could be told, as glibc can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, BLOCK_BYTES_MAX)) and bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))
