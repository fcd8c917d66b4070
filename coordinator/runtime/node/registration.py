"""Enters this process into the directory as its node, and sees to it that no two processes are one node.

Every process draws an incarnation id at its start. Before it joins the group it brings its directory up to the end of the log
and looks who is registered under its node id. If that process still runs, this one is refused. It runs if it answers at its
address. Where the connection is refused, or somebody else answers (this process itself, most often, which has taken over the
address), it has ended. Where nothing answers it may be frozen or cut off: then the group is asked, which forgets who is gone
after the session timeout. The registration names the process it replaces, so of two that start together one is refused.

A process that was registered and finds another one in its place steps down: the other could not reach it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from coordinator.core.commands import Outcome, RegisterNode
from coordinator.core.directory.decisions import registration_record
from coordinator.core.directory.directory import DIRECTORY_PARTITION, addresses
from coordinator.core.directory.draining import with_drain_of
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeNodeRequest,
    DescribeNodeResponse,
    RegisterNodeEndpoint,
    RegisterNodeRequest,
    RegisterNodeResponse,
)
from coordinator.runtime.directories.reporting import LogDirs
from coordinator.runtime.ports import KafkaUnavailable, PeerGone, PeerUnavailable, group_client_id
from coordinator.runtime.routing.context import NodeContext
from records.model import NodeRegistered

LOG = logging.getLogger("coordinator.registration")

REGISTER_TIMEOUT_MS = 5_000
DIRECTORY_TIMEOUT_MS = 2_000
ASK_TIMEOUT_MS = 2_000
REMEDY = (
    "Every process of a service needs a node.id of its own: change node.id and data.dirs of one of them"
    " (a process that is to replace another is started when that one has ended)"
)


class NodeIdTaken(Exception):
    """Another process runs under this node id; the text names it and the remedy."""


class Registration:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        node: RegisterNode,
        session_timeout_ms: int,
        log_dirs: Callable[[], LogDirs],
        on_taken: Callable[[NodeIdTaken], None],
    ) -> None:
        self._node = node
        self._replicas = context.replicas
        self._view = context.view
        self._context = context
        self._forgotten_s = session_timeout_ms / 1000 + context.pauses.session_margin_s
        self._check_s = context.pauses.registration_check_s
        self._group_check_s = context.pauses.registration_group_s
        self._log_dirs = log_dirs
        self._on_taken = on_taken
        self._was_registered = False
        self._silent_since_s: float | None = None
        self._said: str | None = None

    # ---- before joining the group

    async def await_free(self, patience_s: float) -> None:
        """Return when no other process runs under the node id, or when the directory cannot be read. Raises `NodeIdTaken`."""
        if not await self._read_directory(patience_s):
            LOG.warning("the directory cannot be read to its end: whether node %d runs elsewhere shows later", self._node.node_id)
            return
        other = self._other()
        if other is None:
            return
        if await self._runs(other) is None:
            await self._await_session_end(other)
        self._replace(other)

    async def _read_directory(self, patience_s: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while not await self._context.router.directory_is_current(DIRECTORY_TIMEOUT_MS):
            replica = self._replicas.get(DIRECTORY_PARTITION)
            if loop.time() >= deadline_s or replica is None or replica.failure is not None:
                return False
            await asyncio.sleep(self._context.rng.uniform(0.1, 0.3))
        return True

    async def _await_session_end(self, other: NodeRegistered) -> None:
        """A process that does not answer has ended when the group has forgotten it. Raises `NodeIdTaken`."""
        loop, client_id = asyncio.get_running_loop(), group_client_id(self._node.node_id)
        deadline_s = loop.time() + self._forgotten_s
        while True:
            try:
                if client_id not in await self._context.cluster.group_members():
                    return
            except KafkaUnavailable as unavailable:
                LOG.warning("the members of the group are not known error=%r", str(unavailable))
            if loop.time() >= deadline_s:
                raise NodeIdTaken(
                    f"node.id {self._node.node_id} is in use: a process of that id stays a member of the group, though it does not"
                    f" answer at {addresses(other.endpoints)}. {REMEDY}"
                )
            self._say(f"waiting until the group forgets the former process of node {self._node.node_id}, which does not answer")
            await asyncio.sleep(self._group_check_s)

    def _other(self) -> NodeRegistered | None:
        """The process registered under our id, if it is another one and not known to have ended."""
        directory = self._view.directory
        known = None if directory is None else directory.nodes.get(self._node.node_id)
        return None if known is None or known.incarnation_id in (self._node.incarnation_id, self._node.replaced_id) else known

    async def _runs(self, other: NodeRegistered) -> bool | None:
        """False: it has ended; None: nothing answers. Raises `NodeIdTaken` when it runs."""
        if not other.endpoints:
            return None
        endpoint = self._view.node_endpoint(other.endpoints)
        try:
            request = DescribeNodeRequest(node_id=self._node.node_id, timeout_ms=ASK_TIMEOUT_MS)
            answer = await self._context.peers.call(endpoint.host, endpoint.port, request, ASK_TIMEOUT_MS)
        except PeerGone:
            return False
        except PeerUnavailable:
            return None
        if not isinstance(answer, DescribeNodeResponse):
            raise TypeError(f"{endpoint.host}:{endpoint.port} answered {type(answer).__name__}")
        if answer.node_id == self._node.node_id and answer.incarnation_id != self._node.incarnation_id:
            raise NodeIdTaken(
                f"node.id {self._node.node_id} is in use: the process at {endpoint.host}:{endpoint.port} is registered under it and"
                f" answers. {REMEDY}"
            )
        return False

    def _replace(self, other: NodeRegistered) -> None:
        self._node = replace(self._node, replaced_id=other.incarnation_id)
        LOG.info("replacing the former process of node %d, which has ended, at %s", other.node_id, addresses(other.endpoints))

    # ---- from then on

    async def keep(self) -> None:
        """See to it that the directory knows this process as it is now; never returns."""
        while True:
            try:
                await self._look()
            except NodeIdTaken as taken:
                self._on_taken(taken)
                return
            except Exception:
                LOG.exception("registration failed; it is tried again")
            await asyncio.sleep(self._check_s * self._context.rng.uniform(0.5, 1.0))

    async def _look(self) -> None:
        dirs = self._log_dirs()
        self._node = replace(self._node, log_dirs=dirs.online, is_any_dir_offline=dirs.is_any_offline)
        directory, node = self._view.directory, self._node
        if directory is None:
            return
        known = directory.nodes.get(node.node_id)
        if known is not None and known.incarnation_id == node.incarnation_id:
            self._was_registered = True
            if known == with_drain_of(known, registration_record(node)):
                return
        elif self._other() is not None:
            # An old entry of a log that is being read again says nothing.
            if not await self._context.router.directory_is_current(DIRECTORY_TIMEOUT_MS) or (other := self._other()) is None:
                return
            if self._was_registered:
                raise NodeIdTaken(
                    f"another process, at {addresses(other.endpoints)}, has registered as node {node.node_id} after this one, which it"
                    f" could not reach: this one stops. {REMEDY}"
                )
            if await self._runs(other) is None and not self._is_silent_for_good():
                return
            self._replace(other)
        await self._register()

    def _is_silent_for_good(self) -> bool:
        """Whether the other process has not answered for longer than the group keeps a member that is gone."""
        now_s = asyncio.get_running_loop().time()
        self._silent_since_s = now_s if self._silent_since_s is None else self._silent_since_s
        return now_s - self._silent_since_s > self._forgotten_s

    async def _register(self) -> None:
        if self._replicas.is_leading(DIRECTORY_PARTITION):
            outcome = cast(Outcome, await self._replicas[DIRECTORY_PARTITION].ask(self._node, REGISTER_TIMEOUT_MS))
            self._note(outcome.error, outcome.message)
            return
        leader = self._view.leader(DIRECTORY_PARTITION)
        if leader is None:
            return
        node = self._node
        request = RegisterNodeRequest(
            node_id=node.node_id,
            rack=node.rack,
            endpoints=tuple(RegisterNodeEndpoint(listener=e.listener, host=e.host, port=e.port) for e in node.endpoints),
            schema_level_max=node.schema_level_max,
            incarnation_id=node.incarnation_id,
            replaced_id=node.replaced_id,
            log_dirs=node.log_dirs,
            is_any_dir_offline=node.is_any_dir_offline,
            timeout_ms=REGISTER_TIMEOUT_MS,
        )
        try:
            response = await self._context.peers.call(leader.host, leader.port, request, REGISTER_TIMEOUT_MS)
        except PeerUnavailable as unavailable:
            LOG.info("directory leader is not reachable node=%d error=%r", leader.node_id, str(unavailable))
            return
        if isinstance(response, RegisterNodeResponse):
            self._note(response.error_code, response.error_message)

    def _note(self, error: int, message: str | None) -> None:
        if error == ErrorCode.NONE:
            self._was_registered = True
        elif error in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.DUPLICATE_BROKER_REGISTRATION):
            self._say(f"this node is not registered: {message}")
        else:
            LOG.info("registration was refused error=%d message=%r", error, message)

    def _say(self, message: str) -> None:
        """Warn an operator once, not every second, of a state that lasts until a person acts."""
        if message != self._said:
            LOG.warning(message)
        self._said = message
