"""What commands take from a settings file about the object store."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from cli.objects import open_object_store, wal_prefix
from coordinator.object_store import StoreUnavailable

SETTINGS = "node.id=1\nbootstrap.servers=localhost:9092\ndata.dirs=/tmp/x\nobject.store.url=s3://bucket\n"


def settings_file(folder: Path, *lines: str) -> Path:
    file = folder / "coordinator.properties"
    file.write_text(SETTINGS + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file


def test_keys_begin_as_the_settings_say(tmp_path: Path) -> None:
    assert wal_prefix(None) == "wal/"
    assert wal_prefix(settings_file(tmp_path)) == "wal/"
    assert wal_prefix(settings_file(tmp_path, "object.store.wal.prefix=team/wal/")) == "team/wal/"


async def test_requests_to_the_store_end_after_the_time_of_the_settings(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        options = (endpoint, "allow.http=true", "region=x", "access.key.id=x", "secret.access.key=x")
        given = [f"object.store.option.{option}" for option in options]
        store = open_object_store(None, [], settings_file(tmp_path, "object.store.request.timeout.ms=200", *given))
        async with asyncio.timeout(25):  # the default is 30 s
            with pytest.raises(StoreUnavailable):
                await store.get("wal/a")
