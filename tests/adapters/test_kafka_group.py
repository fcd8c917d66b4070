"""Who is in a group, asked over a connection of our own: brokers that are wrong, slow or gone; real answers: contract `members_...`."""

from __future__ import annotations

import ast
import struct
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import kio.schema.describe_groups.v5 as describe_groups
import kio.schema.find_coordinator.v4 as find_coordinator
import kio.schema.sasl_authenticate.v0 as sasl_authenticate
import kio.schema.sasl_handshake.v1 as sasl_handshake
import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, GroupId
from kio.static.primitive import i32, i32Timedelta

from coordinator.adapters.kafka.bootstrap import bootstrap_addresses
from coordinator.adapters.kafka.group import describe_members
from coordinator.protocol.codec import Message
from tests.adapters.scripted_broker import Answer, Broker, broker

HERE = Path(__file__).parents[2]
DEADLY = {
    "alter_consumer_group_offsets",
    "delete_consumer_groups",
    "describe_cluster",
    "describe_consumer_groups",
    "list_consumer_group_offsets",
}
"""Requests of admin clients that may end their process: those to a group's coordinator, and one without any broker in its answer."""
NO_TIME = i32Timedelta.parse(timedelta(0))


def itself(asked: Broker, code: ErrorCode = ErrorCode.none) -> Message:
    """FindCoordinator: the broker that is asked."""
    found = find_coordinator.response.Coordinator(
        key="g",
        node_id=BrokerId(1),
        host="127.0.0.1",
        port=i32(asked.port),
        error_code=code,
        error_message=None,
    )
    return find_coordinator.FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=(found,))


def classic(*client_ids: str, state: str = "Stable", code: ErrorCode = ErrorCode.none) -> Answer:
    """DescribeGroups."""
    members = tuple(
        describe_groups.response.DescribedGroupMember(
            member_id=one, client_id=one, client_host="/h", member_metadata=b"", member_assignment=b"a"
        )
        for one in client_ids
    )
    group = describe_groups.response.DescribedGroup(
        error_code=code,
        group_id=GroupId("g"),
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=members,
    )
    return lambda _: describe_groups.DescribeGroupsResponse(throttle_time=NO_TIME, groups=(group,))


FIND, DESCRIBE, HANDSHAKE, AUTHENTICATE = 10, 15, 17, 36
PLAINTEXT: Mapping[str, str] = {}


def members(asked: Broker | str, timeout_s: float = 5.0, security: Mapping[str, str] = PLAINTEXT) -> frozenset[str]:
    servers = asked if isinstance(asked, str) else f"127.0.0.1:{asked.port}"
    return describe_members({"bootstrap.servers": servers, "client.id": "c", **security}, "g", timeout_s)


def refusal(asked: Broker | str, security: Mapping[str, str] = PLAINTEXT) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        members(asked, 1.0, security)
    error: KafkaError = raised.value.args[0]
    return error


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({DESCRIBE: classic("a", "b")}, {"a", "b"}),
        ({DESCRIBE: classic(state="Empty")}, set()),
        ({DESCRIBE: classic(state="Dead")}, set()),
    ],
)
def test_the_members_of_a_group_are_told(answers: dict[int, Answer], expected: set[str]) -> None:
    with broker({FIND: itself, **answers}) as asked:
        assert members(asked) == expected
        assert asked.asked == [FIND, *answers]


def test_bootstrap_servers_are_asked_in_turn() -> None:
    with broker({FIND: lambda _: None}) as silent, broker({FIND: itself, DESCRIBE: classic("a")}) as asked:
        assert members(f"127.0.0.1:1,127.0.0.1:{silent.port},127.0.0.1:{asked.port}") == {"a"}


