"""A real S3 of a test's own: the Versity gateway over a folder."""

from __future__ import annotations

import os
import shutil
import socket
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import quote

import obstore
import pytest
from obstore.store import S3Store

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from coordinator.adapters.objectstore import open_store
from coordinator.object_store import ObjectStore
from integration_tests.waiting import wait_until

if TYPE_CHECKING:  # obstore has it in its type stubs only
    from obstore.store import S3Config

BUCKET = "objects"
ACCESS_KEY, SECRET_KEY = "reader", "a-secret-of-this-test"


def find_gateway() -> str:
    """Path of `versitygw`. Skips the test without it, or fails it where DISKLESS_TEST_S3=required."""
    path = shutil.which("versitygw")
    if path is None:
        text = "versitygw is not installed (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)"
        if os.environ.get("DISKLESS_TEST_S3") == "required":
            pytest.fail(text)
        pytest.skip(text)
    return path


class RealS3:
    """A gateway with one bucket. Use as a context manager."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        (self._port,) = lease_ports(1)
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        objects = self._folder / "objects"
        (objects / BUCKET).mkdir(parents=True)  # a bucket is a folder
        command = [self._program, "--port", f"127.0.0.1:{self._port.port}", "--quiet", "posix", str(objects)]
        environment = os.environ | {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        self._process = start_child(command, marker="versitygw", log=self._folder / "versitygw.log", environment=environment)
        wait_until(self._is_listening, "the S3 gateway to listen")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self._port.close()

    def open(self, path: str, *, secret_key: str = SECRET_KEY, request_timeout_ms: int = 20_000) -> ObjectStore:
        """Open the store below a path of the bucket."""
        return open_store(self.url(path), self.options(secret_key), request_timeout_ms=request_timeout_ms)

    @staticmethod
    def url(path: str) -> str:
        """The URL of the store below a path of the bucket."""
        return f"s3://{BUCKET}/{path}"

    def options(self, secret_key: str = SECRET_KEY) -> dict[str, str]:
        """The options of a store on this gateway, as `open_store` takes them."""
        return {
            "endpoint": f"http://127.0.0.1:{self._port.port}",
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY,
            "secret_access_key": secret_key,
            "virtual_hosted_style_request": "false",
        }

    def put_unusual(self, key: str, data: bytes) -> None:
        """Store an object of the bucket under a key that obstore refuses."""
        endpoint = f"{self.options()['endpoint']}/{BUCKET}/{quote(key)}?x-id="
        config = self.options() | {"endpoint": endpoint, "virtual_hosted_style_request": "true"}
        url = obstore.sign(
            S3Store(BUCKET, config=cast("S3Config", config), client_options={"allow_http": True}), "PUT", "x", timedelta(minutes=1)
        )
        with urllib.request.urlopen(urllib.request.Request(url, data=data, method="PUT"), timeout=20):
            pass

    def parts(self, key: str) -> int:
        """In how many parts an object of the bucket was put; 1 if it was put whole."""
        store = S3Store(BUCKET, config=cast("S3Config", self.options()), client_options={"allow_http": True})
        _, _, count = (obstore.head(store, key)["e_tag"] or "").strip('"').partition("-")
        return int(count or 1)

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port.port)) == 0
