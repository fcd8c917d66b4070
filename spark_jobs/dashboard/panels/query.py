"""The query of a panel, parsed once at the edge: a range, a topic, how to split, and which page of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RANGES_S = (300, 3600, 86400)
WIDTH_S_MIN = 10
WIDTH_S_MAX = 86400
SPLITS = ("total", "coordinator", "topic")
SORTS = ("rate", "batches", "records", "bytes", "offset", "name", "last")
LIMIT_MAX = 200
TEXT_MAX = 300
LOOK_MAX = 1100
"""Keys of objects may have 1024 characters."""


class BadQueryError(ValueError):
    """A parameter that cannot be used; the text says which values can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    """One question. `topic` is a name or an id as text; `search` is part of a name.

    A question is about the last `range_s` seconds, unless `to_s` says where the range ends.
    """

    range_s: int = 300
    to_s: int | None = None
    topic: str = ""
    split: str = "total"
    search: str = ""
    look: str = ""
    sort: str = "rate"
    offset: int = 0
    limit: int = 25

    def span_s(self, end_s: int) -> tuple[int, int]:
        """Return where the range begins and ends; one of the last seconds ends at `end_s`."""
        end_s = end_s if self.to_s is None else self.to_s
        return end_s - self.range_s, end_s


def parse_query(parameters: Mapping[str, str]) -> PanelQuery:
    """Read URL parameters; unknown names are ignored. Raises `BadQueryError`."""
    range_s, to_s = _range(parameters)
    return PanelQuery(
        range_s=range_s,
        to_s=to_s,
        topic=_text(parameters, "topic"),
        split=_word(parameters, "split", SPLITS),
        search=_text(parameters, "search"),
        look=_text(parameters, "look", LOOK_MAX),
        sort=_word(parameters, "sort", SORTS),
        offset=_between(parameters, "offset", 0, 0, 100_000_000),
        limit=_between(parameters, "limit", 25, 1, LIMIT_MAX),
    )


def _range(parameters: Mapping[str, str]) -> tuple[int, int | None]:
    if not parameters.get("from") and not parameters.get("to"):
        return _number(parameters, "range", 300, RANGES_S), None
    from_s, to_s = (_between(parameters, name, 0, 0, 10**11) for name in ("from", "to"))
    if not WIDTH_S_MIN <= to_s - from_s <= WIDTH_S_MAX:
        raise BadQueryError(f"from and to (seconds since the epoch) must be {WIDTH_S_MIN} to {WIDTH_S_MAX} s apart, not {to_s - from_s}")
    return to_s - from_s, to_s


def _integer(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise BadQueryError(f"{name} must be a whole number, not {text[:40]!r}")
    return int(text)


def _number(parameters: Mapping[str, str], name: str, default: int, allowed: tuple[int, ...]) -> int:
    value = _integer(parameters, name, default)
    if value not in allowed:
        raise BadQueryError(f"{name} must be one of {', '.join(map(str, allowed))} (seconds), not {value}")
    return value


def _between(parameters: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    value = _integer(parameters, name, default)
    if not low <= value <= high:
        raise BadQueryError(f"{name} must be {low} to {high}, not {value}")
    return value


def _word(parameters: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = parameters.get(name, "") or allowed[0]
    if value not in allowed:
        raise BadQueryError(f"{name} must be one of {', '.join(allowed)}, not {value[:40]!r}")
    return value


def _text(parameters: Mapping[str, str], name: str, most: int = TEXT_MAX) -> str:
    value = parameters.get(name, "")
    if len(value) > most:
        raise BadQueryError(f"{name} may have {most} characters, not {len(value)}")
    return value
