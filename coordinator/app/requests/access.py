"""Which requests of a connection are served: the declared ACL of each operation against what the rules grant its principal.

Some operations are also served to principals that have rights on topics alone, as far as these go (`AllowedTopics`). Internal requests
are served to nodes of the service alone, whatever the rules say. A decision is made once for each connection and remembered until the
rules, or whom the connection serves, change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.core.commands import Outcome
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import illegal_topic_name, topic_id_text
from coordinator.operations.declaration import ByTopic, Operation, TopicScope
from coordinator.security.acls import RightsOnTopics, Rules
from coordinator.security.principal import Principal

LOG = logging.getLogger("coordinator.access")

REMEMBERED_MAX: Final = 20_000
SAID_MAX: Final = 1_000
NODES_REMEDY: Final = "give all nodes the same internal.secret.file, or name what they log in as in internal.principals"


class Access:
    """Decides for one process."""

    def __init__(
        self, operations: Iterable[Operation], rules: Rules, node_principals: Collection[str] = (), node_listener: str = ""
    ) -> None:
        """Principals of `node_principals` are nodes on `node_listener`, beside those that proved it at their login on any listener."""
        self._operations = {one.key: one for one in operations}
        self._rules = rules
        self._node_principals = frozenset(node_principals)
        self._node_listener = node_listener
        self._remembered: dict[int, tuple[Peer, frozenset[int], RightsOnTopics | None]] = {}
        self._said: set[tuple[str, str]] = set()

    def replace(self, rules: Rules) -> None:
        """Decide by other rules from now on."""
        self._rules = rules
        self._remembered.clear()
        self._said.clear()

    def is_node(self, peer: Peer) -> bool:
        """Tell whether a peer is a node of the service."""
        return self._principal(peer).is_node

    def allowed(self, peer: Peer) -> frozenset[int]:
        """Return the numbers of the operations that are served to a peer whatever the request says."""
        known = self._remembered.get(peer.connection_id)
        # A connection that logs in has another peer object from then on.
        if known is not None and known[0] is peer:
            return known[1]
        is_node = self.is_node(peer)
        granted = self._granted(peer) or frozenset()
        allowed = frozenset(
            key
            for key, one in self._operations.items()
            if (is_node or not one.is_internal) and (not one.acl or not granted.isdisjoint(one.acl))
        )
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()  # decisions of closed connections are still here
        self._remembered[peer.connection_id] = (peer, allowed, self._rules.on_topics(*self._who(peer)))
        return allowed

    def may_look(self, request: IncomingRequest) -> bool:
        """Return True for a request that changes nothing, of a principal that may look. Raises MalformedMessage."""
        operation = self._operations[request.api_key]
        if operation.only_looks is None or AclOperation.DESCRIBE not in (self._granted(request.peer) or ()):
            return False
        return operation.only_looks(operation.decode(request.api_version, request.data, request.body_offset))

    def allowed_topics(self, request: IncomingRequest, name_of: Callable[[bytes], str | None]) -> AllowedTopics | None:
        """Return the topics of which a request is served that is not served whatever it says; None when it is refused as a whole.

        `name_of` returns the name of a topic id, None for an id that is not known.
        """
        operation, peer = self._operations[request.api_key], request.peer
        self.allowed(peer)
        rights = self._remembered[peer.connection_id][2]
        if operation.by_topic is None or rights is None:
            return None
        return AllowedTopics(access=self, operation=operation, by_topic=operation.by_topic, peer=peer, rights=rights, name_of=name_of)

    def refusal(self, request: IncomingRequest) -> Outcome:
        """Return why a request is not served, and say it once for each principal and operation."""
        operation, peer = self._operations[request.api_key], request.peer
        if operation.is_internal:
            self._say(operation, peer, "a node", NODES_REMEDY)
            message = f"{peer.principal} may not do {operation.name}, which only nodes of this service do"
            return Outcome(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message=message)
        if self._granted(peer) is None:
            message = "it is not known yet who may do what, because Kafka has not given its ACLs; retry"
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message)
        principal = str(peer.principal)
        self._say(operation, peer, operation.needs, self._remedy(peer, "--cluster" if operation.by_topic is None else "--topic TOPIC"))
        message = f"{principal} may not do {operation.name}, which needs {operation.needs}; ask an operator to allow it"
        return Outcome(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message=message)

    def refusal_of_topic(self, operation: Operation, by_topic: ByTopic, peer: Peer, topic: str, known_name: str | None) -> Outcome:
        """Return why a request is not served of a topic, named `topic` to the client; says it as `refusal`, by the name if it is known."""
        needed, name = by_topic.acl.name, topic if known_name is None else known_name
        self._say(operation, peer, f"{needed} on topic {name}", self._remedy(peer, f"--topic {name}"))
        message = f"{peer.principal} may not do {operation.name} on topic {topic}, which needs {needed} on it; ask an operator to allow it"
        return Outcome(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=message)

    def _remedy(self, peer: Peer, resource: str) -> str:
        return self._rules.remedy.format(principal=peer.principal, resource=resource)

    def _say(self, operation: Operation, peer: Peer, needed: str, remedy: str) -> None:
        principal = str(peer.principal)
        if (principal, operation.name) in self._said or len(self._said) >= SAID_MAX:
            return
        self._said.add((principal, operation.name))
        LOG.warning(
            "not authorized principal=%s operation=%s needs='%s' listener=%s peer=%s remedy=%s",
            principal, operation.name, needed, peer.listener, peer.address, remedy,
        )  # fmt: skip

    def _principal(self, peer: Peer) -> Principal:
        principal = peer.principal
        # Other listeners may believe other authorities, or take tokens and passwords: there the name alone would make a node.
        is_named = peer.listener == self._node_listener and principal.exact in self._node_principals
        return principal._replace(is_node=True) if is_named else principal

    def _granted(self, peer: Peer) -> frozenset[AclOperation] | None:
        return self._rules.granted(*self._who(peer))

    def _who(self, peer: Peer) -> tuple[Principal, str]:
        return self._principal(peer), peer.address.rpartition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedTopics(TopicScope):
    """The topics of which one request is served. Judged at each call, since the directory may come to know a topic meanwhile."""

    access: Access
    operation: Operation
    by_topic: ByTopic
    peer: Peer
    rights: RightsOnTopics
    name_of: Callable[[bytes], str | None]

    def knows(self, topic_id: bytes) -> bool:
        """Tell whether the id is that of a topic that this node knows."""
        return self.name_of(topic_id) is not None

    def allows(self, topic_id: bytes, name: str | None) -> bool:
        """See `TopicScope`."""
        known = self.name_of(topic_id) if any(topic_id) else name
        return self.by_topic.acl in self.rights.granted(known or "")

    def refusal(self, topic_id: bytes, name: str | None) -> Outcome:
        """See `TopicScope`."""
        if any(topic_id):
            shown, known = topic_id_text(topic_id), self.name_of(topic_id)
        else:
            # Strangers choose the name, and logs and answers show it.
            shown, known = "NAME" if name is None or illegal_topic_name(name) else name, None
        return self.access.refusal_of_topic(self.operation, self.by_topic, self.peer, shown, known)
