"""Whether the loops of the hot path were compiled when this was installed (`setup.py`)."""

from __future__ import annotations

import logging
import sys

LOG = logging.getLogger("coordinator.app")


def interpreted_loops() -> list[str]:
    """The loaded modules `*_loops` that the interpreter runs from their source."""
    ours = [
        (name, module)
        for name, module in sys.modules.items()
        if name.endswith("_loops") and name.startswith(("coordinator.", "gateway.", "records."))
    ]
    return sorted(name for name, module in ours if (module.__file__ or "").endswith(".py"))


def warn_of_interpreted_loops() -> None:
    """Say so if some are: everything works, and commits cost ten times as much."""
    names = interpreted_loops()
    if names:
        remedy = "install a C compiler and the headers of Python, then this package again"
        LOG.warning("loops of the hot path are not compiled, which makes commits slow modules=%s remedy=%r", ",".join(names), remedy)
