"""Questions to the brokers about the group of gateways: who coordinates it, who is in it. `GatewayGroup` is a member of it.

coordinator = GroupCoordinator("diskless-gateways", connect, any_place)
gateways = await coordinator.members()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

import kio.schema.describe_groups.v5 as describe_groups
import kio.schema.find_coordinator.v4 as find_coordinator
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from coordinator.adapters.kafka.link import Answer, BrokerLink, BrokerLost, FindPlace, Place
from coordinator.protocol.codec import Message
from coordinator.runtime.failures import FatalError
from gateway.view.model import BadMember, Gateway

LOG = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "diskless-gateway"
ANSWER_TIMEOUT_S: Final = 5.0
_KEY_TYPE_GROUP: Final = 0
_SETTLED: Final = frozenset({"Stable", "Empty", "Dead"})
_REFUSED: Final = {
    ErrorCode.inconsistent_group_protocol: "it is the group of something else; name another one in diskless.gateway.group.id",
    ErrorCode.group_authorization_failed: "the gateway's own login may not use it; allow READ and DESCRIBE on the group",
    ErrorCode.invalid_session_timeout: "gateway.session.timeout.ms is outside of what the brokers allow "
    "(group.min.session.timeout.ms, group.max.session.timeout.ms)",
    ErrorCode.group_max_size_reached: "it is full; raise the brokers' group.max.size",
}


class GroupTrouble(Exception):
    """The group cannot be used for the moment; the text says why."""


class GroupCoordinator:
    """The broker that coordinates the group; found again when its connection was lost. Used on one event loop."""

    def __init__(self, group_id: str, connect: Callable[[FindPlace], BrokerLink], any_place: FindPlace) -> None:
        """`connect` makes a connection with a login that may use the group; `any_place` says where some broker is."""
        self._group_id = GroupId(group_id)
        self._connect = connect
        self._any_place = any_place
        self._connection: BrokerLink | None = None

    @property
    def is_connected(self) -> bool:
        """Whether it was asked, and its connection was not dropped since."""
        return self._connection is not None

    def drop(self, why: str) -> None:
        """End the connection; the next question finds the coordinator again."""
        if self._connection is not None:
            self._connection.close(why)
            self._connection = None

    async def members(self) -> tuple[Gateway, ...]:
        """Return the live gateways by node id. Raises `GroupTrouble`, `BrokerLost`, `FatalError`.

        Several with one node id can be among them: a former self stays a member until its session ends.
        """
        return tuple(sorted((one for _, one in await self.member_ids()), key=lambda one: one.node_id))

    async def member_ids(self) -> list[tuple[str, Gateway]]:
        """Return the members that can be read, each with its id in the group. Raises `GroupTrouble`, `BrokerLost`, `FatalError`."""
        request = describe_groups.DescribeGroupsRequest(groups=(self._group_id,), include_authorized_operations=False)
        [group] = (await self.ask(request, describe_groups.DescribeGroupsResponse)).groups
        check(self._group_id, group.error_code, "described")
        if group.group_state not in _SETTLED:
            raise GroupTrouble(f"the group is {group.group_state}")
        if group.members and group.protocol_type != PROTOCOL_TYPE:
            raise FatalError(f"diskless.gateway.group.id={self._group_id}: {_REFUSED[ErrorCode.inconsistent_group_protocol]}")
        return [(member.member_id, one) for member in group.members for one in read_members([member.member_metadata])]

    async def ask(self, request: Message, answer_type: type[Answer], longer_s: float = 0) -> Answer:
        """Ask the coordinator of the group. Raises `GroupTrouble`, `BrokerLost`."""
        if self._connection is None or self._connection.is_lost:
            self._connection = self._connect(self._find)
        timeout_s = ANSWER_TIMEOUT_S + longer_s
        try:
            async with asyncio.timeout(timeout_s):
                return await self._connection.ask(request, answer_type)
        except TimeoutError as error:
            raise GroupTrouble(f"no answer in {timeout_s:g} s") from error

    async def _find(self, unreached: Collection[Place]) -> Place:
        """Find the coordinator of the group. Raises `BrokerLost`, also when it cannot be reached there."""
        some = self._connect(self._any_place)
        try:
            request = find_coordinator.FindCoordinatorRequest(key_type=_KEY_TYPE_GROUP, coordinator_keys=(self._group_id,))  # type: ignore[arg-type]
            [found] = (await some.ask(request, find_coordinator.FindCoordinatorResponse)).coordinators
        finally:
            some.close()
        if found.error_code is not ErrorCode.none:
            raise BrokerLost(f"the coordinator of group {self._group_id} is not known: {found.error_code.name}")
        if (place := (found.host, int(found.port))) in unreached:
            raise BrokerLost(f"group {self._group_id} has no other coordinator yet")
        return place


def check(group_id: str, code: ErrorCode, what: str) -> None:
    """Raise `FatalError` for a group that cannot be used as it is, `GroupTrouble` for any other error."""
    if code is ErrorCode.none:
        return
    if code in _REFUSED:
        raise FatalError(f"diskless.gateway.group.id={group_id}: {code.name}: {_REFUSED[code]}")
    raise GroupTrouble(f"{what}: the broker answers {code.name}")


def read_members(told: Iterable[bytes]) -> tuple[Gateway, ...]:
    """Read what gateways tell of themselves; what cannot be read is left out, and logged."""
    found = []
    for one in told:
        try:
            found.append(Gateway.decode(one))
        except BadMember as error:
            LOG.error("gateway not known reason=%r", str(error))
    return tuple(found)
