"""Makes the chart's README: how it is installed, and a table of all values with their defaults and reasons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby

from helm.generator.chart.values import Value, leaves

BEFORE_VALUES = "<!-- values -->"


def readme(frame: str, values: Sequence[Value]) -> str:
    """The text of README.md: the frame, with the tables in place of its mark."""
    before, mark, after = frame.partition(BEFORE_VALUES)
    assert mark, f"the frame of the chart's README has no {BEFORE_VALUES}"
    return before + "\n".join(_tables(values)) + after


def _tables(values: Sequence[Value]) -> Iterable[str]:
    for title, group in groupby(leaves(values), key=lambda value: value.path[0] if len(value.path) > 1 else ""):
        yield f"### {title}" if title else "### (top level)"
        yield ""
        yield "| value | default | why |"
        yield "|---|---|---|"
        yield from (f"| `{value.dotted}` | {_shown(value.default)} | {_cell(value.why)} |" for value in group)
        yield ""


def _shown(default: object) -> str:
    if default == "":
        return ""
    text = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
