"""Rules that make a name of a certificate's subject, in the grammar of Kafka's `ssl.principal.mapping.rules`.

    RULE:^CN=(.*?),OU=Ops.*$/$1/L,RULE:^CN=([^,]+).*$/$1/,DEFAULT

The first rule whose pattern fits the whole subject counts; DEFAULT takes the subject as it is. No rules mean DEFAULT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from coordinator.config.values import OutOfBounds

_RULE: Final = re.compile(r"DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
_BOUNDS: Final = "DEFAULT or RULE:pattern/replacement/ optionally followed by L or U, comma separated"


@dataclass(frozen=True, slots=True)
class _MappingRule:
    """One rule. Without a pattern it is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    letters: str

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = _PLACEHOLDER.sub(lambda part: part[1] or found[int(part[2])] or "", self.replacement)
        return name.lower() if self.letters == "L" else name.upper() if self.letters == "U" else name


@dataclass(frozen=True, slots=True)
class MappingRules:
    """The rules of one listener."""

    text: str
    rules: tuple[_MappingRule, ...]

    @classmethod
    def parse(cls, value: str) -> Self:
        """Read rules. Raises `OutOfBounds`."""
        rules: list[_MappingRule] = []
        place, text = 0, value.strip()
        while place < len(text):
            found = _RULE.match(text, place)
            if found is None or (found.end() < len(text) and text[found.end()] != ","):
                raise OutOfBounds(_BOUNDS)
            rules.append(_MappingRule(None, "", "") if found[0] == "DEFAULT" else _rule(found[1], found[2], found[3]))
            place = found.end() + 1
            while place < len(text) and text[place].isspace():
                place += 1
        return cls(value, tuple(rules) or (_MappingRule(None, "", ""),))

    def name_of(self, subject: str) -> str | None:
        """Return the name that the rules make of a subject; None when no rule fits."""
        return next((name for rule in self.rules if (name := rule.apply(subject)) is not None), None)

    def __str__(self) -> str:
        return self.text


def _rule(pattern: str, replacement: str, letters: str) -> _MappingRule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise OutOfBounds(f"{_BOUNDS}; a pattern is no regular expression ({error.msg})") from error
    if any(part[2] is not None and int(part[2]) > compiled.groups for part in _PLACEHOLDER.finditer(replacement)):
        raise OutOfBounds(f"{_BOUNDS}; a replacement names a group that its pattern has not")
    return _MappingRule(compiled, replacement, letters)
