"""`diskless snapshots verify` on files: a good one is described, one bit or one lost byte makes it a bad one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.looks.snapshot_file import prove_file
from cli.looks.snapshots import SnapshotFacts
from cli.main import root
from cli.outcome import Exit, Failed
from coordinator.adapters.sqlite import StateDatabase, StateDatabases
from coordinator.protocol.messages import DescribeSnapshotsSnapshot
from records.snapshot import SnapshotFile, write_snapshot
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID
from tests.sqlite.small_records import file, started


@pytest.fixture
def snapshot(tmp_path: Path) -> SnapshotFile:
    """A snapshot of two files with 78 batches."""
    data = tmp_path / "data"
    data.mkdir()
    stores = StateDatabases(data, boot_id="boot")
    replica = started(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID), partitions=2)
    replica.apply([file("a", {0: 70, 1: 3})], 1)
    replica.apply([file("b", {0: 5}, base=70)], 2)
    replica.flush()
    store = replica.store
    assert isinstance(store, StateDatabase)
    pinned = store.pin()
    try:
        return write_snapshot(tmp_path, pinned.head, pinned.tables(), log_timestamp_ms=0, rest=lambda: None)
    finally:
        pinned.close()
        store.close(clean=True)


def verify(path: Path) -> Result:
    result = CliRunner().invoke(root, ["snapshots", "verify", str(path), "-o", "json"], prog_name="diskless")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def committed(found: SnapshotFile, **changed: object) -> SnapshotFacts:
    proven = prove_file(found.path, None)
    told = {
        "mark_offset": 2,
        "end_offset": proven.head.end_offset,
        "epoch": proven.head.epoch,
        "size_bytes": found.size_bytes,
        "sha256": found.sha256,
        "digest": proven.head.digest,
        "location": "there",
        "is_verified": False,
        "is_local": False,
        **changed,
    }
    return SnapshotFacts(
        coordinator_id=PARTITION,
        snapshot=DescribeSnapshotsSnapshot(**told),  # type: ignore[arg-type]
        verified_by=[],
        local_on=[],
        cluster_id=CLUSTER_ID,
        topic_id=TOPIC_ID,
    )


def test_a_good_file_is_described(snapshot: SnapshotFile) -> None:
    result = verify(snapshot.path)
    assert result.exit_code == Exit.OK, result.stderr
    found = json.loads(result.stdout)
    assert (found["good"], found["coordinator"], found["end_offset"]) == (True, PARTITION, 3)
    assert (found["files"], found["live_batches"]) == (2, 78)
    assert (found["size"], found["sha256"]) == (snapshot.size_bytes, snapshot.sha256.hex())


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_one_flipped_bit_makes_it_bad(snapshot: SnapshotFile, share: float) -> None:
    data = bytearray(snapshot.path.read_bytes())
    data[int(share * len(data))] ^= 1
    snapshot.path.write_bytes(data)
    result = verify(snapshot.path)
    assert result.exit_code == Exit.FAILURE
    assert "is no good snapshot" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("kept", [0, 1, 60, -1])
def test_a_cut_file_is_bad(snapshot: SnapshotFile, kept: int) -> None:
    snapshot.path.write_bytes(snapshot.path.read_bytes()[:kept])
    result = verify(snapshot.path)
    assert result.exit_code == Exit.FAILURE
    assert "is no good snapshot" in result.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert verify(tmp_path / "nowhere.checkpoint").exit_code == Exit.NOT_FOUND


def test_it_is_compared_with_the_record_of_the_log(snapshot: SnapshotFile) -> None:
    assert prove_file(snapshot.path, committed(snapshot)).head.end_offset == 3
    for changed, what in [
        ({"size_bytes": 1}, "its size is"),
        ({"sha256": bytes(32)}, "its SHA-256 is"),
        ({"end_offset": 9}, "its end offset is 3; the log says 9"),
        ({"epoch": 77}, "its epoch is"),
        ({"digest": bytes(16)}, "its digest is"),
    ]:
        with pytest.raises(Failed, match=what):
            prove_file(snapshot.path, committed(snapshot, **changed))


@pytest.mark.parametrize("words", [(), ("x.checkpoint", "--coordinator", "0"), ("--coordinator", "0")])
def test_what_is_proven_must_be_named(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISKLESS_BOOTSTRAP_SERVER", raising=False)
    result = CliRunner().invoke(root, ["snapshots", "verify", *words], prog_name="diskless")
    assert result.exit_code == Exit.USAGE


def test_pruning_is_never_forced() -> None:
    result = CliRunner().invoke(root, ["log", "prune", "--bootstrap-server", "127.0.0.1:1"], prog_name="diskless")
    assert result.exit_code == Exit.USAGE
    assert "leaders prune by themselves" in result.stderr
