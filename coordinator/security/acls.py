"""Which principal may do what with the cluster and with topics: a table of ACLs, from a configuration or from Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.kafka.acls import EVERYTHING, AclOperation, TopicPattern, effective
from coordinator.security.principal import Principal

ANY_PRINCIPAL: Final = "User:*"
ANY_HOST: Final = "*"
TOPICS_REMEMBERED_MAX: Final = 10_000


class Binding(NamedTuple):
    """One ACL, on topics or (`topics` None) on the cluster. `host` is an address of a client as text, or `ANY_HOST`."""

    principal: str
    operation: AclOperation
    is_allowed: bool = True
    host: str = ANY_HOST
    topics: TopicPattern | None = None


class RightsOnTopics:
    """What the ACLs on topics let one principal do, topic by topic."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        """Takes all ACLs of the principal that are on topics."""
        self._bindings = bindings
        self._remembered: dict[str, frozenset[AclOperation]] = {}

    def granted(self, topic: str) -> frozenset[AclOperation]:
        """Return the operations that are allowed on a topic."""
        found = self._remembered.get(topic)
        if found is None:
            if len(self._remembered) >= TOPICS_REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[topic] = _effective(
                [one for one in self._bindings if one.topics is not None and one.topics.matches(topic)]
            )
        return found


class Rules(Protocol):
    """Decides what a principal may do. The decision for one principal and host does not change: other rules are another object."""

    @property
    def remedy(self) -> str:
        """How an operator allows something, as the end of a sentence."""

    def granted(self, principal: Principal, host: str) -> frozenset[AclOperation] | None:
        """Return the operations that are allowed on the cluster; None while that is not known."""

    def on_topics(self, principal: Principal, host: str) -> RightsOnTopics | None:
        """Return what is allowed on topics; None for a principal that no ACL on topics allows anything."""


class Everything:
    """`Rules` of a service without an authorizer: everybody may do everything."""

    remedy = ""

    def granted(self, principal: Principal, host: str) -> frozenset[AclOperation] | None:
        """Return all operations."""
        return EVERYTHING

    def on_topics(self, principal: Principal, host: str) -> RightsOnTopics | None:
        """Return None: the cluster's operations are those of all topics."""
        return None


class AclTable:
    """`Rules` by ACLs. As in Kafka: what no ACL allows is denied, a denial wins over what is allowed, and super users may do everything.

    Nodes of the service may do everything, too.
    """

    def __init__(self, bindings: Iterable[Binding] | None, *, super_users: Collection[str], remedy: str) -> None:
        """`bindings` None says that they are not known yet."""
        self.remedy = remedy
        self._super_users = frozenset(super_users)
        self._is_known = bindings is not None
        self._by_principal: dict[str, list[Binding]] = {}
        for one in bindings or ():
            self._by_principal.setdefault(one.principal, []).append(one)

    def granted(self, principal: Principal, host: str) -> frozenset[AclOperation] | None:
        """Return what is allowed on the cluster; None while the ACLs are not known, which concerns neither nodes nor super users."""
        name = principal.exact
        if principal.is_node or name in self._super_users:
            return EVERYTHING
        if not self._is_known:
            return None
        return _effective([one for one in self._of(name, host) if one.topics is None])

    def on_topics(self, principal: Principal, host: str) -> RightsOnTopics | None:
        """Return what is allowed on topics; None for a principal that no ACL on topics allows anything."""
        found = [one for one in self._of(principal.exact, host) if one.topics is not None]
        return RightsOnTopics(found) if any(one.is_allowed for one in found) else None

    def _of(self, principal: str, host: str) -> list[Binding]:
        """Return the ACLs of a principal, with those of everybody."""
        return [one for key in {principal, ANY_PRINCIPAL} for one in self._by_principal.get(key, ()) if one.host in (ANY_HOST, host)]


def _effective(bindings: Sequence[Binding]) -> frozenset[AclOperation]:
    return effective((one.operation for one in bindings if one.is_allowed), (one.operation for one in bindings if not one.is_allowed))
