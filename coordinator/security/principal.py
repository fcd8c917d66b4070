"""The principal of a request: its sender, as Kafka writes it (`User:alice`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from coordinator.printable import quoted


class Principal(NamedTuple):
    """One principal. `is_node` says that it proved to be a node of this service; no name makes anybody one."""

    name: str
    kind: str = "User"
    is_node: bool = False

    @property
    def exact(self) -> str:
        """The principal as rules and settings name it, character by character."""
        return f"{self.kind}:{self.name}"

    def __str__(self) -> str:
        """As it is shown: names come from tokens, passwords and certificates of strangers, so it is one word without controls."""
        return quoted(self.exact)


ANONYMOUS: Final = Principal("ANONYMOUS")
"""The principal of a client that did not log in, as Kafka calls it."""
