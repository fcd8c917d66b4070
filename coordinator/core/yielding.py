"""Long work beside the event loop is cut into pieces.

The loop waits for the interpreter as long as a piece holds it, and a thread that never pauses takes it again whenever the loop
looks for its next event. Such work gets a `Rest` to call between pieces of some tenths of a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Rest: TypeAlias = Callable[[], None]


def no_rest() -> None:
    """Go on at once."""
