"""Has a process run the loops of the hot path by the interpreter: what is compiled takes no steps that could be watched."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parent.parent


class _FromSource:
    """Finds loops as their source, before anybody finds what was compiled."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module. The interface of `sys.meta_path`."""
        source = REPOSITORY / Path(*name.split(".")).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, source) if name.endswith("_loops") and source.exists() else None


def interpret_loops() -> None:
    """Have this process run all loops by the interpreter, whose steps can be watched. Before the first of them is imported."""
    early = [name for name in sys.modules if name.endswith("_loops")]
    if early:
        raise RuntimeError(f"already imported: {', '.join(early)}")
    sys.meta_path.insert(0, _FromSource)
