"""Parts of files: one that a killed process has left goes with the next making, one that a process writes never does."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from records.durable import part_file, part_of, publish_new

MAKER = """
import sys, time
from pathlib import Path
from records.durable import part_file
with part_file(Path(sys.argv[1])) as part:
    print(part, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "made.db"


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def test_what_was_made_has_its_name_and_no_part_stays(target: Path) -> None:
    with part_file(target) as part:
        part.write_bytes(b"whole")
        assert names(target.parent) == {part.name}
        publish_new(part, target)
    assert target.read_bytes() == b"whole"
    with part_file(target) as part:
        part.write_bytes(b"another")
        part.replace(target)
    assert target.read_bytes() == b"another"
    with pytest.raises(KeyboardInterrupt), part_file(target):
        raise KeyboardInterrupt
    assert names(target.parent) == {target.name}


def test_a_part_goes_when_its_maker_was_killed_and_not_before(target: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", MAKER, str(target)], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        try:
            left = Path(maker.stdout.readline().strip())
            journal = left.with_name(f"{left.name}-journal")
            journal.touch()
            with part_file(target):
                assert {left.name, journal.name} <= names(target.parent)
        finally:
            maker.send_signal(signal.SIGKILL)
    assert {left.name, journal.name} == names(target.parent)
    with part_file(target) as part:
        assert names(target.parent) == {part.name}


def test_makers_at_once_take_no_part_of_each_other(target: Path) -> None:
    """Some leave theirs, as processes that are killed do."""

    def make(number: int) -> None:
        if number % 3 == 0:
            part_of(target).write_bytes(b"left")
            return
        with part_file(target) as part:
            part.write_bytes(b"%d" % number)
            assert part.read_bytes() == b"%d" % number
            part.replace(target)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(600)))
    with part_file(target):
        pass
    assert names(target.parent) == {target.name}


def put_file(path: Path) -> None:
    path.touch()


def put_folder(path: Path) -> None:
    path.mkdir()


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_link(path: Path) -> None:
    kept = path.with_name("kept")
    kept.touch()
    path.symlink_to(kept)


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("made.db.12-0123abcd.part", put_folder),
        ("made.db.12-0123abcd.part", put_pipe),
        ("made.db.12-0123abcd.part", put_link),
        ("other.db.12-0123abcd.part", put_file),
        ("made-db.12-0123abcd.part", put_file),
        ("made.db.12-0123abcd.parts", put_file),
        ("made.db.12-0123abcd.part.12-0123abcd.part", put_file),
        ("made.db.part", put_file),
        ("made.db.12-0123abc.part", put_file),
        ("made.db", put_file),
    ],
)
def test_what_is_no_part_of_the_file_stays(target: Path, name: str, put: object) -> None:
    assert callable(put)
    put(target.with_name(name))
    before = names(target.parent)
    with part_file(target):
        pass
    assert names(target.parent) == before


def test_without_locks_nothing_is_taken_for_left(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell there whether a process writes it."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with ExitStack() as stack:
        made = [stack.enter_context(part_file(target)) for _ in range(3)]
        assert names(target.parent) == {one.name for one in made}
    assert names(target.parent) == set()


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_part_has_the_mode_that_is_wanted(target: Path, mode: int) -> None:
    umask = os.umask(0o022)
    try:
        with part_file(target, mode) as part:
            assert part.stat().st_mode & 0o777 == mode & ~0o022
    finally:
        os.umask(umask)
