"""`docs/licences.md`: the foreign software of each deliverable with its licence."""

from __future__ import annotations

from pathlib import Path

from codegen.licences.components import components
from codegen.licences.rules import ALLOWED, REFUSED, Deliverable
from codegen.markdown import cell

TARGET = Path("docs/licences.md")

_HEAD = """# Licences

Made by `python -m codegen` from the locks of Python packages and jars; do not edit. The project itself is under the Apache License 2.0
(the file LICENSE). `python -m codegen.licences FOLDER` writes a bill of materials (CycloneDX) for each deliverable; `.ci/run` does so, too.

A package whose licence is not known, or not allowed where it is, ends both commands with an error that names it; the rules are in
`codegen/licences/rules.py`. A piece of software is listed at the first deliverable that holds it: the monitor image holds all of the
service image. The jars and programs inside PySpark's package are not listed one by one: its files LICENSE and `licenses` list them, as its
publisher made them. The system's packages in an image are those of its base.

"""


def generate(root: Path) -> str:
    """Return the text of `docs/licences.md`. Raises `LicenceError`."""
    parts = [_HEAD]
    found = components(root)
    for place in Deliverable:
        rows = sorted({(one.name, one.licence) for one in found if one.place is place}, key=lambda row: (row[0].lower(), row))
        title = place.value[0].upper() + place.value[1:]
        lines = [f"| {cell(f'`{name}`')} | {cell(licence)} |" for name, licence in rows]
        parts.append("\n".join([f"## {title}", "", "| software | licence |", "|---|---|", *lines, "", ""]))
    parts.append("## Rules\n\n| licence | may be in | kept |\n|---|---|---|\n")
    for licence, (places, duty) in ALLOWED.items():
        where = "everything" if places == set(Deliverable) else ", ".join(place.value for place in Deliverable if place in places)
        parts.append(f"| {licence} | {cell(where)} | {cell(duty)} |\n")
    parts += [f"| `{pattern}` | nothing | {cell(reason)} |\n" for pattern, reason in REFUSED.items()]
    return "".join(parts)
