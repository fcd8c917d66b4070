"""A Kafka behind TLS and ACLs: every connection of a node and of the commands is made with the security that the operator gave.

Clients of librdkafka get the settings as they are; the members of the group are asked over a socket of our own, which follows them too.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation as KafkaOperation
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType

from cli.main import root
from coordinator.adapters.kafka.acls import CLUSTER, KafkaAcls
from coordinator.adapters.kafka.agreed_secret import AgreedSecret, SecretUnavailable
from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.app.security.authorization import KafkaRules
from coordinator.kafka.acls import AclOperation
from coordinator.runtime.ports import KafkaUnavailable
from coordinator.security.acls import Binding
from integration_tests.secured_kafka import LOGIN, MUTUAL, Right, SecuredKafka, node_rights, write_properties
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.wire import OK, Batch, connected
from records.levels import LEVEL_LATEST
from simulation.fakes.certificates import Authority


@pytest.fixture(scope="module")
def kafka(secured_kafka: SecuredKafka) -> SecuredKafka:
    """The broker, with a user of the service who proves himself by a password or a certificate."""
    secured_kafka.add_users(coordinator="the secret")
    return secured_kafka


def security(kafka: SecuredKafka, listener: str) -> dict[str, str]:
    if listener == MUTUAL:
        return kafka.identity("coordinator")
    return kafka.login("coordinator", "the secret")


@pytest.mark.parametrize("listener", [MUTUAL, LOGIN])
async def test_nodes_and_commands_work_behind_tls(kafka: SecuredKafka, tmp_path: Path, listener: str) -> None:
    given, bootstrap = security(kafka, listener), kafka.address(listener)
    service = Service(bootstrap, tmp_path, partitions=2, properties={f"kafka.{name}": value for name, value in given.items()})
    kafka.allow("coordinator", node_rights(service.topic, service.properties["group.id"]))
    try:
        service.start(1)  # alone, so that it leads whatever it is asked for
        async with connected(service.addresses[0]) as wire:
            topic = await wire.new_topic()
            assert [one.error for one in await wire.commit(Batch(topic, count=3))] == [OK]
            assert await wire.ends(topic) == (0, 3)
        service.add(2).start()
        service.wait_shared()
        # It rises when the members of the group are known, which are asked over a socket of our own.
        raised = f"schema level in force level={LEVEL_LATEST}"
        wait_until(lambda: all(raised in node.log_text() for node in service.nodes.values()), "the members of the group to be known")
        # Membership and claims: the other node takes over everything.
        service.nodes[1].kill()
        wait_until(lambda: service.nodes[2].readiness()[1]["leading"] == [0, 1], "the take-over")
        config = write_properties(tmp_path / "client.properties", given)
        found = command(
            "log", "dump", "--partition", "0", "--metadata-topic", service.topic, "--kafka-bootstrap-server", bootstrap, config=config
        )
        assert "LeadershipClaimed" in found
        denied = [line for line in service.nodes[2].log_text().splitlines() if "authoriz" in line.lower()]
        assert denied == []
        assert service.nodes[2].metric("read_errors_total") == 0
    finally:
        service.stop()


def command(*arguments: str, config: Path) -> str:
    done = CliRunner().invoke(root, [*arguments, "--command-config", str(config)])
    assert done.exit_code == 0, done.output
    return done.stdout


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that Kafka does not let in, or lets do nothing, and what it ends with."""

    user: str
    password: str
    said: str
    authority: str = "ca"


REFUSALS = (
    Refusal("coordinator", "not the password", "the login was refused, check sasl.mechanism, sasl.username and sasl.password: "),
    Refusal("coordinator", "the secret", "no connection by TLS, check ssl.ca.location, ", authority="other"),
    Refusal("stranger", "the secret", "Give the principal of this node (kafka.sasl.*, kafka.ssl.*) Describe, "),
)


def test_a_node_that_kafka_refuses_ends_and_says_why(kafka: SecuredKafka, tmp_path: Path) -> None:
    kafka.add_users(stranger="the secret")
    other = Authority(tmp_path, "other").ca_file
    with Service(kafka.address(LOGIN), tmp_path) as service:
        for number, refusal in enumerate(REFUSALS, 1):
            given = kafka.login(refusal.user, refusal.password)
            if refusal.authority == "other":
                given["ssl.ca.location"] = str(other)
            node = service.add(number)
            node.properties |= {f"kafka.{name}": value for name, value in given.items()}
            node.start()
        for refusal, node in zip(REFUSALS, service.nodes.values(), strict=True):
            assert node.process is not None
            assert node.process.wait(WAIT_S) == 1, node.log_tail()
            (reason,) = [line for line in node.log_text().splitlines() if "CRITICAL" in line and "ended: " in line]
            assert refusal.said in reason, node.log_tail()
            assert refusal.password not in node.log_text()


