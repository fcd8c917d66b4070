"""The folder of a local object store is made by a starting node, or refused with the reason and the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinator.app.store_folder import StoreFolderError, prepare_store_folder
from coordinator.config.values import StoreUrl


def test_a_missing_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "objects"
    for _ in range(2):
        prepare_store_folder(StoreUrl.parse(f"file://{folder}"))
        assert folder.is_dir()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("x", encoding="utf-8")
    for path, why in ((tmp_path / "objects", "is a file, and a folder is needed"), (tmp_path / "objects" / "below", "cannot be made")):
        with pytest.raises(StoreFolderError, match=f"object.store.url=file:///.*{why}"):
            prepare_store_folder(StoreUrl.parse(f"file://{path}"))
    assert (tmp_path / "objects").read_text(encoding="utf-8") == "x"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests may run as root, who may do everything.
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    with pytest.raises(StoreFolderError, match=r"may not read and write .*; correct its owner and mode"):
        prepare_store_folder(StoreUrl.parse(f"file://{tmp_path}"))


def test_other_stores_are_left_alone() -> None:
    prepare_store_folder(StoreUrl.parse("s3://bucket/prefix"))
    prepare_store_folder(StoreUrl.parse("memory://"))
