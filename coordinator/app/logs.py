"""Logs of a coordinator process: one line per event, `key=value` fields, to standard error."""

from __future__ import annotations

import logging
import sys
import time


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z LEVEL logger message`, exceptions on the lines after it."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """UTC with milliseconds."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def set_up_logging(level: str = "INFO") -> None:
    """Send every log line to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
