"""Rights that the cluster tells: what is asked, how long it holds, and what is kept. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v12.response import MetadataResponseTopic
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.kafka.acls import AclOperation
from gateway.access.rights import ALLOWED_MAX, OTHERS_MAX, PROMISED, TopicRights
from gateway.ports import SPREAD_S, DisklessTopic
from tests.virtual_loop import lived
from tests.waiting import virtual_time

READ, WRITE, DESCRIBE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DELETE
TTL_S = 5.0
ANSWER_S = 0.01


class Cluster:
    """The upstream connection of one client: what the cluster would say, and what it was asked."""

    def __init__(self, **allowed: Collection[AclOperation]) -> None:
        self.allowed = allowed
        """By topic; the others are unknown, and those without operations are hidden."""
        self.asked: list[list[str]] = []
        self.is_lost = False
        self.together = 0
        self.together_max = 0

    async def forward(self, frame: bytes) -> bytes:
        raise AssertionError("rights are asked, not forwarded")

    async def ask(self, request: Any, answer_type: Any) -> Any:
        assert isinstance(request, MetadataRequest)
        assert request.include_topic_authorized_operations
        assert not request.allow_auto_topic_creation
        names = [str(one.name) for one in request.topics or ()]
        self.asked.append(names)
        self.together += 1
        self.together_max = max(self.together_max, self.together)
        try:
            await virtual_time(ANSWER_S)
        finally:
            self.together -= 1
        if self.is_lost:
            raise BrokerLost("closed by the broker")
        return MetadataResponse(
            throttle_time=i32Timedelta.parse(timedelta()), brokers=(), topics=tuple(self._topic(name) for name in names)
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        operations = self.allowed.get(name)
        code = ErrorCode.none if operations else ErrorCode.topic_authorization_failed
        if operations is None:
            code = ErrorCode.unknown_topic_or_partition
        bits = sum(1 << one for one in operations) if operations else -(2**31)
        return MetadataResponseTopic(
            error_code=code, name=TopicName(name), topic_id=None, partitions=(), topic_authorized_operations=i32(bits)
        )


class OneSession:
    """A session as rights see it."""

    def __init__(self, upstream: Cluster, connection_id: int = 1) -> None:
        self.connection_id = connection_id
        self.address = "10.0.0.1:5"
        self.listener = "SASL_SSL"
        self.relayed_broker_id: int | None = None
        self.upstream = upstream
        self.client_id: str | None = "app"
        self.zone: str | None = None


class Topics:
    """A catalogue of names."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def named(self, name: str) -> DisklessTopic | None:
        return DisklessTopic(name, bytes(16), 1, {}) if name in self.names else None

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        raise AssertionError("rights go by name")

    async def refreshed(self) -> None:
        raise AssertionError("rights do not wait for a listing")


def test_each_operation_is_one_bit() -> None:
    async def main() -> None:
        cluster = Cluster(r=[READ, DESCRIBE], w=[WRITE, DESCRIBE], d=[DELETE, DESCRIBE], none=[])
        rights, session = TopicRights(Topics("r", "w", "d", "none"), 5_000), OneSession(cluster)
        everything = ["r", "w", "d", "none"]
        assert await rights.forbidden(session, everything, READ) == {"w", "d", "none"}
        assert await rights.forbidden(session, everything, WRITE) == {"r", "d", "none"}
        assert await rights.forbidden(session, everything, DELETE) == {"r", "w", "none"}
        assert await rights.forbidden(session, everything, DESCRIBE) == {"none"}
        assert cluster.asked == [everything]

    lived(main())


def test_known_rights_need_no_waiting_and_unknown_ones_do() -> None:
    async def main() -> None:
        rights, session = TopicRights(Topics("a", "b"), 5_000), OneSession(Cluster(a=[READ], b=[WRITE]))
        assert rights.known(session, ["a"], READ) is None
        assert rights.known(session, [], READ) == frozenset()
        await rights.forbidden(session, ["a", "b"], READ)
        assert rights.known(session, ["a"], READ) == frozenset()
        assert rights.known(session, ["a", "b"], READ) == {"b"}
        assert rights.known(session, ["a", "other"], READ) is None

    lived(main())


