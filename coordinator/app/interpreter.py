"""How long a thread keeps the interpreter while another one waits for it.

One value for all threads, and the event loop is on both sides: while few commits come it should not wait long for the state writer or a
snapshot, and while many come it should not be stopped by each of them, since a thread that is let in has to be woken first, and the loop
stands still meanwhile. Why and how much: docs/decisions/034-switch-interval.md.
"""

from __future__ import annotations

import sys
from typing import Final

LIGHT_LOAD_S: Final = 0.0005
HEAVY_LOAD_S: Final = 0.005


def share_interpreter(is_load_heavy: bool) -> None:
    """Have threads keep the interpreter as the load needs it."""
    sys.setswitchinterval(HEAVY_LOAD_S if is_load_heavy else LIGHT_LOAD_S)
