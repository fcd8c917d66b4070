"""Faults of a configuration in the words an operator needs: key, value, limit, remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding. `value` is None for a missing value and `***` for a secret one."""

    key: str
    value: str | None
    source: str
    limit: str
    remedy: str

    def __str__(self) -> str:
        shown = "is not set" if self.value is None else f"= {self.value!r} ({self.source})"
        return f"{self.key} {shown}: {self.limit}; {self.remedy}"


REFERENCE = "(`diskless config show --docs` and docs/configuration.md explain every key)"


def problems_text(problems: Sequence[str]) -> str:
    """Say how many problems a configuration has, and each on a line of its own."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n  ".join([f"{count} in the configuration:", *problems])


class ConfigError(Exception):
    """The configuration cannot be used; lists every problem found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "a ConfigError needs a problem"
        self.problems = tuple(problems)
        super().__init__(f"{problems_text(list(map(str, problems)))}\n  {REFERENCE}")
