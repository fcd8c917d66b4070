"""The two places of a migrated topic as commands reach them: the service, and the classic topic on its Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from cli.options import F, kafka_place, server_option
from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.service import ServicePlace
    from coordinator.client.client import DisklessClient
    from coordinator.object_store import ObjectStore
    from migration.kafka.topic import KafkaClassicTopic

CLIENT_ID: Final = "diskless-cli"


def places(function: F) -> F:
    """Add the options that say where the service and Kafka are."""
    return server_option(kafka_place("--kafka-bootstrap-server", has_topic=False)(function))


@asynccontextmanager
async def open_both(
    name: str, place: KafkaPlace, service: ServicePlace, *, is_confirmed: bool, keep_readers: bool = False, store: ObjectStore | None = None
) -> AsyncIterator[tuple[DisklessClient, KafkaClassicTopic]]:
    """Open the service and the classic topic. Raises `Failed` when one of them is not there, and for `MigrationRefused` inside."""
    from cli.kafka.cluster import kafka_errors
    from cli.service import open_client
    from coordinator.adapters.kafka.settings import KafkaPropertyRefused
    from migration.classic import ClassicTopicMissing, MigrationRefused
    from migration.kafka.topic import KafkaClassicTopic

    place.check()
    try:
        with kafka_errors():
            topic = KafkaClassicTopic(
                name,
                bootstrap_servers=place.bootstrap_servers,
                client_id=CLIENT_ID,
                kafka_properties=place.properties,
                is_fence_confirmed=is_confirmed,
                keep_readers=keep_readers,
                request_timeout_s=service.timeout_s,
            )
            async with open_client(service, object_store=store) as client:
                yield client, topic
    except KafkaPropertyRefused as error:
        raise Failed(str(error), Exit.USAGE) from error
    except ClassicTopicMissing as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except MigrationRefused as error:
        raise Failed(str(error)) from error
