"""Durations as people write them: `90s`, `30m`, `1h`, `7d`, or a number of seconds."""

from __future__ import annotations

import re

import click

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TEXT = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd]?)", re.ASCII)


class Duration(click.ParamType[float]):
    """An option's value in seconds, at least `min_s`."""

    name = "duration"

    def __init__(self, min_s: float) -> None:
        self.min_s = min_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a text; a number was read before."""
        if isinstance(value, int | float):
            return float(value)
        found = _TEXT.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration; write 90s, 30m, 1h or 7d", param, ctx)
        seconds = float(found[1]) * SECONDS[found[2]]
        if seconds < self.min_s:
            self.fail(f"{value!r} is less than {self.min_s:g} s", param, ctx)
        return seconds
