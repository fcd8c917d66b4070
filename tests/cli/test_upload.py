"""One content, one object key: a retry of `files commit` is not a second commit."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from cli.outcome import Exit, Failed
from cli.upload import choose_key, record_path
from coordinator.kafka.object_key import created_ms_of_key
from coordinator.object_store import is_key

NOW_MS = 1_700_000_000_000


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    path = tmp_path / "a.wal"
    path.write_bytes(b"content")
    return path


def test_a_file_keeps_its_key(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    again = choose_key(wal, now_ms=NOW_MS + 60_000)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.object_key == again.object_key
    assert first.object_key.startswith("wal/")
    assert created_ms_of_key(first.object_key) == NOW_MS


def test_a_changed_file_gets_a_new_key_and_keeps_that(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    wal.write_bytes(b"other content")
    second = choose_key(wal, now_ms=NOW_MS)
    assert second.object_key != first.object_key
    assert choose_key(wal, now_ms=NOW_MS).object_key == second.object_key


def test_a_new_key_can_be_asked_for(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    second = choose_key(wal, now_ms=NOW_MS, renew=True)
    assert second.object_key != first.object_key
    assert choose_key(wal, now_ms=NOW_MS).object_key == second.object_key


def test_processes_that_start_together_agree_on_one_key(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(8) as pool:
        pids = iter(range(10_000, 20_000))  # threads stand for processes, which have different pids
        monkeypatch.setattr("cli.upload.os.getpid", lambda: next(pids))
        keys = {record.object_key for record in pool.map(lambda _: choose_key(wal, now_ms=NOW_MS), range(40))}
    assert len(keys) == 1
    assert sorted(path.name for path in wal.parent.iterdir()) == ["a.wal", "a.wal.commit.json"]


CHOOSE = """
import sys
from pathlib import Path
from cli.upload import choose_key
print("ready", flush=True)
sys.stdin.readline()
print(choose_key(Path(sys.argv[1]), now_ms=int(sys.argv[2])).object_key)
"""


@pytest.mark.parametrize("record", ["of an older content", "of an illegal key"])
def test_processes_that_find_a_record_to_replace_agree_on_one_key(wal: Path, record: str) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    if record == "of an older content":
        wal.write_bytes(b"other content" * 100_000)
    else:
        record_path(wal).write_text(json.dumps({"object_key": "/abs/01", "sha256": first.sha256}))
    with ExitStack() as stack:
        words = [sys.executable, "-c", CHOOSE, str(wal), str(NOW_MS)]
        processes = [stack.enter_context(Popen(words, stdin=PIPE, stdout=PIPE, text=True)) for _ in range(4)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:  # all have loaded what they need, so they choose together
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        keys = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert keys == {choose_key(wal, now_ms=NOW_MS + 1).object_key}
    assert keys != {first.object_key}
    assert sorted(path.name for path in wal.parent.iterdir()) == ["a.wal", "a.wal.commit.json"]


def test_threads_that_find_a_changed_file_agree_on_one_key(wal: Path) -> None:
    for content in range(20):
        wal.write_bytes(b"content %d" % content)
        with ThreadPoolExecutor(8) as pool:
            chosen = list(pool.map(lambda _: choose_key(wal, now_ms=NOW_MS), range(8)))
        assert len({one.object_key for one in chosen}) == 1
        assert [one.is_new for one in chosen].count(True) == 1


def test_a_folder_that_another_process_keeps_locked_is_named(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    wal.write_bytes(b"other content")
    descriptor = os.open(wal.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(Failed, match=f"another process has locked the folder {wal.parent} for more than") as refused:
            choose_key(wal, now_ms=NOW_MS, lock_wait_s=0.05)
    finally:
        os.close(descriptor)
    assert refused.value.status is Exit.UNAVAILABLE
    assert choose_key(wal, now_ms=NOW_MS).object_key != first.object_key


def test_a_damaged_record_is_an_error_not_a_new_key(wal: Path) -> None:
    record_path(wal).write_text("{")
    with pytest.raises(Failed, match="not the record of an upload"):
        choose_key(wal, now_ms=NOW_MS)


WRONG_PREFIXES = ["../x/", "/abs/", "a//b/", "./", "x" * 1100 + "/", "a\n/", "foo"]


@pytest.mark.parametrize("prefix", WRONG_PREFIXES)
def test_a_wrong_prefix_is_named_and_spoils_nothing(wal: Path, prefix: str) -> None:
    with pytest.raises(Failed, match=r"^--key-prefix: .* must .*; pass another one, such as wal/$") as refused:
        choose_key(wal, now_ms=NOW_MS, prefix=prefix)
    assert refused.value.status is Exit.USAGE
    assert not record_path(wal).exists()
    assert choose_key(wal, now_ms=NOW_MS, prefix="x/").object_key.startswith("x/")


def test_a_wrong_prefix_leaves_the_record_of_an_upload(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    with pytest.raises(Failed, match="--key-prefix"):
        choose_key(wal, now_ms=NOW_MS, prefix="/abs/", renew=True)
    assert choose_key(wal, now_ms=NOW_MS).object_key == first.object_key


def test_a_record_of_an_illegal_key_is_replaced(wal: Path) -> None:
    first = choose_key(wal, now_ms=NOW_MS)
    for key in ("../x/01", "/abs/01", "x" * 1100, ""):
        record_path(wal).write_text(json.dumps({"object_key": key, "sha256": first.sha256}))
        again = choose_key(wal, now_ms=NOW_MS)
        assert (again.is_new, is_key(again.object_key)) == (True, True)
        assert choose_key(wal, now_ms=NOW_MS).object_key == again.object_key
