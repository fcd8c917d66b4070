"""Compiled loops calculate with C numbers: no line of them calls Python's arithmetic or its comparison.

A constant of more than 31 bits, a constant of the module or a local without a type makes an expression one of Python
objects, silently: the results are right and the loop is three to four times slower. The C that Cython wrote shows it.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiled import REBUILD, REPOSITORY, loop_modules

ALLOWED: dict[tuple[str, str], str] = {
    ("gateway/fetch/answer_loops.py", ""): "once for each answer and topic",
    ("gateway/fetch/batch_loops.py", ""): "places of batches are tuples; once for each batch, whose bytes cost more",
    ("gateway/fetch/request_loops.py", ""): "once for each request and partition",
    ("gateway/front/topics_loops.py", "if value >= 2147483648:"): "once for each name of a topic",
    ("gateway/front/topics_loops.py", "while shift < 7"): "once for each name of a topic",
    ("gateway/produce/checks_loops.py", "crc = _int("): "once for each batch",
    ("gateway/produce/wire_loops.py", ""): "once for each request and topic",
}
"""Lines, as they begin, that may use Python objects, and why."""

KEYED_ROWS = Path("coordinator/core/tables/keyed_loops.pxd")
"""The types that other loops import."""

_CALL = re.compile(r"\b\w*(PyNumber_\w+|Py(?:Int|Long)_\w*Obj\w*|PyObject_\w*Compare\w*)\(")
_SECTION = re.compile(r"#### Code section: (\w+)")
_LINE = re.compile(r'\s*/\* "([^"]+)":(\d+)$')


def python_numbers(source: Path, written: str, root: Path = REPOSITORY) -> list[tuple[str, str, str]]:
    """(module, line, function of C) of each use of Python's arithmetic in the functions of a module, given its C."""
    module, text = source.relative_to(root).as_posix(), source.read_text("utf-8")
    lines = text.splitlines()
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    inside = {line for node in functions for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    found, seen = [], set()
    is_module = False
    number = 0
    for line in written.splitlines():
        if section := _SECTION.search(line):
            is_module = section[1] == "module_code"
        elif place := _LINE.match(line):
            number = int(place[2]) if place[1] == module else 0
            seen.add(number)
        elif is_module and number in inside and not line.startswith(" *"):
            found += [(module, lines[number - 1].strip(), call) for call in _CALL.findall(line)]
    unseen = [node.name for node in functions if not seen & set(range(node.lineno, (node.end_lineno or 0) + 1))]
    assert not unseen, f"{module}: {unseen} are not in its C"
    return found


@pytest.mark.parametrize("source", loop_modules(), ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_loops_calculate_with_c_numbers(source: Path) -> None:
    written = REPOSITORY / "build/c" / source.relative_to(REPOSITORY).with_suffix(".c")
    changed = max(source.stat().st_mtime, source.with_suffix(".pxd").stat().st_mtime)
    assert written.exists(), f"{written} was not written: {REBUILD}"
    assert written.stat().st_mtime >= changed, f"{written} is older than {source.name}: {REBUILD}"
    found = python_numbers(source, written.read_text("utf-8"))
    assert [use for use in found if not any(use[0] == module and use[1].startswith(line) for module, line in ALLOWED)] == []


def test_whatever_is_allowed_is_there() -> None:
    for module, line in ALLOWED:
        assert [text for text in (REPOSITORY / module).read_text("utf-8").splitlines() if text.strip().startswith(line)]


BITES = {
    "constant of more than 31 bits": ("core/files/request_loops.py", "high * 65536 * 65536 + low", "high * 4294967296 + low"),
    "comparison with such a constant": ("core/files/request_loops.py", "last - first > 0x7FFFFFFF", "last - first > 0x80000000"),
    "local without a type": ("core/files/request_loops.pxd", "low=cython.longlong, ", ""),
    "constant of the module": ("runtime/routing/owner_loops.py", "at += row", "at += BATCH_BYTES"),
    "number in a list": ("protocol/commit_loops.py", "number = stop - start + 1", "number = first_line[request + 1] - start + 1"),
}


@pytest.mark.parametrize("bite", BITES)
def test_python_numbers_are_found(bite: str, tmp_path: Path) -> None:
    name, here, instead = BITES[bite]
    changed = REPOSITORY / "coordinator" / name
    source = (tmp_path / "coordinator" / name).with_suffix(".py")
    source.parent.mkdir(parents=True)
    for folder in list(source.relative_to(tmp_path).parents)[:-1]:
        (tmp_path / folder / "__init__.py").touch()
    for suffix in (".py", ".pxd"):
        shutil.copy(changed.with_suffix(suffix), source.with_suffix(suffix))
    types = tmp_path / KEYED_ROWS
    types.parent.mkdir(parents=True, exist_ok=True)
    (types.parent / "__init__.py").touch()
    shutil.copy(REPOSITORY / KEYED_ROWS, types)
    text = changed.read_text("utf-8")
    assert text.count(here) == 1
    source.with_suffix(changed.suffix).write_text(text.replace(here, instead), "utf-8")
    written = source.with_suffix(".c")
    command = [sys.executable, "-m", "cython", "-3", "-X", "annotation_typing=False", str(source), "-o", str(written)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=280)
    found = python_numbers(source, written.read_text("utf-8"), tmp_path)
    unlike = [line for module, line, _ in found if not any(line.startswith(allowed) for where, allowed in ALLOWED if where == module)]
    assert unlike, f"{instead!r} was not found"
    if changed.suffix == ".py":
        assert all(instead in line for line in unlike)