def test_rights_of_one_session_are_not_those_of_another() -> None:
    async def main() -> None:
        rights = TopicRights(Topics("a"), 5_000)
        allowed, other = OneSession(Cluster(a=[READ]), 1), OneSession(Cluster(a=[]), 2)
        assert await rights.forbidden(allowed, ["a"], READ) == frozenset()
        assert rights.known(other, ["a"], READ) is None
        assert await rights.forbidden(other, ["a"], READ) == {"a"}

    lived(main())


@pytest.mark.parametrize("before_s", [0.5, 2.0, 4.9])
def test_a_right_that_is_taken_away_ends_in_time(before_s: float) -> None:
    """Whatever a client sends meanwhile: no right outlives the time since it was asked for."""

    async def main() -> None:
        cluster = Cluster(a=[WRITE])
        rights, session, loop = TopicRights(Topics("a"), 5_000), OneSession(cluster), asyncio.get_running_loop()
        await rights.forbidden(session, ["a"], WRITE)
        await virtual_time(before_s)
        cluster.allowed = {"a": []}
        taken_s = loop.time()
        while True:
            known = rights.known(session, ["a"], WRITE)
            if known is None:
                known = await rights.forbidden(session, ["a"], WRITE)
            if known:
                break
            await virtual_time(0.05)
        assert loop.time() - taken_s <= TTL_S + 2 * ANSWER_S

    lived(main())


def test_a_right_that_is_given_counts_as_soon() -> None:
    async def main() -> None:
        cluster = Cluster(a=[])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        assert await rights.forbidden(session, ["a"], WRITE) == {"a"}
        cluster.allowed = {"a": [WRITE]}
        await virtual_time(TTL_S + 0.1)
        assert await rights.forbidden(session, ["a"], WRITE) == frozenset()

    lived(main())


def test_a_busy_client_waits_for_the_first_answer_alone() -> None:
    async def main() -> None:
        cluster = Cluster(a=[WRITE])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        await rights.forbidden(session, ["a"], WRITE)
        for _ in range(1_000):
            await virtual_time(0.05)
            assert rights.known(session, ["a"], WRITE) == frozenset()
        assert 15 < len(cluster.asked) < 25

    lived(main())


def test_an_idle_client_is_not_asked_for() -> None:
    async def main() -> None:
        cluster = Cluster(a=[WRITE])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        await rights.forbidden(session, ["a"], WRITE)
        await virtual_time(1_000)
        assert len(cluster.asked) == 1
        assert rights.known(session, ["a"], WRITE) is None

    lived(main())


def test_requests_that_come_together_ask_once() -> None:
    async def main() -> None:
        cluster = Cluster(a=[WRITE], b=[WRITE])
        rights, session = TopicRights(Topics("a", "b"), 5_000), OneSession(cluster)
        await asyncio.gather(*(rights.forbidden(session, ["a", "b"], one) for one in (READ, WRITE, DESCRIBE) * 10))
        assert cluster.asked == [["a", "b"]]
        await asyncio.gather(rights.forbidden(session, ["a", "c"], READ), rights.forbidden(session, ["d"], READ))
        assert cluster.together_max == 1

    lived(main())


def test_a_topic_that_nobody_knows_is_not_forbidden() -> None:
    async def main() -> None:
        rights, session = TopicRights(Topics(), 5_000), OneSession(Cluster(hidden=[]))
        assert await rights.forbidden(session, ["gone", "hidden"], WRITE) == {"hidden"}

    lived(main())


def test_a_diskless_topic_without_a_shadow_is_forbidden_after_a_while() -> None:
    async def main() -> None:
        rights, session, loop = TopicRights(Topics("one-sided"), 5_000), OneSession(Cluster()), asyncio.get_running_loop()
        began_s = loop.time()
        assert await rights.forbidden(session, ["one-sided"], READ) == {"one-sided"}
        assert SPREAD_S <= loop.time() - began_s < SPREAD_S + 1

    lived(main())


