"""Kafka as commands reach it: which cluster, which client properties, and its errors as `Failed`.

The cluster comes from `--bootstrap-server`, else from the settings file; client properties from `--command-config`,
then `--command-property`, on top of the file's `kafka.*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.configuration import read_service_settings
from cli.node_security import read_client_properties, without_nodes
from cli.options import KAFKA_VARIABLE
from cli.outcome import Exit, Failed
from cli.progress import doing
from coordinator.config import KEYS, Settings
from coordinator.config.values import OutOfBounds

if TYPE_CHECKING:
    from coordinator.adapters.kafka.cluster import KafkaAdmin

# Java clients and librdkafka share a properties file as long as it has no keys of the one that the other refuses.
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPlace:
    """A Kafka cluster and the metadata topic on it. `settings` are those of the file, where one was given."""

    bootstrap_servers: str
    topic: str
    properties: Mapping[str, str]
    settings: Settings | None

    def check(self) -> None:
        """Raise `Failed` within 3 s when no broker can be at the addresses."""
        from cli.addresses import check_brokers

        check_brokers(self.bootstrap_servers, self.properties)

    def open(self, request_timeout_s: float) -> KafkaAdmin:
        """Open the administration of the topic; close it again. Raises `Failed`."""
        from coordinator.adapters.kafka.cluster import KafkaAdmin
        from coordinator.adapters.kafka.settings import KafkaPropertyRefused

        try:
            cluster = KafkaAdmin(
                bootstrap_servers=self.bootstrap_servers,
                topic=self.topic,
                client_id="diskless-cli",
                request_timeout_s=request_timeout_s,
                kafka_properties=self.properties,
            )
            self.check()
            with kafka_errors():
                cluster.start()
        except KafkaPropertyRefused as error:
            raise Failed(str(error), Exit.USAGE) from error
        return cluster


def find_kafka_place(
    bootstrap_server: str | None,
    config_file: Path | None,
    topic: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
) -> KafkaPlace:
    """Put the options together. Raises `Failed` when they name no cluster."""
    settings = None if config_file is None else read_service_settings(config_file)
    servers = bootstrap_server or (",".join(settings.bootstrap_servers) if settings is not None else "")
    if not servers:
        raise Failed(
            f"no Kafka cluster is given: pass --bootstrap-server host:port, set {KAFKA_VARIABLE}, or pass --config with the "
            "settings file of a coordinator",
            Exit.USAGE,
        )
    key = KEYS["metadata.topic"]
    try:
        name = str(key.parse(topic)) if topic is not None else settings.metadata_topic if settings is not None else key.default or ""
    except OutOfBounds as error:
        raise Failed(f"--metadata-topic: must be {error}", Exit.USAGE) from error
    properties = {} if settings is None else dict(settings.kafka)
    properties |= without_nodes(read_client_properties(command_config, command_properties))
    java_only = [name for name in _JAVA_ONLY if name in properties]
    if java_only:
        instead = "give sasl.username, sasl.password and ssl.ca.location instead, or put node. before keys that are for nodes alone"
        raise Failed(f"{', '.join(java_only)}: keys of the Java client; {instead}", Exit.USAGE)
    return KafkaPlace(
        bootstrap_servers=servers,
        topic=name,
        properties=properties,
        settings=settings,
    )


@contextmanager
def kafka_errors() -> Iterator[None]:
    """Raise errors of Kafka's client as `Failed`."""
    from confluent_kafka import KafkaException

    from coordinator.runtime.ports import ClusterRefused, KafkaUnavailable, TopicMissing

    try:
        with doing("asking Kafka"):
            yield
    except TopicMissing as error:
        raise Failed(f"{error}; `diskless init` creates it", Exit.NOT_FOUND) from error
    except ClusterRefused as error:
        raise Failed(str(error)) from error
    except KafkaUnavailable as error:
        raise Failed(f"{error}; check the address and that the brokers run, then retry", Exit.UNAVAILABLE) from error
    except KafkaException as error:
        raise Failed(f"Kafka client: {error}") from error
