"""Texts from outside as a terminal may show them: control characters, which could move its cursor or hide words, are escaped."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_BREAK = re.compile(r"[\t\n]")


def printable(text: str) -> str:
    """Escape control characters other than line breaks and tabulators, and what no encoding has."""
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    """Escape line breaks and tabulators, too."""
    return _LINE_BREAK.sub(_escaped, printable(text))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
