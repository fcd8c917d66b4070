"""Gateways know each other as members of a group of Kafka: what each tells of itself goes to all of them.

The group has Kafka's classic protocol with a protocol type of its own. Each member joins with what others shall know of it; the leader of
a generation hands the list of all members to each of them as its assignment. So all gateways know the same list as soon as the brokers have
it, and a gateway that died is out after its session.
Invariants: the list changes only by a whole generation, and the last one stays while the group cannot be reached: a list that is old serves
clients better than none. Two live gateways never share a node id: the later one is refused at its start.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace
from coordinator.adapters.kafka.member.classic import ClassicMember
from coordinator.adapters.kafka.member.coordinator import GroupCoordinator, GroupRefused, GroupTrouble
from coordinator.runtime.failures import FatalError
from gateway.view.model import BadMember, Gateway, distinct

LOG = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "diskless-gateway"
PROTOCOL: Final = "all-1"
"""The name says the form of what members tell: a member with another one cannot join."""
REBALANCE_TIMEOUT_MS: Final = 10_000
RETRY_PAUSE_S: Final = 0.3
LOOK_PAUSE_S: Final = 0.3
_REFUSED: Final = {
    ErrorCode.inconsistent_group_protocol: "it is the group of something else; name another one in diskless.gateway.group.id",
    ErrorCode.group_authorization_failed: "the gateway's own login may not use it; allow READ and DESCRIBE on the group",
    ErrorCode.invalid_session_timeout: "gateway.session.timeout.ms is outside of what the brokers allow "
    "(group.min.session.timeout.ms, group.max.session.timeout.ms)",
    ErrorCode.group_max_size_reached: "it is full; raise the brokers' group.max.size",
}


class GatewayGroup:
    """See the module. Used on one event loop."""

    def __init__(
        self,
        me: Gateway,
        *,
        group_id: str,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        connect: Callable[[FindPlace], BrokerLink],
        any_place: FindPlace,
        changed: Callable[[], None],
    ) -> None:
        """`connect` makes a connection with the gateway's own login; `changed` is called when the list of gateways is another one."""
        self._me = me
        self._group_id = group_id
        self._session_timeout_ms = session_timeout_ms
        self._changed = changed
        self._coordinator = GroupCoordinator(group_id, connect, any_place)
        self._member = ClassicMember(
            self._coordinator,
            self,
            protocol_type=PROTOCOL_TYPE,
            protocol=PROTOCOL,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            heartbeat_interval_ms=heartbeat_interval_ms,
        )
        self._listed: tuple[Gateway, ...] = (me,)
        self.has_joined = asyncio.Event()
        """Set once this gateway was in a generation."""
        self.is_member = False
        """Whether the last heartbeat said that this gateway is a member."""
        self.generations = 0
        """How often the list was made anew."""

    @property
    def gateways(self) -> tuple[Gateway, ...]:
        """The live gateways by node id, this one among them."""
        return self._listed

    def announce(self, http: str) -> None:
        """Tell the others from the next generation on where /ready and /metrics of this gateway are."""
        self._me = replace(self._me, http=http)

    async def refuse_double(self) -> None:
        """Return when no live gateway has this one's node id. Raises `FatalError` when one does.

        One with the same addresses is a former self, since this process listens there. Another one may have died: it is waited for.
        """
        deadline = asyncio.get_running_loop().time() + self._session_timeout_ms / 1000 * 1.5 + LOOK_PAUSE_S
        while True:
            try:
                double = await self._double()
            except GroupRefused as refused:
                raise _fatal(self._group_id, refused) from refused
            except (GroupTrouble, BrokerLost) as error:
                LOG.info("group of gateways not reached yet reason=%r", str(error))
                self._coordinator.drop("asked again")
            else:
                if double is None:
                    return
                if asyncio.get_running_loop().time() >= deadline:
                    raise FatalError(
                        f"gateway.node.id={self._me.node_id} is that of the gateway at {_where(double)}, which is alive; "
                        "give this one an id that no broker and no other gateway has"
                    )
            await asyncio.sleep(LOOK_PAUSE_S)

    async def run(self) -> None:
        """Be a member. Ends by being cancelled. Raises `FatalError` for a group that this gateway may not join."""
        while True:
            try:
                await self._member.join()
                await self._member.stay()
            except GroupRefused as refused:
                raise _fatal(self._group_id, refused) from refused
            except (GroupTrouble, BrokerLost, TimeoutError) as error:
                if self.is_member or not self.has_joined.is_set():
                    LOG.warning("group of gateways not reached reason=%r; the gateways known stay", str(error) or "no answer in time")
                self.is_member = False
                self._coordinator.drop(str(error))
                await asyncio.sleep(RETRY_PAUSE_S)

    async def leave(self) -> None:
        """Tell the others that this gateway ends."""
        try:
            await self._member.leave("the gateway stops")
        except (GroupTrouble, BrokerLost, TimeoutError) as error:
            LOG.warning("group of gateways not left reason=%r; the others miss this one after its session", str(error))
        self._coordinator.drop("the gateway stops")

    # ---- as a member

    def tell(self) -> bytes:
        """Return what the others shall know of this gateway."""
        return self._me.encode()

    def assign(self, told: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the list of all members for each of them."""
        return dict.fromkeys(told, make_list(list(told.values())))

    def take(self, assignment: bytes) -> None:
        """Take the list of a generation. Raises `GroupTrouble`, and `FatalError` when a later gateway has this one's node id."""
        known = distinct(read_list(assignment))
        mine = next((one for one in known if one.node_id == self._me.node_id), None)
        if mine is not None and mine.incarnation > self._me.incarnation:
            raise FatalError(
                f"gateway.node.id={self._me.node_id} was taken by the gateway at {_where(mine)}, which began later: give each another id"
            )
        self.is_member = True
        self.generations += 1
        if known != self._listed or not self.has_joined.is_set():
            LOG.info("gateways found generation=%d gateways=%s", self._member.generation, [f"{one.node_id}:{_where(one)}" for one in known])
            self._listed = known
            self._changed()
        self.has_joined.set()

    def removed(self) -> None:
        """Keep the list: an old one serves clients better than none."""

    async def _double(self) -> Gateway | None:
        """Return a member with this gateway's node id and other addresses. Raises `GroupTrouble`, `GroupRefused`, `BrokerLost`.

        A former self is taken out of the group: the others would wait for it until its session is over.
        """
        for member_id, one in await described_members(self._coordinator):
            if one.node_id != self._me.node_id:
                continue
            if dict(one.listeners) != dict(self._me.listeners):
                return one
            LOG.info("former self leaves the group member=%s", member_id)
            await self._member.remove(member_id, "killed, and started again")
        return None


async def described_members(coordinator: GroupCoordinator) -> list[tuple[str, Gateway]]:
    """Return the gateways that can be read, each with its id in the group. Raises `GroupTrouble`, `GroupRefused`, `BrokerLost`.

    Several with one node id can be among them: a former self stays a member until its session ends.
    """
    members = (await coordinator.describe(PROTOCOL_TYPE)).members
    return [(member.member_id, one) for member in members for one in read_members([member.member_metadata])]


def make_list(told: Sequence[bytes]) -> bytes:
    """Return the list of what members tell of themselves; what cannot be read is left out, and logged."""
    rows = []
    for one in told:
        try:
            Gateway.decode(one)
        except BadMember as error:
            LOG.error("gateway not known reason=%r", str(error))
        else:
            rows.append(json.loads(one))
    return json.dumps(rows, separators=(",", ":")).encode()


def read_list(assignment: bytes) -> tuple[Gateway, ...]:
    """Read the list of a generation; entries that cannot be read are left out, and logged. Raises `GroupTrouble` for what is no list."""
    try:
        rows = json.loads(assignment)
        told = [json.dumps(row).encode() for row in rows]
    except (ValueError, TypeError) as error:
        raise GroupTrouble(f"the list of gateways cannot be read: {error!r}") from error
    return read_members(told)


def read_members(told: Iterable[bytes]) -> tuple[Gateway, ...]:
    """Read what gateways tell of themselves; what cannot be read is left out, and logged."""
    found = []
    for one in told:
        try:
            found.append(Gateway.decode(one))
        except BadMember as error:
            LOG.error("gateway not known reason=%r", str(error))
    return tuple(found)


def explained(group_id: str, refused: GroupRefused) -> str:
    """Return why gateways cannot use their group, with the remedy."""
    return f"diskless.gateway.group.id={group_id}: {refused.code.name}: {_REFUSED[refused.code]}"


def _fatal(group_id: str, refused: GroupRefused) -> FatalError:
    return FatalError(explained(group_id, refused))


def _where(gateway: Gateway) -> str:
    return ",".join(f"{name}://{one.host}:{one.port}" for name, one in gateway.listeners.items())
