"""Rights of clients on topics as a real cluster tells them on a client's own connection: what its authorizer says, counts."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType
from confluent_kafka.admin import AclOperation as Operation

from cli.dev.kafka import BrokerRuntime
from coordinator.adapters.kafka.bootstrap import bootstrap_addresses
from coordinator.adapters.kafka.link import BrokerLink
from coordinator.adapters.server.contract import Peer
from coordinator.kafka.acls import AclOperation
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity
from coordinator.security.principal import ANONYMOUS
from gateway.access.rights import TopicRights
from gateway.front.session import FrontSession
from gateway.ports import DisklessTopic
from integration_tests.gateway.secured import PASSWORDS
from integration_tests.secured_kafka import LOGIN, SecuredKafka
from integration_tests.waiting import WAIT_S

READ, WRITE, DESCRIBE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DELETE
ALL_OF_THEM: Final = (READ, WRITE, DESCRIBE, DELETE)
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
TTL_MS: Final = 500


@pytest.fixture(scope="module")
def secured(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with ACLs, and one super user among those who log in."""
    properties = {"super.users": "User:ANONYMOUS;User:alice"}
    with SecuredKafka(tmp_path_factory.mktemp("rights"), broker_runtime, properties=properties) as made:
        made.add_users(**PASSWORDS)
        yield made


class Topics:
    """A catalogue of names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def named(self, name: str) -> DisklessTopic | None:
        return DisklessTopic(name, bytes(16), 1, {}) if name in self.names else None

    def identified(self, _topic_id: bytes) -> DisklessTopic | None:
        return None

    async def refreshed(self) -> None:
        """Nothing to list."""


def rule(
    name: str, user: str, operation: Operation, permission: AclPermissionType = ALLOW, pattern: ResourcePatternType = LITERAL
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, user, "*", operation, permission)


def add(secured: SecuredKafka, *rules: AclBinding) -> None:
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    for done in admin.create_acls(list(rules)).values():
        done.result(WAIT_S)


def take_away(secured: SecuredKafka, one: AclBinding) -> None:
    given = AclBindingFilter(one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation, one.permission_type)
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    for done in admin.delete_acls([given]).values():
        assert len(done.result(WAIT_S)) == 1


def made_topic(bootstrap: str, name: str = "") -> str:
    name = name or f"rights-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
    return name


@asynccontextmanager
async def session_of(address: str, security: ClientSecurity) -> AsyncIterator[FrontSession]:
    [place] = bootstrap_addresses(address)

    async def find(_: object) -> tuple[str, int]:
        return place

    upstream = BrokerLink(find, security, "rights", logs_in=True)
    try:
        yield FrontSession(Peer(1, "SASL_SSL", "127.0.0.1:1", ANONYMOUS), None, upstream, lambda *_: None)
    finally:
        upstream.close()


async def allowed(secured: SecuredKafka, user: str, topic: str, *, catalogue: Collection[str] = ()) -> set[AclOperation]:
    """The operations that a user may do, each asked for by itself."""
    async with session_of(secured.address(LOGIN), ClientSecurity(secured.login(user, PASSWORDS[user]))) as session:
        rights = TopicRights(Topics(topic, *catalogue), TTL_MS)
        return {one for one in ALL_OF_THEM if not await rights.forbidden(session, [topic], one)}


@pytest.mark.parametrize(
    ("rules", "operations"),
    [
        ([], set()),
        ([(Operation.READ, ALLOW)], {READ, DESCRIBE}),
        ([(Operation.WRITE, ALLOW)], {WRITE, DESCRIBE}),
        ([(Operation.DESCRIBE, ALLOW)], {DESCRIBE}),
        ([(Operation.DELETE, ALLOW)], {DELETE, DESCRIBE}),
        ([(Operation.ALL, ALLOW)], set(ALL_OF_THEM)),
        ([(Operation.ALL, ALLOW), (Operation.WRITE, DENY)], {READ, DESCRIBE, DELETE}),
        ([(Operation.ALL, ALLOW), (Operation.ALL, DENY)], set()),
        ([(Operation.READ, ALLOW), (Operation.DESCRIBE, DENY)], set()),
        ([(Operation.CREATE, ALLOW)], set()),
        ([(Operation.ALTER_CONFIGS, ALLOW)], set()),
    ],
)
async def test_what_the_acls_of_a_topic_say(
    secured: SecuredKafka, rules: list[tuple[Operation, AclPermissionType]], operations: set[AclOperation]
) -> None:
    name = made_topic(secured.cluster.bootstrap)
    if rules:
        add(secured, *(rule(name, "User:reader", operation, permission) for operation, permission in rules))
    assert await allowed(secured, "reader", name) == operations
    assert await allowed(secured, "nobody", name) == set()
    assert await allowed(secured, "alice", name) == set(ALL_OF_THEM), "a super user may do everything"


async def test_patterns_and_rules_for_everybody(secured: SecuredKafka) -> None:
    mark = uuid.uuid4().hex[:8]
    inside, outside = made_topic(secured.cluster.bootstrap, f"{mark}-inside"), made_topic(secured.cluster.bootstrap, f"other-{mark}")
    add(secured, rule(f"{mark}-", "User:*", Operation.READ, pattern=PREFIXED), rule(inside, "User:denied", Operation.READ, DENY))
    assert await allowed(secured, "reader", inside) == {READ, DESCRIBE}
    assert await allowed(secured, "denied", inside) == {DESCRIBE}
    assert await allowed(secured, "reader", outside) == set()


async def test_unknown_topics(secured: SecuredKafka) -> None:
    """A topic that neither knows is not forbidden where the user may look; one that is hidden from the user is."""
    mark = uuid.uuid4().hex[:8]
    add(secured, rule(f"{mark}-", "User:reader", Operation.ALL, pattern=PREFIXED))
    async with session_of(secured.address(LOGIN), ClientSecurity(secured.login("reader", PASSWORDS["reader"]))) as session:
        names = [f"{mark}-gone", "hidden-and-gone", "no topic", ""]
        assert await TopicRights(Topics(), TTL_MS).forbidden(session, names, WRITE) == {"hidden-and-gone"}
    assert await allowed(secured, "reader", f"{mark}-gone") == set(), "the topic has no shadow"


async def test_rights_that_are_taken_away_while_connected(secured: SecuredKafka) -> None:
    name = made_topic(secured.cluster.bootstrap)
    given = rule(name, "User:leaver", Operation.WRITE)
    add(secured, given)
    async with session_of(secured.address(LOGIN), ClientSecurity(secured.login("leaver", PASSWORDS["leaver"]))) as session:
        rights = TopicRights(Topics(name), 5_000)
        assert await rights.forbidden(session, [name], WRITE) == frozenset()
        await asyncio.to_thread(take_away, secured, given)
        taken_s = time.monotonic()
        while not (rights.known(session, [name], WRITE) or await rights.forbidden(session, [name], WRITE)):
            assert time.monotonic() - taken_s < 10
            await asyncio.sleep(0.05)


async def test_a_cluster_without_an_authorizer_allows_everything(bootstrap: str) -> None:
    name = made_topic(bootstrap)
    async with session_of(bootstrap, PLAIN_TEXT) as session:
        rights = TopicRights(Topics(name), TTL_MS)
        for operation in ALL_OF_THEM:
            assert await rights.forbidden(session, [name], operation) == frozenset()
        assert rights.known(session, [name], READ) == frozenset()
