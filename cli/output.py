"""The output of commands: data to standard output as table, json, jsonl or yaml; everything else to standard error.

A table on a terminal is drawn by rich and made as narrow as that is (`cli.fitting`), unless --wide is given; in a pipe it
is plain aligned text, never cut and never wrapped, so that it can be grepped. The other formats are the same on both.
Values are JSON values: callers turn bytes and enums into texts.
Texts come from strangers: what is not printable in them is escaped, in the other formats by the format's own escapes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, cast

import click

from cli.fitting import GAP, MeasuredColumn, declared, fitted, measured, shortened, wrapped
from coordinator.printable import indented, json_escaped, one_line, plain

FORMATS = ("table", "json", "jsonl", "yaml")
WIDE = "diskless.wide"
"""The key in click's `meta` under which --wide is remembered."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, after which `datetime` has no times."""

# Words that stand out in tables on a terminal; NO_COLOR switches it off.
STYLES = {
    "ok": "green",
    "leading": "green",
    "warning": "yellow",
    "recovering": "yellow",
    "loading": "yellow",
    "skipped": "dim",
    "error": "bold red",
    "failed": "bold red",
    "no leader": "bold red",
    "no answer": "bold red",
}

Row = Mapping[str, object]


def say(message: str) -> None:
    """Print a message for people, to standard error."""
    text = indented(plain(message))
    if sys.stderr.isatty():
        room = os.get_terminal_size(2).columns
        text = "\n".join(part for line in text.splitlines() for part in wrapped(line, room, indent="    "))
    click.echo(text, err=True)


def tell(line: str) -> None:
    """Print one line of an answer for people, to standard output."""
    click.echo(one_line(line))


def print_rows(rows: Sequence[Row], output: str, columns: Sequence[str], *, empty: str = "nothing found") -> None:
    """Print a list. A table shows `columns`, the other formats every field."""
    match output:
        case "table" if not rows:
            say(empty)
        case "table":
            print_table([[_cell(row.get(column)) for column in columns] for row in rows], columns)
        case "json":
            click.echo(_json(list(rows), indent=2))
        case "jsonl":
            for row in rows:
                print_line(row)
        case "yaml":
            click.echo(_yaml(list(rows)), nl=False)


def print_fields(fields: Row, output: str) -> None:
    """Print one thing: a table of its fields, or one object."""
    match output:
        case "table":
            print_table([[_title(title), line] for name, value in fields.items() for title, line in _lines(name, value)], None)
        case "json":
            click.echo(_json(fields, indent=2))
        case "jsonl":
            print_line(fields)
        case "yaml":
            click.echo(_yaml(fields), nl=False)


def print_line(row: Row) -> None:
    """Print one JSON line."""
    click.echo(_json(row))


