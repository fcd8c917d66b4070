"""The ACLs that a Kafka cluster has for its resource Cluster, asked through an admin client of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclPermissionType, AdminClient, ResourcePatternType, ResourceType
from confluent_kafka.admin import AclOperation as KafkaOperation

from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.kafka.acls import AclOperation
from coordinator.security.acls import Binding

CLUSTER: Final = "kafka-cluster"
"""The one name that the resource Cluster has; its type is called BROKER in this client."""
ANSWER_MARGIN_S: Final = 1.0
"""The client ends a request at its timeout; the answer comes a little later."""

_REMEDIES: Final = {
    KafkaError.SECURITY_DISABLED: "Kafka has no authorizer; set authorizer.class.name on its brokers, or use authorizer=acls here",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow the principal of this node DESCRIBE on the cluster (kafka-acls --add --cluster)",
}


class AclsUnavailable(Exception):
    """Kafka did not tell its ACLs; the text says why, and what to do if that is known."""


class KafkaAcls:
    """Asks for the ACLs of the cluster."""

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        client_id: str,
        kafka_properties: Mapping[str, Any],
        stats: KafkaStats,
        request_timeout_s: float = 3.0,
    ) -> None:
        self._timeout_s = request_timeout_s
        self._properties = client_properties(
            bootstrap_servers=bootstrap_servers, client_id=client_id, role="acls", defaults={}, fixed={}, user=kafka_properties, stats=stats
        )
        self._admin: AdminClient | None = None

    async def read(self) -> frozenset[Binding]:
        """Return the ACLs as they are now. Raises `AclsUnavailable`."""
        if self._admin is None:
            self._admin = AdminClient(self._properties)
        self._admin.poll(0)  # serves what the client logs
        every = AclBindingFilter(
            ResourceType.BROKER,
            CLUSTER,
            ResourcePatternType.MATCH,
            None,  # type: ignore[arg-type] # the stubs do not know that None stands for any
            None,  # type: ignore[arg-type]
            KafkaOperation.ANY,
            AclPermissionType.ANY,
        )
        try:
            async with asyncio.timeout(self._timeout_s + ANSWER_MARGIN_S):
                told = await asyncio.wrap_future(self._admin.describe_acls(every, request_timeout=self._timeout_s))
        except KafkaException as error:
            reason = error.args[0]
            remedy = _REMEDIES.get(reason.code())
            raise AclsUnavailable(reason.str() + (f": {remedy}" if remedy else "")) from error
        except TimeoutError as error:
            raise AclsUnavailable(f"no answer within {self._timeout_s:g} s") from error
        return frozenset(binding for one in told if (binding := _binding(one)) is not None)


def _binding(acl: AclBinding) -> Binding | None:
    """Return an ACL as the rules know it; None for operations that are none of them (of delegation tokens, for example)."""
    try:
        operation = AclOperation(KafkaOperation(acl.operation).value)
    except ValueError:
        return None
    return Binding(acl.principal, operation, acl.permission_type is AclPermissionType.ALLOW, acl.host)
