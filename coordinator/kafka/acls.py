"""Operations of ACLs, and the topics that ACLs name: names, numbers, patterns and what implies what are Kafka's."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple


class AclOperation(IntEnum):
    """The operations that an ACL may allow a principal on the cluster or on topics; Kafka's numbers."""

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
EVERY_TOPIC: Final = "*"
_IMPLIED: Final = {
    AclOperation.ALL: EVERYTHING,
    AclOperation.READ: frozenset({AclOperation.DESCRIBE}),
    AclOperation.WRITE: frozenset({AclOperation.DESCRIBE}),
    AclOperation.DELETE: frozenset({AclOperation.DESCRIBE}),
    AclOperation.ALTER: frozenset({AclOperation.DESCRIBE}),
    AclOperation.ALTER_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS}),
}


class TopicPattern(NamedTuple):
    """The topics of an ACL: the one of this name, those whose names begin with it (`is_prefix`), or with the name `*` all of them."""

    name: str
    is_prefix: bool = False

    def matches(self, topic: str) -> bool:
        """Tell whether the ACL is one of a topic."""
        return topic.startswith(self.name) if self.is_prefix else self.name in (EVERY_TOPIC, topic)

    def __str__(self) -> str:
        return f"{self.name}*" if self.is_prefix else self.name


def effective(allowed: Iterable[AclOperation], denied: Iterable[AclOperation] = ()) -> frozenset[AclOperation]:
    """Return what ACLs let a principal do: as in Kafka allowing implies more, denying implies nothing but ALL, and denying wins."""
    denied = frozenset(denied)
    if AclOperation.ALL in denied:
        return frozenset()
    given = frozenset(allowed)
    return given.union(*(_IMPLIED.get(one, frozenset()) for one in given)) - denied