class RowStream:
    """Prints rows one by one as they come, for lists without a known end. `columns` are names and widths of a table."""

    def __init__(self, output: str, columns: Sequence[tuple[str, int]]) -> None:
        self.is_table = output == "table"
        self._output = output
        self._columns = columns
        self._count = 0
        self._widths: dict[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._output == "json" and (kind is None or self._count):
            click.echo("\n]" if self._count else "[]")
        elif self.is_table and not self._count and kind is None:
            say("nothing found")

    def write(self, row: Row) -> None:
        """Print one row."""
        match self._output:
            case "table":
                if self._count == 0:
                    if sys.stdout.isatty() and not is_wide_wanted():
                        self._widths = _shown([declared(name, width) for name, width in self._columns])
                    self._line([_title(name) for name, _ in self._columns])
                self._line([_cell(row.get(name)) for name, _ in self._columns])
            case "json":
                click.echo(("[\n " if self._count == 0 else ",\n ") + _json(row), nl=False)
            case "jsonl":
                print_line(row)
            case "yaml":
                click.echo(_yaml([row]), nl=False)
        self._count += 1

    def _line(self, cells: Sequence[str]) -> None:
        if self._widths is None:
            tell((" " * GAP).join(cell.ljust(width) for cell, (_, width) in zip(cells, self._columns, strict=True)).rstrip())
            return
        # The last column takes as many lines as it needs.
        *others, last = self._widths
        head = "".join(shortened(cells[at], width).ljust(width + GAP) for at, width in self._widths.items() if at in others)
        for number, line in enumerate(wrapped(shortened(cells[last], self._widths[last]), self._widths[last])):
            tell(f"{head if number == 0 else ' ' * len(head)}{line}".rstrip())


def time_text(time_ms: int) -> str | None:
    """A time as people read it, in UTC with milliseconds; None for none (-1).

    Times of batches are whatever a producer wrote, such as nanoseconds by mistake: after the year 9999 it is the number.
    """
    if time_ms < 0:
        return None
    if time_ms > TIME_MAX_MS:
        return f"{time_ms} ms"
    whole = datetime.fromtimestamp(time_ms // 1000, UTC).replace(microsecond=time_ms % 1000 * 1000)
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def print_table(cells: Sequence[Sequence[str]], names: Sequence[str] | None) -> None:
    """Print a table of texts; of columns with names, or of a name and a value in each row."""
    cells = [[one_line(cell) for cell in row] for row in cells]
    titles = None if names is None else [_title(name) for name in names]
    if not sys.stdout.isatty():
        for line in _aligned(cells, titles):
            click.echo(line)
    elif cells:
        _draw(cells, names or ("", ""), titles)


def _draw(cells: Sequence[Sequence[str]], names: Sequence[str], titles: Sequence[str] | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heads = titles or [""] * len(names)
    columns = [measured(name, head, [row[at] for row in cells]) for at, (name, head) in enumerate(zip(names, heads, strict=True))]
    widths = _shown(columns)
    table = Table(
        box=box.SIMPLE_HEAD, show_header=titles is not None, header_style="bold cyan", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for at, width in widths.items():
        numeric = titles is not None and all(_is_number(row[at]) for row in cells)
        style = "bold" if titles is None and at == 0 else ""
        table.add_column(Text(heads[at]), justify="right" if numeric else "left", width=width, overflow="fold", style=style)
    for row in cells:
        table.add_row(*(Text(shortened(row[at], width), style=STYLES.get(row[at], "")) for at, width in widths.items()))
    Console(width=sum(widths.values()) + GAP * len(widths)).print(table, crop=False)


def _shown(columns: Sequence[MeasuredColumn]) -> dict[int, int]:
    """The columns that are drawn, with their widths; those that are left out are named on standard error."""
    is_wide = is_wide_wanted()
    widths = {at: one.natural for at, one in enumerate(columns)} if is_wide else fitted(columns, os.get_terminal_size(1).columns)
    if left_out := [one.name for at, one in enumerate(columns) if at not in widths]:
        say(f"left out for lack of room: {', '.join(name.replace('_', ' ') for name in left_out)} (--wide)")
    return widths


def is_wide_wanted() -> bool:
    """Whether --wide was given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(WIDE))


def _aligned(cells: Sequence[Sequence[str]], titles: Sequence[str] | None) -> Iterable[str]:
    rows = [*([titles] if titles is not None else []), *cells]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _lines(name: str, value: object) -> Iterable[tuple[str, str]]:
    """A field of a thing: one line, or one for each entry of a mapping."""
    if not isinstance(value, Mapping):
        return [(name, _cell(value))]
    return [("" if number else name, f"{key}={_cell(item)}") for number, (key, item) in enumerate(cast(Row, value).items())]


def _is_number(cell: str) -> bool:
    return cell.removeprefix("-").isdigit() or cell == "-"


def _title(name: str) -> str:
    return one_line(name.replace("_", " ").upper())


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(_cell(item) for item in cast(Sequence[object], value)) or "-"
        case Mapping():
            return one_line(json.dumps(value, ensure_ascii=False))
        case _:
            return one_line(str(value))


def _json(value: object, indent: int | None = None) -> str:
    return json_escaped(json.dumps(value, indent=indent, ensure_ascii=False))


def _yaml(value: object) -> str:
    import yaml

    for is_readable in (True, False):  # what is not printable is written by its number, and then every other letter is, too
        text = cast(str, yaml.safe_dump(value, sort_keys=False, allow_unicode=is_readable, width=1000))
        if text.replace("\n", "").isprintable():
            break
    return text


def term_text(term: int) -> str:
    """A term as 16 hexadecimal digits."""
    return f"{term & 0xFFFF_FFFF_FFFF_FFFF:016x}"
