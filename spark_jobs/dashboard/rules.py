"""What a violation of each rule of the log means, for an operator who reads it at night."""

from __future__ import annotations

UNKNOWN = "The entry breaks a rule of the log. Look at it and the entries before it with the command below."

MEANINGS: dict[str, str] = {}


def meaning(rule: str) -> str:
    """Say what a violation of the rule means; a general sentence for rules this version does not know."""
    return MEANINGS.get(rule, UNKNOWN)
