"""The version of this project, which tells two builds apart: 0.2.0.dev0+g<commit>, with .dirty for a changed checkout.

A wheel and an image have the commit they were built from in their metadata (`setup.py`); a checkout asks git for it.
"""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
GIT_TIMEOUT_S = 10


@cache
def installed_version() -> str:
    """Return the version of the package, or words that say there is none."""
    try:
        installed = version("diskless-coordinator")
    except PackageNotFoundError:
        installed = "unknown (not installed)"
    # What a checkout was at when it was installed says nothing of what it is at.
    mark = commit_mark(CHECKOUT)
    return installed.partition("+")[0] + mark if mark else installed


def commit_mark(folder: Path) -> str:
    """Return +g and the commit of a checkout; nothing for other folders, and where git is missing or refuses the folder."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "--no-optional-locks", "-C", str(folder), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=.dirty"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"+g{asked.stdout.strip()}" if asked.returncode == 0 else ""
