"""meta.properties: generated when missing, verified otherwise, and nothing written when anything is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.config.directories import (
    META_PROPERTIES,
    DirectoryError,
    MetaProperties,
    OpenedDirectories,
    format_directories,
    format_meta_properties,
    lock_directory,
    open_directories,
    parse_meta_properties,
    random_directory_id,
    read_meta_properties,
)
from coordinator.kafka.directory_ids import LOST, MIGRATING, UNASSIGNED, directory_id_text, is_online, is_reserved, parse_directory_id

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def write_meta(path: Path, **changes: str) -> None:
    path.mkdir(exist_ok=True)
    values = {"version": "1", "cluster_id": CLUSTER, "node_id": "1"} | changes
    (path / META_PROPERTIES).write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in values.items()))


def open_and_unlock(*paths: Path) -> OpenedDirectories:
    opened = open_directories(paths, cluster_id=CLUSTER, node_id=1)
    opened.unlock()
    return opened


def test_missing_directories_are_created_and_reopened_with_the_same_ids(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    opened = open_and_unlock(*paths)
    assert [one.path for one in opened.online] == paths
    assert opened.online[0].directory_id != opened.online[1].directory_id
    assert open_and_unlock(*paths) == opened
    assert (paths[0] / META_PROPERTIES).read_text().startswith(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id=")


def test_missing_directory_id_is_generated_and_unknown_keys_stay(tmp_path: Path) -> None:
    write_meta(tmp_path / "a", note="kept")
    opened = open_and_unlock(tmp_path / "a")
    meta = read_meta_properties(tmp_path / "a")
    assert meta == MetaProperties(cluster_id=CLUSTER, node_id=1, directory_id=opened.online[0].directory_id, other={"note": "kept"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster_id": "other"}, "belongs to cluster other"),
        ({"node_id": "2"}, "belongs to node.id 2, this is node.id 1"),
        ({"node_id": "x"}, "node.id=x, which is no number"),
        ({"version": "0"}, "version=0, only version=1"),
        ({"directory_id": directory_id_text(LOST)}, "reserved by Kafka"),
        ({"directory_id": "short"}, "22 characters"),
        ({"directory_id": "-" + "A" * 20 + "Q"}, "does not start with '-'"),
    ],
)
def test_foreign_or_broken_directory_is_refused_by_path(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    write_meta(tmp_path / "bad", **changes)
    with pytest.raises(DirectoryError) as caught:
        open_directories([tmp_path / "good", tmp_path / "bad"], cluster_id=CLUSTER, node_id=1)
    assert message in str(caught.value)
    assert str(tmp_path / "bad") in str(caught.value)
    assert not any((tmp_path / "good").iterdir()), "nothing is written when anything is wrong"


def test_missing_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"meta lacks cluster\.id, node\.id"):
        parse_meta_properties("version=1\n", "meta")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_bytes(b"version=1\n\xff")
    with pytest.raises(DirectoryError, match=f"{tmp_path / META_PROPERTIES} is no UTF-8 text.*: restore the file"):
        open_directories([tmp_path], cluster_id=CLUSTER, node_id=1)


def test_copied_directory_is_refused_with_both_paths(tmp_path: Path) -> None:
    same = directory_id_text(random_directory_id())
    write_meta(tmp_path / "a", directory_id=same)
    write_meta(tmp_path / "b", directory_id=same)
    with pytest.raises(DirectoryError, match=rf"{tmp_path}/a and {tmp_path}/b have the same directory\.id {same}"):
        open_directories([tmp_path / "a", tmp_path / "b"], cluster_id=CLUSTER, node_id=1)


def test_unusable_directory_is_offline_while_another_is_online(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    opened = open_and_unlock(tmp_path / "file", tmp_path / "a")
    assert [one.path for one in opened.online] == [tmp_path / "a"]
    assert [one.path for one in opened.offline] == [tmp_path / "file"]
    with pytest.raises(DirectoryError, match=f"{tmp_path}/file is unusable"):
        open_directories([tmp_path / "file"], cluster_id=CLUSTER, node_id=1)


def test_format_refuses_a_formatted_directory_unless_told_otherwise(tmp_path: Path) -> None:
    first = format_directories([tmp_path / "a"], cluster_id=CLUSTER, node_id=1)
    with pytest.raises(DirectoryError, match="formatted already"):
        format_directories([tmp_path / "b", tmp_path / "a"], cluster_id=CLUSTER, node_id=1)
    assert not (tmp_path / "b" / META_PROPERTIES).exists()
    assert format_directories([tmp_path / "a"], cluster_id=CLUSTER, node_id=1, ignore_formatted=True) == first


def test_format_needs_every_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DirectoryError, match=f"{tmp_path}/file is unusable"):
        format_directories([tmp_path / "file", tmp_path / "a"], cluster_id=CLUSTER, node_id=1)
    assert not (tmp_path / "a" / META_PROPERTIES).exists()


def test_directory_has_one_user(tmp_path: Path) -> None:
    opened = open_directories([tmp_path / "a"], cluster_id=CLUSTER, node_id=1)
    with pytest.raises(DirectoryError, match=f"{tmp_path}/a is in use by another process"):
        open_directories([tmp_path / "b", tmp_path / "a"], cluster_id=CLUSTER, node_id=1)
    assert not (tmp_path / "b" / META_PROPERTIES).exists()
    lock_directory(tmp_path / "b").close()  # no lock is left by the one that was refused
    opened.unlock()
    open_and_unlock(tmp_path / "a")


def test_random_ids_avoid_reserved_values_and_dashes() -> None:
    draws = iter([b"\xfb" + bytes(15), b"\xff" * 16])  # the first one would start with '-' ('+' in plain base64)
    drawn = random_directory_id(lambda _size: next(draws))
    assert directory_id_text(drawn) == "________T_-__________w"
    assert next(draws, None) is None
    assert all(map(is_reserved, (MIGRATING, UNASSIGNED, LOST, bytes(15) + b"\x63")))
    assert not is_reserved(bytes(15) + b"\x64")


@given(
    st.binary(min_size=16, max_size=16),
    st.dictionaries(st.from_regex(r"[a-z]{1,5}\.x", fullmatch=True), st.from_regex(r"[a-z\\]*", fullmatch=True)),
)
def test_meta_properties_round_trip(raw: bytes, other: dict[str, str]) -> None:
    drawn = iter([raw])
    try:
        directory_id: bytes | None = random_directory_id(lambda _size: next(drawn))
    except StopIteration:
        directory_id = None
    meta = MetaProperties(cluster_id=CLUSTER, node_id=7, directory_id=directory_id, other=other)
    assert parse_meta_properties(format_meta_properties(meta), "x") == meta
    if directory_id is not None:
        assert parse_directory_id(directory_id_text(directory_id)) == directory_id


@pytest.mark.parametrize(
    ("directory_id", "online"),
    [(UNASSIGNED, True), (MIGRATING, True), (LOST, False), (b"1" * 16, True), (b"3" * 16, False)],
)
def test_a_replica_is_online_where_its_node_has_its_directory_online(directory_id: bytes, online: bool) -> None:
    assert is_online(directory_id, [b"1" * 16, b"2" * 16]) is online
