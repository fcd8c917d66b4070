"""The definitions of Kubernetes' objects, for values that the chart hands over as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate

VERSION: Final = "1.36.0"
FOLDER: Final = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{VERSION}-local-strict"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@cache
def all_definitions() -> Mapping[str, Any]:
    """Every definition by its name. They allow no fields that they do not name."""
    found: Mapping[str, Any] = json.loads((FOLDER / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    return found


def references(schema: object) -> set[str]:
    """The names of the definitions that a schema refers to."""
    return set(re.findall(r'"\$ref": "[^"#]*#/[$]defs/([^"]+)"', json.dumps(schema)))


def definitions(names: Iterable[str]) -> dict[str, Any]:
    """The definitions of these names, and of all that they refer to, in the order of their names. Their descriptions are left out."""
    used = set(names)
    while more := {name for one in used for name in references(all_definitions()[one])} - used:
        used |= more
    return {name: _bare(all_definitions()[name]) for name in sorted(used)}


def _bare(schema: Any) -> Any:
    match schema:
        case dict():
            # A property may be called `description`: then it is no text.
            left_out = {key for key in schema if key.startswith("x-kubernetes-") or (key == "description" and isinstance(schema[key], str))}
            return {key: _bare(value) for key, value in schema.items() if key not in left_out}
        case list():
            return [_bare(one) for one in schema]
        case _:
            return schema
