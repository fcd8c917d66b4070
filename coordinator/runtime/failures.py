"""Failures: those that end the process, and those of its replicas, which the node keeps because a failed replica is replaced."""

from __future__ import annotations

from dataclasses import dataclass


class FatalError(Exception):
    """The process must stop; the text names what is wrong and what to do.

    With `may_hand_over` what this process leads is right, and it leads on until others have claimed that.
    """

    def __init__(self, reason: str, *, may_hand_over: bool = False) -> None:
        super().__init__(reason)
        self.may_hand_over = may_hand_over


class NotReadable(Exception):
    """The replica of a metadata partition has no state to read now: it is loading, failed or closed. Another node may have one."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"the replica of metadata partition {partition} cannot be read now")
        self.partition = partition


@dataclass(slots=True)
class FailureLog:
    """The failures of one metadata partition since the process started."""

    count: int = 0
    last_reason: str = ""
    evidence: str = ""
    """The name of the state database that was set aside last."""

    def failed(self, reason: str) -> None:
        """The replica failed, or its database was refused when it was loaded."""
        self.count += 1
        self.last_reason = reason

    def kept(self, name: str | None) -> None:
        """A database was set aside; None when there was none."""
        if name is not None:
            self.evidence = name
