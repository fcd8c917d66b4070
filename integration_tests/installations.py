"""Versions of the project as users install them: wheels, built from a copy of the sources and installed in folders side by side.

    version = install(copy_sources(folder / "sources"), folder / "installed")
    node.environment |= version.environment

Programs that start in such an environment take `cli`, `coordinator`, `migration`, `records` and `spark_jobs` from the wheel; everything
else comes from the environment of the tests. The compiled loops are those of this tree: compiling them takes minutes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("cli", "coordinator", "gateway", "migration", "pyspark_diskless", "records", "spark_jobs", "tables")
LOOPS = ("*.so", "*.pyd")
BUILD_TIMEOUT_S = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A version in a folder of its own."""

    version: str
    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """What makes programs use it: the folder comes before the environment's packages, and no working folder before it.

        Packages of tests, which no wheel has, are found in the sources.
        """
        return {"PYTHONPATH": f"{self.folder}:{REPOSITORY}", "PYTHONSAFEPATH": "1"}


def copy_sources(folder: Path) -> Path:
    """Copy what a wheel is built from, without compiled loops and without what compiles them; returns the folder."""
    for package in PACKAGES:
        shutil.copytree(REPOSITORY / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", *LOOPS))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def take_loops_along(source: Path) -> None:
    """Let the wheel of a folder hold the compiled loops of this tree, where they were compiled."""
    for package in PACKAGES:
        for pattern in LOOPS:
            for built in (REPOSITORY / package).rglob(pattern):
                shutil.copy(built, source / built.relative_to(REPOSITORY))
    _edit_project(source, r'"\*_loops\.pxd"', '"*_loops.pxd", ' + ", ".join(f'"{pattern}"' for pattern in LOOPS))


def call_version(source: Path, version: str) -> None:
    """Give the sources in a folder another version."""
    _edit_project(source, r'(?m)^version = ".*"$', f'version = "{version}"')


def _edit_project(source: Path, pattern: str, replacement: str) -> None:
    file = source / "pyproject.toml"
    text, count = re.subn(pattern, lambda _: replacement, file.read_text("utf-8"))
    assert count == 1, f"{file} has {count} places like {pattern}"
    file.write_text(text, "utf-8")


def build_wheel(source: Path) -> Path:
    """Build the wheel of the sources in a folder, which building writes into, too."""
    out = source / "out"
    command = ("wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(out), str(source))
    subprocess.run([sys.executable, "-m", "pip", *command], check=True, timeout=BUILD_TIMEOUT_S)
    (wheel,) = out.glob("*.whl")
    return wheel


def install(source: Path, folder: Path) -> Installation:
    """Build the wheel of the sources in a folder and install it, alone, in another folder."""
    wheel = build_wheel(source)
    command = ("install", "--no-deps", "--no-index", "--no-compile", "-q", "--target", str(folder), str(wheel))
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *command], check=True, timeout=BUILD_TIMEOUT_S)
    return Installation(version=wheel.name.split("-")[1], folder=folder)
