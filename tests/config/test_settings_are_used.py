"""A setting that nothing reads is a promise nobody keeps."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

from coordinator.config import KEYS, Settings

ROOT = Path(__file__).parents[2]


def attributes_of(source: str, owners: tuple[str, ...]) -> set[str]:
    """The names that are read from something whose name ends in one of `owners`."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {node.attr for node in found if ast.unparse(node.value).endswith(owners)}


def read_outside() -> set[str]:
    """What product code outside of coordinator/config reads of settings, also through methods of `Settings`."""
    files = [file for folder in ("coordinator", "cli") for file in (ROOT / folder).rglob("*.py")]
    outside = [file for file in files if not file.is_relative_to(ROOT / "coordinator" / "config")]
    names = set().union(*(attributes_of(file.read_text(encoding="utf-8"), ("settings",)) for file in outside))
    for name in list(names):
        method = inspect.getattr_static(Settings, name, None)
        if inspect.isfunction(method):
            names |= attributes_of(textwrap.dedent(inspect.getsource(method)), ("self",))
    return names


def test_every_key_is_read_by_code_outside_of_the_configuration() -> None:
    read = read_outside()
    assert len(read) > 20
    unread = {key.name for key in KEYS.values() if key.attribute not in read}
    assert unread == set()
