"""The loops of the hot path as they are in the source: not compiled, and what was compiled must not be older."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).parent.parent
REBUILD = "pip install --no-deps --no-build-isolation -e ."


def loop_modules() -> list[Path]:
    """Every module that is compiled."""
    return sorted(
        path.with_suffix(".py")
        for package in ("cli", "coordinator", "gateway", "records")
        for path in (REPOSITORY / package).rglob("*_loops.pxd")
    )


def plain(module: ModuleType) -> ModuleType:
    """The same module, run by the interpreter."""
    path = REPOSITORY / Path(*module.__name__.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"plain.{module.__name__}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def stale_modules() -> list[str]:
    """Compiled modules whose source changed since. What is not compiled at all runs as it stands."""
    stale = []
    for source in loop_modules():
        changed = max(source.stat().st_mtime, source.with_suffix(".pxd").stat().st_mtime)
        built = [path for path in source.parent.glob(f"{source.stem}.*") if path.suffix in (".so", ".pyd")]
        if any(path.stat().st_mtime < changed for path in built):
            stale.append(str(source.relative_to(REPOSITORY)))
    return stale


def assert_fresh() -> None:
    """Fail before a test would be run against yesterday's loops."""
    stale = stale_modules()
    assert not stale, f"{', '.join(stale)} changed after it was compiled: {REBUILD}"
