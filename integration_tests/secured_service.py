"""Nodes that let nobody in without a login: listeners with SASL_SSL, SCRAM users in a file, ACLs in the settings, a secret among nodes.

    with SecuredService(bootstrap, folder, properties=kafka_security) as service:
        service.start(3)
        async with connected(service.addresses[0], security=service.client("broker")) as wire: ...

The user `broker` may do what brokers do, `viewer` may look, `admin` may do everything, and `nobody` has no rights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.place import HERE, Place
from coordinator.security.client_security import ClientSecurity
from coordinator.security.users_file import credentials_of, write_users
from integration_tests.service import Service
from integration_tests.wire import SECURED
from simulation.fakes.certificates import Authority

PASSWORDS: Final = {name: f"the secret of {name}" for name in ("admin", "broker", "viewer", "nobody")}


class SecuredService(Service):
    """See the module's text."""

    def __init__(self, bootstrap: str, folder: Path, *, partitions: int = 4, properties: Mapping[str, str] | None = None) -> None:
        self.certificates = folder / "certificates-of-nodes"
        self.certificates.mkdir()
        self.ca = Authority(self.certificates, "ca")
        self.certificate = self.ca.issue("node")
        users, secret = self.certificates / "users", self.certificates / "secret"
        write_users(users, {name: credentials_of(password) for name, password in PASSWORDS.items()})
        secret.write_text(os.urandom(24).hex(), encoding="ascii")
        secured = {
            "ssl.keystore.location": str(self.certificate),
            "ssl.truststore.location": str(self.ca.ca_file),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
            "users.file": str(users),
            "internal.secret.file": str(secret),
            "authorizer": "acls",
            "acls": "User:broker:CLUSTER_ACTION;User:viewer:DESCRIBE",
            "super.users": "User:admin",
        }
        super().__init__(bootstrap, folder, partitions=partitions, properties={**secured, **(properties or {})})

    def add(
        self, node_id: int, *, place: Place = HERE, environment: Mapping[str, str] | None = None, **properties: str
    ) -> CoordinatorProcess:
        """See `Service`."""
        node = super().add(node_id, place=place, environment=environment, **properties)
        node.properties["listeners"] = f"SASL_SSL://{node.address}"
        SECURED[node.address] = self.client("admin")
        return node

    def login(self, user: str, **changed: str) -> dict[str, str]:
        """The properties of a user's client, by Kafka's names, for files and librdkafka; changes have underscores for dots."""
        given = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca.ca_file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }
        return given | {key.replace("_", "."): value for key, value in changed.items()}

    def client(self, user: str, **changed: str) -> ClientSecurity:
        """How our own client connects as a user."""
        return ClientSecurity(self.login(user, **changed))

    def warnings(self, node_id: int) -> list[str]:
        """The lines of a node's log that are no mere information, but for those of Kafka's client."""
        lines = self.nodes[node_id].log_text().splitlines()
        levels = ("WARNING", "ERROR", "CRITICAL", "Traceback")
        return [line for line in lines if any(level in line for level in levels) and "coordinator.kafka.client" not in line]
