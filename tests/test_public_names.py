"""One public name, one meaning: no two modules of the product define public classes of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import cli

ROOT = Path(cli.__file__).parents[1]
PACKAGES = (
    "cli",
    "codegen",
    "coordinator",
    "gateway",
    "helm",
    "migration",
    "pyspark_diskless",
    "records",
    "simulation",
    "spark_jobs",
    "tables",
)
ALLOWED: dict[str, str] = {}
"""Names that two modules may share, with the reason."""


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    doubled = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in doubled.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= doubled.keys(), "a name that is no longer shared needs no permission"
