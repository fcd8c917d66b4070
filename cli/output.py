"""The output of commands: data to standard output as table, json, jsonl or yaml; everything else to standard error.

A table on a terminal is drawn by rich; in a pipe it is plain aligned text, never cut and never wrapped, so that it can
be grepped. The other formats are the same on both. Values are JSON values: callers turn bytes and enums into texts.
Texts come from strangers: what is not printable in them is escaped, in the other formats by the format's own escapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, cast

import click

from coordinator.printable import indented, json_escaped, one_line, plain

FORMATS = ("table", "json", "jsonl", "yaml")
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
}

Row = Mapping[str, object]


def say(message: str) -> None:
    """Print a message for people, to standard error."""
    click.echo(indented(plain(message)), err=True)


def tell(line: str) -> None:
    """Print one line of an answer for people, to standard output."""
    click.echo(one_line(line))


def print_rows(rows: Sequence[Row], output: str, columns: Sequence[str], *, empty: str = "nothing found") -> None:
    """Print a list. A table shows `columns`, the other formats every field."""
    match output:
        case "table" if not rows:
            say(empty)
        case "table":
            print_table([[_cell(row.get(column)) for column in columns] for row in rows], [_title(column) for column in columns])
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
        tell("  ".join(cell.ljust(width) for cell, (_, width) in zip(cells, self._columns, strict=True)).rstrip())


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on standard error while the work goes on, if both outputs allow it; call what is yielded at each step."""
    # A bar between the lines of a table on the same terminal would only disturb.
    if total < 1000 or sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


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


def print_table(cells: Sequence[Sequence[str]], titles: Sequence[str] | None) -> None:
    """Print a table of texts."""
    cells = [[one_line(cell) for cell in row] for row in cells]
    if sys.stdout.isatty():
        _draw(cells, titles)
    else:
        for line in _aligned(cells, titles):
            click.echo(line)


def _draw(cells: Sequence[Sequence[str]], titles: Sequence[str] | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_header=titles is not None, header_style="bold cyan", pad_edge=False)
    for number in range(max((len(row) for row in cells), default=len(titles or ()))):
        numeric = titles is not None and all(_is_number(row[number]) for row in cells)
        style = "bold" if titles is None and number == 0 else ""
        title = titles[number] if titles is not None else ""
        table.add_column(Text(title), justify="right" if numeric else "left", overflow="fold", style=style)
    for row in cells:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console().print(table)


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
