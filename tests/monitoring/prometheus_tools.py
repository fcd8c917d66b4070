"""Prometheus' own programs, where they are installed; `.ci/run` sees to that."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str) -> str:
    """Path of `prometheus` or `promtool`. Skips the test without it, or fails it where DISKLESS_TEST_PROMETHEUS=required."""
    path = shutil.which(name)
    if path is None:
        text = f"{name} is not installed (apt-get install prometheus)"
        if os.environ.get("DISKLESS_TEST_PROMETHEUS") == "required":
            pytest.fail(text)
        pytest.skip(text)
    return path
