"""How writers of a classic topic are stopped: by an ACL that denies everybody to write, or by the word of an operator.

An ACL does not stop the super users of Kafka, and neither way stops the markers by which brokers end open transactions.
librdkafka is not asked: its answers come in a thread of its own, which ends the process if the client's last user is gone by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import kio.schema.create_acls.v3 as create_acls
import kio.schema.delete_acls.v3 as delete_acls
import kio.schema.describe_acls.v3 as describe_acls
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.classic.leaders import Leaders
from coordinator.client.migration.classic import MigrationRefused

EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"
LOOK_EVERY_S: Final = 0.05
TOPIC, LITERAL, WRITE, DENY = i8(2), i8(3), i8(4), i8(2)
"""Numbers of Kafka's protocol for the resource, the pattern, the operation and the permission of the ACL."""

_REMEDIES: Final = {
    KafkaError.SECURITY_DISABLED: "Kafka has no authorizer, so it cannot stop writers: stop them yourself and say so (--writers-stopped)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the principal ALTER and DESCRIBE on the cluster (kafka-acls --add --cluster), or stop "
    "the writers yourself and say so (--writers-stopped)",
}

T = TypeVar("T")


class WriterFence(Protocol):
    """Stops the writers of a topic. All methods may be repeated."""

    async def close(self) -> None:
        """Stop them; returns when every broker refuses them. Raises `MigrationRefused`, `KafkaException`."""

    async def open(self) -> None:
        """Let them write again. Raises `MigrationRefused`, `KafkaException`."""

    async def is_closed(self) -> bool:
        """Tell whether they are stopped. Raises `MigrationRefused`, `KafkaException`."""


class ConfirmedFence:
    """An operator has stopped the writers, and lets them write again."""

    async def close(self) -> None:
        """Rely on the operator."""

    async def open(self) -> None:
        """Leave it to the operator."""

    async def is_closed(self) -> bool:
        """Rely on the operator."""
        return True


class AclFence:
    """Denies everybody to write to a topic by one ACL of Kafka, which it also takes away."""

    def __init__(self, leaders: Leaders, timeout_s: float) -> None:
        self._leaders = leaders
        self._timeout_s = timeout_s

    async def close(self) -> None:
        """Add the ACL, and wait until every broker goes by it. Raises `MigrationRefused`, `KafkaException`."""
        await self._asked(self._add)
        end_s = time.monotonic() + self._timeout_s
        while not all(await self._asked(lambda: self._leaders.ask_each_broker(self._is_denied))):
            if time.monotonic() >= end_s:
                text = f"some brokers do not yet deny writes to topic {self._leaders.topic} after {self._timeout_s:g} s; try again"
                raise MigrationRefused(text)
            await asyncio.sleep(LOOK_EVERY_S)

    async def open(self) -> None:
        """Take the ACL away. Raises `MigrationRefused`, `KafkaException`."""
        await self._asked(self._remove)

    async def is_closed(self) -> bool:
        """Tell whether every broker denies writes. Raises `MigrationRefused`, `KafkaException`."""
        return all(await self._asked(lambda: self._leaders.ask_each_broker(self._is_denied)))

    async def _asked(self, question: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(question)
        except KafkaException as error:
            if (remedy := _REMEDIES.get(error.args[0].code())) is None:
                raise
            raise MigrationRefused(f"writers of topic {self._leaders.topic} cannot be stopped by an ACL: {remedy}") from error

    # ---- blocking, in worker threads

    def _add(self) -> None:
        acl = create_acls.request.AclCreation(
            resource_type=TOPIC,
            resource_name=self._leaders.topic,
            resource_pattern_type=LITERAL,
            principal=EVERYBODY,
            host=ANY_HOST,
            operation=WRITE,
            permission_type=DENY,
        )
        for done in self._leaders.ask_any(create_acls.CreateAclsRequest(creations=(acl,)), create_acls.CreateAclsResponse).results:
            _check(done.error_code, done.error_message)

    def _remove(self) -> None:
        wanted = delete_acls.request.DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=self._leaders.topic,
            pattern_type_filter=LITERAL,
            principal_filter=EVERYBODY,
            host_filter=ANY_HOST,
            operation=WRITE,
            permission_type=DENY,
        )
        for done in self._leaders.ask_any(delete_acls.DeleteAclsRequest(filters=(wanted,)), delete_acls.DeleteAclsResponse).filter_results:
            _check(done.error_code, done.error_message)
            for acl in done.matching_acls:
                _check(acl.error_code, acl.error_message)

    def _is_denied(self, broker: BrokerConnection) -> bool:
        request = describe_acls.DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter=self._leaders.topic,
            pattern_type_filter=LITERAL,
            principal_filter=EVERYBODY,
            host_filter=ANY_HOST,
            operation=WRITE,
            permission_type=DENY,
        )
        answer = broker.ask(request, describe_acls.DescribeAclsResponse)
        _check(answer.error_code, answer.error_message)
        return any(resource.acls for resource in answer.resources)


def _check(code: ErrorCode, text: str | None) -> None:
    if code is not ErrorCode.none:
        raise refused(int(code.value), text or f"the broker answers {code.name}")
