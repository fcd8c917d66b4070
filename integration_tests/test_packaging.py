"""What is built and installed: every file the code reads at run time is in the wheel, and the lock holds no host names."""

from __future__ import annotations

import tomllib
import zipfile

import pytest

from integration_tests.installations import PACKAGES, REPOSITORY, build_wheel, copy_sources

NOT_SOURCES = {".pyc", ".so", ".pyd"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel of a copy of the sources: building writes into the folder it builds from.

    Nothing is compiled for it, which takes minutes and is what every installation does before these tests run.
    """
    return zipfile.Path(build_wheel(copy_sources(tmp_path_factory.mktemp("source"))))


def test_every_file_of_the_packages_is_in_the_wheel(wheel: zipfile.Path) -> None:
    packed = set(wheel.root.namelist())
    wanted = {
        path.relative_to(REPOSITORY).as_posix()
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and path.suffix not in NOT_SOURCES
    }
    assert wanted - packed == set()
    assert not [name for name in packed if name.startswith("simulation/")], "no node runs the simulator"
    assert {"cli/dev/kafka/jars.lock", "cli/dev/kafka/log4j2.properties", "cli/dev/die_with_parent.py"} <= packed


def test_the_command_is_installed(wheel: zipfile.Path) -> None:
    metadata = next(folder for folder in wheel.iterdir() if folder.name.endswith(".dist-info"))
    assert "diskless = cli.program:main" in (metadata / "entry_points.txt").read_text(encoding="utf-8")


def test_the_lock_has_a_hash_for_everything_and_no_host() -> None:
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text
    blocks = [block for block in text.replace("\\\n", "").splitlines() if block and not block.lstrip().startswith("#")]
    assert blocks
    assert not [block for block in blocks if "--hash=sha256:" not in block]


def test_the_lock_covers_every_declared_requirement() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    names = {line.split(";")[0].split("[")[0].split("=")[0].rstrip("<>~! ").lower() for line in declared} - {project["name"]}
    locked = {line.split("==")[0] for line in (REPOSITORY / "requirements.lock").read_text(encoding="utf-8").splitlines() if "==" in line}
    assert names - locked == set()
