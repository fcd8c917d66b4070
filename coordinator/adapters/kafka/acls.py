"""The ACLs that a Kafka cluster has for its resource Cluster and for topics, asked over a connection of this process's own.

librdkafka is not asked: it reads past the error of DescribeAcls, so a refusal looks like a cluster without any ACL.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import kio.schema.describe_acls.v2 as describe_acls
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from coordinator.adapters.kafka.bootstrap import Bootstrap
from coordinator.adapters.kafka.broker import refused
from coordinator.adapters.kafka.settings import check_user_properties
from coordinator.kafka.acls import AclOperation, TopicPattern
from coordinator.security.acls import Binding

CLUSTER: Final = "kafka-cluster"
"""The one name that the resource Cluster has."""
_TYPE_TOPIC, _TYPE_CLUSTER, _ANY, _ALLOW, _PREFIXED = i8(2), i8(4), i8(1), 3, 4

_REMEDIES: Final = {
    KafkaError.SECURITY_DISABLED: "Kafka has no authorizer; set authorizer.class.name on its brokers, or use authorizer=acls here",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the principal of this node DESCRIBE on the cluster (kafka-acls --add --cluster)",
}


class AclsUnavailable(Exception):
    """Kafka did not tell its ACLs; the text says why, and what to do if that is known."""


class KafkaAcls:
    """Asks for the ACLs of the cluster and of topics."""

    def __init__(
        self, *, bootstrap_servers: str, client_id: str, kafka_properties: Mapping[str, Any], request_timeout_s: float = 3.0
    ) -> None:
        """Raises `KafkaPropertyRefused` for properties that are fixed."""
        check_user_properties(kafka_properties)
        self._timeout_s = request_timeout_s
        self._properties = {**kafka_properties, "bootstrap.servers": bootstrap_servers, "client.id": client_id}

    async def read(self) -> frozenset[Binding]:
        """Return the ACLs as they are now. Raises `AclsUnavailable`."""
        try:
            return await asyncio.to_thread(self._ask)
        except KafkaException as error:
            reason = error.args[0]
            remedy = _REMEDIES.get(reason.code())
            raise AclsUnavailable(reason.str() + (f": {remedy}" if remedy else "")) from error

    def _ask(self) -> frozenset[Binding]:
        """Ask the bootstrap servers in turn. Blocks. Raises `KafkaException`."""
        bootstrap, end_s = Bootstrap.of(self._properties), time.monotonic() + self._timeout_s
        found = (bootstrap.ask(_every(kind), describe_acls.DescribeAclsResponse, _bindings, end_s) for kind in (_TYPE_CLUSTER, _TYPE_TOPIC))
        return frozenset().union(*found)


def _every(resource_type: i8) -> describe_acls.DescribeAclsRequest:
    """Return the request for all ACLs on resources of a type."""
    return describe_acls.DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def _bindings(answer: describe_acls.DescribeAclsResponse) -> frozenset[Binding]:
    if answer.error_code is not ErrorCode.none:
        raise refused(int(answer.error_code.value), answer.error_message or f"the broker answers {answer.error_code.name}")
    found: set[Binding] = set()
    for resource in answer.resources:
        is_topic = resource.resource_type == _TYPE_TOPIC
        topics = TopicPattern(resource.resource_name, resource.pattern_type == _PREFIXED) if is_topic else None
        found.update(binding for acl in resource.acls if (binding := _binding(acl, topics)) is not None)
    return frozenset(found)


def _binding(acl: describe_acls.response.AclDescription, topics: TopicPattern | None) -> Binding | None:
    """Return an ACL as the rules know it; None for operations that are none of them (of delegation tokens, for example)."""
    try:
        operation = AclOperation(acl.operation)
    except ValueError:
        return None
    return Binding(acl.principal, operation, acl.permission_type == _ALLOW, acl.host, topics)
