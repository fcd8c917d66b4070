"""Protections of the design that a simulated run can do without, to show that the simulator notices.

Each is taken out of the product by a patch for the time of one run; the product itself has no switches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def without(names: Iterable[str]) -> Iterator[None]:
    """Switch protections off for a while."""
    yield
