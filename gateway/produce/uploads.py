"""Stores a WAL file under its key, and tries again under the same key while a client may still wait for it.

A put whose outcome is unknown may have stored the object. The key has been given to this content only, so an object of this size that is
there already is the file. It is looked for before the file is sent again: a store that refuses to overwrite may hang up while a large file
is still on its way, and its answer would be lost each time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from coordinator.client.records.wal_objects import WrongObject
from coordinator.object_store import InvalidKey, ObjectExists, ObjectStore, StoreDenied, StoreError, StoreUnavailable
from gateway.produce.stats import ProduceStats

LOG = logging.getLogger(__name__)

ATTEMPT_S: Final = 5.0
"""The first attempt may take this, and a second more for each `SLOWEST_BYTES`: a store that hangs once must not cost a client's patience.

Each attempt that took too long doubles what the next one has. Else many uploads at once over a slow link would all end unfinished for ever.
"""
SLOWEST_BYTES: Final = 2 * 1024 * 1024
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


async def upload(
    store: ObjectStore, key: str, data: bytes, *, is_in_vain: Callable[[], bool], stats: ProduceStats, rng: random.Random
) -> str | None:
    """Store a file; return None, or why it was given up: for good, or since `is_in_vain` after an attempt that failed."""
    pause_s, attempt_s, may_be_there = _PAUSE_S, ATTEMPT_S + len(data) / SLOWEST_BYTES, False
    while True:
        try:
            async with asyncio.timeout(attempt_s):
                if not (may_be_there and await _is_there(store, key, data)):
                    await _put(store, key, data)
            return None
        except (StoreDenied, InvalidKey, WrongObject) as error:
            return str(error)
        except TimeoutError:
            error_text = f"{store.location}: {key} was not stored in {attempt_s:.1f} s"
            attempt_s *= 2
        except StoreError as error:
            error_text = str(error)
        if is_in_vain():
            return error_text
        may_be_there = True
        stats.uploads_repeated += 1
        LOG.info("an upload is repeated error=%s", error_text)
        await asyncio.sleep(pause_s * rng.uniform(0.5, 1.0))
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


async def _put(store: ObjectStore, key: str, data: bytes) -> None:
    try:
        await store.put(key, data, create_only=True)
    except ObjectExists:
        if not await _is_there(store, key, data):
            raise StoreUnavailable(f"{store.location}: {key} exists and cannot be seen") from None


async def _is_there(store: ObjectStore, key: str, data: bytes) -> bool:
    stored = await store.head(key)
    if stored is not None and stored.size_bytes != len(data):
        raise WrongObject(f"{store.location}: {key} holds {stored.size_bytes} bytes, the file has {len(data)} bytes")
    return stored is not None
