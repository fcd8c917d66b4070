"""Makes a table as narrow as a terminal: cells are shortened in the middle, words are kept whole, and columns are left out.

Pure. A cell with spaces is prose, which is wrapped between words; any other is shortened where it is too long for its column. What a
column needs at least is a word of its title, and all of a number; where not even that has room, columns are left out: first those that
say nothing in any row, then those of `DISPENSABLE` in that order, then from the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = 2
"""Spaces between two columns."""
WORD_MIN = 12
"""To how few letters a cell is shortened."""
PROSE_MIN = 20
"""How narrow a column of prose may become."""
DECLARED_MIN = 28
"""How narrow a column of prose may become whose cells are not known yet."""
WHOLE_TIME = 20
"""The length of a time without its milliseconds."""

DISPENSABLE = (
    "term",
    "digest",
    "directory_id",
    "incarnation",
    "batch_id",
    "uploader_broker_id",
    "topic_id",
    "owner_ids",
    "epoch",
    "seq",
    "settings",
    "address",
    "batch_count",
    "until",
    "directory_state",
    "byte_offset",
    "max_timestamp",
    "written_offset",
    "total",
)
"""Names of columns that are left out first where the room is too small for all, over all commands."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """A column of a table: its name, how wide it would be, how narrow it may be, and whether it is prose."""

    name: str
    natural: int
    least: int
    is_prose: bool = False
    is_empty: bool = False


def measured(name: str, title: str, cells: Sequence[str]) -> MeasuredColumn:
    """Measure a column by all of its cells."""
    longest = max(map(len, cells), default=0)
    head = max(map(len, title.split()), default=0)
    is_prose = any(" " in cell for cell in cells)
    if is_prose:
        least = min(longest, PROSE_MIN)
    elif all(cell.removeprefix("-").isdigit() for cell in cells if cell != "-"):
        least = longest
    else:
        least = max(min(len(cell), WHOLE_TIME if _TIME.fullmatch(cell) else WORD_MIN) for cell in cells)
    return MeasuredColumn(name, max(longest, head), max(least, head), is_prose, all(cell == "-" for cell in cells))


def declared(name: str, width: int) -> MeasuredColumn:
    """A column whose cells are not known yet; without a width it is the last one, of prose."""
    if width == 0:
        return MeasuredColumn(name, DECLARED_MIN, DECLARED_MIN, is_prose=True)
    least = width if width <= WORD_MIN else WHOLE_TIME if width == len("2026-01-31T12:00:00.123Z") else WORD_MIN
    return MeasuredColumn(name, width, least)


def fitted(columns: Sequence[MeasuredColumn], room: int) -> dict[int, int]:
    """Return the columns that are shown, by their numbers in order, with their widths."""
    kept = dict(enumerate(columns))
    for number in _leaving(columns):
        if sum(one.least + GAP for one in kept.values()) - GAP <= room:
            break
        del kept[number]
    widths = {number: one.natural for number, one in kept.items()}
    last = max(widths)
    if columns[last].is_prose:
        spare = room - sum(width + GAP for width in widths.values()) + GAP
        widths[last] += max(0, spare)
    excess = sum(width + GAP for width in widths.values()) - GAP - room
    while excess > 0:
        # From the widest first, so that narrow ones stay whole; last of all from the first column, which says what a row is about.
        shrinkable = [number for number in widths if widths[number] > kept[number].least]
        if not shrinkable:
            break
        widest = max(shrinkable, key=lambda number: (number > 0, widths[number]))
        widths[widest] -= 1
        excess -= 1
    return widths


def _leaving(columns: Sequence[MeasuredColumn]) -> Iterator[int]:
    """Yield the numbers of columns in the order in which they are left out; the first column never is."""
    others = range(1, len(columns))
    empty = [number for number in others if columns[number].is_empty]
    named = [number for name in DISPENSABLE for number in others if columns[number].name == name]
    from_right = sorted(others, key=lambda number: (columns[number].is_prose, -number))
    yield from dict.fromkeys([*empty, *named, *from_right])


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return prose in lines of at most this length, but for longer words; those after the first are indented."""
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def shortened(text: str, width: int) -> str:
    """Return a text of at most this length: of a time the milliseconds go, of a word its middle; between words nothing is changed."""
    if len(text) <= width:
        return text
    if _TIME.fullmatch(text) and width >= WHOLE_TIME:
        return f"{text[:19]}Z"
    if " " in text:
        return " ".join(shortened(word, width) for word in text.split(" "))
    head = (width - 1) // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
