"""Where a development process runs: on loopback, or with an address of its own in another network namespace."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An address, and the words that come before a command so that it runs there; they must end by becoming the command (exec)."""

    host: str = LOOPBACK
    command_prefix: tuple[str, ...] = ()


HERE = Place()
