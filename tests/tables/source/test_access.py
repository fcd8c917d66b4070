"""How a query reaches nodes and store: by options, by a file on the machine that uses it, and never by secrets in the plan."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark import SparkFiles

from tables.source.access import open_client, open_objects, properties_of
from tables.source.options import SourceOptionError, parse_options
from tests.tables.source.given import chosen


def test_what_a_file_holds_is_used_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=kafka\nsasl.password=of-kafka\nnode.sasl.username=node\n"
        "node.sasl.password=of-node\nobject.store.option.access.key.id=key-7\nobject.store.option.secret.access.key=secret-7\n"
        "object.store.option.region=somewhere\n",
        encoding="utf-8",
    )
    options = parse_options(chosen({"diskless.config": str(file)}))
    assert [secret for secret in ("of-kafka", "of-node", "key-7", "secret-7") if secret in repr(options)] == []
    assert properties_of(options.access)["sasl.password"] == "of-kafka"
    assert open_objects(options.access).location == "s3://bucket/diskless"
    asyncio.run(open_client(options.access).close())


@pytest.mark.parametrize("folder", ["session", "."], ids=["an-executor", "the-driver"])
def test_a_file_without_a_folder_is_one_of_sparks_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Spark tells the folder of the session everywhere; the driver has files in the folder above."""
    (tmp_path / "session").mkdir()
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path / "session"))
    (tmp_path / folder / "client.properties").write_text("sasl.password=shipped\nssl.ca.location=ca.crt\n", encoding="utf-8")
    (tmp_path / folder / "ca.crt").touch()
    found = properties_of(parse_options(chosen({"diskless.config": "client.properties"})).access)
    assert found["sasl.password"] == "shipped"
    assert Path(found["ssl.ca.location"]).samefile(tmp_path / folder / "ca.crt")
    with pytest.raises(SourceOptionError, match=r"other\.properties.*on the driver and on every executor"):
        properties_of(parse_options(chosen({"diskless.config": "other.properties"})).access)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"diskless.config": "/nowhere/client.properties"}, "'diskless.config': cannot read .*on the driver and on every executor"),
        ({"diskless.security.protocol": "SECRET"}, "Connections to nodes: security.protocol SECRET is not known"),
        ({"diskless.security.protocol": "SSL", "diskless.ssl.ca.location": "/nowhere/ca"}, "/nowhere/ca: No such file"),
        ({"diskless.bootstrap.servers": "node-1"}, "'diskless.bootstrap.servers': "),
    ],
)
def test_access_that_cannot_work_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(SourceOptionError, match=said):
        open_client(parse_options(chosen(given)).access)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("orders", "'diskless.object.store.url' must be a URL that starts with"),
        ("memory://", "must be a store that driver and executors share"),
        ("file:///nowhere/at/all", "does not exist"),
    ],
)
def test_a_store_that_cannot_be_read_is_named(url: str, said: str) -> None:
    with pytest.raises(SourceOptionError, match=said):
        open_objects(parse_options(chosen({"diskless.object.store.url": url})).access)
