"""Which principal may do what with the cluster: a table of ACLs, from a configuration or from Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, Protocol

from coordinator.kafka.acls import EVERYTHING, AclOperation, effective
from coordinator.security.principal import Principal

ANY_PRINCIPAL: Final = "User:*"
ANY_HOST: Final = "*"


class Binding(NamedTuple):
    """One ACL on the cluster. `host` is an address of a client as text, or `ANY_HOST`."""

    principal: str
    operation: AclOperation
    is_allowed: bool = True
    host: str = ANY_HOST


class Rules(Protocol):
    """Decides what a principal may do. The decision for one principal and host does not change: other rules are another object."""

    @property
    def remedy(self) -> str:
        """How an operator allows something, as the end of a sentence."""

    def granted(self, principal: Principal, host: str) -> frozenset[AclOperation] | None:
        """Return the operations that are allowed; None while that is not known."""


class Everything:
    """`Rules` of a service without an authorizer: everybody may do everything."""

    remedy = ""

    def granted(self, principal: Principal, host: str) -> frozenset[AclOperation] | None:
        """Return all operations."""
        return EVERYTHING


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
        """Return the operations that are allowed; None while the ACLs are not known, which concerns neither nodes nor super users."""
        name = principal.exact
        if principal.is_node or name in self._super_users:
            return EVERYTHING
        if not self._is_known:
            return None
        of_it = [one for key in {name, ANY_PRINCIPAL} for one in self._by_principal.get(key, ()) if one.host in (ANY_HOST, host)]
        return effective((one.operation for one in of_it if one.is_allowed), (one.operation for one in of_it if not one.is_allowed))
