"""`diskless storage`: directories are prepared as a whole or not at all, and shown without a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from coordinator.config.directories import META_PROPERTIES
from coordinator.kafka.directory_ids import parse_directory_id

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def config(folder: Path, *names: str, node_id: int = 1) -> str:
    """A configuration with data directories of these names in the folder."""
    file = folder / "node.properties"
    dirs = ",".join(str(folder / name) for name in names)
    file.write_text(f"node.id={node_id}\nbootstrap.servers=127.0.0.1:1\ndata.dirs={dirs}\nobject.store.url=memory://\n")
    return str(file)


def storage(*words: str) -> Result:
    return CliRunner().invoke(root, ["storage", *words])


def test_formatted_directories_are_shown(tmp_path: Path) -> None:
    file = config(tmp_path, "one", "two")
    formatted = storage("format", "--cluster-id", CLUSTER, "--config", file, "-o", "json")
    assert formatted.exit_code == 0
    rows = json.loads(formatted.stdout)
    shown = storage("info", "--config", file, "-o", "json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert [(one["path"], one["state"], one["cluster_id"], one["node_id"]) for one in found] == [
        (str(tmp_path / name), "formatted", CLUSTER, 1) for name in ("one", "two")
    ]
    assert [one["directory_id"] for one in found] == [one["directory_id"] for one in rows]
    assert all(one["total"] > one["free"] > 0 for one in found)


def test_directories_that_are_formatted_are_kept_only_when_that_is_wanted(tmp_path: Path) -> None:
    file = config(tmp_path, "one", "two")
    storage("format", "-t", CLUSTER, "--config", config(tmp_path, "one"))
    before = (tmp_path / "one" / META_PROPERTIES).read_text()
    again = storage("format", "-t", CLUSTER, "--config", config(tmp_path, "one", "two"))
    assert (again.exit_code, "is formatted already" in again.stderr) == (1, True)
    assert not (tmp_path / "two" / META_PROPERTIES).exists()
    kept = storage("format", "-t", CLUSTER, "--ignore-formatted", "--config", file)
    assert kept.exit_code == 0
    assert (tmp_path / "one" / META_PROPERTIES).read_text() == before
    assert (tmp_path / "two" / META_PROPERTIES).exists()


def test_info_changes_nothing_and_a_directory_that_is_not_formatted_is_no_problem(tmp_path: Path) -> None:
    file = config(tmp_path, "one", "two")
    (tmp_path / "one").mkdir()
    shown = storage("info", "--config", file, "-o", "json")
    assert shown.exit_code == 0
    assert [one["state"] for one in json.loads(shown.stdout)] == ["not formatted"] * 2
    assert list((tmp_path / "one").iterdir()) == []
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"version=1\ncluster.id=another\nnode.id=1\ndirectory.id={'B' * 21}A\n", "directories of one node belong to one cluster"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=2\n", "belongs to node.id 2, this is node.id 1"),
        ("version=7\ncluster.id=c\nnode.id=1\n", "only version=1 is known"),
        (f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={'A' * 22}\n", "reserved by Kafka"),
    ],
)
def test_info_names_what_a_start_would_refuse(tmp_path: Path, content: str, says: str) -> None:
    storage("format", "-t", CLUSTER, "--config", config(tmp_path, "one"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / META_PROPERTIES).write_text(content)
    shown = storage("info", "--config", config(tmp_path, "one", "two"))
    assert shown.exit_code == 1
    assert says in shown.stderr


def test_info_names_a_copied_directory(tmp_path: Path) -> None:
    storage("format", "-t", CLUSTER, "--config", config(tmp_path, "one"))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / META_PROPERTIES).write_text((tmp_path / "one" / META_PROPERTIES).read_text())
    shown = storage("info", "--config", config(tmp_path, "one", "two"))
    assert shown.exit_code == 1
    assert "have the same directory.id" in shown.stderr


@pytest.mark.parametrize("cluster_id", ["", "a b", "x" * 250, "c\nnode.id=7"])
def test_what_is_no_cluster_id_is_refused_before_anything_is_written(tmp_path: Path, cluster_id: str) -> None:
    refused = storage("format", "-t", cluster_id, "--config", config(tmp_path, "one"))
    assert refused.exit_code == 2
    assert not (tmp_path / "one").exists()


def test_a_random_uuid_can_be_a_directory_id() -> None:
    drawn = [storage("random-uuid").stdout.strip() for _ in range(3)]
    assert len({parse_directory_id(one) for one in drawn}) == 3
