"""The jar cache: locks are read strictly, and a cached file is believed only when its bytes are the locked ones."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cli.dev.kafka.prepare import LOCK_FILE
from cli.java.jars import JarError, LockedJar, ivy_description, parse_lock, pom, resolve

CONTENT = {"alpha-1.0.jar": b"first jar", "beta_2.13-2.5-rc.jar": b"second jar"}


def lock_text(content: dict[str, bytes] | None = None) -> str:
    lines = ["# a comment", ""]
    for name, data in (CONTENT if content is None else content).items():
        artifact, version = name.removesuffix(".jar").split("-", 1)
        lines.append(f"org.example:{artifact}:{version}  {len(data)}  {hashlib.sha256(data).hexdigest()}  # why")
    return "\n".join(lines)


class Source:
    """Delivers `content`, and remembers what it was asked for."""

    def __init__(self, content: dict[str, bytes] | None = None) -> None:
        self.content = dict(CONTENT if content is None else content)
        self.asked: list[list[str]] = []

    def __call__(self, wanted: Sequence[LockedJar], into: Path) -> None:
        self.asked.append([jar.file_name for jar in wanted])
        for jar in wanted:
            if jar.file_name in self.content:
                (into / jar.file_name).write_bytes(self.content[jar.file_name])


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    file = tmp_path / "jars.lock"
    file.write_text(lock_text(), encoding="utf-8")
    return file


def test_lock_is_parsed_with_comments_and_blank_lines() -> None:
    alpha, beta = parse_lock(lock_text())
    assert (alpha.coordinates, alpha.file_name, alpha.size_bytes) == ("org.example:alpha:1.0", "alpha-1.0.jar", 9)
    assert beta.file_name == "beta_2.13-2.5-rc.jar"
    assert beta.sha256 == hashlib.sha256(b"second jar").hexdigest()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("org.example:alpha 9 " + "0" * 64, "line 2: expected"),
        ("org.example::1.0 9 " + "0" * 64, "line 2: expected"),
        ("org.example:alpha:1.0 nine " + "0" * 64, "line 2: expected"),
        ("org.example:alpha:1.0 " + "0" * 64, "line 2: expected"),
        ("org.example:alpha:1.0 9 " + "0" * 63, "line 2: .* is not a sha256"),
        ("org.example:alpha:1.0 9 " + "G" * 64, "line 2: .* is not a sha256"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_lock(f"# first\n{line}\n")


def test_two_jars_of_one_file_name_are_refused() -> None:
    line = f"alpha:1.0 9 {'0' * 64}"
    with pytest.raises(ValueError, match=r"named more than once: alpha-1\.0\.jar"):
        parse_lock(f"org.one:{line}\norg.two:{line}\n")


def test_the_committed_lock_names_one_whole_broker() -> None:
    jars = {jar.artifact: jar for jar in parse_lock(LOCK_FILE.read_text(encoding="utf-8"))}
    assert {"kafka_2.13", "kafka-clients", "kafka-server", "kafka-metadata", "log4j-slf4j-impl", "scala-library"} <= set(jars)
    assert {jar.version for jar in jars.values() if jar.group == "org.apache.kafka"} == {"4.3.1"}


def test_everything_missing_is_fetched_once_and_then_nothing(lock_file: Path, tmp_path: Path) -> None:
    source = Source()
    first = resolve(lock_file, folder=tmp_path / "cache", fetch=source)
    second = resolve(lock_file, folder=tmp_path / "cache", fetch=source)
    assert first == second
    assert [path.read_bytes() for path in first] == list(CONTENT.values())
    assert source.asked == [list(CONTENT)]


@pytest.mark.parametrize("damage", [b"first jaR", b"first", b"", None], ids=["same size", "cut short", "empty", "deleted"])
def test_a_damaged_file_is_fetched_anew_and_the_others_are_kept(damage: bytes | None, lock_file: Path, tmp_path: Path) -> None:
    source = Source()
    alpha, _ = resolve(lock_file, folder=tmp_path / "cache", fetch=source)
    if damage is None:
        alpha.unlink()
    else:
        alpha.write_bytes(damage)
    resolve(lock_file, folder=tmp_path / "cache", fetch=source)
    assert alpha.read_bytes() == b"first jar"
    assert source.asked[1:] == [["alpha-1.0.jar"]]


def test_delivered_bytes_that_do_not_match_are_not_installed(lock_file: Path, tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"org\.example:alpha:1\.0: .*does not match the sha256"):
        resolve(lock_file, folder=tmp_path / "cache", fetch=Source({"alpha-1.0.jar": b"Trojan!!!"}))
    assert not (tmp_path / "cache" / "alpha-1.0.jar").exists()


def test_a_jar_that_is_not_delivered_is_named(lock_file: Path, tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"beta_2\.13:2\.5-rc was not delivered"):
        resolve(lock_file, folder=tmp_path / "cache", fetch=Source({"alpha-1.0.jar": b"first jar"}))


def test_concurrent_resolvers_fetch_once(lock_file: Path, tmp_path: Path) -> None:
    source, together = Source(), threading.Barrier(4)
    found: list[tuple[Path, ...]] = []

    def run() -> None:
        together.wait(10)
        found.append(resolve(lock_file, folder=tmp_path / "cache", fetch=source))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert source.asked == [list(CONTENT)]


def test_jars_of_one_artifact_are_told_apart_by_their_classifiers() -> None:
    jars = parse_lock("\n".join(f"org.example:alpha:1.0{kind} 9 {'0' * 64}" for kind in ("", ":tests")))
    assert [jar.file_name for jar in jars] == ["alpha-1.0.jar", "alpha-1.0-tests.jar"]
    [ivy] = ElementTree.fromstring(ivy_description(jars)).findall("dependencies/dependency")
    assert [row.get("{http://ant.apache.org/ivy/extra}classifier") for row in ivy.findall("artifact")] == [None, "tests"]
    maven = ElementTree.fromstring(pom(jars)).findall("dependencies/dependency")
    assert [row.findtext("classifier") for row in maven] == [None, "tests"]


def test_ivy_and_maven_are_asked_for_exactly_the_locked_jars() -> None:
    jars = parse_lock(lock_text())
    ivy = ElementTree.fromstring(ivy_description(jars)).findall("dependencies/dependency")
    assert [(row.get("org"), row.get("name"), row.get("rev"), row.get("conf")) for row in ivy] == [
        ("org.example", "alpha", "1.0", "jars->master"),
        ("org.example", "beta_2.13", "2.5-rc", "jars->master"),
    ]
    maven = ElementTree.fromstring(pom(jars)).findall("dependencies/dependency")
    assert [":".join(row.findtext(tag) or "" for tag in ("groupId", "artifactId", "version")) for row in maven] == [
        jar.coordinates for jar in jars
    ]
    assert all(row.findtext("exclusions/exclusion/artifactId") == "*" for row in maven)
