"""What is made from schemas and declarations is what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from codegen.__main__ import GENERATORS, ROOT, stale
from codegen.licences import JAR_LOCKS


def test_checked_in_files_are_what_their_sources_say() -> None:
    assert stale() == {}


def test_a_file_that_was_edited_by_hand_is_found(tmp_path: Path) -> None:
    for folder in ("records/schemas", "coordinator/protocol/schemas"):
        (tmp_path / folder).mkdir(parents=True)
        for file in (ROOT / folder).iterdir():
            (tmp_path / folder / file.name).write_bytes(file.read_bytes())
    for name in ("pyproject.toml", "requirements.lock", *JAR_LOCKS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for target in GENERATORS:
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / target).write_text((ROOT / target).read_text(encoding="utf-8") + "\nedited = True\n", encoding="utf-8")
    found = stale(tmp_path)
    assert set(found) == {tmp_path / target for target in GENERATORS}
    for target in GENERATORS:
        assert found[tmp_path / target] == (ROOT / target).read_text(encoding="utf-8")


def test_the_command_compares() -> None:
    ran = subprocess.run([sys.executable, "-m", "codegen", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")
