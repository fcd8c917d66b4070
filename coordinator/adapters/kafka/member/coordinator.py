"""The broker that coordinates a group: found, asked, and found again when its connection was lost.

coordinator = GroupCoordinator("diskless-gateways", connect, any_place)
members = (await coordinator.describe()).members
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import kio.schema.describe_groups.v5 as describe_groups
import kio.schema.describe_groups.v5.response as describe_groups_response
import kio.schema.find_coordinator.v4 as find_coordinator
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from coordinator.adapters.kafka.link import Answer, BrokerLink, BrokerLost, FindPlace, Place
from coordinator.protocol.codec import Message

ANSWER_TIMEOUT_S: Final = 5.0
_KEY_TYPE_GROUP: Final = 0
_SETTLED: Final = frozenset({"Stable", "Empty", "Dead"})
_LASTING: Final = frozenset(
    {
        ErrorCode.inconsistent_group_protocol, ErrorCode.group_authorization_failed, ErrorCode.invalid_session_timeout,
        ErrorCode.group_max_size_reached,
    }
)  # fmt: skip


class GroupTrouble(Exception):
    """The group cannot be used for the moment; the text says why."""


class GroupRefused(Exception):
    """The group cannot be used as it is asked to be; `code` is Kafka's error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class GroupCoordinator:
    """See the module. Used on one event loop."""

    def __init__(self, group_id: str, connect: Callable[[FindPlace], BrokerLink], any_place: FindPlace) -> None:
        """`connect` makes a connection with a login that may use the group; `any_place` says where some broker is."""
        self.group_id = GroupId(group_id)
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

    async def describe(self, protocol_type: str) -> describe_groups_response.DescribedGroup:
        """Describe the group. Raises `GroupTrouble`, also while it rebalances, `GroupRefused` for one of another type, `BrokerLost`."""
        request = describe_groups.DescribeGroupsRequest(groups=(self.group_id,), include_authorized_operations=False)
        [group] = (await self.ask(request, describe_groups.DescribeGroupsResponse)).groups
        check(group.error_code, "described")
        if group.group_state not in _SETTLED:
            raise GroupTrouble(f"the group is {group.group_state}")
        if group.members and group.protocol_type != protocol_type:
            raise GroupRefused(ErrorCode.inconsistent_group_protocol)
        return group

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
            request = find_coordinator.FindCoordinatorRequest(key_type=_KEY_TYPE_GROUP, coordinator_keys=(self.group_id,))  # type: ignore[arg-type]
            [found] = (await some.ask(request, find_coordinator.FindCoordinatorResponse)).coordinators
        finally:
            some.close()
        if found.error_code is not ErrorCode.none:
            raise BrokerLost(f"the coordinator of group {self.group_id} is not known: {found.error_code.name}")
        if (place := (found.host, int(found.port))) in unreached:
            raise BrokerLost(f"group {self.group_id} has no other coordinator yet")
        return place


def check(code: ErrorCode, what: str) -> None:
    """Raise `GroupRefused` for an error that stays, `GroupTrouble` for any other."""
    if code in _LASTING:
        raise GroupRefused(code)
    if code is not ErrorCode.none:
        raise GroupTrouble(f"{what}: the broker answers {code.name}")
