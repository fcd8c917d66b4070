"""Settings of how the nodes of a service reach and know each other."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coordinator.config.keys import path, semicolons, text
from coordinator.config.values import principal_name


@dataclass(frozen=True, kw_only=True)
class InternalSettings:
    """Requests that only nodes send are refused from anybody else, on listeners in plain text too."""

    inter_node_listener_name: str = text(
        "inter.node.listener.name",
        "",
        allowed=lambda value: not value or re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value) is not None,
        bounds="the name of one of listeners, or empty",
        why="""Listener at which the other nodes reach this one, as Kafka's inter.broker.listener.name; empty for the first of listeners.
        Nodes use its keys as clients, too: with TLS they believe the authorities of its ssl.truststore.location (those of the system
        without one), compare host names with certificates, and show its certificate where they are asked for one. A node reaches each
        other one at the listener that it names itself, so the name can be changed node by node while all have both listeners.""",
    )
    internal_principals: tuple[str, ...] = semicolons(
        "internal.principals",
        parse=principal_name,
        bounds="principals such as User:node, separated by semicolons",
        why="""Principals that are nodes of this service by their certificates, instead of a secret. They may do everything. The listener at
        which nodes reach each other must be SSL with ssl.client.auth=required; on other listeners these names are names as any other.""",
    )
    internal_secret_file: Path | None = path(
        "internal.secret.file",
        why="""File with a secret of at least 32 characters, the same for all nodes, by which they log in to each other, as the user
        diskless-node by SCRAM-SHA-256, on every listener; it is never sent. Without it, and without internal.principals, nodes agree on
        a secret through Kafka, in the consumer group named group.id and -internal: a process that may read that group counts as a node,
        so on a Kafka with ACLs let only nodes have Read and Describe on it. The file is read again within seconds when it changes.""",
    )
