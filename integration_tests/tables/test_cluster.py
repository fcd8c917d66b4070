"""Queries on a standalone cluster, whose workers have what the page tells to install and nothing else; and what one may read there."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.dev.kafka import Kafka
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.s3 import ACCESS_KEY, SECRET_KEY, RealS3
from integration_tests.secured_kafka import SecuredKafka, write_properties
from integration_tests.secured_service import PASSWORDS, SecuredService
from integration_tests.service import Service
from integration_tests.spark_cluster.cluster import SparkCluster
from integration_tests.spark_cluster.environment import make_environment
from integration_tests.tables.queries import batch, run_queries, stream
from integration_tests.topic_reader import ORDERS, READER, SECRETS, service_with_reader
from records.record_batch import Record

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

PREFIX = "tables"
WRONG_PASSWORD = "a password of nobody"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster whose workers have the credentials of the S3; drivers have none."""
    folder = tmp_path_factory.mktemp("cluster")
    python = make_environment(folder / "environment", "tables", "pyspark")
    credentials = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with SparkCluster(folder, python, workers_have=credentials) as made:
        yield made


@pytest.fixture(scope="module")
def node(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("node"), partitions=2) as made:
        yield made.start(1)


@pytest.fixture(scope="module")
def secured(secured_kafka: SecuredKafka, s3: RealS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredService]:
    store = {"object.store.url": s3.url(PREFIX)}
    store |= {f"object.store.option.{name.replace('_', '.')}": value for name, value in s3.options().items()}
    with service_with_reader(secured_kafka, tmp_path_factory.mktemp("nodes"), store=s3.open(PREFIX), properties=store) as made:
        yield made


def written(service: Service, topic: str, offsets: range) -> list[list[Any]]:
    """Write so many records to each of two partitions; returns them as rows."""

    async def write() -> None:
        async with DisklessClient(service.addresses, object_store=open_store(service.properties["object.store.url"])) as client:
            if not offsets.start:
                await client.admin.create_topic(topic, 2)
            for partition in (0, 1):
                for first in offsets[::20]:
                    values = range(first, min(first + 20, offsets.stop))
                    await client.write({(topic, partition): [Record(value=b"%d-%d" % (partition, number)) for number in values]})

    asyncio.run(write())
    return [[topic, partition, number, f"{partition}-{number}"] for partition in (0, 1) for number in offsets]


def rows_of(found: Mapping[str, Any]) -> Sequence[Any]:
    assert "error" not in found, found
    rows = found["rows"]
    assert isinstance(rows, list)
    return rows


def test_a_cluster_reads_in_batches_and_streams(
    cluster: SparkCluster, node: Service, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_name("orders")
    rows = written(node, topic, range(200))
    access = {
        "diskless.bootstrap.servers": node.addresses[0],
        "diskless.object.store.url": node.properties["object.store.url"],
        "subscribe": topic,
    }
    streaming = stream({**access, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "150"}, tmp_path)
    batches = [batch({**access, "maxRecordsPerPartition": "25", "splitBy": "partition"}), batch({**access, "splitBy": "objects"})]
    found, by_objects, streamed = run_queries(cluster, [*batches, streaming])
    assert rows_of(found) == rows
    assert rows_of(by_objects) == rows
    assert rows_of(streamed) == rows
    assert streamed["counts"] == [150, 150, 100]
    assert cluster.executors_of_tasks() == {"tables": {"0", "1"}}

    rows = sorted(rows + written(node, topic, range(200, 250)))
    [streamed] = run_queries(cluster, [streaming])
    assert rows_of(streamed) == rows
    assert streamed["counts"] == [100]


def test_a_principal_reads_its_topic_alone_and_no_secret_is_seen(
    cluster: SparkCluster, secured: SecuredService, s3: RealS3, tmp_path: Path
) -> None:
    shutil.copy(secured.ca.ca_file, tmp_path / "ca.crt")
    login = secured.login(READER, ssl_ca_location="ca.crt")
    shipped = [
        write_properties(tmp_path / "client.properties", login),
        write_properties(tmp_path / "wrong.properties", {**login, "sasl.password": WRONG_PASSWORD}),
        tmp_path / "ca.crt",
    ]
    access = {
        "diskless.bootstrap.servers": ",".join(secured.addresses),
        "diskless.object.store.url": s3.url(PREFIX),
        "diskless.config": "client.properties",
        "diskless.timeout": "20s",
        "startingOffsets": "earliest",
        **{
            f"diskless.object.store.option.{name.replace('_', '.')}": value
            for name, value in s3.options().items()
            if name not in ("access_key_id", "secret_access_key")
        },
    }
    found = run_queries(
        cluster,
        [
            batch({**access, "subscribe": ORDERS}),
            batch({**access, "subscribePattern": ".*"}),
            stream({**access, "subscribe": ORDERS}, tmp_path),
            batch({**access, "subscribe": SECRETS}),
            stream({**access, "subscribe": f"{ORDERS},{SECRETS}"}, tmp_path / "refused"),
            batch({**access, "subscribe": ORDERS, "diskless.config": "wrong.properties"}),
        ],
        conf={"spark.files": ",".join(map(str, shipped))},
    )
    allowed, refused, without_login = found[:3], found[3:5], found[5]
    for one in allowed:
        assert rows_of(one) == [[ORDERS, partition, 0, ORDERS] for partition in (0, 1)]
    for one in refused:
        assert f"User:{READER} may not do DESCRIBE_TOPICS on topic {SECRETS}, which needs DESCRIBE on it" in one["error"]
    assert "the server refused the login" in without_login["error"]

    assert "diskless" in found[0]["plan"]
    assert cluster.files_with("diskless"), "plans are in the event logs"
    for secret in (SECRET_KEY, PASSWORDS[READER], WRONG_PASSWORD):
        assert secret not in json.dumps(found)
        assert cluster.files_with(secret) == []