def test_a_broker_that_is_late_to_learn_of_a_topic_is_asked_again() -> None:
    async def main() -> None:
        cluster = Cluster()
        rights, session, loop = TopicRights(Topics("new"), 5_000), OneSession(cluster), asyncio.get_running_loop()
        loop.call_later(0.5, lambda: cluster.allowed.update(new=[WRITE]))
        assert await rights.forbidden(session, ["new"], WRITE) == frozenset()
        assert rights.known(session, ["new"], WRITE) == frozenset()

    lived(main())


def test_names_that_are_none_are_not_asked_for() -> None:
    async def main() -> None:
        cluster = Cluster(a=[READ])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        assert await rights.forbidden(session, ["a", "", "..", "a b", "x" * 250, "\0"], READ) == frozenset()
        assert cluster.asked == [["a"]]

    lived(main())


def test_made_up_names_fill_nothing() -> None:
    async def main() -> None:
        cluster = Cluster(a=[READ])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        await rights.forbidden(session, ["a"], READ)
        made_up = [f"made-up-{number}" for number in range(OTHERS_MAX + 1)]
        await rights.forbidden(session, made_up, READ)
        assert rights.known(session, ["a"], READ) == frozenset(), "a flood of names pushed out a right"
        before = len(cluster.asked)
        await rights.forbidden(session, made_up[-OTHERS_MAX:], READ)
        assert len(cluster.asked) == before
        await rights.forbidden(session, made_up[:1], READ)
        assert len(cluster.asked) == before + 1, "more were kept than the limit says"

    lived(main())


def test_rights_on_more_topics_than_are_kept_are_asked_for_anew() -> None:
    async def main() -> None:
        names = [f"t{number}" for number in range(ALLOWED_MAX + OTHERS_MAX + 10)]
        rights, session = TopicRights(Topics(*names), 5_000), OneSession(Cluster(**dict.fromkeys(names, (READ,))))
        assert await rights.forbidden(session, names, READ) == frozenset()
        assert rights.known(session, names, READ) is None
        assert await rights.forbidden(session, names, READ) == frozenset()

    lived(main())


def test_a_lost_connection_is_told_and_leaves_nothing() -> None:
    async def main() -> None:
        cluster = Cluster(a=[READ])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        await rights.forbidden(session, ["a"], READ)
        cluster.is_lost = True
        with pytest.raises(BrokerLost):
            await rights.forbidden(session, ["b"], READ)
        assert rights.known(session, ["a"], READ) is None

    lived(main())


def test_an_ended_session_is_forgotten() -> None:
    async def main() -> None:
        cluster = Cluster(a=[READ])
        rights, session = TopicRights(Topics("a"), 5_000), OneSession(cluster)
        await rights.forbidden(session, ["a"], READ)
        await virtual_time(TTL_S / 2 + 0.1)
        assert rights.known(session, ["a"], READ) == frozenset()
        rights.forget(session.connection_id)
        assert rights.known(session, ["a"], READ) is None
        await virtual_time(1)
        assert len(cluster.asked) == 1, "a question went on without its session"

    lived(main())


def test_sessions_of_one_identity_are_told_once() -> None:
    async def main() -> None:
        clusters = [Cluster(a=[READ]) for _ in range(20)]
        rights = TopicRights(Topics("a"), 5_000)
        sessions = [OneSession(cluster, number) for number, cluster in enumerate(clusters)]
        for one in sessions:
            rights.identify(one.connection_id, "alice")
        await rights.forbidden(sessions[0], ["a"], READ)
        for _ in range(1_000):
            await virtual_time(0.05)
            assert all(rights.known(one, ["a"], READ) == frozenset() for one in sessions)
        assert 15 < sum(len(one.asked) for one in clusters) < 25
        stranger = OneSession(Cluster(a=[]), 100)
        rights.identify(stranger.connection_id, None)
        assert rights.known(stranger, ["a"], READ) is None

    lived(main())


