"""How writers of a classic topic are stopped: by an ACL that denies everybody to write, or by the word of an operator.

An ACL does not stop the super users of Kafka, and neither way stops the markers by which brokers end open transactions.
A topic without any ACL may be read by everybody (`allow.everyone.if.no.acl.found=true`), until it has its first: then the fence keeps its
readers by more ACLs, which allow everybody all but to write.
librdkafka is not asked: its answers come in a thread of its own, which ends the process if the client's last user is gone by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import kio.schema.create_acls.v3 as create_acls
import kio.schema.delete_acls.v3 as delete_acls
import kio.schema.describe_acls.v3 as describe_acls
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.partition_leaders import PartitionLeaders
from coordinator.kafka.acls import AclOperation
from migration.classic import MigrationRefused

EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"
LOOK_EVERY_S: Final = 0.05
TOPIC, MATCH, LITERAL, DENY, ALLOW, ANY = i8(2), i8(2), i8(3), i8(2), i8(3), i8(1)
"""Numbers of Kafka's protocol for resources, patterns and permissions."""
WRITES: Final = (DENY, i8(AclOperation.WRITE))
READERS: Final = frozenset(
    (ALLOW, i8(operation))
    for operation in (
        AclOperation.READ,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)
"""All other operations of topics, one by one: nobody else is likely to have made exactly these ACLs, which are taken away again."""

_REMEDIES: Final = {
    KafkaError.SECURITY_DISABLED: "Kafka has no authorizer, so it cannot stop writers: stop them yourself and say so (--writers-stopped)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the principal ALTER on the cluster (kafka-acls --add --cluster), or stop "
    "the writers yourself and say so (--writers-stopped)",
}

T = TypeVar("T")


class TopicAcls(NamedTuple):
    """The ACLs that apply to a topic: whether a fence's deny everybody to write, and allow all else; and how many others there are."""

    is_closed: bool
    keeps_readers: bool
    others: int


class WriterFence(Protocol):
    """Stops the writers of a topic. All methods may be repeated. They raise `MigrationRefused`, `KafkaException`."""

    async def close(self) -> None:
        """Stop them; returns when every broker refuses them."""

    async def open(self) -> None:
        """Let them write again."""

    async def acls(self) -> TopicAcls:
        """Tell by which ACLs every broker goes."""


class ConfirmedFence:
    """An operator has stopped the writers, and lets them write again."""

    async def close(self) -> None:
        """Rely on the operator."""

    async def open(self) -> None:
        """Leave it to the operator."""

    async def acls(self) -> TopicAcls:
        """Name none."""
        return TopicAcls(is_closed=False, keeps_readers=False, others=0)


class AclFence:
    """Denies everybody to write to a topic by an ACL of Kafka, which it also takes away."""

    def __init__(self, leaders: PartitionLeaders, timeout_s: float, *, keep_readers: bool) -> None:
        """With `keep_readers` everybody is allowed all but to write, if the topic has no other ACL."""
        self._leaders = leaders
        self._timeout_s = timeout_s
        self._keep_readers = keep_readers

    async def close(self) -> None:
        """Add the ACLs, and wait until every broker goes by them. Raises `MigrationRefused`, `KafkaException`."""
        keeps = self._keep_readers and not (await self.acls()).others
        wanted = [*sorted(READERS), WRITES] if keeps else [WRITES]
        await self._asked(lambda: self._add(wanted))
        await self._until(lambda found: found.is_closed and (found.keeps_readers or not keeps), "do not yet deny")

    async def open(self) -> None:
        """Take the ACLs away, and wait until no broker goes by them; needs no right to the topic. As `close` raises.

        A later `close` keeps the readers as it was.
        """
        self._keep_readers = await self._asked(self._remove)
        await self._until(lambda found: not found.is_closed, "still deny")

    async def _until(self, is_so: Callable[[TopicAcls], bool], text: str) -> None:
        """Wait until it is so at every broker. Raises `MigrationRefused`, `KafkaException`."""
        end_s = time.monotonic() + self._timeout_s
        while not all(map(is_so, await self._asked(self._look_at_each))):
            if time.monotonic() >= end_s:
                raise MigrationRefused(f"some brokers {text} writes to topic {self._leaders.topic} after {self._timeout_s:g} s; try again")
            await asyncio.sleep(LOOK_EVERY_S)

    async def acls(self) -> TopicAcls:
        """Ask every broker. Raises `MigrationRefused`, `KafkaException`."""
        found = await self._asked(self._look_at_each)
        return TopicAcls(
            is_closed=all(one.is_closed for one in found),
            keeps_readers=all(one.keeps_readers for one in found),
            others=max((one.others for one in found), default=0),
        )

    async def _asked(self, question: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(question)
        except KafkaException as error:
            if (remedy := _REMEDIES.get(error.args[0].code())) is None:
                raise
            raise MigrationRefused(f"writers of topic {self._leaders.topic} cannot be stopped by an ACL: {remedy}") from error

    # ---- blocking, in worker threads

    def _add(self, acls: Sequence[tuple[i8, i8]]) -> None:
        creations = tuple(
            create_acls.request.AclCreation(
                resource_type=TOPIC,
                resource_name=self._leaders.topic,
                resource_pattern_type=LITERAL,
                principal=EVERYBODY,
                host=ANY_HOST,
                operation=operation,
                permission_type=permission,
            )
            for permission, operation in acls
        )
        for done in self._leaders.ask_any(create_acls.CreateAclsRequest(creations=creations), create_acls.CreateAclsResponse).results:
            _check(done.error_code, done.error_message)

    def _remove(self) -> bool:
        """Returns whether readers were kept."""
        keeps_readers = self._read(self._leaders.ask_any(self._question(), describe_acls.DescribeAclsResponse)).keeps_readers
        filters = tuple(
            delete_acls.request.DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter=self._leaders.topic,
                pattern_type_filter=LITERAL,
                principal_filter=EVERYBODY,
                host_filter=ANY_HOST,
                operation=operation,
                permission_type=permission,
            )
            # In one request: readers are not without their ACLs while the one against writers stands.
            for permission, operation in [WRITES, *(sorted(READERS) if keeps_readers else ())]
        )
        for done in self._leaders.ask_any(delete_acls.DeleteAclsRequest(filters=filters), delete_acls.DeleteAclsResponse).filter_results:
            _check(done.error_code, done.error_message)
            for acl in done.matching_acls:
                _check(acl.error_code, acl.error_message)
        return keeps_readers

    def _look_at_each(self) -> list[TopicAcls]:
        return self._leaders.ask_each_broker(self._look)

    def _look(self, broker: BrokerConnection) -> TopicAcls:
        return self._read(broker.ask(self._question(), describe_acls.DescribeAclsResponse))

    def _question(self) -> describe_acls.DescribeAclsRequest:
        return describe_acls.DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter=self._leaders.topic,
            pattern_type_filter=MATCH,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )

    def _read(self, answer: describe_acls.DescribeAclsResponse) -> TopicAcls:
        _check(answer.error_code, answer.error_message)
        own, others = set(), 0
        for resource in answer.resources:
            for acl in resource.acls:
                rule = (acl.permission_type, acl.operation)
                is_ours = resource.pattern_type == LITERAL and resource.resource_name == self._leaders.topic
                if is_ours and (acl.principal, acl.host) == (EVERYBODY, ANY_HOST) and (rule == WRITES or rule in READERS):
                    own.add(rule)
                else:
                    others += 1
        keeps_readers = own >= READERS
        return TopicAcls(WRITES in own, keeps_readers, others if keeps_readers else others + len(own & READERS))


def _check(code: ErrorCode, text: str | None) -> None:
    if code is not ErrorCode.none:
        raise refused(int(code.value), text or f"the broker answers {code.name}")
