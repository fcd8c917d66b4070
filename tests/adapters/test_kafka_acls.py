"""The ACLs of Kafka, asked over a connection of our own: an error is an error, never an empty list."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import kio.schema.describe_acls.v2 as describe_acls
import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32Timedelta

from coordinator.adapters.kafka.acls import AclsUnavailable, KafkaAcls
from coordinator.adapters.kafka.settings import KafkaPropertyRefused
from coordinator.kafka.acls import AclOperation, TopicPattern
from coordinator.security.acls import Binding
from tests.adapters.scripted_broker import Answer, Broker, broker

DESCRIBE_ACLS = 29
LITERAL, DENY, ALLOW = i8(3), i8(2), i8(3)


def told(*acls: tuple[str, str, int, i8], error: ErrorCode = ErrorCode.none, message: str | None = None) -> Answer:
    """DescribeAcls: principal, host, operation and permission of each ACL."""
    described = tuple(
        describe_acls.response.AclDescription(principal=principal, host=host, operation=i8(operation), permission_type=permission)
        for principal, host, operation, permission in acls
    )
    resource = describe_acls.response.DescribeAclsResource(
        resource_type=i8(4), resource_name="kafka-cluster", pattern_type=LITERAL, acls=described
    )
    answer = describe_acls.DescribeAclsResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=error,
        error_message=message,
        resources=(resource,) if described else (),
    )
    return lambda _: answer


def acls_of(asked: Broker | str, security: Mapping[str, str] | None = None, timeout_s: float = 5.0) -> KafkaAcls:
    servers = asked if isinstance(asked, str) else f"127.0.0.1:{asked.port}"
    return KafkaAcls(bootstrap_servers=servers, client_id="c", kafka_properties=security or {}, request_timeout_s=timeout_s)


async def refusal(asked: Broker | str, security: Mapping[str, str] | None = None) -> str:
    with pytest.raises(AclsUnavailable) as raised:
        await acls_of(asked, security, 1.0).read()
    return str(raised.value)


async def test_the_acls_are_read_with_host_and_permission() -> None:
    of_tokens = ("User:a", "*", 13, ALLOW)  # CREATE_TOKENS is nothing that counts here
    with broker({DESCRIBE_ACLS: told(("User:a", "*", 7, ALLOW), ("User:b", "10.0.0.2", 2, DENY), of_tokens)}) as asked:
        assert await acls_of(asked).read() == {
            Binding("User:a", AclOperation.ALTER),
            Binding("User:b", AclOperation.ALL, False, "10.0.0.2"),
        }


async def test_the_acls_on_topics_are_read_with_their_patterns() -> None:
    def resource(name: str, pattern: int) -> describe_acls.response.DescribeAclsResource:
        acl = describe_acls.response.AclDescription(principal="User:a", host="*", operation=i8(3), permission_type=ALLOW)
        return describe_acls.response.DescribeAclsResource(resource_type=i8(2), resource_name=name, pattern_type=i8(pattern), acls=(acl,))

    of_topics = describe_acls.DescribeAclsResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        error_code=ErrorCode.none,
        error_message=None,
        resources=(resource("orders", 3), resource("app-", 4), resource("*", 3)),
    )
    in_turn = iter((told(("User:a", "*", 7, ALLOW)), lambda _: of_topics))
    with broker({DESCRIBE_ACLS: lambda asked: next(in_turn)(asked)}) as asked:
        found = await acls_of(asked).read()
    patterns = {TopicPattern("orders"), TopicPattern("app-", is_prefix=True), TopicPattern("*")}
    assert found == {Binding("User:a", AclOperation.ALTER)} | {Binding("User:a", AclOperation.READ, topics=one) for one in patterns}


async def test_a_cluster_without_acls_has_none() -> None:
    with broker({DESCRIBE_ACLS: told()}) as asked:
        assert await acls_of(asked).read() == frozenset()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ErrorCode.cluster_authorization_failed, "allow the principal of this node DESCRIBE on the cluster"),
        (ErrorCode.security_disabled, "set authorizer.class.name on its brokers, or use authorizer=acls here"),
        (ErrorCode.unknown_server_error, "the broker answers unknown_server_error"),
    ],
)
async def test_a_refusal_is_no_empty_list_and_says_what_to_do(error: ErrorCode, remedy: str) -> None:
    with broker({DESCRIBE_ACLS: told(error=error)}) as asked:
        assert remedy in await refusal(asked)


async def test_what_the_broker_says_is_said() -> None:
    with broker({DESCRIBE_ACLS: told(error=ErrorCode.security_disabled, message="No Authorizer is configured.")}) as asked:
        assert (await refusal(asked)).startswith("No Authorizer is configured.: Kafka has no authorizer")


async def test_the_next_bootstrap_server_is_asked_when_one_refuses() -> None:
    refusing, telling = told(error=ErrorCode.cluster_authorization_failed), told(("User:a", "*", 7, ALLOW))
    with broker({DESCRIBE_ACLS: refusing}) as first, broker({DESCRIBE_ACLS: telling}) as second:
        both = acls_of(f"127.0.0.1:{first.port},127.0.0.1:{second.port}")
        assert await both.read() == {Binding("User:a", AclOperation.ALTER)}


async def test_brokers_that_are_silent_gone_or_none_are_refusals() -> None:
    with broker({DESCRIBE_ACLS: lambda _: None}) as silent, broker({DESCRIBE_ACLS: lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n"}) as other:
        assert "did not answer in time" in await refusal(silent)
        assert "does not answer as a broker" in await refusal(other)
    assert "127.0.0.1:1" in await refusal("127.0.0.1:1")


async def test_security_that_cannot_be_followed_is_a_refusal_and_fixed_properties_are_an_error() -> None:
    assert "GSSAPI is not known" in await refusal("127.0.0.1:1", {"security.protocol": "SASL_SSL"})
    with pytest.raises(KafkaPropertyRefused, match=r"client\.id"):
        acls_of("127.0.0.1:1", {"client.id": "mine"})
