"""What programs import: every name from one place, with types, and one root of all errors."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import coordinator
import coordinator.client
import records
from coordinator.client import public
from coordinator.errors import DisklessError

NAMES = sorted(name for name in vars(public) if not name.startswith("_"))


def test_every_name_comes_from_one_place() -> None:
    assert {"Committer", "DisklessAdmin", "DisklessClient", "DisklessError", "LATEST", "Record", "open_store"} <= set(NAMES)
    assert [getattr(coordinator.client, name) for name in NAMES] == [getattr(public, name) for name in NAMES]
    for name in ("nothing", "_private"):
        with pytest.raises(AttributeError, match=name):
            getattr(coordinator.client, name)


def test_all_errors_have_one_root() -> None:
    errors = [one for one in vars(public).values() if isinstance(one, type) and issubclass(one, BaseException)]
    assert len(errors) > 20
    assert [one for one in errors if not issubclass(one, DisklessError)] == []


@pytest.mark.parametrize("module", ["coordinator.protocol.wire", "coordinator.object_store", "coordinator.client.records.record_lines"])
def test_errors_of_lower_floors_have_it_too(module: str) -> None:
    found = [one for one in vars(importlib.import_module(module)).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert found
    assert all(issubclass(one, DisklessError) for one in found)


def test_the_packages_say_that_they_have_types() -> None:
    for package in (coordinator, records):
        assert (Path(str(package.__file__)).parent / "py.typed").is_file()


def test_a_module_of_the_client_is_imported_without_the_others() -> None:
    others = "['numpy', 'obstore', 'coordinator.client.public']"
    code = f"import sys, coordinator.client.errors; print([one for one in {others} if one in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
