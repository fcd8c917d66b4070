"""The members of a consumer group, asked of the group's coordinator over a connection of this process's own.

librdkafka is not asked: its requests to a group's coordinator end the process by an assertion when that broker goes away at the wrong
moment (`rd_kafka_enq_once_del_source_return`, its issue 4605). A group that brokers do not know has no members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import kio.schema.describe_groups.v5 as describe_groups
import kio.schema.find_coordinator.v4 as find_coordinator
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from coordinator.adapters.kafka.bootstrap import Bootstrap, rest_s
from coordinator.adapters.kafka.broker import BrokerConnection, connect, refused

COORDINATOR_PAUSE_S: Final = 0.1
COORDINATOR_IS_COMING: Final = frozenset(
    {KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}
)
"""Answers while the group moves to another broker, and while the first group of a new cluster gets its topic: asked again until the end."""
KEY_TYPE_GROUP: Final = 0

One = TypeVar("One")


def describe_members(properties: Mapping[str, Any], group_id: str, timeout_s: float) -> frozenset[str]:
    """Return the client ids of a group's members; none for a group the brokers do not know. Blocks. Raises `KafkaException`.

    `properties` are librdkafka's; the bootstrap servers, the client id and the security of them are used.
    """

    return ask_coordinator(properties, group_id, timeout_s, lambda coordinator: _members(coordinator, group_id))


def ask_coordinator(properties: Mapping[str, Any], group_id: str, timeout_s: float, ask: Callable[[BrokerConnection], One]) -> One:
    """Return what `ask` finds on a connection to the coordinator of a group. Blocks. Raises `KafkaException`.

    While the group moves, or is coming, `ask` is called again.
    """
    bootstrap, end_s = Bootstrap.of(properties), time.monotonic() + timeout_s
    while True:
        try:
            host, port = _find_coordinator(bootstrap, group_id, end_s)
            security, client_id = bootstrap.security, bootstrap.client_id
            with connect(host, port, security=security, client_id=client_id, timeout_s=rest_s(end_s)) as coordinator:
                return ask(coordinator)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_IS_COMING or time.monotonic() + COORDINATOR_PAUSE_S >= end_s:
                raise
        time.sleep(COORDINATOR_PAUSE_S)


def _find_coordinator(bootstrap: Bootstrap, group_id: str, end_s: float) -> tuple[str, int]:
    """Ask which broker coordinates the group. Raises `KafkaException`."""
    request = find_coordinator.FindCoordinatorRequest(key_type=KEY_TYPE_GROUP, coordinator_keys=(group_id,))  # type: ignore[arg-type]
    return bootstrap.ask(request, find_coordinator.FindCoordinatorResponse, _address, end_s)


def _address(answer: find_coordinator.FindCoordinatorResponse) -> tuple[str, int]:
    found = only(answer.coordinators)
    check(found.error_code, found.error_message)
    return found.host, int(found.port)


def _members(coordinator: BrokerConnection, group_id: str) -> frozenset[str]:
    request = describe_groups.DescribeGroupsRequest(groups=(GroupId(group_id),), include_authorized_operations=False)
    group = only(coordinator.ask(request, describe_groups.DescribeGroupsResponse).groups)
    check(group.error_code, None)
    return frozenset(member.client_id for member in group.members)


def only(answers: Sequence[One]) -> One:
    """Return the one answer to a question about one group. Raises `KafkaException` for any other number of answers."""
    if len(answers) != 1:
        raise refused(KafkaError._BAD_MSG, f"the broker gave {len(answers)} answers to a question about one group")
    return answers[0]


def check(code: ErrorCode, text: str | None) -> None:
    """Raise `KafkaException` for an error."""
    if code is not ErrorCode.none:
        raise refused(int(code.value), text or f"the broker answers {code.name}")
