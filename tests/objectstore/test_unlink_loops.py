"""Many files are removed without the interpreter lock, up to the first that cannot be."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from coordinator.adapters.objectstore import unlink_loops
from tests.compiled import plain

PLAIN = plain(unlink_loops)


def paths_of(folder: Path, names: str) -> bytes:
    return b"".join(bytes(folder / name) + b"\0" for name in names)


def test_files_go_up_to_the_first_that_is_not_there(tmp_path: Path) -> None:
    for name in "abde":
        (tmp_path / name).write_bytes(b"x")
    paths = paths_of(tmp_path, "abcde")
    at = unlink_loops.unlink_while_possible(paths, 0)
    assert at == len(paths_of(tmp_path, "ab"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "e"]
    assert unlink_loops.unlink_while_possible(paths, len(paths_of(tmp_path, "abc"))) == len(paths)
    assert not list(tmp_path.iterdir())


def test_a_path_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    for paths, at in ((bytes(tmp_path / "a"), 0), (paths_of(tmp_path, "a"), -1)):
        with pytest.raises(IndexError):
            unlink_loops.unlink_while_possible(paths, at)
    assert (tmp_path / "a").exists()
    assert unlink_loops.unlink_while_possible(paths_of(tmp_path, "a"), 1_000) == 1_000


@pytest.mark.parametrize("module", [unlink_loops, PLAIN], ids=["compiled", "interpreted"])
def test_no_paths_are_no_work(module: ModuleType) -> None:
    assert module.unlink_while_possible(b"", 0) == 0


def test_the_interpreter_leaves_all_to_its_caller(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert PLAIN.unlink_while_possible(paths_of(tmp_path, "a"), 0) == 0
    assert (tmp_path / "a").exists()
