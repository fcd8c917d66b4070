"""A principal with READ on one topic, by Kafka's own ACLs: it reads that topic and no other, by client, commands, Spark and export."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from cli.main import root
from cli.outcome import Exit
from cli.spark.batch import batch_session
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotAuthorized
from coordinator.client.model import FetchFrom, PartitionId
from coordinator.kafka.timestamps import LATEST
from integration_tests.secured_kafka import SecuredKafka, write_properties
from integration_tests.secured_service import SecuredService
from integration_tests.topic_reader import ORDERS, READ_ORDERS, READER, SECRETS, service_with_reader
from integration_tests.waiting import WAIT_S
from records.record_batch import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REFUSED = rf"User:{READER} may not do DESCRIBE_TOPICS on topic {SECRETS}, which needs DESCRIBE on it"


@pytest.fixture(scope="module")
def service(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredService]:
    with service_with_reader(secured_kafka, tmp_path_factory.mktemp("nodes"), nodes=2) as made:
        yield made


def client(service: SecuredService, user: str) -> DisklessClient:
    store = open_store(service.properties["object.store.url"])
    return DisklessClient(service.addresses, object_store=store, security=service.client(user))


def command(service: SecuredService, *words: str) -> Result:
    file = write_properties(service.certificates / "reader.properties", service.login(READER))
    where = ("--bootstrap-server", ",".join(service.addresses), "--command-config", str(file), "--timeout", "20")
    return CliRunner().invoke(root, [*words, *where])


async def test_the_client_reads_the_topic_and_is_refused_others(service: SecuredService) -> None:
    async with client(service, "admin") as admin:
        secret_id = (await admin.describe_topic(SECRETS)).topic_id
    async with asyncio.timeout(WAIT_S), client(service, READER) as reader:
        assert [one.value async for one in reader.read(ORDERS)] == [b"orders"] * 2
        assert [one.name for one in await reader.describe_topics()] == [ORDERS]
        assert [one.name for one in await reader.admin.list_topics()] == [ORDERS]
        for topic in (SECRETS, "not-there", secret_id, bytes([7]) * 16):
            with pytest.raises(NotAuthorized, match=r"User:viewer may not do DESCRIBE_TOPICS on topic .*, which needs DESCRIBE on it"):
                await anext(reader.read(topic))
        mine, other = PartitionId((await reader.describe_topic(ORDERS)).topic_id, 0), PartitionId(secret_id, 0)
        ends = await reader.list_offsets([(mine, LATEST), (other, LATEST)])
        assert ends[0].offset == 1
        with pytest.raises(NotAuthorized):
            ends[1].raise_for_error()
        found = await reader.find_batches([FetchFrom(other, 0), FetchFrom(mine, 0)])
        assert len(found[1].batches) == 1
        with pytest.raises(NotAuthorized):
            found[0].raise_for_error()
        with pytest.raises(NotAuthorized):
            await reader.write({(ORDERS, 0): [Record(value=b"mine")]})
        with pytest.raises(NotAuthorized, match="CREATE_PARTITIONS, which needs CLUSTER_ACTION on the cluster"):
            await reader.admin.create_topic("mine", 1)


def test_commands_read_the_topic_and_are_refused_others(service: SecuredService) -> None:
    store = ("--object-store-url", service.properties["object.store.url"])
    fetched = command(service, "batches", "find", ORDERS, "0", "--fetch", *store)
    assert fetched.exit_code == 0, fetched.stderr
    assert '"value": "orders"' in fetched.stdout
    for topic in (SECRETS, "not-there"):
        refused = command(service, "batches", "find", topic, "0", "--fetch", *store)
        assert refused.exit_code != 0
        assert f"User:viewer may not do DESCRIBE_TOPICS on topic {topic}, which needs DESCRIBE on it" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_an_export_takes_the_topic_and_is_refused_others(service: SecuredService, tmp_path: Path) -> None:
    store = ("--once", "--object-store-url", service.properties["object.store.url"])
    for verb, more in (("export", store), ("status", ())):
        done = command(service, "tables", verb, ORDERS, "--to", f"delta:{tmp_path}/orders", *more)
        assert done.exit_code == Exit.OK, done.stderr
    assert DeltaTable(tmp_path / "orders").to_pyarrow_table().column("value").to_pylist() == [b"orders"] * 2
    refused = command(service, "tables", "export", SECRETS, "--to", f"delta:{tmp_path}/secrets", *store)
    assert refused.exit_code == Exit.FAILURE
    assert REFUSED in refused.stderr
    assert not (tmp_path / "secrets").exists()


def test_spark_reads_the_topic_and_is_refused_others(service: SecuredService, tmp_path: Path) -> None:
    """In batches and streams; the password is in no plan."""
    login = service.login(READER)
    access = {
        "diskless.bootstrap.servers": ",".join(service.addresses),
        "diskless.object.store.url": service.properties["object.store.url"],
        "diskless.config": str(write_properties(tmp_path / "reader.properties", login)),
        "startingOffsets": "earliest",
    }
    with batch_session("readers", None, ()) as spark:

        def streamed(**choice: str) -> Sequence[bytes]:
            frame = spark.readStream.format("diskless").options(**access, **choice).load()
            query = frame.writeStream.format("memory").queryName("read").trigger(availableNow=True).start()
            assert query.awaitTermination(120)
            return values(spark.table("read"))

        def values(frame: DataFrame) -> Sequence[bytes]:
            return [bytes(row.value) for row in frame.collect()]

        def read(**choice: str) -> DataFrame:
            return spark.read.format("diskless").options(**access, **choice).load()

        for mine in ({"subscribe": ORDERS}, {"subscribePattern": ".*"}):
            assert values(read(**mine)) == [b"orders"] * 2
        assert streamed(subscribe=ORDERS) == [b"orders"] * 2
        with pytest.raises(Exception, match=REFUSED):
            values(read(subscribe=SECRETS))
        with pytest.raises(Exception, match=REFUSED):
            streamed(subscribe=f"{ORDERS},{SECRETS}")
        plan = io.StringIO()
        with redirect_stdout(plan):
            read(subscribe=ORDERS).explain(extended=True)
        assert "diskless" in plan.getvalue()
        assert login["sasl.password"] not in plan.getvalue()


async def test_a_reader_that_follows_ends_when_the_right_is_taken_away(service: SecuredService, secured_kafka: SecuredKafka) -> None:
    """The last test of this service: afterwards its reader may do nothing."""
    async with asyncio.timeout(WAIT_S), client(service, READER) as reader, client(service, "admin") as admin:
        records = reader.read(ORDERS, 0, follow=True)
        assert (await anext(records)).value == b"orders"
        coming = asyncio.ensure_future(anext(records))
        await admin.write({(ORDERS, 0): [Record(value=b"more")]})
        assert (await coming).value == b"more"
        coming = asyncio.ensure_future(anext(records))
        await asyncio.to_thread(secured_kafka.forbid, READER, [READ_ORDERS])
        with pytest.raises(NotAuthorized, match="READ on the topic; ask an operator to allow it"):
            await coming
