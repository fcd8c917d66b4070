"""The contract of `MigrationCalls` with resets, for the logs in memory and the client of a real service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from coordinator.client.errors import ServiceError
from coordinator.kafka.errors import ErrorCode
from migration.calls import MigrationCalls


class DisklessLogsWorld(Protocol):
    """A topic with one partition that was created as pending."""

    @property
    def calls(self) -> MigrationCalls:
        """The calls of its coordinator."""

    @property
    def topic_id(self) -> bytes:
        """The topic."""

    async def reset(self, leader_epoch: int) -> None:
        """Unset B0, as an operator does."""


async def _init(world: DisklessLogsWorld, start_offset: int, leader_epoch: int, prefix_start: int = 0) -> ErrorCode:
    try:
        await world.calls.init_diskless_log(
            world.topic_id, 0, start_offset=start_offset, prefix_start=prefix_start, leader_epoch=leader_epoch, producers=()
        )
    except ServiceError as error:
        return error.code
    return ErrorCode.NONE


async def check_a_pending_log_has_no_numbers(world: DisklessLogsWorld) -> None:
    """All numbers of a pending log are -1."""
    log = await world.calls.describe_diskless_log(world.topic_id, 0)
    assert log.state == "pending"
    assert (log.start_offset, log.prefix_start, log.suffix_start, log.leader_epoch) == (-1, -1, -1, -1)


async def check_a_log_begins_once(world: DisklessLogsWorld) -> None:
    """B0 is set once; the same one may be set again."""
    assert await _init(world, 7, 2, prefix_start=3) is ErrorCode.NONE
    log = await world.calls.describe_diskless_log(world.topic_id, 0)
    assert (log.state, log.start_offset, log.prefix_start, log.suffix_start, log.high_watermark) == ("initialised", 7, 3, 7, 7)
    assert await _init(world, 7, 2) is ErrorCode.NONE
    assert await _init(world, 8, 2) is ErrorCode.INVALID_REQUEST
    assert await _init(world, 8, 3) is ErrorCode.INVALID_REQUEST
    assert (await world.calls.describe_diskless_log(world.topic_id, 0)).start_offset == 7


async def check_an_older_leader_is_fenced(world: DisklessLogsWorld) -> None:
    """The highest epoch that was accepted counts."""
    assert await _init(world, 7, 2) is ErrorCode.NONE
    assert await _init(world, 7, 4) is ErrorCode.NONE
    assert (await world.calls.describe_diskless_log(world.topic_id, 0)).leader_epoch == 4
    for start_offset in (7, 8):
        assert await _init(world, start_offset, 3) is ErrorCode.FENCED_LEADER_EPOCH


async def check_numbers_that_contradict_each_other_are_refused(world: DisklessLogsWorld) -> None:
    """A log cannot begin before its prefix, or below 0; a prefix may be empty."""
    assert await _init(world, -1, 0) is ErrorCode.INVALID_REQUEST
    assert await _init(world, 7, 0, prefix_start=8) is ErrorCode.INVALID_REQUEST
    assert await _init(world, 7, 0, prefix_start=-1) is ErrorCode.INVALID_REQUEST
    assert (await world.calls.describe_diskless_log(world.topic_id, 0)).state == "pending"
    assert await _init(world, 7, 0, prefix_start=7) is ErrorCode.NONE


async def check_a_reset_fences_all_that_came_before(world: DisklessLogsWorld) -> None:
    """After a reset another B0 may be set, in its epoch or a later one."""
    assert await _init(world, 7, 2) is ErrorCode.NONE
    await world.reset(3)
    log = await world.calls.describe_diskless_log(world.topic_id, 0)
    assert (log.state, log.start_offset, log.leader_epoch) == ("pending", -1, 3)
    assert await _init(world, 9, 2) is ErrorCode.FENCED_LEADER_EPOCH
    assert await _init(world, 9, 3) is ErrorCode.NONE


CHECKS: Final[dict[str, Callable[[DisklessLogsWorld], Awaitable[None]]]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_a_pending_log_has_no_numbers,
        check_a_log_begins_once,
        check_an_older_leader_is_fenced,
        check_numbers_that_contradict_each_other_are_refused,
        check_a_reset_fences_all_that_came_before,
    )
}
