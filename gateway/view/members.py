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
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import kio.schema.heartbeat.v4 as heartbeat
import kio.schema.join_group.v7 as join_group
import kio.schema.join_group.v7.request as join_group_request
import kio.schema.leave_group.v5 as leave_group
import kio.schema.leave_group.v5.request as leave_group_request
import kio.schema.sync_group.v5 as sync_group
import kio.schema.sync_group.v5.request as sync_group_request
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace
from coordinator.runtime.failures import FatalError
from gateway.view.group import PROTOCOL_TYPE, GroupCoordinator, GroupTrouble, check, read_members
from gateway.view.model import BadMember, Gateway, distinct

LOG = logging.getLogger(__name__)

PROTOCOL: Final = "all-1"
"""The name says the form of what members tell: a member with another one cannot join."""
REBALANCE_TIMEOUT_MS: Final = 10_000
RETRY_PAUSE_S: Final = 0.3
LOOK_PAUSE_S: Final = 0.3
LEAVE_TIMEOUT_S: Final = 2.0


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
        self._group_id = GroupId(group_id)
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_s = heartbeat_interval_ms / 1000
        self._changed = changed
        self._coordinator = GroupCoordinator(group_id, connect, any_place)
        self._member_id = ""
        self._generation = -1
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
                await self._join()
                await self._stay()
            except (GroupTrouble, BrokerLost, TimeoutError) as error:
                if self.is_member or not self.has_joined.is_set():
                    LOG.warning("group of gateways not reached reason=%r; the gateways known stay", str(error) or "no answer in time")
                self.is_member = False
                self._coordinator.drop(str(error))
                await asyncio.sleep(RETRY_PAUSE_S)

    async def leave(self) -> None:
        """Tell the others that this gateway ends."""
        if not self._member_id or not self._coordinator.is_connected:
            return
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._leave_as(self._member_id, "the gateway stops")
        except (GroupTrouble, BrokerLost, TimeoutError) as error:
            LOG.warning("group of gateways not left reason=%r; the others miss this one after its session", str(error))
        self._coordinator.drop("the gateway stops")

    async def _leave_as(self, member_id: str, why: str) -> None:
        """Take a member out of the group. Raises `GroupTrouble`, `BrokerLost`."""
        member = leave_group_request.MemberIdentity(member_id=member_id, reason=why)
        request = leave_group.LeaveGroupRequest(group_id=self._group_id, members=(member,))
        await self._coordinator.ask(request, leave_group.LeaveGroupResponse)

    # ---- the protocol

    async def _join(self) -> None:
        protocol = join_group_request.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._me.encode())
        while True:
            request = join_group.JoinGroupRequest(
                group_id=self._group_id,
                session_timeout=_time(self._session_timeout_ms),
                rebalance_timeout=_time(REBALANCE_TIMEOUT_MS),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=(protocol,),
            )
            joined = await self._coordinator.ask(request, join_group.JoinGroupResponse, REBALANCE_TIMEOUT_MS / 1000)
            if joined.error_code is ErrorCode.member_id_required:
                self._member_id = joined.member_id
                continue
            if joined.error_code is ErrorCode.unknown_member_id:
                self._member_id = ""
                continue
            check(self._group_id, joined.error_code, "joined")
            break
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments: tuple[sync_group_request.SyncGroupRequestAssignment, ...] = ()
        if joined.leader == joined.member_id:
            listed = make_list([one.metadata for one in joined.members])
            assignments = tuple(
                sync_group_request.SyncGroupRequestAssignment(member_id=one.member_id, assignment=listed) for one in joined.members
            )
        synced = await self._coordinator.ask(
            sync_group.SyncGroupRequest(
                group_id=self._group_id,
                generation_id=i32(self._generation),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=assignments,
            ),
            sync_group.SyncGroupResponse,
            REBALANCE_TIMEOUT_MS / 1000,
        )
        if synced.error_code is ErrorCode.rebalance_in_progress:
            return await self._join()
        check(self._group_id, synced.error_code, "synced")
        self._take(read_list(synced.assignment))
        return None

    def _take(self, gateways: Sequence[Gateway]) -> None:
        """Take the list of a generation."""
        known = distinct(gateways)
        mine = next((one for one in known if one.node_id == self._me.node_id), None)
        if mine is not None and mine.incarnation > self._me.incarnation:
            raise FatalError(
                f"gateway.node.id={self._me.node_id} was taken by the gateway at {_where(mine)}, which began later: give each another id"
            )
        self.is_member = True
        self.generations += 1
        if known != self._listed or not self.has_joined.is_set():
            LOG.info("gateways found generation=%d gateways=%s", self._generation, [f"{one.node_id}:{_where(one)}" for one in known])
            self._listed = known
            self._changed()
        self.has_joined.set()

    async def _stay(self) -> None:
        """Send heartbeats until the generation has ended. Raises `GroupTrouble`, `BrokerLost`, `FatalError`."""
        while await self._is_in_generation():  # noqa: ASYNC110 - the broker says it, and only when asked
            await asyncio.sleep(self._heartbeat_s)

    async def _is_in_generation(self) -> bool:
        request = heartbeat.HeartbeatRequest(group_id=self._group_id, generation_id=i32(self._generation), member_id=self._member_id)
        code = (await self._coordinator.ask(request, heartbeat.HeartbeatResponse)).error_code
        if code in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            return False
        if code is ErrorCode.unknown_member_id:
            self._member_id = ""
            return False
        check(self._group_id, code, "heartbeat")
        return True

    async def _double(self) -> Gateway | None:
        """Return a member with this gateway's node id and other addresses. Raises `GroupTrouble`, `BrokerLost`, `FatalError`.

        A former self is taken out of the group: the others would wait for it until its session is over.
        """
        for member_id, one in await self._coordinator.member_ids():
            if one.node_id != self._me.node_id:
                continue
            if dict(one.listeners) != dict(self._me.listeners):
                return one
            LOG.info("former self leaves the group member=%s", member_id)
            await self._leave_as(member_id, "killed, and started again")
        return None


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


def _where(gateway: Gateway) -> str:
    return ",".join(f"{name}://{one.host}:{one.port}" for name, one in gateway.listeners.items())


def _time(ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=ms))
