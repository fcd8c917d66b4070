"""A secret on which the nodes of a service agree through Kafka: the text beside an offset that a consumer group without members commits.

Who may read the group knows it, and who may not, knows nothing. The group is one of its own, `<group.id>-internal`: while a group has
members, others cannot commit to it. Two nodes that find no secret at the same time both write one; each reads again after a while,
so that the last one written counts for both.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import kio.schema.offset_commit.v8 as offset_commit
import kio.schema.offset_fetch.v8 as offset_fetch
from confluent_kafka import KafkaError, KafkaException
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from coordinator.adapters.kafka.broker import BrokerConnection
from coordinator.adapters.kafka.group import ask_coordinator, check, only
from coordinator.adapters.kafka.settings import check_user_properties

GROUP_SUFFIX: Final = "-internal"
SECRET_BYTES: Final = 32
SETTLE_S: Final = 0.3
"""How long after a write another one may follow of a node that had found nothing."""
_PREFIX: Final = "node-secret:"
_SECRET: Final = re.compile(r"node-secret:([0-9a-f]{64})")
_OTHER_WAYS: Final = "internal.secret.file or internal.principals"
_PARTITION: Final = i32(0)
_NO_MEMBER: Final = i32(-1)

_REFUSED: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})


class SecretUnavailable(Exception):
    """Kafka did not tell the secret; the text says why, and what to do if that is known.

    `is_coming` says that the metadata topic is not there yet, as in a new service.
    """

    def __init__(self, text: str, *, is_coming: bool = False) -> None:
        super().__init__(text)
        self.is_coming = is_coming


class AgreedSecret:
    """Reads the secret of a service, and makes one where there is none."""

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        client_id: str,
        kafka_properties: Mapping[str, Any],
        group_id: str,
        topic: str,
        request_timeout_s: float = 3.0,
    ) -> None:
        """`topic` is the metadata topic, whose partition 0 the offset is about. Raises `KafkaPropertyRefused`."""
        check_user_properties(kafka_properties)
        self._properties = {**kafka_properties, "bootstrap.servers": bootstrap_servers, "client.id": client_id}
        self._group = group_id + GROUP_SUFFIX
        self._topic = topic
        self._timeout_s = request_timeout_s

    async def agree(self, known: str | None) -> str:
        """Return the secret in Kafka; if there is none, write `known` or a new one. Raises `SecretUnavailable`."""
        try:
            return await asyncio.to_thread(ask_coordinator, self._properties, self._group, self._timeout_s, lambda c: self._agree(c, known))
        except KafkaException as error:
            reason = error.args[0]
            remedy = ""
            if reason.code() in _REFUSED:
                remedy = f": allow the principal of this node Read and Describe on the group {self._group}, or give all nodes {_OTHER_WAYS}"
            is_coming = reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            raise SecretUnavailable(reason.str() + remedy, is_coming=is_coming) from error

    def _agree(self, coordinator: BrokerConnection, known: str | None) -> str:
        """Blocks. Raises `KafkaException`."""
        found = self._read(coordinator)
        if found is not None:
            return found
        self._write(coordinator, known or secrets.token_hex(SECRET_BYTES))
        time.sleep(SETTLE_S)
        found = self._read(coordinator)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._STATE, f"the group {self._group} does not keep what was committed"))
        return found

    def _read(self, coordinator: BrokerConnection) -> str | None:
        topic = offset_fetch.request.OffsetFetchRequestTopics(name=TopicName(self._topic), partition_indexes=(_PARTITION,))
        group = offset_fetch.request.OffsetFetchRequestGroup(group_id=GroupId(self._group), topics=(topic,))
        answer = coordinator.ask(offset_fetch.OffsetFetchRequest(groups=(group,)), offset_fetch.OffsetFetchResponse)
        of_group = only(answer.groups)
        check(of_group.error_code, None)
        partition = only(only(of_group.topics).partitions)
        check(partition.error_code, None)
        found = _SECRET.fullmatch(partition.metadata or "")
        return None if found is None else found[1]

    def _write(self, coordinator: BrokerConnection, secret: str) -> None:
        partition = offset_commit.request.OffsetCommitRequestPartition(
            partition_index=_PARTITION, committed_offset=i64(0), committed_metadata=_PREFIX + secret
        )
        topic = offset_commit.request.OffsetCommitRequestTopic(name=TopicName(self._topic), partitions=(partition,))
        request = offset_commit.OffsetCommitRequest(
            group_id=GroupId(self._group), generation_id_or_member_epoch=_NO_MEMBER, member_id="", topics=(topic,)
        )
        answer = coordinator.ask(request, offset_commit.OffsetCommitResponse)
        check(only(only(answer.topics).partitions).error_code, None)
