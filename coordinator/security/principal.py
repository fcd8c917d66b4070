"""The principal of a request: its sender, as Kafka writes it (`User:alice`)."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """One principal. `is_node` says that it proved to be a node of this service; no name makes anybody one."""

    name: str
    kind: str = "User"
    is_node: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""The principal of a client that did not log in, as Kafka calls it."""
