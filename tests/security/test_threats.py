"""SECURITY.md: each row of its table names tests that exist, and no file of this folder is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| threat ")]
PROOF = re.compile(r"`((?:integration_)?tests/[\w/]+\.py)(?:::(\w+))?`")
FOLDERS = ("tests/security",)
FILES = ("tests/server/test_secure_listeners.py", "integration_tests/test_hostile_logins.py", "integration_tests/test_hostile_wire.py")


def proofs(row: str) -> list[tuple[str, str]]:
    """The files, and tests if they are named, in the last column of a row."""
    return PROOF.findall(row.rstrip(" |").rpartition(" | ")[2])


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_every_row_has_a_threat_an_answer_and_tests_that_exist(number: int) -> None:
    row = ROWS[number]
    assert len(row.strip("| ").split(" | ")) == 3, row
    assert proofs(row), row
    for file, test in proofs(row):
        assert (ROOT / file).is_file(), file
        if test:
            assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{file}::{test}"


def test_no_threat_stands_twice() -> None:
    threats = [row.split(" | ")[0] for row in ROWS]
    assert len(threats) == len(set(threats)) > 20


def test_what_proves_security_is_named() -> None:
    named = {file for row in ROWS for file, _ in proofs(row)}
    here = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).glob("test_*.py")}
    own = Path(__file__).relative_to(ROOT).as_posix()
    assert here - {own} - named == set(), "name them in SECURITY.md, with the threat that they answer"
    assert set(FILES) <= named
