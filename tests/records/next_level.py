"""A schema level that does not exist: the newest one, with one more number of every batch in the hot record.

`add_level` adds it to a copy of the sources as a developer would: a schema file, its line in `records/levels.py`, and the column in
`records/committed_files/layouts.py`. `make_tree` makes such a copy of all packages, in which programs run (`run_in`); the compiled loops
are those of this tree, unchanged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from records.committed_files.layouts import LAYOUTS
from records.history import read_schema_text
from records.levels import FILE_OF_LEVEL, LEVEL_LATEST
from tests.compiled import REPOSITORY

NEXT_LEVEL = LEVEL_LATEST + 1
VERSION = max(LAYOUTS) + 1
PACKAGES = ("benchmarks", "cli", "coordinator", "migration", "records", "simulation", "spark_jobs", "tests")

_COLUMN = """
LEADER_EPOCH: Final = lines.LINE_WIDTH
LAYOUT_NEXT: Final = Layout(
    {version},
    (
        *LAYOUTS[{before}].columns[:{place}],
        Column("leader_epoch", Kind.BATCH, Form.PLAIN, LEADER_EPOCH, -1, 2**31 - 1, sparse=True),
        *LAYOUTS[{before}].columns[{place}:],
    ),
)
LAYOUTS: Final[Mapping[int, Layout]] = {{**LAYOUTS, {version}: LAYOUT_NEXT}}
"""


def make_tree(folder: Path) -> Path:
    """Copy the packages to a folder and add the next level to the copy; returns the folder."""
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    add_level(folder)
    return folder


def add_level(folder: Path) -> None:
    """Add the next level to the copy of `records` in a folder."""
    name = f"metadata-entry-v{NEXT_LEVEL}.avsc"
    entry = json.loads(read_schema_text(FILE_OF_LEVEL[LEVEL_LATEST]))
    (file,) = (branch for branch in entry["fields"][0]["type"]["items"] if branch["name"] == "FileCommitted")
    file["fields"][0]["name"] = f"layout_{VERSION}"
    (folder / "records/schemas" / name).write_text(json.dumps(entry), "utf-8")
    levels, layouts = folder / "records/levels.py", folder / "records/committed_files/layouts.py"
    last = f'{LEVEL_LATEST}: "{FILE_OF_LEVEL[LEVEL_LATEST]}"'
    text = levels.read_text("utf-8")
    assert text.count(last) == 1
    levels.write_text(text.replace(last, f'{last}, {NEXT_LEVEL}: "{name}"'), "utf-8")
    place = LAYOUTS[VERSION - 1].names.index("timestamp_type") + 1
    added = _COLUMN.format(version=VERSION, before=VERSION - 1, place=place)
    layouts.write_text(layouts.read_text("utf-8") + added, "utf-8")


def run_in(tree: Path, program: str, *, timeout_s: float = 120) -> None:
    """Run a program in the copy. Raises CalledProcessError when it fails; what it writes is shown."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    subprocess.run(command, cwd=tree, env=environment, check=True, timeout=timeout_s)
