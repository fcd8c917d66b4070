"""Keeps the mark of this service in its object store, where the directory is led; the other nodes look for it in theirs.

A node whose store has no mark has another object.store.url than the leader, or the leader cannot write: `/ready` and doctor tell it, and
the log when it lasts. A leader with another store must not mark that one, since clients would write into it. So it marks none while
another node has the mark in its store, or while its store lacks the objects that the log speaks of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.view import ShardView
from coordinator.object_store import ObjectStore, StoreError, StoreUnavailable
from coordinator.protocol.messages import DescribeNodeRequest, DescribeNodeResponse
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.context import NodeContext
from coordinator.store_mark import Mark, MarkedService, is_marked, mark_key, put_mark, written_mark

LOG = logging.getLogger("coordinator.files")

LOOK_S: Final = 1.0
"""Between two looks until the mark is there."""
REST_S: Final = 60.0
"""Between two later checks: a deleted mark is restored after so long."""
MISSING_S: Final = 90.0
"""A mark that is missing for so long is not about to be written: the leader has looked for it meanwhile."""
JITTER: Final = (0.75, 1.25)
ASK_TIMEOUT_MS: Final = 2_000
KNOWN_KEYS: Final = 8
"""So many objects are looked for before a store is marked, at most, of each coordinator."""


class StoreMarking:
    """See the module's text; one per node. Without a store there is nothing to do."""

    def __init__(
        self,
        context: NodeContext,
        *,
        store: ObjectStore | None,
        wal_prefix: str,
        service: Callable[[], MarkedService | None],
    ) -> None:
        """`service` names the log of this node, None before it is known."""
        self.problem = ""
        """Why the store cannot be taken for that of the service, as a sentence; empty while nothing is known against it."""
        self.lasting_problem = ""
        """The problem once it has lasted for so long that nothing on its way can mend it."""
        self.is_found = False
        """Whether the mark was there when it was looked for last."""
        self._context = context
        self._store = store
        self._wal_prefix = wal_prefix
        self._service = service
        self._replicas = context.replicas
        self._wake = asyncio.Event()
        self._missing_since_s: float | None = None

    @property
    def has_store(self) -> bool:
        """Whether this node has a store to mark."""
        return self._store is not None

    def wake(self) -> None:
        """Look now: the directory is led here, or no longer."""
        self._wake.set()

    async def keep(self) -> None:
        """Keep or look for the mark, for ever."""
        while self._store is not None:
            service = self._service()
            self.is_found = service is not None and await self._look(self._store, service)
            try:
                async with asyncio.timeout((REST_S if self.is_found else LOOK_S) * self._context.rng.uniform(*JITTER)):
                    await self._wake.wait()
            except TimeoutError:
                pass  # it is time to look
            self._wake.clear()

    async def _look(self, store: ObjectStore, service: MarkedService) -> bool:
        """Return whether the store is known to have the mark, when it has been written if that is this node's to do."""
        try:
            why_not = "" if await is_marked(store, service) else await self._why_not_ours(store, service)
            if not why_not and self._replicas.is_leading(DIRECTORY_PARTITION):
                await put_mark(store, Mark(service=service, wal_prefixes=(self._wal_prefix,)))
        except StoreUnavailable as error:
            LOG.debug("the mark of the service could not be looked for reason=%r", str(error))
            return self.is_found
        except StoreError as error:
            if self.is_found:  # this is no other store because it refuses the node for a while
                LOG.warning("the mark of the service could not be looked for reason=%r", str(error))
                return True
            self._refused(f"the mark of this service can be neither written nor read: {error}", is_certain=True)
            return False
        except Exception:
            # Any error: commits and reads do not depend on marks, so the node goes on.
            LOG.exception("the mark of the service was not looked for; it is tried again")
            return self.is_found
        if why_not:
            self._refused(why_not, is_certain=False)
            return False
        if self.lasting_problem:
            LOG.info("the object store has the mark of this service")
        self.problem, self.lasting_problem, self._missing_since_s = "", "", None
        return True

    def _refused(self, problem: str, *, is_certain: bool) -> None:
        self.problem, now_s = problem, asyncio.get_running_loop().time()
        self._missing_since_s = now_s if self._missing_since_s is None else self._missing_since_s
        if (is_certain or now_s - self._missing_since_s >= MISSING_S) and not self.lasting_problem:
            LOG.error("the object store cannot be taken for that of this service reason=%r", problem)
            self.lasting_problem = problem

    # ---- a store without the mark

    async def _why_not_ours(self, store: ObjectStore, service: MarkedService) -> str:
        """Why a store without the mark is not marked by this node, as a sentence; empty when it is. Raises `StoreError`."""
        what = f"{store.location} has no object {mark_key(service)}, by which this service marks its store"
        if not self._replicas.is_leading(DIRECTORY_PARTITION):
            return f"{what}: object.store.url differs from that of the node that leads metadata partition 0, or that node cannot write"
        other = await self._found_by()
        if other is not None:
            return f"{what}, and node {other} has it in its store: object.store.url differs there; correct it on the node that is wrong"
        keys = self._known_keys()
        if keys and not await _has_any(store, keys):
            mark = written_mark(Mark(service=service, wal_prefixes=(self._wal_prefix,))).decode()
            return (
                f"{what}, and none of {len(keys)} objects that the log speaks of, {keys[0]} first: correct object.store.url; if this shall"
                f" be the store nevertheless, store the mark there: {mark}"
            )
        return ""

    async def _found_by(self) -> int | None:
        """The id of another node that has found the mark in its store; None if none that answers has."""
        request = DescribeNodeRequest(node_id=self._context.node_id, timeout_ms=ASK_TIMEOUT_MS)
        for node in (one for one in self._context.other_nodes() if one.endpoints):
            endpoint = self._context.view.node_endpoint(node.endpoints)
            try:
                answer = await self._context.peers.call(endpoint.host, endpoint.port, request, ASK_TIMEOUT_MS)
            except PeerUnavailable:
                continue
            if isinstance(answer, DescribeNodeResponse) and answer.is_store_marked:
                return node.node_id
        return None

    def _known_keys(self) -> list[str]:
        """The keys of some objects that must be in the store: those of files with live batches."""
        keys: list[str] = []
        for replica in self._replicas.followed():
            try:
                files = replica.look(ShardView.files_after, "", KNOWN_KEYS)
            except NotReadable:
                continue
            keys += islice((file.object_key for file in files if file.live_batches), KNOWN_KEYS)
        return keys


async def _has_any(store: ObjectStore, keys: Sequence[str]) -> bool:
    """Whether a store has one of some objects at least. Raises `StoreError`."""
    for key in keys:
        if await store.head(key) is not None:
            return True
    return False
