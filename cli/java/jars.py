"""Jars from Maven Central in one cache folder, each checked against a committed lock of sha256 at every use.

Never trusts a cached file: a damaged one is fetched anew. Never resolves dependencies: a lock is the exact, complete
set. Ivy keeps damaged files in its own cache without noticing, so every fetch gets an empty cache of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from cli.dev.network import proxy_options, trust_options
from cli.java.cache import cache_folder, file_lock
from cli.java.java import FOUND_IN_WHEEL, find_java

FETCH_TIMEOUT_S = 600


class JarError(Exception):
    """Jars could not be fetched, or what was fetched is not what the lock says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedJar:
    """One jar of a lock: Maven coordinates, size and sha256 (hexadecimal); a classifier tells jars of one artifact apart."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def coordinates(self) -> str:
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))


Fetch = Callable[[Sequence[LockedJar], Path], None]
"""Puts jars, under their `file_name`, into a folder."""


def parse_lock(text: str) -> tuple[LockedJar, ...]:
    """Parse a lock: one `group:artifact:version[:classifier] bytes sha256` per line, `#` starts a comment. Raises `ValueError`."""
    jars: list[LockedJar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        coordinates = words[0].split(":")
        if len(words) != 3 or len(coordinates) not in (3, 4) or not all(coordinates) or not words[1].isascii() or not words[1].isdigit():
            raise ValueError(f"line {number}: expected `group:artifact:version[:classifier] bytes sha256`, found {line!r}")
        if len(words[2]) != 64 or not set(words[2]) <= set("0123456789abcdef"):
            raise ValueError(f"line {number}: {words[2]!r} is not a sha256 in lower-case hexadecimal")
        group, artifact, version, *classifier = coordinates
        size_bytes, sha256 = int(words[1]), words[2]
        jars.append(
            LockedJar(group=group, artifact=artifact, version=version, classifier="".join(classifier), size_bytes=size_bytes, sha256=sha256)
        )
    names = [jar.file_name for jar in jars]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named more than once: {', '.join(twice)}")
    return tuple(jars)


def is_intact(path: Path, jar: LockedJar) -> bool:
    """Tell whether `path` exists and holds exactly the bytes the lock names."""
    if not path.is_file() or path.stat().st_size != jar.size_bytes:
        return False
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest() == jar.sha256


def resolve(lock_file: Path, *, folder: Path | None = None, fetch: Fetch | None = None) -> tuple[Path, ...]:
    """Return the paths of all jars of a lock, in its order; fetch what is missing or damaged. Safe to run concurrently.

    Raises `JarError` when a jar cannot be fetched or does not match its sha256.
    """
    jars = parse_lock(lock_file.read_text(encoding="utf-8"))
    folder = cache_folder() / "jars" if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    if any(not is_intact(folder / jar.file_name, jar) for jar in jars):
        with file_lock(folder / ".lock"):
            # Another process may have fetched them while this one waited for the lock.
            wanted = [jar for jar in jars if not is_intact(folder / jar.file_name, jar)]
            if wanted:
                _fetch_into(folder, wanted, fetch or fetch_from_central)
    return tuple(folder / jar.file_name for jar in jars)


def _fetch_into(folder: Path, wanted: Sequence[LockedJar], fetch: Fetch) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
        fetch(wanted, Path(work))
        for jar in wanted:
            fetched = Path(work) / jar.file_name
            if not fetched.is_file():
                raise JarError(f"{jar.coordinates} was not delivered")
            if not is_intact(fetched, jar):
                raise JarError(
                    f"{jar.coordinates}: what was delivered does not match the sha256 of the lock; "
                    "nothing was installed. Try again, and if it stays so do not trust the source."
                )
            os.replace(fetched, folder / jar.file_name)


def fetch_from_central(wanted: Sequence[LockedJar], into: Path) -> None:
    """Fetch jars with the Ivy inside PySpark's jars, else with `mvn`. Raises `JarError` when neither is there or it fails."""
    ivy, maven = _ivy_jar(), shutil.which("mvn")
    if ivy is not None:
        _fetch_with_ivy(ivy, wanted, into)
    elif maven is not None:
        _fetch_with_maven(maven, wanted, into)
    else:
        raise JarError(
            f"{len(wanted)} jars must be fetched, for which PySpark (its Ivy) or Maven is needed and neither is installed. "
            "Install the extra: pip install 'diskless-coordinator[spark]', or put mvn on PATH."
        )


def _ivy_jar() -> Path | None:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        return None
    return max((Path(spark.origin).parent / "jars").glob("ivy-*.jar"), default=None)


def ivy_description(wanted: Sequence[LockedJar]) -> str:
    """Return the ivy.xml that asks for exactly these jars and none of their dependencies (configuration `master`)."""
    modules: dict[tuple[str, str, str], list[str]] = {}
    for jar in wanted:
        modules.setdefault((jar.group, jar.artifact, jar.version), []).append(
            f" e:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        )
    rows = "".join(
        f'<dependency conf="jars->master" org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}>'
        + "".join(f'<artifact name={quoteattr(artifact)} type="jar" conf="jars"{kind}/>' for kind in kinds)
        + "</dependency>"
        for (group, artifact, version), kinds in modules.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:e="http://ant.apache.org/ivy/extra"><info organisation="diskless" module="jars"/>'
        f'<configurations><conf name="jars"/></configurations><dependencies>{rows}</dependencies></ivy-module>'
    )


def pom(wanted: Sequence[LockedJar]) -> str:
    """Return the pom.xml that asks for exactly these jars and none of their dependencies."""
    rows = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId><version>{jar.version}</version>"
        + (f"<classifier>{jar.classifier}</classifier>" if jar.classifier else "")
        + "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for jar in wanted
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>diskless</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{rows}</dependencies></project>"
    )


def _fetch_with_ivy(ivy: Path, wanted: Sequence[LockedJar], into: Path) -> None:
    description = into / "ivy.xml"
    description.write_text(ivy_description(wanted), encoding="utf-8")
    pattern = f"{into}/[artifact]-[revision](-[classifier]).[ext]"
    java = find_java()
    # A Java that a person installed was configured with authorities and proxies by that person.
    options = [*trust_options(os.environ, into), *proxy_options(os.environ)] if java.found_in == FOUND_IN_WHEEL else []
    command = [str(java.program), *options, "-jar", str(ivy), "-warn", "-ivy", str(description)]
    _run([*command, "-cache", str(into / "ivy-cache"), "-retrieve", pattern])


def _fetch_with_maven(maven: str, wanted: Sequence[LockedJar], into: Path) -> None:
    description = into / "pom.xml"
    description.write_text(pom(wanted), encoding="utf-8")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    # A repository of its own: a pom without its jar in the user's repository would stop the search there.
    repository = f"-Dmaven.repo.local={into / 'maven-repository'}"
    _run([maven, "-B", "-q", "-f", str(description), repository, goal, f"-DoutputDirectory={into}"])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise JarError(f"fetching jars took more than {FETCH_TIMEOUT_S} s: {' '.join(command[:4])} ...") from late
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise JarError(f"fetching jars failed (exit status {done.returncode}):\n{tail}")
