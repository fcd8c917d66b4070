"""Settings of what nodes say to each other."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from coordinator.config.keys import path, text


@dataclass(frozen=True, kw_only=True)
class InternalSettings:
    """How nodes reach each other, and prove to be nodes."""

    inter_node_listener_name: str = text(
        "inter.node.listener.name",
        "",
        allowed=lambda value: not value or re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value) is not None,
        bounds="the name of one of listeners, or empty",
        why="""Listener at which the other nodes reach this one, as Kafka's inter.broker.listener.name; empty for the first of listeners.
        Nodes use its keys as clients, too: with TLS they believe the authorities of its ssl.truststore.location (those of the system
        without one), compare host names with certificates, and show its certificate where they are asked for one. Give all nodes the
        same name.""",
    )
    internal_secret_file: Path | None = path(
        "internal.secret.file",
        why="""File with the secret by which nodes log in to each other, as the user diskless-node by SCRAM-SHA-256, on every listener; the
        secret itself is never sent. Needed when the listener of nodes has logins. It is one line of 16 characters or more, the same for
        all nodes: `openssl rand -hex 24` makes one. It is read at a start.""",
    )
