"""A Kafka that lets nobody in without a proof, with ACLs, and what its clients are configured with.

    with SecuredKafka(folder, runtime) as kafka:
        kafka.add_users(coordinator="secret")
        kafka.allow("coordinator", node_rights(topic, group))
        properties = kafka.login("coordinator", "secret")     # as librdkafka has them, for the address kafka.address(LOGIN)

The listener of brokers, which also serves to set things up, stays open: `kafka.cluster.bootstrap` may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from cli.dev.kafka.properties import ExtraListener
from integration_tests.waiting import WAIT_S
from simulation.fakes.certificates import Authority

LOGIN: Final = "LOGIN"
MUTUAL: Final = "MUTUAL"
LISTENERS: Final = (ExtraListener(name=MUTUAL, security_protocol="SSL"), ExtraListener(name=LOGIN, security_protocol="SASL_SSL"))
"""One that asks for a certificate, and one that asks for a login over TLS."""
JAAS: Final = "org.apache.kafka.common.security"
ITERATIONS: Final = 4096


class Right(NamedTuple):
    """Operations on a topic or group."""

    kind: ResourceType
    name: str
    operations: Sequence[AclOperation]


def node_rights(topic: str, group: str) -> Sequence[Right]:
    """All that docs/secured-kafka.md asks for nodes: services that have no more than these are proven to work."""
    reading = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
    return (
        Right(ResourceType.TOPIC, topic, (AclOperation.CREATE, *reading, AclOperation.WRITE, AclOperation.DELETE)),
        Right(ResourceType.GROUP, group, (AclOperation.READ, AclOperation.DESCRIBE)),
        Right(ResourceType.GROUP, f"{group}-internal", (AclOperation.READ, AclOperation.DESCRIBE)),
    )


def monitor_rights(topic: str) -> Sequence[Right]:
    """All that docs/secured-kafka.md asks for the monitor and its jobs."""
    return (Right(ResourceType.TOPIC, topic, (AclOperation.READ, AclOperation.DESCRIBE)),)


class SecuredKafka:
    """See the module's text."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, *, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are more of the broker's."""
        certificates = folder / "certificates"
        certificates.mkdir(parents=True)
        self.ca = Authority(certificates, "ca")
        self.cluster = KafkaCluster(
            1,
            folder / "kafka",
            runtime=runtime,
            listeners=LISTENERS,
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.ca.issue("broker")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca.ca_file),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.login.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                **(properties or {}),
            },
        )

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cluster.stop()

    def address(self, listener: str) -> str:
        """Where a listener is."""
        return f"127.0.0.1:{self.cluster.listener_port(listener)}"

    def add_users(self, **passwords: str) -> None:
        """Make users, or change their passwords."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        wanted = [UserScramCredentialUpsertion(user, info, password.encode()) for user, password in passwords.items()]
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(WAIT_S)

    def allow(self, user: str, rights: Sequence[Right], permission: AclPermissionType = AclPermissionType.ALLOW) -> None:
        """Give rights to a user, or deny them."""
        bindings = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)
            for kind, name, operations in rights
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for done in admin.create_acls(bindings).values():
            done.result(WAIT_S)

    def forbid(self, user: str, rights: Sequence[Right]) -> None:
        """Take rights away again."""
        filters = [
            AclBindingFilter(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operations in rights
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for done in admin.delete_acls(filters).values():
            done.result(WAIT_S)

    def login(self, user: str, password: str) -> dict[str, str]:
        """The properties of a client of the listener LOGIN."""
        named = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.ca.ca_file), **named}

    def identity(self, user: str) -> dict[str, str]:
        """The properties of a client of the listener MUTUAL."""
        both = str(self.ca.issue(user))
        own = {"ssl.certificate.location": both, "ssl.key.location": both}
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca.ca_file), **own}


def write_properties(file: Path, properties: dict[str, str]) -> Path:
    """Write a file for `--command-config`."""
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    return file
