"""Formatting by hand: both files, the right owner, and ids Kafka's tools can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.dev.kafka.storage import StorageError, format_folder, random_kafka_uuid, read_meta


def test_a_formatted_folder_has_both_files(tmp_path: Path) -> None:
    format_folder(tmp_path / "d", cluster_id="c", node_id=2, checkpoint=b"levels")
    meta = read_meta(tmp_path / "d" / "meta.properties")
    assert {key: meta[key] for key in ("version", "cluster.id", "node.id")} == {"version": "1", "cluster.id": "c", "node.id": "2"}
    assert (tmp_path / "d" / "bootstrap.checkpoint").read_bytes() == b"levels"


def test_formatting_again_changes_nothing(tmp_path: Path) -> None:
    format_folder(tmp_path, cluster_id="c", node_id=1, checkpoint=b"levels")
    before = read_meta(tmp_path / "meta.properties")
    format_folder(tmp_path, cluster_id="c", node_id=1, checkpoint=b"other")
    assert read_meta(tmp_path / "meta.properties") == before
    assert (tmp_path / "bootstrap.checkpoint").read_bytes() == b"levels"


@pytest.mark.parametrize(("cluster_id", "node_id", "key"), [("other", 1, "cluster.id"), ("c", 2, "node.id")])
def test_the_folder_of_another_cluster_or_node_is_refused(cluster_id: str, node_id: int, key: str, tmp_path: Path) -> None:
    format_folder(tmp_path, cluster_id="c", node_id=1, checkpoint=b"levels")
    with pytest.raises(StorageError, match=key):
        format_folder(tmp_path, cluster_id=cluster_id, node_id=node_id, checkpoint=b"levels")


def test_ids_are_22_characters_and_never_look_like_an_option() -> None:
    ids = {random_kafka_uuid() for _ in range(2000)}
    assert len(ids) == 2000
    assert {len(one) for one in ids} == {22}
    assert not [one for one in ids if one.startswith("-")]
