"""The folder of the local stores that the tests of this folder open."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder_of_objects(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
