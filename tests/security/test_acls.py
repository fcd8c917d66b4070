"""The table of ACLs: Kafka's rules of what is allowed, implied and denied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.acls import EVERYTHING, AclOperation, TopicPattern, effective
from coordinator.security.acls import ANY_PRINCIPAL, AclTable, Binding, Everything
from coordinator.security.principal import ANONYMOUS, Principal

ALICE, BOB, NODE = Principal("alice"), Principal("bob"), Principal("diskless-node", is_node=True)
A = AclOperation
OPERATIONS = st.frozensets(st.sampled_from(AclOperation))


def table(*bindings: Binding, super_users: tuple[str, ...] = ()) -> AclTable:
    return AclTable(bindings, super_users=super_users, remedy="")


@pytest.mark.parametrize(
    ("allowed", "denied", "expected"),
    [
        ((), (), ()),
        ((A.CLUSTER_ACTION,), (), (A.CLUSTER_ACTION,)),
        ((A.ALTER,), (), (A.ALTER, A.DESCRIBE)),
        ((A.ALTER,), (A.DESCRIBE,), (A.ALTER,)),
        ((A.DESCRIBE,), (A.ALTER,), (A.DESCRIBE,)),
        ((A.ALTER_CONFIGS,), (), (A.ALTER_CONFIGS, A.DESCRIBE_CONFIGS)),
        ((A.ALL,), (), tuple(AclOperation)),
        ((A.ALL,), (A.ALTER,), tuple(set(AclOperation) - {A.ALTER})),
        ((A.ALL, A.DESCRIBE), (A.ALL,), ()),
    ],
)
def test_what_is_allowed_implies_more_and_what_is_denied_wins(
    allowed: tuple[AclOperation, ...], denied: tuple[AclOperation, ...], expected: tuple[AclOperation, ...]
) -> None:
    assert effective(allowed, denied) == set(expected)


@given(OPERATIONS, OPERATIONS, OPERATIONS)
def test_a_further_denial_never_allows_and_a_further_permission_never_denies(
    allowed: frozenset[AclOperation], denied: frozenset[AclOperation], more: frozenset[AclOperation]
) -> None:
    assert effective(allowed, denied | more) <= effective(allowed, denied) <= effective(allowed | more, denied)


def test_a_principal_has_its_own_acls_and_those_of_everybody() -> None:
    rules = table(Binding("User:alice", A.ALTER), Binding(ANY_PRINCIPAL, A.CLUSTER_ACTION), Binding("User:bob", A.CLUSTER_ACTION, False))
    assert rules.granted(ALICE, "10.0.0.1") == {A.ALTER, A.DESCRIBE, A.CLUSTER_ACTION}
    assert rules.granted(BOB, "10.0.0.1") == frozenset()
    assert rules.granted(ANONYMOUS, "10.0.0.1") == {A.CLUSTER_ACTION}
    assert rules.granted(Principal("alice", kind="Group"), "10.0.0.1") == {A.CLUSTER_ACTION}


def test_an_acl_of_a_host_counts_for_its_clients_alone() -> None:
    rules = table(Binding("User:alice", A.ALTER, host="10.0.0.1"), Binding(ANY_PRINCIPAL, A.ALTER, False, "10.0.0.2"))
    assert rules.granted(ALICE, "10.0.0.1") == {A.ALTER, A.DESCRIBE}
    assert rules.granted(ALICE, "10.0.0.2") == frozenset()
    assert rules.granted(ALICE, "10.0.0.3") == frozenset()


def test_super_users_and_nodes_may_do_everything_whatever_is_denied() -> None:
    rules = table(Binding(ANY_PRINCIPAL, A.ALL, False), super_users=("User:alice",))
    assert rules.granted(ALICE, "x") == rules.granted(NODE, "x") == EVERYTHING
    assert rules.granted(BOB, "x") == rules.granted(Principal("diskless-node"), "x") == frozenset()


def test_rules_that_are_not_known_yet_concern_neither_super_users_nor_nodes() -> None:
    rules = AclTable(None, super_users=("User:alice",), remedy="")
    assert rules.granted(BOB, "x") is None
    assert rules.granted(ALICE, "x") == rules.granted(NODE, "x") == EVERYTHING


def test_without_an_authorizer_everybody_may() -> None:
    assert Everything().granted(ANONYMOUS, "x") == EVERYTHING


def on(topics: str, operation: AclOperation = A.READ, **more: Any) -> Binding:
    """An ACL of alice on a topic, or on those that begin with what is before a `*`."""
    name = topics if topics == "*" else topics.removesuffix("*")
    return Binding("User:alice", operation, topics=TopicPattern(name, is_prefix=name != topics))._replace(**more)


@pytest.mark.parametrize(
    ("bindings", "topic", "expected"),
    [
        ([on("orders")], "orders", {A.READ, A.DESCRIBE}),
        ([on("orders")], "orders-2", set()),
        ([on("order*")], "orders", {A.READ, A.DESCRIBE}),
        ([on("order*")], "order", {A.READ, A.DESCRIBE}),
        ([on("order*")], "orde", set()),
        ([on("*")], "orders", {A.READ, A.DESCRIBE}),
        ([on("*"), on("ord*", is_allowed=False)], "orders", {A.DESCRIBE}),
        ([on("*"), on("ord*", A.ALL, is_allowed=False)], "orders", set()),
        ([on("*"), on("ord*", A.ALL, is_allowed=False)], "parts", {A.READ, A.DESCRIBE}),
        ([on("orders"), on("*", A.DESCRIBE, is_allowed=False)], "orders", {A.READ}),
        ([on("orders", host="10.0.0.2")], "orders", None),
        ([on("orders", principal="User:*")], "orders", {A.READ, A.DESCRIBE}),
        ([on("orders", principal="User:bob")], "orders", None),
        ([on("orders", is_allowed=False)], "orders", None),
        ([Binding("User:alice", A.READ)], "orders", None),
    ],
)
def test_acls_on_topics_count_as_in_kafka(bindings: list[Binding], topic: str, expected: set[AclOperation] | None) -> None:
    rights = table(*bindings).on_topics(ALICE, "10.0.0.1")
    assert (None if rights is None else rights.granted(topic)) == expected
    assert (None if rights is None else rights.granted(topic)) == expected  # remembered


def test_acls_on_topics_and_on_the_cluster_are_apart() -> None:
    rules = table(Binding("User:alice", A.CLUSTER_ACTION), on("orders"), on("orders", A.CLUSTER_ACTION, is_allowed=False))
    assert rules.granted(ALICE, "x") == {A.CLUSTER_ACTION}
    rights = rules.on_topics(ALICE, "x")
    assert rights is not None
    assert rights.granted("orders") == {A.READ, A.DESCRIBE}
    assert Everything().on_topics(ALICE, "x") is None
    assert AclTable(None, super_users=(), remedy="").on_topics(ALICE, "x") is None
