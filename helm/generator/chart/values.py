"""Reads values.yaml with its comments: each value with its default, its reason, and what it adds to the JSON schema.

A comment belongs to the key below it. A line `@schema {...}` in it is JSON, and not for the reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

SCHEMA_MARK: Final = "@schema "


class UndocumentedValueError(Exception):
    """A value has no reason, or a reason that cannot be read; the text names the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One key of values.yaml. `children` are its keys when it is a section; a map without any is one value, whatever is in it."""

    path: tuple[str, ...]
    why: str
    default: object
    schema: Mapping[str, object]
    children: Sequence[Value]

    @property
    def dotted(self) -> str:
        return ".".join(self.path)


def parse_values(text: str) -> Sequence[Value]:
    """Return the top-level values in their order. Raises `UndocumentedValueError`."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return _children(root, yaml.safe_load(text), text.splitlines(), ())


def leaves(values: Sequence[Value]) -> Iterator[Value]:
    """All values that are no sections, in their order."""
    for value in values:
        if value.children:
            yield from leaves(value.children)
        else:
            yield value


def _children(node: yaml.MappingNode, loaded: Mapping[str, object], lines: Sequence[str], path: tuple[str, ...]) -> Sequence[Value]:
    found = []
    for key, value in node.value:
        here = (*path, str(key.value))
        words, schema = _comment(lines, key.start_mark.line, ".".join(here))
        default = loaded[key.value]
        children: Sequence[Value] = ()
        # A section is written in block style and does not say what its schema is.
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style and not schema:
            assert isinstance(default, dict)
            children = _children(value, default, lines, here)
        if not words and not children:
            raise UndocumentedValueError(f"values.yaml: {'.'.join(here)} has no comment that says why one would change it")
        found.append(Value(path=here, why=words, default=default, schema=schema, children=children))
    return found


def _comment(lines: Sequence[str], line: int, dotted: str) -> tuple[str, Mapping[str, object]]:
    """The text and the schema in the comment right above a line."""
    above = []
    for text in reversed(lines[:line]):
        if not text.lstrip().startswith("#"):
            break
        above.append(text.lstrip().lstrip("#").strip())
    above.reverse()
    schema: dict[str, object] = {}
    for text in above:
        if text.startswith(SCHEMA_MARK):
            try:
                schema |= json.loads(text.removeprefix(SCHEMA_MARK))
            except ValueError as error:
                raise UndocumentedValueError(f"values.yaml: the schema of {dotted} is no JSON: {error}") from error
    return " ".join(text for text in above if not text.startswith(SCHEMA_MARK)), schema
