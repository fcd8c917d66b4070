"""The loops over the batches of files, as one namespace: compiled, and interpreted from the same source."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from coordinator.core.files import commit_loops, line_loops, request_loops
from tests.compiled import plain

MODULES = (request_loops, commit_loops, line_loops)


def _joined(*modules: ModuleType) -> SimpleNamespace:
    return SimpleNamespace(**{name: value for module in modules for name, value in vars(module).items() if not name.startswith("__")})


COMPILED, INTERPRETED = _joined(*MODULES), _joined(*map(plain, MODULES))
