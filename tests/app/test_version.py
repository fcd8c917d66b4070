"""The version tells two builds apart: a checkout names its commit, a wheel the one that it was built from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import root
from coordinator.app.version import CHECKOUT, commit_mark, installed_version

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of one file, and a tag, which is no part of the version."""
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "tag", "v9")
    return tmp_path


def test_two_commits_and_a_change_have_three_versions(checkout: Path) -> None:
    first = commit_mark(checkout)
    assert first == f"+g{git(checkout, 'rev-parse', 'HEAD')[:12]}"
    (checkout / "file").write_text("2")
    assert commit_mark(checkout) == f"{first}.dirty"
    git(checkout, "commit", "-q", "-a", "-m", "second")
    assert commit_mark(checkout) not in {first, f"{first}.dirty"}


def test_without_git_and_outside_of_a_checkout_there_is_no_commit(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_mark(tmp_path_factory.mktemp("plain")) == ""
    monkeypatch.setenv("PATH", "")
    assert commit_mark(checkout) == ""


def test_the_command_shows_it() -> None:
    assert CliRunner().invoke(root, ["--version"]).output == f"diskless {installed_version()}\n"
    if mark := commit_mark(CHECKOUT):
        assert installed_version().partition("+")[2] == mark.removeprefix("+")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """What decides about the version of a wheel, and nothing that takes time to compile."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "coordinator/app/version.py", "coordinator/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((CHECKOUT / name).read_bytes())
    return tmp_path


def build(sources: Path, commit: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "out", "."]
    environment = {**os.environ, "SOURCE_COMMIT": commit}
    return subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("commit", "mark"), [(COMMIT, f"+g{COMMIT[:12]}"), ("", "")], ids=["told", "unknown"])
def test_a_wheel_says_what_it_was_built_from(commit: str, mark: str, sources: Path) -> None:
    done = build(sources, commit)
    assert done.returncode == 0, done.stderr
    (wheel,) = (sources / "out").glob("*.whl")
    (metadata,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA")]
    lines = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
    (version,) = [line.removeprefix("Version: ") for line in lines if line.startswith("Version: ")]
    assert version.removesuffix(mark).count("+") == 0
    assert version.endswith(mark)


def test_a_wheel_of_a_checkout_says_its_commit(sources: Path) -> None:
    (sources / ".gitignore").write_text("build\nout\n*.egg-info\n")
    git(sources, "init", "-q")
    git(sources, "add", ".")
    git(sources, "commit", "-q", "-m", "first")
    done = build(sources, "")
    assert done.returncode == 0, done.stderr
    (wheel,) = (sources / "out").glob("*.whl")
    assert f"+g{git(sources, 'rev-parse', 'HEAD')[:12]}" in wheel.name


def test_what_is_no_commit_ends_the_build(sources: Path) -> None:
    done = build(sources, "main")
    assert done.returncode != 0
    assert "SOURCE_COMMIT=main is no commit" in done.stdout + done.stderr
