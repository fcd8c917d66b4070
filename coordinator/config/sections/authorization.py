"""Settings of who may do what: where the rules are, and the rules themselves."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT32_MAX, integer, semicolons, text
from coordinator.config.values import AclEntry, principal_name

AUTHORIZERS = ("", "acls", "kafka")


@dataclass(frozen=True, kw_only=True)
class AuthorizationSettings:
    """Principals are written as in Kafka: `User:alice`."""

    authorizer: str = text(
        "authorizer",
        "",
        allowed=lambda value: value in AUTHORIZERS,
        bounds="acls, kafka, or empty for none",
        why="""The rules by which principals are served. acls: the keys acls and super.users of this service. kafka: the ACLs that the Kafka
        cluster has for its resource Cluster and for topics, so that operators keep them in one place (the node's own principal needs
        DESCRIBE on the cluster). With either, a request that no rule allows is refused. Empty: all clients may do everything but send
        requests of nodes.""",
    )
    super_users: tuple[str, ...] = semicolons(
        "super.users",
        parse=principal_name,
        bounds="principals such as User:admin, separated by semicolons",
        why="""Principals that may do everything, whatever other rules say. With authorizer=kafka they can be served before Kafka has told
        its ACLs, and while it does not.""",
    )
    acls: tuple[AclEntry, ...] = semicolons(
        "acls",
        parse=AclEntry.parse,
        bounds="User:name:OPERATION,OPERATION entries separated by semicolons",
        why="""The rules of authorizer=acls, such as User:gateway:CLUSTER_ACTION;User:ops:ALTER,DESCRIBE. Operations are those of
        Kafka on the cluster: CLUSTER_ACTION for all requests of KIP-1164, DESCRIBE, ALTER, DESCRIBE_CONFIGS and ALTER_CONFIGS for
        those of operators (docs/operations.md names the one of each request), ALL for all of them. After @ READ and DESCRIBE are of a topic
        (User:spark:READ@orders), of topics by the beginning of their names (READ@app-*), or of all (READ@*); READ lets programs read them
        and changes nothing. User:* means every user.""",
    )
    authorizer_cache_ms: int = integer(
        "authorizer.cache.ms",
        30_000,
        low=1_000,
        high=INT32_MAX,
        why="""How often Kafka is asked for its ACLs with authorizer=kafka: so long may a change of theirs take to count
        here. While Kafka does not answer, the last known ACLs stay in force.""",
    )
