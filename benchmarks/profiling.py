"""Where the time goes."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def profiled(is_wanted: bool) -> Iterator[None]:
    """Print the functions that took the time inside, if that is wanted."""
    if not is_wanted:
        yield
        return
    with cProfile.Profile() as profiler:
        yield
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
