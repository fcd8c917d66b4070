"""SettingRules between settings: what must hold for more than one key, and what works but deserves a warning.

Each rule is a small function that yields problems and names the keys it looks at; `broken_rules` runs all whose keys have
right values, so that an operator sees everything at once and no slip twice. Warnings (`advice`) never stop a start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from coordinator.config.problems import Problem
from coordinator.config.sections.security import ClientAuth
from coordinator.config.security_rules import listener_advice, listener_problems
from coordinator.config.settings import NODE, Settings
from coordinator.config.table import ProcessSettings, SettingsTable
from coordinator.config.values import SecurityProtocol, text_of
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.store_mark import KEPT

S = TypeVar("S", bound=ProcessSettings[Any])
C = TypeVar("C", bound=Callable[..., Iterable[Problem]])
WithHttp = Any
"""Settings of a process with listeners and an HTTP port."""

ANONYMOUS = "User:ANONYMOUS"
_LEAVE_OUT = "leave it out: the correctness of leadership depends on the coordinator's own value"
_FIXED_KAFKA_KEYS = (
    "acks",
    "request.required.acks",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "transactional.id",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "partition.assignment.strategy",
    "group.instance.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "auto.commit.enable",
    "enable.auto.offset.store",
    "isolation.level",
    "check.crcs",
    "enable.partition.eof",
    "linger.ms",
    "queue.buffering.max.ms",
    "message.max.bytes",
    "max.poll.interval.ms",
)
RESERVED_KAFKA_KEYS = dict.fromkeys(_FIXED_KAFKA_KEYS, _LEAVE_OUT) | {
    "bootstrap.servers": "set bootstrap.servers instead",
    "metadata.broker.list": "set bootstrap.servers instead",
    "group.id": "set group.id instead",
    "group.protocol": "leave it out: nodes are members by the classic protocol",
    "session.timeout.ms": "set session.timeout.ms instead",
    "heartbeat.interval.ms": "set heartbeat.interval.ms instead",
    "client.id": "leave it out: clients are named after node.id",
}


class SettingRules(Generic[S]):
    """The rules between the settings of one kind of process."""

    def __init__(self, table: SettingsTable) -> None:
        self._table = table
        self._rules: list[tuple[frozenset[str], Callable[[S], Iterable[Problem]]]] = []

    def broken(self, settings: S, *, unusable: Collection[str] = ()) -> list[Problem]:
        """Check every rule that looks at none of the `unusable` keys, and return what is broken."""
        return [problem for keys, check in self._rules if keys.isdisjoint(unusable) for problem in check(settings)]

    def __call__(self, *keys: str) -> Callable[[C], C]:
        """Register a rule with the keys it looks at."""
        assert all(key in self._table.keys for key in keys), keys

        def register(check: C) -> C:
            self._rules.append((frozenset(keys), check))
            return check

        return register


NODE_RULES: Final[SettingRules[Settings]] = SettingRules(NODE)
_rule = NODE_RULES


def advice(settings: Settings) -> list[str]:
    """List what is allowed but unsafe outside of development, as sentences with key and remedy."""
    found = []
    if settings.diskless_metadata_topic_replication_factor < 3:
        found.append(
            f"diskless.metadata.topic.replication.factor={settings.diskless_metadata_topic_replication_factor}: the loss of one "
            "broker stops commits or loses acknowledged ones; use 3 outside of development"
        )
    if settings.diskless_metadata_topic_min_insync_replicas < 2:
        found.append(
            "diskless.metadata.topic.min.insync.replicas=1: a commit may be acknowledged that only one broker holds; "
            "use 2 outside of development"
        )
    if settings.diskless_metadata_topic_num_partitions > OWNERS_MAX:
        found.append(
            f"diskless.metadata.topic.num.partitions={settings.diskless_metadata_topic_num_partitions}: a file may have batches of at most"
            f" {OWNERS_MAX} coordinators; use no more, or have uploaders make several files"
        )
    if settings.object_store_url.scheme == "memory":
        found.append("object.store.url=memory://: objects die with the process, and no other process sees them; use it in tests only")
    if settings.leader_term_timeout_ms < 15_000:
        found.append(
            f"leader.term.timeout.ms={settings.leader_term_timeout_ms}: an unclean broker death freezes acknowledgements for 8 to "
            "12 s, so one dead broker may cost every term; use 15000 or more"
        )
    return [*found, *listener_advice(settings)]


def problem_of(settings: ProcessSettings[Any], key: str, limit: str, remedy: str) -> Problem:
    """Make a problem of one setting."""
    return Problem(
        key=key,
        value=text_of(getattr(settings, key.replace(".", "_"))),
        source=settings.sources.get(key, "default"),
        limit=limit,
        remedy=remedy,
    )


_AT_LEAST: Mapping[str, Sequence[Mapping[str, int]]] = {
    "commit.results.retention.ms": [{"file.commit.max.age.ms": 1}],
    "deleted.topic.retention.ms": [
        {"file.commit.max.age.ms": 2, "clock.skew.max.ms": 1},
        # A repeated commit is answered share by share, and shares are distinguished by the placement of topics.
        {"commit.results.retention.ms": 1, "clock.skew.max.ms": 1},
    ],
    # Once a fence is forgotten only the age limit, by a clock that may be off, keeps a commit of its file out.
    "file.fence.retention.ms": [{"file.commit.max.age.ms": 2, "clock.skew.max.ms": 1}],
    "leader.load.timeout.ms": [
        # A claim may wait for its acknowledgement as long as any entry, and a member must not leave the group before.
        {"leader.term.timeout.ms": 1},
        # The group gives a dead member's partitions away after its session: who has left is to stay away until then.
        {"session.timeout.ms": 1},
    ],
    "producer.id.expiration.ms": [{"file.commit.max.age.ms": 1}],
}
"""Settings that must be at least sums of others, each with its factor."""


def _at_least(key: str, others: Mapping[str, int]) -> Callable[[Settings], Iterable[Problem]]:
    def check(settings: Settings) -> Iterator[Problem]:
        least = sum(factor * getattr(settings, other.replace(".", "_")) for other, factor in others.items())
        if getattr(settings, key.replace(".", "_")) < least:
            because = " + ".join(other if factor == 1 else f"{factor} x {other}" for other, factor in others.items())
            yield problem_of(
                settings, key, f"must be at least {least} ({because})", f"raise {key} to {least} or lower {next(iter(others))}"
            )

    return check


for _key, _sums in _AT_LEAST.items():
    for _others in _sums:
        _rule(_key, *_others)(_at_least(_key, _others))


@_rule("file.commit.max.age.ms", "clock.skew.max.ms")
def _age_exceeds_skew(settings: Settings) -> Iterator[Problem]:
    """With a greater skew a file that was just created may count as too old."""
    if settings.file_commit_max_age_ms <= settings.clock_skew_max_ms:
        yield problem_of(
            settings,
            "file.commit.max.age.ms",
            f"must be above {settings.clock_skew_max_ms} (clock.skew.max.ms)",
            "raise file.commit.max.age.ms, or lower clock.skew.max.ms",
        )


@_rule("diskless.metadata.topic.replication.factor", "diskless.metadata.topic.min.insync.replicas")
def _topic(settings: Settings) -> Iterator[Problem]:
    factor = settings.diskless_metadata_topic_replication_factor
    if settings.diskless_metadata_topic_min_insync_replicas > factor:
        yield problem_of(
            settings,
            "diskless.metadata.topic.min.insync.replicas",
            f"must not exceed diskless.metadata.topic.replication.factor = {factor}",
            f"set it to {max(1, factor - 1)}, or raise the replication factor",
        )


@_rule("snapshots.prefix", "object.store.wal.prefix")
def _prefixes_apart(settings: Settings) -> Iterator[Problem]:
    """Neither prefix may be below the other: a scan or an expiry of one kind of object must not meet the other kind."""
    snapshots, files = settings.snapshots_prefix + "/", settings.object_store_wal_prefix
    if snapshots.startswith(files) or files.startswith(snapshots):
        yield problem_of(
            settings,
            "snapshots.prefix",
            f"must be apart from object.store.wal.prefix = {files}: neither may be below the other",
            "name another folder, such as snapshots",
        )
    for kept, what in KEPT.items():
        for name, prefix in (("snapshots.prefix", snapshots), ("object.store.wal.prefix", files)):
            if prefix.startswith(kept):
                yield problem_of(settings, name, f"must not be below {kept}, where each object is {what}", "name another folder")


def heartbeats_fit(settings: ProcessSettings[Any], session: str, heartbeat: str) -> Iterator[Problem]:
    """Check that a session of a group sees at least three heartbeats; the two settings are named by their keys."""
    session_ms, heartbeat_ms = (getattr(settings, key.replace(".", "_")) for key in (session, heartbeat))
    if heartbeat_ms * 3 > session_ms:
        limit = f"must be at most a third of {session} = {session_ms}"
        yield problem_of(settings, heartbeat, limit, f"lower it to {session_ms // 3}, or raise {session}")


@_rule("session.timeout.ms", "heartbeat.interval.ms")
def _heartbeats(settings: Settings) -> Iterator[Problem]:
    yield from heartbeats_fit(settings, "session.timeout.ms", "heartbeat.interval.ms")


@_rule("listeners")
def listeners_are_distinct(settings: ProcessSettings[Any]) -> Iterator[Problem]:
    """Each listener has a name of its own."""
    names = [listener.name for listener in settings.listeners]
    if len(set(names)) != len(names):
        yield problem_of(settings, "listeners", "must have distinct names", "give each a name of its own, such as INSIDE and OUTSIDE")


@_rule("listeners", "listener.security.protocol.map", *NODE.listener_keys)
def _listeners_are_secure(settings: Settings) -> Iterator[Problem]:
    yield from listener_problems(settings)


@_rule("listeners", "advertised.listeners")
def advertised_can_be_reached(settings: ProcessSettings[Any]) -> Iterator[Problem]:
    """Advertised addresses are those of listeners, and addresses."""
    names = [listener.name for listener in settings.listeners]
    for listener in settings.advertised_listeners:
        if listener.name not in names:
            yield problem_of(
                settings, "advertised.listeners", f"{listener.name} is not one of listeners", f"use the names {', '.join(names)}"
            )
        if listener.is_wildcard or listener.port == 0:
            yield problem_of(
                settings,
                "advertised.listeners",
                f"{listener} is no address that a client can connect to",
                "give the host name and port that clients reach",
            )


@_rule("listeners", "listener.security.protocol.map", "advertised.listeners", "inter.node.listener.name")
def _nodes_reach_each_other(settings: Settings) -> Iterator[Problem]:
    name = settings.inter_node_listener()
    names = [listener.name for listener in settings.effective_advertised_listeners()]
    if name not in names:
        yield problem_of(
            settings, "inter.node.listener.name", f"{name} is not one of listeners that are advertised", f"use one of {', '.join(names)}"
        )


@_rule("listeners", "http.listener")
def ports_are_distinct(settings: WithHttp) -> Iterator[Problem]:
    """No port is listened at twice."""
    ports = [listener.port for listener in settings.listeners if listener.port]
    if len(set(ports)) != len(ports):
        yield problem_of(settings, "listeners", "must have distinct ports", "give every listener its own port")
    http = settings.http_listener
    if http is not None and http.port in ports:
        yield problem_of(
            settings, "http.listener", f"port {http.port} is taken by one of listeners", "choose another port, or leave the key empty"
        )


@_rule("http.listener", "http.ssl.certificate.location", "http.ssl.key.location")
def http_tls_has_files(settings: WithHttp) -> Iterator[Problem]:
    """TLS of the HTTP port has its files, and files have TLS."""
    http = settings.http_listener
    has_tls = http is not None and http.has_tls
    remedy = "name a PEM file, or let http.listener begin with http:"
    files = {
        "http.ssl.certificate.location": settings.http_ssl_certificate_location,
        "http.ssl.key.location": settings.http_ssl_key_location,
    }
    for key, file in files.items():
        if has_tls and file is None:
            yield problem_of(settings, key, f"must be given: http.listener is {http}", remedy)
        if not has_tls and file is not None:
            yield problem_of(settings, key, f"counts with TLS only, and http.listener is {http or 'empty'}", "let it begin with https:")


@_rule("internal.principals", "internal.secret.file", "listeners", "listener.security.protocol.map", "inter.node.listener.name")
def _nodes_are_known(settings: Settings) -> Iterator[Problem]:
    principals, name = settings.internal_principals, settings.inter_node_listener()
    if not principals:
        return
    if settings.internal_secret_file is not None:
        limit = "counts without internal.principals only, which say who nodes are"
        yield problem_of(settings, "internal.secret.file", limit, "leave one of the two out")
    if ANONYMOUS in principals:
        limit = f"must not have {ANONYMOUS}, which is everybody who did not log in"
        yield problem_of(settings, "internal.principals", limit, "name the principals of the nodes' certificates")
    protocol = settings.protocol_of(name)
    if protocol is not SecurityProtocol.SSL or settings.for_listener(name).ssl_client_auth is not ClientAuth.REQUIRED:
        limit = f"needs certificates of nodes, and they reach each other by listener {name}, which is {protocol} and does not ask for them"
        remedy = "use internal.secret.file, or name an SSL listener with ssl.client.auth=required in inter.node.listener.name"
        yield problem_of(settings, "internal.principals", limit, remedy)


@_rule("authorizer", "acls")
def _acls_are_looked_at(settings: Settings) -> Iterator[Problem]:
    if settings.acls and settings.authorizer != "acls":
        limit = f"counts with authorizer=acls only, and authorizer is {settings.authorizer or 'empty'}"
        yield problem_of(settings, "acls", limit, "set authorizer=acls, or leave it out")


@_rule("authorizer", "super.users")
def _super_users_are_looked_at(settings: Settings) -> Iterator[Problem]:
    if settings.super_users and not settings.authorizer:
        yield problem_of(
            settings, "super.users", "counts with an authorizer only", "set authorizer=acls or authorizer=kafka, or leave it out"
        )


@_rule("listeners", "listener.security.protocol.map", "authorizer")
def _secure_listeners_have_rules(settings: Settings) -> Iterator[Problem]:
    """A login without rules would look like security and let everybody who logs in delete everything."""
    secure = [one.name for one in settings.listeners if settings.protocol_of(one.name) not in (None, SecurityProtocol.PLAINTEXT)]
    if secure and not settings.authorizer:
        limit = f"must be given, since listener {secure[0]} is {settings.protocol_of(secure[0])}: it says who may do what"
        yield problem_of(
            settings, "authorizer", limit, "set acls (with the keys acls and super.users) or kafka (the ACLs of the Kafka cluster)"
        )
