"""Times and durations as people write them, for all commands.

A time is `2026-11-28T02:00` (UTC unless it names its zone), `90m` (so long ago), or milliseconds since the epoch. A duration is
`90s`, `30m`, `1h`, `7d`, or a number of seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import click

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
TIME_FORMS = "2026-11-28T02:00 (UTC unless it names its zone), 90m (so long ago), or milliseconds since the epoch"
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd]?)", re.ASCII)
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_EPOCH = datetime.fromtimestamp(0, UTC)
_INT64_MAX = 2**63 - 1


def parse_seconds(text: str) -> float | None:
    """The seconds of a duration; None for a text that is none."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * SECONDS[found[2]]


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch. Raises ValueError, which says why a text is no time."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        number = int(text)
    elif text[-1:].isalpha() and (ago_s := parse_seconds(text)) is not None:
        number = now_ms - round(ago_s * 1000)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is no time; write {TIME_FORMS}") from None
        number = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    if number < 0:
        raise ValueError(f"{text!r} is before 1970")
    if number > _INT64_MAX:
        raise ValueError(f"{text!r} is no time; the greatest one is {_INT64_MAX} ms")
    return number


class Time(click.ParamType[int]):
    """An option's value in milliseconds since the epoch, or the number of one of some names."""

    name = "time"

    def __init__(self, names: Mapping[str, int] | None = None) -> None:
        self.names = dict(names or {})

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a text; a number was read before."""
        if isinstance(value, int):
            return value
        text = str(value)
        if text in self.names or text in map(str, self.names.values()):
            return self.names[text] if text in self.names else int(text)
        try:
            return parse_time_ms(text, time.time_ns() // 1_000_000)
        except ValueError as error:
            names = f"; or one of {', '.join(self.names)}" if self.names else ""
            self.fail(f"{error}{names}", param, ctx)


class Duration(click.ParamType[float]):
    """An option's value in seconds, at least `min_s`."""

    name = "duration"

    def __init__(self, min_s: float) -> None:
        self.min_s = min_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a text; a number was read before."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_seconds(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no duration; write 90s, 30m, 1h or 7d", param, ctx)
        if seconds < self.min_s:
            self.fail(f"{value!r} is less than {self.min_s:g} s", param, ctx)
        return seconds
