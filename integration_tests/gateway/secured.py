"""A gateway in front of a Kafka that lets nobody in without a proof: SASL_SSL on both sides, SCRAM, PLAIN and OAUTHBEARER, ACLs.

    with SecuredGateway(folder, runtime) as world:
        world.kafka.allow("alice", [...])
        properties = world.client("alice")          # librdkafka's, for the gateway

The users are those of `PASSWORDS`, with the same password for SCRAM and PLAIN; tokens of OAUTHBEARER may name anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import AclOperation, ResourceType

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests.secured_kafka import JAAS, LOGIN, Right, SecuredKafka
from integration_tests.service import UNDISTURBED, Service
from simulation.fakes.certificates import Authority

PASSWORDS: Final = {name: f"the secret of {name}" for name in ("gateway", "alice", "reader", "writer", "nobody", "denied", "leaver")}
SUBJECT: Final = 'unsecuredLoginStringClaim_sub="broker"'
GATEWAY_GROUP: Final = "diskless-gateways"
OWN_RIGHTS: Final = (
    Right(ResourceType.GROUP, GATEWAY_GROUP, (AclOperation.READ, AclOperation.DESCRIBE)),
    Right(ResourceType.TOPIC, "*", (AclOperation.DESCRIBE_CONFIGS,)),
)
"""All that docs/secure-gateways.md asks for the gateway's own principal at Kafka."""


def broker_properties(passwords: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return what a broker needs for the logins of the listener LOGIN; other names have underscores for dots."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    mine = "listener.name.login."
    return {
        f"{mine}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{mine}plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required {users};",
        f"{mine}oauthbearer.sasl.jaas.config": f"{JAAS}.oauthbearer.OAuthBearerLoginModule required {SUBJECT};",
        "connection.failed.authentication.delay.ms": "10",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class SecuredGateway:
    """See the module's text."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, *, broker: Mapping[str, str] | None = None, **settings: str) -> None:
        """`broker` are more properties of the broker's; other names are settings of the gateway, with underscores for dots."""
        self.kafka = SecuredKafka(folder / "secured", runtime, properties={**broker_properties(PASSWORDS), **(broker or {})})
        self._folder = folder
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}
        certificates = folder / "gateway-certificates"
        certificates.mkdir(parents=True)
        self.ca = Authority(certificates, "gateway-ca")
        self.certificate = self.ca.issue("gateway")

    def __enter__(self) -> Self:
        self.kafka.__enter__()
        try:
            self.kafka.add_users(**PASSWORDS)
            self.kafka.allow("gateway", OWN_RIGHTS)
            # Nodes come by the listener that stays open: what they need of Kafka is proven elsewhere.
            self.service = Service(self.kafka.cluster.bootstrap, self._folder / "nodes", partitions=2, properties=UNDISTURBED)
            self.service.start(1)
            self.gateway = self.make()
            self.gateway.start()
            self.gateway.wait_serving()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def make(self, node_id: int = 1001, **changed: str) -> GatewayProcess:
        """Make a gateway without starting it; changes of its settings have underscores for dots."""
        made = GatewayProcess(
            node_id,
            bootstrap=self.kafka.address(LOGIN),
            coordinators=self.service.addresses[0],
            folder=self._folder / f"gateway-{node_id}",
            properties={
                **{f"kafka.{key}": value for key, value in self.kafka.login("gateway", PASSWORDS["gateway"]).items()},
                "ssl.keystore.location": str(self.certificate),
                "object.store.url": self.service.properties["object.store.url"],
                "diskless.gateway.group.id": GATEWAY_GROUP,
                **self._settings,
            },
        )
        made.properties["listeners"] = f"SASL_SSL://{made.address}"
        made.properties |= {key.replace("_", "."): value for key, value in changed.items()}
        return made

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if hasattr(self, "gateway"):
            self.gateway.close()
        if hasattr(self, "service"):
            self.service.stop()
        self.kafka.__exit__(kind, error, trace)

    def client(self, user: str, mechanism: str = "SCRAM-SHA-512", **changed: str) -> dict[str, str]:
        """Return the properties of a user's client, librdkafka's; changes have underscores for dots."""
        own = {"sasl.username": user, "sasl.password": PASSWORDS.get(user, "wrong")}
        if mechanism == "OAUTHBEARER":
            own = {"sasl.oauthbearer.config": f"principal={user}", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
        return {
            "bootstrap.servers": self.gateway.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca.ca_file),
            "sasl.mechanism": mechanism,
            **own,
            **{key.replace("_", "."): value for key, value in changed.items()},
        }
