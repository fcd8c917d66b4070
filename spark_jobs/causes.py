"""The one line in what Spark and its JVM print that says what happened; their texts have pages of stacks around it."""

from __future__ import annotations

import re
from typing import Final

_CAUSED_BY: Final = "Caused by: "
_TRACEBACK: Final = "Traceback (most recent"
_THROWABLE: Final = re.compile(r"(?:[a-z_]\w{0,63}\.){1,16}[A-Z][\w$]{0,127}(?:Exception|Error)\b|\berror\b|\bERROR\b", re.IGNORECASE)
_CALL: Final = "An error occurred while calling"


def essence(text: str) -> str:
    """Return the line: the end of a Python worker's traceback, else the last cause of Java, else the first line."""
    lines = [line for line in text.partition("JVM stacktrace:")[0].splitlines() if line.strip()]
    if any(_TRACEBACK in line for line in lines):
        ends = [line for line in lines if not line[0].isspace() and "SQLSTATE" not in line and not line.startswith((_CAUSED_BY, _CALL))]
        return (ends or lines)[-1]
    causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    if causes:
        return causes[-1]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else "no message"


def essence_of_log(text: str) -> str:
    """Return the line of a JVM's log: its last cause, else the last line that names an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line[0].isspace()]
    causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    return next(reversed(causes or [line for line in lines if _THROWABLE.search(line)] or lines), "its log is empty")