@pytest.mark.parametrize(
    ("listener", "changed"),
    [
        (MUTUAL, {"ssl.ca.location": "other.crt"}),
        (MUTUAL, {"ssl.certificate.location": None, "ssl.key.location": None}),
        (LOGIN, {"ssl.ca.location": "other.crt"}),
    ],
    ids=["another authority", "no certificate", "another authority at the login"],
)
async def test_members_of_the_group_are_asked_of_no_broker_that_tls_does_not_prove(
    kafka: SecuredKafka, tmp_path: Path, listener: str, changed: Mapping[str, str | None]
) -> None:
    Authority(tmp_path, "other")
    given = security(kafka, listener)
    for name, value in changed.items():
        del given[name]
        if value is not None:
            given[name] = str(tmp_path / value)
    cluster = KafkaAdmin(
        bootstrap_servers=kafka.address(listener),
        topic="t",
        client_id="c",
        group_id="g",
        kafka_properties=given,
        stats=KafkaStats(),
    )
    with pytest.raises(KafkaUnavailable, match=r"certificate|alert"):
        await cluster.group_members()
    assert await cluster.close()


async def test_a_node_that_loses_describe_keeps_the_acls_it_knows(kafka: SecuredKafka) -> None:
    look, act = (Right(ResourceType.BROKER, CLUSTER, (one,)) for one in (KafkaOperation.DESCRIBE, KafkaOperation.CLUSTER_ACTION))
    kafka.add_users(watcher="the secret")
    kafka.allow("gateway", [act])
    acls = KafkaAcls(bootstrap_servers=kafka.address(LOGIN), client_id="c", kafka_properties=kafka.login("watcher", "the secret"))
    changes: list[frozenset[Binding]] = []
    rules = KafkaRules(read=acls.read, changed=changes.append, interval_ms=100)
    following = asyncio.create_task(rules.run())
    gateway = Binding("User:gateway", AclOperation.CLUSTER_ACTION)

    async def wait_for(condition: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_until, condition, what)

    try:
        await wait_for(lambda: rules.failures > 0, "the refusal of a principal without rights")
        assert changes == []
        kafka.allow("watcher", [look])
        await wait_for(lambda: bool(changes) and gateway in changes[-1], "the ACLs to be told")
        failures = rules.failures
        kafka.forbid("watcher", [look])
        await wait_for(lambda: rules.failures > failures, "the next refusal")
        assert gateway in changes[-1]
        known = len(changes)
        kafka.forbid("gateway", [act])
        kafka.allow("watcher", [look])
        await wait_for(lambda: len(changes) > known and gateway not in changes[-1], "the change to count")
    finally:
        following.cancel()


async def test_nodes_agree_on_a_secret_and_who_may_not_read_the_group_learns_nothing(kafka: SecuredKafka) -> None:
    topic, group = f"t{secrets.token_hex(4)}", f"g{secrets.token_hex(4)}"
    kafka.add_users(node="the secret", outsider="the secret")
    kafka.allow("node", node_rights(topic, group))
    kafka.allow("outsider", [Right(ResourceType.TOPIC, topic, (KafkaOperation.READ, KafkaOperation.DESCRIBE))])

    def agreed(user: str) -> AgreedSecret:
        login = kafka.login(user, "the secret")
        return AgreedSecret(bootstrap_servers=kafka.address(LOGIN), client_id="c", kafka_properties=login, group_id=group, topic=topic)

    nodes = [agreed("node") for _ in range(3)]
    with pytest.raises(SecretUnavailable) as coming:
        await nodes[0].agree(None)
    assert coming.value.is_coming
    admin = AdminClient({"bootstrap.servers": kafka.cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)

    async def of_each() -> list[str]:
        return list(await asyncio.gather(*(one.agree(None) for one in nodes)))

    first = await of_each()  # all at once: the last one written counts
    known = await of_each()
    assert len(set(known)) == 1
    assert known[0] in first
    assert await nodes[0].agree("another one") == known[0]
    with pytest.raises(SecretUnavailable, match=f"Read and Describe on the group {group}-internal") as refused:
        await agreed("outsider").agree(None)
    assert not refused.value.is_coming
    assert known[0] not in str(refused.value)
