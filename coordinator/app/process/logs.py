"""Logs of a process: one line per event, `key=value` fields, to standard error.

The one place where records become text. Whatever a message holds, it is one line; the lines of a traceback are indented. So no text
from outside (a principal, a topic, an error of Kafka) makes lines that look like ours, or speaks to a terminal.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import TracebackType

from coordinator.printable import indented, one_line, plain

LOG = logging.getLogger("coordinator.app")

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

EVENT = "%(asctime)s %(levelname)s %(name)s %(message)s"
MESSAGE = "%(message)s"


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z LEVEL logger message`, exceptions indented on the lines after it."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """UTC with milliseconds."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message in one line."""
        return one_line(_told(super().formatMessage(record)))

    def formatException(self, ei: ExceptionInfo) -> str:
        """Return the traceback; stacks of Java in texts of its errors are left out."""
        return _told(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an event, and the lines of its exception."""
        return indented(super().format(record))


def _told(text: str) -> str:
    """Take out the internals of Kafka's clients unless everything is logged."""
    return text if LOG.isEnabledFor(logging.DEBUG) else plain(text)


def set_up_logging(level: str = "INFO", shape: str = EVENT) -> None:
    """Send every log line to standard error, and exceptions that end a thread or that nothing can catch."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(shape))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    sys.excepthook = _log_end
    threading.excepthook = _log_thread
    sys.unraisablehook = _log_unraisable


def _log_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    LOG.critical("the process ends", exc_info=(kind, error, trace))


def _log_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        name = "" if ended.thread is None else ended.thread.name
        LOG.critical("a thread ended thread=%s", name, exc_info=(ended.exc_type, ended.exc_value, ended.exc_traceback))


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    if found.exc_value is not None:
        LOG.error("an exception was ignored where=%r", found.object, exc_info=(found.exc_type, found.exc_value, found.exc_traceback))
