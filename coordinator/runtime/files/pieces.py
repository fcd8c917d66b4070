"""Work on many files in pieces, so that the event loop has time for commits between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def pieces_of(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut items into pieces of `size`; the last one may be smaller."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


async def in_pieces(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Cut items into pieces, as `pieces_of` does, and let the event loop do other work after each."""
    for piece in pieces_of(items, size):
        yield piece
        await asyncio.sleep(0)
