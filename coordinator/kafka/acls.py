"""Operations of ACLs on the resource Cluster: names, numbers and what implies what are Kafka's."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """The operations that an ACL may allow a principal on the cluster; Kafka's numbers."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


EVERYTHING: Final = frozenset(AclOperation)
_IMPLIED: Final = {
    AclOperation.ALL: EVERYTHING,
    AclOperation.READ: frozenset({AclOperation.DESCRIBE}),
    AclOperation.WRITE: frozenset({AclOperation.DESCRIBE}),
    AclOperation.DELETE: frozenset({AclOperation.DESCRIBE}),
    AclOperation.ALTER: frozenset({AclOperation.DESCRIBE}),
    AclOperation.ALTER_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS}),
}


def effective(allowed: Iterable[AclOperation], denied: Iterable[AclOperation] = ()) -> frozenset[AclOperation]:
    """Return what ACLs let a principal do: as in Kafka allowing implies more, denying implies nothing but ALL, and denying wins."""
    denied = frozenset(denied)
    if AclOperation.ALL in denied:
        return frozenset()
    given = frozenset(allowed)
    return given.union(*(_IMPLIED.get(one, frozenset()) for one in given)) - denied
