"""What the client of a session may do with topics, as the cluster says on the client's own upstream connection.

Metadata with the authorized operations of topics is asked there, so deny rules, patterns and super users count as they do for Kafka's
own requests; a cluster without an authorizer allows everything. What was said holds for a time, `ttl_ms`, from when it was asked. It is
asked again when half of that is over, so requests of a busy client wait for the first answer alone. One question is under way at a time
for each session.

Sessions of one identity are the same client to the cluster, so what one was told holds for all: a thousand consumers of an application ask
as often as one. None waits for the question of another, since that one's connection may hang. An answer counts only if the session that
asked had the same identity before and after.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.types import TopicName

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.names import illegal_topic_name
from gateway.ports import SPREAD_PAUSE_S, SPREAD_S, Catalogue, Session

LOG = logging.getLogger(__name__)

ALLOWED_MAX: Final = 10_000
"""Topics of one session whose rights are kept. Nobody has rights on more than there are."""
OTHERS_MAX: Final = 256
"""Topics of one session that are kept as forbidden or unknown: strangers may make up any number of names."""
PROMISED: Final = 0.8
"""The part of their time for which rights are promised. In the rest, which is enough for a question, they are asked for again."""
_NEVER_TOLD: Final = -(2**31)


class _Right(NamedTuple):
    bits: int
    asked_s: float
    is_known: bool
    """Whether the broker knows the topic."""

    def allows(self, operation: AclOperation) -> bool:
        return bool(self.bits >> operation & 1)


class _Kept:
    """What is kept of one identity, for the sessions that have it."""

    __slots__ = ("allowed", "others", "refresh_after_s", "sessions")

    def __init__(self) -> None:
        self.allowed: dict[str, _Right] = {}
        self.others: OrderedDict[str, _Right] = OrderedDict()
        self.sessions: set[int] = set()
        self.refresh_after_s = 0.0
        """Rights that are about to end are asked for again from here on: another session has just done so."""

    def find(self, topic: str) -> _Right | None:
        return self.allowed.get(topic) or self.others.get(topic)

    def keep(self, topic: str, right: _Right) -> None:
        self.allowed.pop(topic, None)
        self.others.pop(topic, None)
        if right.bits and len(self.allowed) < ALLOWED_MAX:
            self.allowed[topic] = right
            return
        self.others[topic] = right
        if len(self.others) > OTHERS_MAX:
            self.others.popitem(last=False)


class _Session:
    """What is known of one session."""

    __slots__ = ("asking", "has_ended", "identity", "kept", "refreshing")

    def __init__(self, identity: Hashable, kept: _Kept) -> None:
        self.identity = identity
        self.kept = kept
        self.has_ended = False
        self.asking = asyncio.Lock()
        self.refreshing: asyncio.Task[None] | None = None


class TopicRights:
    """Implements `gateway.ports.Rights`. Used on one event loop."""

    def __init__(self, catalogue: Catalogue, ttl_ms: int) -> None:
        self._catalogue = catalogue
        self._ttl_s = ttl_ms / 1000
        self._sessions: dict[int, _Session] = {}
        self._kept: dict[Hashable, _Kept] = {}
        self.questions = 0
        """How often the cluster was asked."""

    def identify(self, connection_id: int, identity: Hashable | None) -> None:
        """Note who a session is to the cluster from now on; None for a client whose rights are those of this session alone."""
        self._leave(connection_id)
        self._enter(connection_id, connection_id if identity is None else identity)

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        """See `gateway.ports.Rights`."""
        asking = self._sessions.get(session.connection_id)
        if asking is None:
            return None if topics else frozenset()
        now_s = _now_s()
        usable_s, fresh_s = now_s - self._ttl_s, now_s - self._ttl_s / 2
        forbidden, is_ageing = [], False
        for topic in topics:
            right = asking.kept.find(topic)
            if right is None or right.asked_s <= usable_s or not right.is_known:
                return None
            is_ageing = is_ageing or right.asked_s <= fresh_s
            if not right.allows(operation):
                forbidden.append(topic)
        if is_ageing:
            self._refresh(session, asking, topics, now_s)
        return frozenset(forbidden)

    def allowed_until_s(self, session: Session, topics: Collection[str], operation: AclOperation) -> float:
        """See `gateway.fetch.ports.PromisedRights`."""
        asking = self._sessions.get(session.connection_id)
        if asking is None:
            return 0.0
        now_s = asked_s = _now_s()
        for topic in topics:
            right = asking.kept.allowed.get(topic)
            if right is None or not right.allows(operation):
                return 0.0
            asked_s = min(asked_s, right.asked_s)
        if asked_s <= now_s - self._ttl_s:
            return 0.0
        until_s = asked_s + PROMISED * self._ttl_s
        if until_s <= now_s:
            self._refresh(session, asking, topics, now_s)
        return max(now_s, until_s)

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        """See `gateway.ports.Rights`. A topic that neither the cluster nor the catalogue knows is not forbidden: nobody can use it.

        A topic of the catalogue that the cluster does not know is forbidden, once brokers had the time to learn of it.
        """
        answers = await self._rights(session, topics, _now_s() - self._ttl_s)
        until_s = _now_s() + SPREAD_S
        while unsure := [topic for topic, right in answers.items() if not right.is_known and self._catalogue.named(topic) is not None]:
            if _now_s() >= until_s:
                break
            await asyncio.sleep(SPREAD_PAUSE_S)
            answers |= await self._rights(session, unsure, _now_s())
        return frozenset(
            topic
            for topic, right in answers.items()
            if not right.allows(operation) and (right.is_known or self._catalogue.named(topic) is not None)
        )

    def forget(self, connection_id: int) -> None:
        """Forget what is kept of a session that has come to its end."""
        session = self._leave(connection_id)
        if session is not None:
            session.has_ended = True

    def _leave(self, connection_id: int) -> _Session | None:
        session = self._sessions.pop(connection_id, None)
        if session is not None:
            if session.refreshing is not None:
                session.refreshing.cancel()
            session.kept.sessions.discard(connection_id)
            if not session.kept.sessions:
                del self._kept[session.identity]
        return session

    def _enter(self, connection_id: int, identity: Hashable) -> _Session:
        kept = self._kept.get(identity)
        if kept is None:
            kept = self._kept[identity] = _Kept()
        kept.sessions.add(connection_id)
        entered = self._sessions[connection_id] = _Session(identity, kept)
        return entered

    async def _rights(self, session: Session, topics: Iterable[str], since_s: float) -> dict[str, _Right]:
        """Return what the cluster says of topics, asked after a time. Raises `BrokerLost`."""
        while True:
            asking = self._sessions.get(session.connection_id) or self._enter(session.connection_id, session.connection_id)
            # Requests of a session that wait here find the answer of the one before them.
            async with asking.asking:
                found = {topic: right for topic in topics if (right := asking.kept.find(topic)) is not None and right.asked_s > since_s}
                missing = [topic for topic in dict.fromkeys(topics) if topic not in found]
                if missing:
                    try:
                        found |= await self._ask(session, missing)
                    except BrokerLost:
                        self.forget(session.connection_id)  # a request that outlives its session leaves nothing behind
                        raise
            if asking.has_ended:
                return found
            if self._sessions.get(session.connection_id) is asking:
                for topic in missing:
                    if illegal_topic_name(topic) is None:
                        known = self._catalogue.named(topic)
                        asking.kept.keep(topic if known is None else known.name, found[topic])  # one text for all sessions
                return found
            # It has logged in meanwhile: what was said may be of whom it was before.

    async def _ask(self, session: Session, topics: Collection[str]) -> dict[str, _Right]:
        asked_s = _now_s()
        # A name that Kafka takes for no topic's would be refused with all others of its request. Nobody has such a topic.
        found = {topic: _Right(0, asked_s, False) for topic in topics}
        proper = [topic for topic in topics if illegal_topic_name(topic) is None]
        if not proper:
            return found
        self.questions += 1
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in proper),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = await session.upstream.ask(request, MetadataResponse)
        for one in answer.topics:
            if one.name not in found:
                continue
            is_refused = one.error_code is ErrorCode.topic_authorization_failed
            is_told = one.error_code is ErrorCode.none and one.topic_authorized_operations != _NEVER_TOLD
            found[one.name] = _Right(one.topic_authorized_operations if is_told else 0, asked_s, is_told or is_refused)
        return found

    def _refresh(self, session: Session, asking: _Session, topics: Collection[str], now_s: float) -> None:
        """Ask again in the background for rights that end soon."""
        kept = asking.kept
        if asking.refreshing is not None or now_s < kept.refresh_after_s:
            return
        kept.refresh_after_s = now_s + self._ttl_s / 8  # should this connection hang, another one asks
        fresh_s = now_s - self._ttl_s / 2
        ageing = [topic for topic in topics if (right := kept.find(topic)) is not None and right.asked_s <= fresh_s]

        async def ask() -> None:
            try:
                await self._rights(session, ageing, _now_s())
            except BrokerLost as error:
                LOG.debug("rights not asked connection=%d: %s", session.connection_id, error)  # the session ends by itself
            finally:
                asking.refreshing = None
                kept.refresh_after_s = 0.0

        asking.refreshing = asyncio.get_running_loop().create_task(ask(), name="rights")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
