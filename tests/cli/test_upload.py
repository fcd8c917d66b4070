"""One content, one object key: a retry of `files commit` is not a second commit."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
