"""Chooses the Kafka to use, in a fixed order, and never falls silently from one choice to the next.

1. KAFKA_BOOTSTRAP_SERVERS: a cluster that exists; it is left as it is.
2. KAFKA_HOME: brokers of a distribution.
3. DISKLESS_KAFKA=testcontainers: brokers in containers, when a container engine answers.
4. Brokers of the jars in `jars.lock`, which needs no asking.
What was chosen and does not work is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cli.dev.kafka.cluster import KafkaCluster
from cli.dev.kafka.prepare import RuntimeUnavailableError, find_runtime
from cli.java.jars import JarError
from cli.java.java import NoJavaError

CHOICES = ("testcontainers",)
SESSION_TIMEOUT_MS = 30_000
"""No test kills a broker of `find_kafka` to see it missed; a pause of some seconds of its machine must not end it."""


class NoKafkaError(Exception):
    """No usable Kafka was found; the message says what was tried and the remedies."""


class Kafka(Protocol):
    """A Kafka with the pair `start` and `stop`; `bootstrap` is for `bootstrap.servers`, `source` for people."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def source(self) -> str: ...

    def start(self, timeout_s: float = 60.0) -> None: ...

    def stop(self, *, clean: bool = False) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class ExistingKafka:
    """A cluster that was started elsewhere: `start` only checks that it answers, `stop` leaves it running."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.source = "KAFKA_BOOTSTRAP_SERVERS"

    def start(self, timeout_s: float = 60.0) -> None:
        """See that the cluster answers. Raises `NoKafkaError`."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise NoKafkaError(
                f"KAFKA_BOOTSTRAP_SERVERS={self.bootstrap} does not answer within {timeout_s:g} s ({error}). "
                "Start that cluster, correct the variable, or unset it to have one started here."
            ) from error

    def stop(self, *, clean: bool = False) -> None:
        """Do nothing: it is not ours."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def find_kafka(folder: Path | None = None, *, nodes: int = 1, environment: Mapping[str, str] | None = None) -> Kafka:
    """Choose the Kafka to use; it is not started yet. `nodes` matters only for brokers started here or in containers, `folder`
    only for the former.

    Raises `NoKafkaError` when the one to use cannot be had.
    """
    environment = os.environ if environment is None else environment
    asked = environment.get("DISKLESS_KAFKA")
    if asked and asked not in CHOICES:
        raise NoKafkaError(f"DISKLESS_KAFKA={asked} is not known: leave it unset, or set it to one of {', '.join(CHOICES)}")
    existing = environment.get("KAFKA_BOOTSTRAP_SERVERS")
    if existing:
        return ExistingKafka(existing)
    if asked == "testcontainers" and not environment.get("KAFKA_HOME"):
        from cli.dev.kafka.container import ContainerKafka  # needs the extra `dev`, unlike the rest of this package

        return ContainerKafka(environment, nodes, session_timeout_ms=SESSION_TIMEOUT_MS)
    try:
        return KafkaCluster(nodes, folder, runtime=find_runtime(environment), session_timeout_ms=SESSION_TIMEOUT_MS)
    except (NoJavaError, JarError, RuntimeUnavailableError) as error:
        raise NoKafkaError(
            f"no Kafka can be started here: {error}\n"
            "Other ways: KAFKA_BOOTSTRAP_SERVERS=host:port for a cluster that runs already, KAFKA_HOME for an unpacked "
            "distribution, DISKLESS_KAFKA=testcontainers for a container."
        ) from error
