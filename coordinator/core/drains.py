"""Whether a node gives up what it leads, as a number and for people."""

from __future__ import annotations

from enum import IntEnum


class Drain(IntEnum):
    """Whether a node gives up what it leads, as `NodeRegistered.drain` and requests say it."""

    NONE = 0
    PROCESS = 1
    """Until its process ends: the next one leads again."""
    LASTING = 2
    """Until an operator ends it."""


def drain_text(drain: int) -> str:
    """Say for people whether a node drains; empty for one that does not."""
    texts = {int(Drain.NONE): "", int(Drain.PROCESS): "until it is restarted", int(Drain.LASTING): "until undrained"}
    return texts.get(drain, str(drain))
