"""`python helm/image/locked.py`: print the part of `requirements.lock` that an image installs, hashes and all.

The lock holds everything that developers need. Each of its entries names the packages it is there for (`# via`), from which
follows the part for the service and for extras. It needs nothing but Python: it runs in an image that has nothing else.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = "diskless-coordinator"


class LockError(Exception):
    """The lock does not have what was asked for; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version of a package; the lock may have several, for different Pythons.

    `text` is its lines without comments; `via` are the names of the packages that need it.
    """

    name: str
    text: str
    via: frozenset[str]


def normalized(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503), without extras."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0].strip()).lower()


def parse_lock(text: str) -> Sequence[Entry]:
    """Return the entries of a lock. Raises `LockError` for an entry without a hash."""
    found = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        lines = block.splitlines()
        kept = [line for line in lines if not line.lstrip().startswith("#")]
        comments = (line.strip().removeprefix("#").strip() for line in lines if line.lstrip().startswith("#"))
        via = {normalized(word.removeprefix("via ").partition(" (")[0]) for word in comments if word not in {"", "via"}}
        name = normalized(lines[0].partition("==")[0])
        if "--hash=sha256:" not in block:
            raise LockError(f"{name} has no hash in the lock; make the lock anew (CONTRIBUTING.md)")
        found.append(Entry(name=name, text="\n".join(kept).rstrip(" \\"), via=frozenset(via)))
    return found


def declared(project: Mapping[str, object], extras: Iterable[str]) -> set[str]:
    """Return the names that pyproject.toml declares: the dependencies and those of the extras."""
    dependencies = project["dependencies"]
    optional = project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(optional, dict)
    lines = [*dependencies, *(line for extra in extras for line in optional[extra])]
    return {normalized(re.split(r"[<>=!~;\s]", line, maxsplit=1)[0]) for line in lines}


def select(lock: Sequence[Entry], wanted: Collection[str]) -> Sequence[Entry]:
    """Return the entries of the wanted packages and of all that they need. Raises `LockError` for a package that is not there."""
    if missing := sorted(set(wanted) - {entry.name for entry in lock}):
        raise LockError(f"not in the lock: {', '.join(missing)}; make the lock anew (CONTRIBUTING.md)")
    chosen = set(wanted)
    while more := {entry.name for entry in lock if entry.via & chosen} - chosen:
        chosen |= more
    return [entry for entry in lock if entry.name in chosen]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the lines that `pip install --require-hashes -r` takes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where pyproject.toml and requirements.lock are")
    parser.add_argument("--extra", action="append", default=[], help="an extra of pyproject.toml; repeatable")
    parser.add_argument("--only", action="store_true", help="only what is named: neither the service's dependencies nor what they need")
    parser.add_argument("packages", nargs="*", help="more packages of the lock")
    given = parser.parse_args(arguments)
    project = tomllib.loads((given.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = parse_lock((given.folder / "requirements.lock").read_text(encoding="utf-8"))
    wanted = {normalized(name) for name in given.packages}
    if not given.only:
        wanted |= declared(project, given.extra)
    print("\n".join(entry.text for entry in select(lock, wanted)))


if __name__ == "__main__":
    main()
