"""The version of this project, as it was installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_version() -> str:
    """Return the version of the package, or words that say there is none."""
    try:
        return version("diskless-coordinator")
    except PackageNotFoundError:
        return "unknown (not installed)"
