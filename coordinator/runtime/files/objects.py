"""Deletes objects in bulk, a few calls at a time, and with growing pauses while the store refuses or hangs.

One remover serves all coordinators of a node. It retries nothing: the caller meets files again whose deletion is not confirmed. A call may
fail because of one of its keys, so these keys come in ever smaller calls of their own until they are gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coordinator.object_store import ObjectStore, StoreError
from coordinator.runtime.files.keys import why_no_file
from coordinator.runtime.files.pieces import in_pieces, pieces_of
from coordinator.runtime.pauses import doubled

LOG = logging.getLogger("coordinator.files")

CALLS_AT_ONCE_MAX = 4
KEYS_PER_CALL_MAX = 1_000
"""The limit of S3 for one request."""
FAILED_KEYS_MAX = 20_000
"""Keys of failed calls that are remembered; of more a call may fail again as it did."""
KEYS_PER_CHECK = 100
"""Looking at so many keys takes the event loop a tenth of a millisecond."""
REST_S = (0.1, 60.0)
"""After a failed call nothing is sent to the store for so long; doubles with each that follows, until one succeeds."""


class Removal(NamedTuple):
    """The result of a deletion: the store has no object of the keys in `gone` now. `has_failed`: the call did not do all it was asked."""

    gone: frozenset[str]
    has_failed: bool = False


class ObjectRemover:
    """See the module's text."""

    def __init__(self, store: ObjectStore, *, kept_prefix: str, rng: random.Random, monotonic_s: Callable[[], float]) -> None:
        """Objects below `kept_prefix` are not those of committed files, whatever anybody committed."""
        self._store = store
        self._kept_prefix = kept_prefix
        self._rng = rng
        self._monotonic_s = monotonic_s
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE_MAX)
        self._check_turn = asyncio.Lock()
        self._failures = 0
        self._rest_until_s = 0.0
        self._said: set[str] = set()
        self._keys_per_call: dict[str, int] = {}
        """Of keys that failed calls were for: how many may be in the next call for each."""

    @property
    def is_resting(self) -> bool:
        """Whether the store failed a moment ago."""
        return self._monotonic_s() < self._rest_until_s

    def calls_of(self, keys: Sequence[str]) -> Iterator[Sequence[str]]:
        """Cut keys into those of a call each. Keys of failed calls come last, since a failure ends the calls after it."""
        sizes = self._keys_per_call
        if not sizes:
            yield from pieces_of(keys, KEYS_PER_CALL_MAX)
            return
        by_size: dict[int, list[str]] = {}
        for key in keys:
            by_size.setdefault(sizes.get(key, KEYS_PER_CALL_MAX), []).append(key)
        for size in sorted(by_size, reverse=True):
            if size < KEYS_PER_CALL_MAX:
                # A few keys that always fail would end the calls after them each time.
                self._rng.shuffle(by_size[size])
            yield from pieces_of(by_size[size], size)

    async def remove(self, keys: Sequence[str]) -> Removal:
        """Delete objects with one call. While it is resting nothing is asked of the store."""
        wanted: list[str] = []
        # Calls come together: one at a time holds the event loop.
        async with self._check_turn:
            async for piece in in_pieces(keys, KEYS_PER_CHECK):
                wanted += [key for key in piece if self._may_be_there(key)]
        gone = frozenset(keys) - frozenset(wanted)
        if not wanted:
            return Removal(gone)
        async with self._calls:
            if self.is_resting:
                return Removal(gone)
            deleted = await self._store.delete_many(wanted)
        if self._keys_per_call:
            for key in deleted.confirmed:
                self._keys_per_call.pop(key, None)
        if deleted.error is None:
            self._succeeded()
        else:
            self._failed(deleted.error)
            self._remember([key for key in wanted if key not in deleted.confirmed], len(wanted))
        return Removal(gone | deleted.confirmed, has_failed=deleted.error is not None)

    def _may_be_there(self, key: str) -> bool:
        """Whether an object of this key can be one of a file: otherwise there is nothing to delete for it."""
        why_not = why_no_file(key, self._kept_prefix)
        if why_not:
            LOG.warning("no object is deleted for a file reason=%r", why_not)
        return not why_not

    def _remember(self, keys: Sequence[str], in_call: int) -> None:
        """Have these keys come in calls of half as many."""
        if len(self._keys_per_call.keys() | set(keys)) > FAILED_KEYS_MAX:
            self._keys_per_call.clear()
        for key in keys:
            self._keys_per_call[key] = max(1, in_call // 2)

    def _failed(self, error: StoreError) -> None:
        first_s, longest_s = REST_S
        rest_s = doubled(first_s, self._failures, longest_s) * self._rng.uniform(0.5, 1.0)
        self._rest_until_s = self._monotonic_s() + rest_s
        self._failures += 1
        kind = type(error).__name__
        if kind not in self._said:
            self._said.add(kind)
            LOG.error("objects of files cannot be deleted; it is tried again and again error=%s reason=%r", kind, str(error))

    def _succeeded(self) -> None:
        self._failures = 0
        if self._said:
            LOG.info("objects of files are deleted again")
            self._said.clear()