def test_a_coordinator_that_is_coming_is_waited_for() -> None:
    codes = [ErrorCode.coordinator_not_available, ErrorCode.none, ErrorCode.none]
    described = [classic(code=ErrorCode.not_coordinator), classic("a")]
    with broker({FIND: lambda asked: itself(asked, codes.pop(0)), DESCRIBE: lambda asked: described.pop(0)(asked)}) as asked:
        assert members(asked) == {"a"}


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({FIND: lambda asked: itself(asked, ErrorCode.group_authorization_failed)}, KafkaError.GROUP_AUTHORIZATION_FAILED),
        ({FIND: lambda asked: itself(asked, ErrorCode.coordinator_not_available)}, KafkaError.COORDINATOR_NOT_AVAILABLE),
        ({FIND: lambda _: find_coordinator.FindCoordinatorResponse(throttle_time=NO_TIME, coordinators=())}, KafkaError._BAD_MSG),
        ({FIND: itself, DESCRIBE: classic(code=ErrorCode.group_authorization_failed)}, KafkaError.GROUP_AUTHORIZATION_FAILED),
        ({FIND: itself, DESCRIBE: lambda _: None}, KafkaError._TIMED_OUT),
        ({FIND: itself, DESCRIBE: lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n"}, KafkaError._BAD_MSG),
        ({FIND: itself, DESCRIBE: lambda _: struct.pack(">ii", 4, 77)}, KafkaError._BAD_MSG),
        ({FIND: itself, DESCRIBE: lambda _: struct.pack(">iixx", 6, 2)}, KafkaError._BAD_MSG),
    ],
)
def test_wrong_and_slow_brokers_are_errors_within_the_time(answers: dict[int, Answer], code: int) -> None:
    with broker(answers) as asked:
        began_s = time.monotonic()
        assert refusal(asked).code() == code
        assert time.monotonic() - began_s < 30


def test_a_broker_that_is_gone_is_an_error() -> None:
    assert refusal("127.0.0.1:1").code() == KafkaError._TRANSPORT


def test_a_login_by_plain_sends_name_and_password() -> None:
    logged_in = sasl_authenticate.SaslAuthenticateResponse(error_code=ErrorCode.none, error_message=None, auth_bytes=b"")
    known = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",))
    with broker({HANDSHAKE: lambda _: known, AUTHENTICATE: lambda _: logged_in, FIND: itself, DESCRIBE: classic("a")}) as asked:
        login = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
        assert members(asked, security=login) == {"a"}
        assert asked.logins == [b"\0u\0p"] * 2


def test_a_login_that_is_refused_says_why() -> None:
    no = sasl_authenticate.SaslAuthenticateResponse(error_code=ErrorCode.sasl_authentication_failed, error_message="wrong", auth_bytes=b"")
    known = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=("PLAIN",))
    other = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=("OTHER",))
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with broker({HANDSHAKE: lambda _: known, AUTHENTICATE: lambda _: no}) as asked:
        error = refusal(asked, login)
        assert (error.code(), error.str()) == (KafkaError.SASL_AUTHENTICATION_FAILED, f"127.0.0.1:{asked.port} refused the login: wrong")
    with broker({HANDSHAKE: lambda _: other}) as asked:
        assert refusal(asked, login).code() == KafkaError.UNSUPPORTED_SASL_MECHANISM


@pytest.mark.parametrize(
    ("security", "told"),
    [
        ({"security.protocol": "SASL_SSL"}, "GSSAPI is not known; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "PKCS12"},
            "ssl.keystore.type PKCS12 is not known",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "/does/not/exist"}, "No such file"),
    ],
)
def test_security_that_cannot_be_followed_is_refused_by_name(security: dict[str, str], told: str) -> None:
    error = refusal("127.0.0.1:1", security)
    assert error.code() == KafkaError._UNSUPPORTED_FEATURE
    assert told in error.str()


def test_bootstrap_servers_are_read_as_librdkafka_reads_them() -> None:
    texts = "a:1, b ,PLAINTEXT://c:3,[::1]:4,[::2]"
    assert bootstrap_addresses(texts) == [("a", 1), ("b", 9092), ("c", 3), ("::1", 4), ("::2", 9092)]


def test_no_module_of_the_coordinator_makes_requests_that_may_end_it() -> None:
    found = {
        str(path.relative_to(HERE))
        for path in (HERE / "coordinator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in DEADLY
    }
    assert found == set()


def test_only_public_modules_of_the_client_are_imported() -> None:
    roots = [HERE / name for name in ("coordinator", "cli", "migration", "spark_jobs", "records", "tables")]
    nodes = [node for root in roots for path in root.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert {name for name in imported if name.startswith("confluent_kafka")} == {"confluent_kafka", "confluent_kafka.admin"}
