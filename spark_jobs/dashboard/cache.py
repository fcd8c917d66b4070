"""Answers of panels, kept while they cannot have changed, and a little longer when they were dear.

An answer is good while the store has the same version and it is younger than `FRESH_S`; one that took long to make (`DEAR_S`)
is used for twenty times as long as it took, so that no page, and no number of pages, costs more than a twentieth of a core
per question. It says of which version it is, so that a page knows that it is not the newest. A request that comes while an answer is
being made waits for that one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from spark_jobs.dashboard.panels.rows import Json

FRESH_S = 2.0
DEAR_S = 0.02
COST_FACTOR = 20.0
ENTRIES_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """JSON ready to send. `cost_s` is how long it took to make."""

    body: bytes
    etag: str
    version: str
    made_s: float
    cost_s: float


class AnswerCache:
    """The most recently used answers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds and never goes backwards."""
        self._clock = clock
        self._kept: OrderedDict[Hashable, Answer] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[Answer]] = {}

    async def get(self, key: Hashable, version: str, make: Callable[[], Awaitable[Json]]) -> Answer:
        """Return a good answer, made by `make` if need be. Raises what `make` raises."""
        kept = self._kept.get(key)
        if kept is not None:
            age_s = self._clock() - kept.made_s
            is_dear = kept.cost_s >= DEAR_S and age_s < kept.cost_s * COST_FACTOR
            if is_dear or (kept.version == version and age_s < FRESH_S):
                self._kept.move_to_end(key)
                return kept
        task = self._making.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, version, make))
            self._making[key] = task
            task.add_done_callback(lambda _: self._making.pop(key, None))
        # One that asked and left must not end the answer that others wait for.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, version: str, make: Callable[[], Awaitable[Json]]) -> Answer:
        start_s = self._clock()
        body = encode(await make())
        now_s = self._clock()
        etag = '"' + hashlib.blake2b(body, digest_size=12).hexdigest() + '"'
        answer = Answer(body=body, etag=etag, version=version, made_s=now_s, cost_s=now_s - start_s)
        self._kept[key] = answer
        self._kept.move_to_end(key)
        while len(self._kept) > ENTRIES_MAX:
            self._kept.popitem(last=False)
        return answer


def encode(value: Json) -> bytes:
    """JSON without spaces; NaN and infinities would not be JSON and are an error."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
