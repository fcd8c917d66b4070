"""A member of a group in Kafka's classic protocol: joins, tells, takes what it is assigned, assigns when it leads the group.

member = ClassicMember(coordinator, role, ...)
await member.join(); await member.stay()     # again and again, until it is cancelled

An assignment stays as it is through rebalances, until the next one (the brokers call that eager): whoever needs a proof that it still
counts asks with `heartbeat`. What is told goes to the group with the next round; `refresh` asks for one.

A broker that was frozen coordinates its groups for a moment longer when it goes on, and has forgotten the members that it did not hear
meanwhile, while another broker coordinates and knows them. So a member believes that it is unknown when it has heard it twice, the second
time over a new connection to the coordinator as it is found then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Protocol

import kio.schema.heartbeat.v4 as heartbeat
import kio.schema.join_group.v9 as join_group
import kio.schema.join_group.v9.request as join_group_request
import kio.schema.leave_group.v5 as leave_group
import kio.schema.leave_group.v5.request as leave_group_request
import kio.schema.sync_group.v5 as sync_group
import kio.schema.sync_group.v5.request as sync_group_request
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i32Timedelta

from coordinator.adapters.kafka.member.coordinator import GroupCoordinator, GroupTrouble, check

LEAVE_TIMEOUT_S: Final = 2.0
_NONE: Final = -1


class MemberRole(Protocol):
    """What a member says and does."""

    def tell(self) -> bytes:
        """Return what the others shall know of this member; called for every round."""

    def assign(self, told: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the assignment of every member, by its id in the group, from what they told; called at the leader of the group."""

    def take(self, assignment: bytes) -> None:
        """Take an assignment. Raises `GroupTrouble` for one that cannot be read."""

    def removed(self) -> None:
        """The group does not know this member any longer: what it was assigned may be another's."""


