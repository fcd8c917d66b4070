"""Three nodes that let nobody in without a login, on a Kafka that does not either: brokers work, everybody else is told why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from cli.main import root
from coordinator.client.client import DisklessClient
from coordinator.client.routing.connection import ConnectionLost
from integration_tests.secured_kafka import LOGIN, SecuredKafka, node_rights, write_properties
from integration_tests.secured_service import SecuredService
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.wire import OK, Batch, connected
from simulation.fakes.certificates import Authority

CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture(scope="module")
def service(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredService]:
    secured_kafka.add_users(coordinator="the secret")
    given = {f"kafka.{name}": value for name, value in secured_kafka.login("coordinator", "the secret").items()}
    with SecuredService(secured_kafka.address(LOGIN), tmp_path_factory.mktemp("nodes"), partitions=3, properties=given) as service:
        secured_kafka.allow("coordinator", node_rights(service.topic, service.properties["group.id"]))
        service.start(3)
        yield service


async def test_a_broker_commits_finds_lists_and_deletes(service: SecuredService) -> None:
    """The directory's leader tells the others of their partitions, so nodes have to reach each other."""
    leaders = {partition: node for node in service.nodes.values() for partition in cast(list[int], node.readiness()[1]["leading"])}
    assert len({node.node_id for node in leaders.values()}) == 3
    async with connected(leaders[0].address, security=service.client("broker")) as directory:
        topic = await directory.new_topic(6)
        assert sorted(topic.coordinators) == [0, 0, 1, 1, 2, 2]
        for owner, node in leaders.items():
            async with connected(node.address, security=service.client("broker")) as wire:
                partition = topic.partition_at(owner)
                assert [one.error for one in await wire.commit(Batch(topic, partition=partition, count=3))] == [OK]
                assert await wire.ends(topic, partition) == (0, 3)
                (found,) = await wire.find((topic, partition, 0))
                assert found.ranges == [(0, 2)]
        assert await directory.delete(topic.id) == [OK]


async def test_our_client_and_librdkafka_find_every_node(service: SecuredService) -> None:
    async with DisklessClient(service.addresses[0], security=service.client("viewer")) as client:
        async with asyncio.timeout(WAIT_S):
            while len(await client.admin.nodes()) < 3:  # noqa: ASYNC110 - nodes tell nobody that they are registered
                await asyncio.sleep(0.05)
        assert sorted(f"{node.host}:{node.port}" for node in await client.admin.nodes()) == sorted(service.addresses)
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"):
        admin = AdminClient({"bootstrap.servers": service.addresses[0], **service.login("viewer", sasl_mechanism=mechanism)})

        def found(admin: AdminClient = admin) -> list[str]:
            return sorted(f"{one.host}:{one.port}" for one in admin.list_topics(timeout=WAIT_S).brokers.values())

        # Nodes are asked in turn, and one may not have read of the others yet.
        wait_until(lambda: found() == sorted(service.addresses), f"all nodes by {mechanism}")


def run(service: SecuredService, *words: str, **properties: str) -> Result:
    """Run a command against the nodes with these properties in its file."""
    file = write_properties(service.certificates / "client.properties", properties)
    where = ("--bootstrap-server", ",".join(service.addresses), "--command-config", str(file), "--timeout", "20")
    return CliRunner().invoke(root, [*words, *where])


def test_commands_log_in_with_the_same_keys_as_at_kafka(service: SecuredService) -> None:
    login = service.login("admin")
    assert run(service, "topics", "create", "by-command", "--partitions", "3", **login).exit_code == 0
    kafka_s = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "client.rack": "r"}
    listed = run(service, "topics", "list", "-o", "jsonl", **kafka_s, **{f"node.{key}": value for key, value in login.items()})
    assert '"by-command"' in listed.stdout
    node = service.addresses[0]
    refused = {
        "the server refused the login: the user name or the password is wrong": login | {"sasl.password": "wrong"},
        "the server does not take sasl.mechanism OAUTHBEARER": login
        | {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": f"file://{service.certificate}"},
        "the server's certificate is not accepted: ": login | {"ssl.ca.location": str(Authority(service.certificates, "else").ca_file)},
        f"{node} does not speak Kafka's protocol in plain text": {},
        "sasl.mechanism GSSAPI is not known": kafka_s,
        "User:nobody may not do FIND_COORDINATOR": service.login("nobody"),
    }
    for text, properties in refused.items():
        done = run(service, "topics", "create", "other", "--partitions", "1", **properties)
        assert text in done.stderr
        assert done.exit_code != 0
        assert len(done.stderr.splitlines()) == 1


async def told(service: SecuredService, user: str, **changed: str) -> str:
    """What a client is told that cannot connect."""
    with pytest.raises(ConnectionLost) as raised:
        async with connected(service.addresses[0], security=service.client(user, **changed)) as wire:
            await wire.coordinators()
    return str(raised.value)


async def test_whoever_is_not_let_in_gets_one_clear_line_on_both_sides(service: SecuredService) -> None:
    before = len(service.warnings(1))
    said = [await told(service, "broker", sasl_password="not the password")]
    assert "the server refused the login: the user name or the password is wrong" in said[0]
    other = Authority(service.certificates, "other")
    said.append(await told(service, "broker", ssl_ca_location=str(other.ca_file)))
    assert "the server's certificate is not accepted: unable to get local issuer certificate" in said[1]
    service.ca.issue("node", days=-1)
    node = service.nodes[1]
    wait_until(lambda: node.log_text().count("certificate reloaded") == 1, "the expired certificate to be read")
    said.append(await told(service, "broker"))
    assert "the server's certificate is not accepted: certificate has expired" in said[2]
    assert node.metric("certificate_seconds_left") < 0
    service.ca.issue("node")
    wait_until(lambda: node.log_text().count("certificate reloaded") == 2, "the good certificate to be read")
    async with connected(node.address, security=service.client("nobody")) as wire:
        results = await wire.create((bytes([1]) * 16, "forbidden", 1))
        assert results == [CLUSTER_AUTHORIZATION_FAILED]
    wait_until(lambda: len(service.warnings(1)) >= before + 4, "a line for each of them")
    password, authority, expired, acl = service.warnings(1)[before:]
    assert "reason='login failed' detail=\"user 'broker' by SCRAM-SHA-512: wrong password\"" in password
    for line in (authority, expired):
        assert "the client hung up in its handshake, as clients do that do not accept this listener's certificate" in line
    assert "not authorized principal=User:nobody operation=CREATE_PARTITIONS needs='CLUSTER_ACTION on the cluster'" in acl
    assert all("\n" not in line for line in said)
    assert not any("the secret of" in node.log_text() for node in service.nodes.values())
