"""The server.properties of a node and the options of its JVM, as pure functions.

The settings are those that make a broker small and quick to start without changing what a client can observe; the
exceptions, which tests and demos want, are named in their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cli.dev.place import LOOPBACK

HOST = LOOPBACK
CLIENT_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"


class Profile(Enum):
    """The purpose that a broker is tuned for."""

    TEST = "test"
    BENCH = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraListener:
    """One more listener on every node. `advertised_ports`, one per node, is for a proxy in between; empty: the real ports."""

    name: str
    security_protocol: str = "PLAINTEXT"
    advertised_host: str = HOST
    advertised_ports: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """The ports of one node (from 1); `extra_ports` follow the order of the extra listeners."""

    node_id: int
    client_port: int
    controller_port: int
    extra_ports: tuple[int, ...] = ()
    host: str = HOST


def server_properties(
    node: NodeAddress,
    *,
    cluster: Sequence[NodeAddress],
    data_folder: Path | str,
    listeners: Sequence[ExtraListener] = (),
    profile: Profile = Profile.TEST,
    session_timeout_ms: int = 2000,
    heartbeat_interval_ms: int = 500,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the properties of one node; `extra` wins over everything chosen here."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        # Static voters: the data folder holds nothing about the quorum, so it can be formatted by hand.
        "controller.quorum.voters": ",".join(f"{one.node_id}@{one.host}:{one.controller_port}" for one in cluster),
        "controller.listener.names": CONTROLLER_LISTENER,
        "inter.broker.listener.name": CLIENT_LISTENER,
        "log.dirs": str(data_folder),
        "broker.session.timeout.ms": str(session_timeout_ms),
        "broker.heartbeat.interval.ms": str(heartbeat_interval_ms),
    }
    properties |= _listeners(node, listeners) | _replication(len(cluster)) | _sizes(profile)
    return properties | dict(extra or {})


def _listeners(node: NodeAddress, listeners: Sequence[ExtraListener]) -> dict[str, str]:
    bound = [f"{CLIENT_LISTENER}://{node.host}:{node.client_port}", f"{CONTROLLER_LISTENER}://{node.host}:{node.controller_port}"]
    advertised = [f"{CLIENT_LISTENER}://{node.host}:{node.client_port}"]
    protocols = [f"{CLIENT_LISTENER}:PLAINTEXT", f"{CONTROLLER_LISTENER}:PLAINTEXT"]
    for listener, port in zip(listeners, node.extra_ports, strict=True):
        shown = listener.advertised_ports[node.node_id - 1] if listener.advertised_ports else port
        bound.append(f"{listener.name}://{node.host}:{port}")
        advertised.append(f"{listener.name}://{listener.advertised_host}:{shown}")
        protocols.append(f"{listener.name}:{listener.security_protocol}")
    return {
        "listeners": ",".join(bound),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
    }


def _replication(nodes: int) -> dict[str, str]:
    factor, in_sync = str(min(3, nodes)), str(min(2, nodes))
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _sizes(profile: Profile) -> dict[str, str]:
    common = {
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        # Differs from Kafka's default: the first member of a group is not made to wait 3 s for others.
        "group.initial.rebalance.delay.ms": "0",
        # Differs from Kafka's default: a misspelt or just deleted topic must not come (back) into being by being named.
        "auto.create.topics.enable": "false",
    }
    if profile is Profile.BENCH:
        return common
    return common | {
        # Without it the cleaner's 128 MB buffer alone ends a small heap with OutOfMemoryError at start.
        "log.cleaner.dedupe.buffer.size": "2097152",
        "num.io.threads": "2",
        "num.network.threads": "1",
        "background.threads": "1",
    }


def render(properties: Mapping[str, str]) -> str:
    """Write properties in Java's format. Raises `ValueError` for a value that would not be read back as it is."""
    for key, value in properties.items():
        if any(mark in value for mark in "\n\r\\") or value != value.lstrip() or any(mark in key for mark in " \t\n\r\\=:"):
            raise ValueError(f"{key}: a property with line breaks, backslashes or leading blanks cannot be written: {value!r}")
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def jvm_options(profile: Profile, *, archive: Path | None, log4j2: Path) -> list[str]:
    """Return the JVM's options: heap, collector, compiler, and the class-data archive when there is one."""
    options = ["-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"]
    options.append(f"-Dlog4j2.configurationFile={log4j2}")
    match profile:
        case Profile.TEST:
            options += ["-Xms48m", "-Xmx128m", "-XX:TieredStopAtLevel=1"]
        case Profile.BENCH:
            options += ["-Xms512m", "-Xmx512m"]
    if archive is not None:
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    return options