@pytest.mark.parametrize("before_s", [0.0, 2.0, 4.9])
def test_a_right_that_is_taken_away_ends_in_time_for_all_of_an_identity(before_s: float) -> None:
    async def main() -> None:
        cluster, loop = Cluster(a=[READ]), asyncio.get_running_loop()
        rights, sessions = TopicRights(Topics("a"), 5_000), [OneSession(cluster, number) for number in range(3)]
        for one in sessions:
            rights.identify(one.connection_id, "alice")
        await rights.forbidden(sessions[0], ["a"], READ)
        await virtual_time(before_s)
        cluster.allowed = {"a": []}
        taken_s = loop.time()
        for one in sessions:
            while rights.allowed_until_s(one, ["a"], READ):
                assert loop.time() - taken_s <= TTL_S + 2 * ANSWER_S
                await virtual_time(0.05)

    lived(main())


def test_a_connection_that_hangs_holds_up_nobody_else() -> None:
    class Hanging(Cluster):
        async def ask(self, request: Any, answer_type: Any) -> Any:
            if len(self.asked) == 1:
                await asyncio.get_running_loop().create_future()
            return await super().ask(request, answer_type)

    async def main() -> None:
        hanging, other = Hanging(a=[READ]), Cluster(a=[READ])
        rights, sessions = TopicRights(Topics("a"), 5_000), [OneSession(hanging, 1), OneSession(other, 2)]
        for one in sessions:
            rights.identify(one.connection_id, "alice")
        await rights.forbidden(sessions[0], ["a"], READ)
        await virtual_time(TTL_S / 2 + 0.1)
        assert rights.known(sessions[0], ["a"], READ) == frozenset()
        for _ in range(400):
            await virtual_time(0.05)
            assert rights.known(sessions[1], ["a"], READ) == frozenset()
            assert rights.known(sessions[0], ["a"], READ) == frozenset()
        assert 6 < len(other.asked) < 10
        rights.forget(1)
        rights.forget(2)

    lived(main())


def test_an_answer_to_another_identity_counts_for_neither() -> None:
    """A question may wait for a login that is under way: what it is answered is the right of who has logged in."""

    async def main() -> None:
        cluster = Cluster(a=[READ])
        rights, session, other = TopicRights(Topics("a"), 5_000), OneSession(cluster, 1), OneSession(Cluster(a=[]), 2)
        for one in (session, other):
            rights.identify(one.connection_id, "PLAINTEXT")
        asking = asyncio.create_task(rights.forbidden(session, ["a"], READ))
        await virtual_time(ANSWER_S / 2)
        rights.identify(session.connection_id, "alice")
        assert await asking == frozenset()
        assert len(cluster.asked) == 2
        assert rights.known(session, ["a"], READ) == frozenset()
        assert rights.known(other, ["a"], READ) is None
        assert await rights.forbidden(other, ["a"], READ) == {"a"}

    lived(main())


def test_rights_are_allowed_until_they_have_to_be_asked_for_again() -> None:
    async def main() -> None:
        cluster, loop = Cluster(a=[READ], b=[READ], c=[WRITE]), asyncio.get_running_loop()
        rights, session = TopicRights(Topics("a", "b", "c"), 5_000), OneSession(cluster)
        assert rights.allowed_until_s(session, ["a"], READ) == 0.0
        asked_s = loop.time()
        await rights.forbidden(session, ["a"], READ)
        await virtual_time(1)
        await rights.forbidden(session, ["b", "c"], READ)
        assert rights.allowed_until_s(session, ["a", "b"], READ) == asked_s + PROMISED * TTL_S
        assert rights.allowed_until_s(session, ["a", "c"], READ) == 0.0
        await virtual_time(3.5)
        assert rights.allowed_until_s(session, ["a"], READ) == loop.time()
        await virtual_time(2 * ANSWER_S)
        assert rights.allowed_until_s(session, ["a"], READ) > loop.time() + 3

    lived(main())