class ClassicMember:
    """See the module. Used on one event loop."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        role: MemberRole,
        *,
        protocol_type: str,
        protocol: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
    ) -> None:
        """`protocol` names the form of what members tell: a member with another one cannot join."""
        self._coordinator = coordinator
        self._role = role
        self._protocol_type = protocol_type
        self._protocol = protocol
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_s = heartbeat_interval_ms / 1000
        self._refresh = asyncio.Event()
        self._reason: str | None = None
        self._member_id = ""
        self._generation = _NONE
        self._is_doubted = False
        self.is_in_generation = False
        """Whether it was assigned something in a generation of which it has not heard that it is over."""

    @property
    def generation(self) -> int:
        """The number of the generation that it was in last."""
        return self._generation

    def refresh(self, why: str) -> None:
        """Ask for a new round, in which this member tells what is true then."""
        self._reason = why
        self._refresh.set()

    async def join(self) -> None:
        """Take part in a round, to its end. Raises `GroupTrouble`, `GroupRefused`, `BrokerLost`."""
        self._refresh.clear()
        self.is_in_generation = False
        while True:
            joined = await self._ask_to_join()
            assignments = self._assign(joined) if joined.leader == joined.member_id else ()
            synced = await self._coordinator.ask(
                sync_group.SyncGroupRequest(
                    group_id=self._coordinator.group_id,
                    generation_id=i32(self._generation),
                    member_id=self._member_id,
                    protocol_type=self._protocol_type,
                    protocol_name=self._protocol,
                    assignments=assignments,
                ),
                sync_group.SyncGroupResponse,
                self._rebalance_timeout_ms / 1000,
            )
            if synced.error_code is ErrorCode.rebalance_in_progress:
                continue
            if synced.error_code is ErrorCode.unknown_member_id:
                self._unknown()
                continue
            check(synced.error_code, "synced")
            self._role.take(synced.assignment)
            self.is_in_generation = True
            self._reason = None
            return

    async def _ask_to_join(self) -> join_group.JoinGroupResponse:
        """Ask until the group takes this member in; returns when the generation has all its members."""
        while True:
            told = join_group_request.JoinGroupRequestProtocol(name=self._protocol, metadata=self._role.tell())
            request = join_group.JoinGroupRequest(
                group_id=self._coordinator.group_id,
                session_timeout=_time(self._session_timeout_ms),
                rebalance_timeout=_time(self._rebalance_timeout_ms),
                member_id=self._member_id,
                protocol_type=self._protocol_type,
                protocols=(told,),
                reason=self._reason,
            )
            joined = await self._coordinator.ask(request, join_group.JoinGroupResponse, self._rebalance_timeout_ms / 1000)
            if joined.error_code is ErrorCode.member_id_required:
                self._member_id = joined.member_id
                continue
            if joined.error_code is ErrorCode.unknown_member_id:
                self._unknown()
                continue
            check(joined.error_code, "joined")
            self._is_doubted = False
            self._member_id, self._generation = joined.member_id, joined.generation_id
            return joined

    def _assign(self, joined: join_group.JoinGroupResponse) -> tuple[sync_group_request.SyncGroupRequestAssignment, ...]:
        assigned = self._role.assign({one.member_id: one.metadata for one in joined.members})
        return tuple(sync_group_request.SyncGroupRequestAssignment(member_id=one, assignment=what) for one, what in assigned.items())

    async def stay(self) -> None:
        """Send heartbeats until a new round is to be joined. Raises `GroupTrouble`, `GroupRefused`, `BrokerLost`."""
        while not self._refresh.is_set():
            if not await self._is_generation_alive():
                return
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await self._refresh.wait()
            except TimeoutError:
                continue

    async def _is_generation_alive(self) -> bool:
        # A broker that was frozen hears this one as it goes on; asked anew, it might find that the session is over.
        code = await self.heartbeat(self._session_timeout_ms / 1000)
        if code in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            self.is_in_generation = False
            return False
        if code is ErrorCode.unknown_member_id:
            self._unknown()
            return False
        check(code, "heartbeat")
        self._is_doubted = False
        return True

    async def heartbeat(self, longer_s: float = 0) -> ErrorCode:
        """Ask the group whether this member is in its current generation, and wait longer. Raises `GroupTrouble`, `BrokerLost`."""
        request = heartbeat.HeartbeatRequest(
            group_id=self._coordinator.group_id, generation_id=i32(self._generation), member_id=self._member_id
        )
        return (await self._coordinator.ask(request, heartbeat.HeartbeatResponse, longer_s)).error_code

    async def leave(self, why: str) -> None:
        """Leave the group, if it was joined. Raises `GroupTrouble`, `BrokerLost`, `TimeoutError`."""
        member_id, self._member_id = self._member_id, ""
        was_settled, self.is_in_generation = self.is_in_generation, False
        if not member_id or not self._coordinator.is_connected:
            return
        if not was_settled:
            self._coordinator.drop(why)  # a broker answers nothing behind a request to join that waits for others
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await self.remove(member_id, why)

    async def remove(self, member_id: str, why: str) -> None:
        """Take a member out of the group. Raises `GroupTrouble`, `BrokerLost`."""
        member = leave_group_request.MemberIdentity(member_id=member_id, reason=why)
        request = leave_group.LeaveGroupRequest(group_id=self._coordinator.group_id, members=(member,))
        await self._coordinator.ask(request, leave_group.LeaveGroupResponse)

    def _unknown(self) -> None:
        """Hear from a broker that it does not know this member. Raises `GroupTrouble` at the first time."""
        had_assignment = bool(self._member_id) and self._generation != _NONE
        self.is_in_generation = False
        if had_assignment and not self._is_doubted:
            self._is_doubted = True
            raise GroupTrouble("the broker does not know this member, and may not be the coordinator any longer")
        self._member_id, self._generation, self._is_doubted = "", _NONE, False
        if had_assignment:
            self._role.removed()


def _time(ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=ms))
