"""Settings every deployment gives or thinks about: identity, addresses, Kafka, the object store.

The names are fixed, other programs rely on them.
"""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coordinator.config.keys import INT32_MAX, boolean, http_address, integer, items, listener_list, paths, store_url, text
from coordinator.config.values import HttpAddress, Listener, StoreUrl
from coordinator.kafka.coordinators import COORDINATORS_MAX, OWNERS_MAX
from coordinator.kafka.names import METADATA_TOPIC

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _is_topic_name(value: str) -> bool:
    return TOPIC_NAME.fullmatch(value) is not None and value not in (".", "..")


def is_server(value: str) -> bool:
    """Tell whether a text is host:port."""
    return re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/]+):[1-9]\d{0,4}", value) is not None


@dataclass(frozen=True, kw_only=True)
class EssentialSettings:
    """Settings of the process's identity, its listeners, and the outside services it uses."""

    node_id: int = integer(
        "node.id",
        None,
        low=0,
        high=INT32_MAX,
        essential=True,
        why="""Number of this process, unique in the service and kept for its life: it names the node in claims of leadership,
        in the directory of nodes and in the files of its data directories. Two processes with one id fence each other.""",
    )
    node_rack: str = text(
        "node.rack",
        "",
        essential=True,
        why="""Zone of this process, in the words the brokers use for broker.rack. Produce gateways and the spread of replicas
        follow it, so a wrong value costs traffic between zones, never data.""",
    )
    bootstrap_servers: tuple[str, ...] = items(
        "bootstrap.servers",
        None,
        essential=True,
        empty_ok=False,
        allowed=is_server,
        bounds="host:port, comma separated",
        why="""Brokers of the Kafka cluster that holds the metadata topic. Any of them will do to find the others; give two or
        more so that a start does not depend on one of them.""",
    )
    listeners: tuple[Listener, ...] = listener_list(
        "listeners",
        "PLAINTEXT://0.0.0.0:9192",
        why="""Where the coordinator serves its Kafka protocol. The names PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL say how a listener
        is secured; other names need an entry in listener.security.protocol.map. Names tell the addresses apart that are advertised to
        clients of different networks. Port 0 lets the system choose a port (tests).""",
    )
    advertised_listeners: tuple[Listener, ...] = listener_list(
        "advertised.listeners",
        "",
        empty_ok=True,
        why="""Addresses that clients and other coordinators use. Empty: the listeners themselves, with the machine's host
        name in place of an address that means all interfaces. Behind a proxy or in Kubernetes it must be given.""",
    )
    http_listener: HttpAddress | None = http_address(
        "http.listener",
        "http://0.0.0.0:9193",
        why="""Address of /healthy, /ready, /metrics and /config; empty for none. With https it speaks TLS and needs
        http.ssl.certificate.location and http.ssl.key.location. It shows no user data; without http.bearer.token.file let only the
        orchestrator and the metrics collector reach it.""",
    )
    data_dirs: tuple[Path, ...] = paths(
        "data.dirs",
        essential=True,
        why="""Folders for the materialised state, one SQLite file per metadata partition, and for snapshots. A new file goes to the
        folder with the fewest. When one fails (lost, read-only, full), its files are built anew in another one; the last one that
        fails ends the process. The state is a cache: losing it costs a rebuild from a snapshot or the log.""",
    )
    object_store_url: StoreUrl = store_url(
        "object.store.url",
        why="""Object store with the WAL files and the snapshots, the same for all nodes and for the brokers that upload. Of WAL files the
        coordinator keeps places; it never reads them, and deletes those without batches. Snapshots it writes, reads and removes itself
        (snapshots.enable). It marks the store as its own (services/): a client with another one is refused before it uploads. memory://
        dies with the process, holds no snapshots, and nothing is deleted there: tests only.""",
    )
    metadata_topic: str = text(
        "metadata.topic",
        METADATA_TOPIC,
        essential=True,
        allowed=_is_topic_name,
        bounds="a legal Kafka topic name",
        why="""The topic that is the truth of this service; each of its partitions is one coordinator. Two services on one Kafka
        cluster need different topics and different group.id.""",
    )
    diskless_metadata_topic_num_partitions: int = integer(
        "diskless.metadata.topic.num.partitions",
        8,
        low=1,
        high=COORDINATORS_MAX,
        essential=True,
        why=f"""Number of metadata partitions, hence of coordinators, used when the topic is created. More of them spread the load
        over more processes, but a file with batches for several coordinators needs one commit for each, and one with batches of more
        than {OWNERS_MAX} is refused: with more coordinators uploaders must make several files. Raising it later moves nothing that is
        placed already.""",
    )
    diskless_metadata_topic_replication_factor: int = integer(
        "diskless.metadata.topic.replication.factor",
        3,
        low=1,
        high=32_767,
        essential=True,
        why="""Replicas of each metadata partition when the topic is created. Below 3 the loss of one broker stops commits or loses
        acknowledged ones; lower it only on a development cluster, together with the minimum of in-sync replicas.""",
    )
    diskless_metadata_topic_min_insync_replicas: int = integer(
        "diskless.metadata.topic.min.insync.replicas",
        2,
        low=1,
        high=32_767,
        essential=True,
        why="""Replicas that must have a metadata entry before it is acknowledged. With 1 a commit may be acknowledged that only one
        broker holds. At start the topic's real value is compared with this one.""",
    )
    diskless_metadata_topic_auto_create: bool = boolean(
        "diskless.metadata.topic.auto.create",
        True,
        essential=True,
        why="""Whether a starting coordinator creates the metadata topic when it is missing. One whose data directories hold state
        never does: the topic vanished, and it says so. Where topics are under change control, or data directories come empty with
        every start, set false and run `diskless init`.""",
    )
    group_id: str = text(
        "group.id",
        "diskless-coordinator",
        essential=True,
        allowed=lambda value: 0 < len(value) <= 255 and not value.isspace(),
        bounds="1 to 255 characters",
        why="""Consumer group whose assignment of metadata partitions says which process may claim which coordinator. All processes
        of one service share it, and nothing else may use it.""",
    )
    session_timeout_ms: int = integer(
        "session.timeout.ms",
        6_000,
        low=1_000,
        high=300_000,
        essential=True,
        why="""A process that dies is replaced after this time, so it is most of the fail-over time. Kafka refuses values below the
        brokers' group.min.session.timeout.ms (6 s by default).""",
    )
    standby_replicas: int = integer(
        "standby.replicas",
        1,
        low=0,
        high=100,
        essential=True,
        why="""Nodes that follow each metadata partition besides its leader, so that one of them takes over at once. A follower costs a
        sixth of what the leader does, half of it at saturation. So many nodes may die together before a partition waits until its state
        is loaded: seconds, or minutes without a state database on disk. 1 is enough while the partitions of a dead node get another
        standby within seconds. With no more nodes than this all others follow, and with 0 none does. Standbys are on other racks first
        (node.rack), even where one rack has few nodes. Give all nodes the same value.""",
    )
