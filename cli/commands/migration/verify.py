"""`diskless migration verify`: a migrated topic is read whole, and compared with what its logs hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from cli.migration.classic_topic import CLIENT_ID, open_both, places
from cli.objects import NamedStore, named_store
from cli.options import output_option, timeout_option
from cli.output import print_rows, say

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.output import Row
    from cli.service import ServicePlace
    from coordinator.object_store import ObjectStore
    from migration.verify import PartitionProof

PROOF_COLUMNS = ("partition", "first_offset", "start_offset", "end_offset", "prefix_records", "suffix_records", "finding")
PROOFS_AT_ONCE: Final = 4


@click.command()
@click.argument("topic")
@places
@named_store
@timeout_option
@output_option
def verify(topic: str, service: ServicePlace, kafka: KafkaPlace, store: NamedStore, output: str) -> None:
    """Prove that readers of a migrated topic get every record once and in order, from Kafka below the start and diskless above.

    All of the topic is read, its classic part in two ways that are compared record by record. Status 5 when something is found, with
    the first finding of each partition; 4 when nothing is found but partitions could not be read. SECONDS of --timeout are for each wait.

    Example: `diskless migration verify orders --bootstrap-server localhost:9192 --config coordinator.properties`
    """
    from cli.outcome import Exit, Failed
    from cli.service import run

    proofs = run(_verify(topic, kafka, service, store.open()), f"reading {topic} in Kafka and in the object store")
    print_rows([_proof_row(one) for one in proofs], output, PROOF_COLUMNS)
    wrong, unread = [one for one in proofs if one.finding], [one for one in proofs if one.unread]
    left = f"; {len(unread)} could not be read: {unread[0].unread}" if unread else ""
    if wrong:
        raise Failed(
            f"{len(wrong)} of {len(proofs)} partitions of topic {topic} have findings; {wrong[0].name}: {wrong[0].finding}{left}",
            Exit.AUDIT,
        )
    if unread:
        raise Failed(f"topic {topic}, {len(proofs)} partitions{left}; verify again", Exit.UNAVAILABLE)
    records = sum(one.prefix_records + one.suffix_records for one in proofs)
    say(f"topic {topic}: all {records} records of {len(proofs)} partitions are read once and in order")


async def _verify(name: str, place: KafkaPlace, service: ServicePlace, store: ObjectStore) -> list[PartitionProof]:
    from confluent_kafka import KafkaException

    from cli.outcome import Exit, Failed
    from coordinator.client.errors import ServiceError
    from coordinator.object_store import StoreError
    from coordinator.printable import plain
    from migration.hybrid import HybridReader
    from migration.kafka.records import KafkaClassicRecords
    from migration.kafka.witness import KafkaClassicWitness
    from migration.plan import known_logs, known_topic, unmigrated
    from migration.verify import PartitionProof, prove

    async with open_both(name, place, service, is_confirmed=True, store=store) as (client, topic):
        facts = await topic.describe()
        known = await known_topic(client, name, facts.topic_id)
        logs = await known_logs(client, known)
        if left := unmigrated(logs, facts.partitions):
            raise Failed(f"topic {name} is not migrated: {left}; `diskless migration start` migrates it", Exit.NOT_FOUND)
        if not facts.is_shadow:
            say(f"topic {name}: its classic topic still takes records (max.message.bytes); finish with `diskless migration start {name}`")
        records = KafkaClassicRecords(
            name,
            bootstrap_servers=place.bootstrap_servers,
            client_id=CLIENT_ID,
            kafka_properties=place.properties,
            timeout_s=service.timeout_s,
        )
        reader, witness = HybridReader(client, facts.topic_id, records), KafkaClassicWitness(topic)
        slots = asyncio.Semaphore(PROOFS_AT_ONCE)

        async def proof(index: int) -> PartitionProof:
            partition = topic.partition(facts.topic_id, index)
            async with slots:
                try:
                    return await prove(client.admin, reader, witness, partition)
                except (ServiceError, StoreError, KafkaException) as error:
                    return PartitionProof(name=partition.name, partition=index, unread=plain(str(error)))

        return list(await asyncio.gather(*(proof(index) for index in range(len(logs)))))


def _proof_row(one: PartitionProof) -> Row:
    return {
        "partition": one.partition,
        "first_offset": one.first_offset,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
        "prefix_records": one.prefix_records,
        "suffix_records": one.suffix_records,
        "finding": one.finding or (f"could not be read: {one.unread}" if one.unread else None),
    }
