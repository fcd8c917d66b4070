"""Which requests of a connection are served: the declared ACL of each operation against what the rules grant its principal.

A decision is made once for each connection and remembered until the rules, or whom the connection serves, change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.core.commands import Outcome
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation
from coordinator.security.acls import Rules

LOG = logging.getLogger("coordinator.access")

REMEMBERED_MAX: Final = 20_000
SAID_MAX: Final = 1_000


class Access:
    """Decides for one process."""

    def __init__(self, operations: Iterable[Operation], rules: Rules) -> None:
        self._operations = {one.key: one for one in operations}
        self._rules = rules
        self._remembered: dict[int, tuple[Peer, frozenset[int]]] = {}
        self._said: set[tuple[str, str]] = set()

    def replace(self, rules: Rules) -> None:
        """Decide by other rules from now on."""
        self._rules = rules
        self._remembered.clear()
        self._said.clear()

    def is_node(self, peer: Peer) -> bool:
        """Tell whether a peer is a node of the service."""
        return peer.principal.is_node

    def allowed(self, peer: Peer) -> frozenset[int]:
        """Return the numbers of the operations that are served to a peer whatever the request says."""
        known = self._remembered.get(peer.connection_id)
        # A connection that logs in has another peer object from then on.
        if known is not None and known[0] is peer:
            return known[1]
        granted = self._granted(peer) or frozenset()
        allowed = frozenset(key for key, one in self._operations.items() if not one.acl or not granted.isdisjoint(one.acl))
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()  # connections that are gone leave their decision behind
        self._remembered[peer.connection_id] = (peer, allowed)
        return allowed

    def may_look(self, request: IncomingRequest) -> bool:
        """Return True for a request that changes nothing, of a principal that may look. Raises MalformedMessage."""
        operation = self._operations[request.api_key]
        if operation.only_looks is None or AclOperation.DESCRIBE not in (self._granted(request.peer) or ()):
            return False
        return operation.only_looks(operation.decode(request.api_version, request.data, request.body_offset))

    def refusal(self, request: IncomingRequest) -> Outcome:
        """Return why a request is not served, and say it once for each principal and operation."""
        operation, peer = self._operations[request.api_key], request.peer
        if self._granted(peer) is None:
            message = "it is not known yet who may do what, because Kafka has not told its ACLs; retry"
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message)
        needed = " or ".join(sorted(one.name for one in operation.acl))
        principal = str(peer.principal)
        if (principal, operation.name) not in self._said and len(self._said) < SAID_MAX:
            self._said.add((principal, operation.name))
            LOG.warning(
                "not authorized principal=%s operation=%s needs='%s' listener=%s peer=%s remedy='%s'",
                principal, operation.name, needed, peer.listener, peer.address, self._rules.remedy.format(principal=principal),
            )  # fmt: skip
        message = f"{principal} may not do {operation.name}, which needs {needed} on the cluster; ask an operator to allow it"
        return Outcome(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message=message)

    def _granted(self, peer: Peer) -> frozenset[AclOperation] | None:
        return self._rules.granted(peer.principal, peer.address.rpartition(":")[0])
