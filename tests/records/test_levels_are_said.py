"""Product code that encodes an entry says at which level: the default is for tests, and would write what an old standby cannot read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("coordinator", "cli", "records")
TESTING = ROOT / "coordinator" / "testing"


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a function in product code, each with its place."""
    for file in (file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py") if not file.is_relative_to(TESTING)):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node


def test_every_entry_of_product_code_is_encoded_at_a_level_that_is_said() -> None:
    found = list(calls("encode_entry"))
    assert len(found) >= 3
    silent = [place for place, call in found if len(call.args) < 2 and not any(keyword.arg == "level" for keyword in call.keywords)]
    assert silent == []
