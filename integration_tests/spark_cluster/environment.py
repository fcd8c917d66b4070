"""A Python environment that has what a page of docs tells to install where Spark runs, and nothing else.

It is made of links to this environment's packages, so nothing is fetched.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from integration_tests.installations import PACKAGES, REPOSITORY


def make_environment(folder: Path, extra: str, *more: str) -> Path:
    """Make the environment of `pip install 'diskless-coordinator[EXTRA]' MORE`; returns its Python."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, timeout=60)
    [packages] = folder.glob("lib/python*/site-packages")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra], *more]
    for package in PACKAGES:
        (packages / package).symlink_to(REPOSITORY / package)
    for name in _with_requirements(wanted):
        _link(name, packages)
    return folder / "bin/python"


def _with_requirements(lines: list[str]) -> set[str]:
    """Return the names of what is required, and of what that requires in turn."""
    found: set[tuple[str, str]] = set()
    left = [(Requirement(line), "") for line in lines]
    while left:
        one, extra = left.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        for each in ("", *one.extras):
            key = (canonicalize_name(one.name), each)
            if key not in found:
                found.add(key)
                left += [(Requirement(line), each) for line in distribution(one.name).requires or ()]
    return {name for name, _ in found}


def _link(name: str, packages: Path) -> None:
    files = distribution(name).files
    assert files is not None, f"{name} does not say which files it has"
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        if not (packages / top).exists():  # some have a README.md beside their package
            (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
