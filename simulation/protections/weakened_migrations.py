"""Rules of migrations that `rival_migrations` can do without, one at a time, to show that each is missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from coordinator.core import contradiction
from coordinator.core.commands import LogFacts
from coordinator.core.deciding import decide_migration
from coordinator.core.tables import diskless_log
from coordinator.core.tables.diskless_log import MigrationFault, MigrationRecord, fault_of
from coordinator.core.tables.in_memory import HotState
from migration import driver
from migration.classic import ClassicState
from records.model import PartitionCreated, Record
from simulation.protections.protection import Patch, Patches, around, instead
from simulation.rival_migrations import LeaderView


class MigrationRule(NamedTuple):
    """One rule, and how to take it out."""

    rule: str
    patches: Patches


def _judged_by(judge: Callable[[LogFacts, MigrationRecord], MigrationFault | None]) -> list[Patch]:
    return [(decide_migration, "fault_of", judge), (contradiction, "fault_of", judge)]


def _no_fence() -> list[Patch]:
    def judge(facts: LogFacts, record: MigrationRecord) -> MigrationFault | None:
        return fault_of(facts._replace(leader_epoch=min(facts.leader_epoch, max(0, record.leader_epoch))), record)

    return _judged_by(judge)


def _any_b0() -> list[Patch]:
    """Another B0 is taken for the same one."""

    def is_other(facts: LogFacts, fault: MigrationFault | None) -> bool:
        return fault is not None and facts.start_offset >= 0 and "begins at offset" in fault.message

    def judge(facts: LogFacts, record: MigrationRecord) -> MigrationFault | None:
        fault = fault_of(facts, record)
        return None if is_other(facts, fault) else fault

    return _judged_by(judge)


def _reset_with_records() -> list[Patch]:
    def judge(facts: LogFacts, record: MigrationRecord) -> MigrationFault | None:
        return fault_of(facts._replace(high_watermark=facts.start_offset), record)

    return _judged_by(judge)


def _newest_seed_alone() -> list[Patch]:
    seed = diskless_log.seed_producers
    return [(diskless_log, "seed_producers", lambda producers, row, seeds, time_ms: seed(producers, row, seeds[:1], time_ms))]


@around(HotState, "apply")
def _not_pending(apply: Callable[..., bool], hot: HotState, record: Record, offset: int) -> bool:
    return apply(hot, replace(record, classic_pending=False) if isinstance(record, PartitionCreated) else record, offset)


@instead(LeaderView, "settle")
async def _no_second_look(_: LeaderView, state: ClassicState) -> ClassicState:
    return state


@instead(LeaderView, "refuse_writes")
async def _writes_go_on(_: LeaderView) -> None:
    pass


MIGRATION_RULES: Mapping[str, MigrationRule] = {
    "epoch fence": MigrationRule("a step of a leader epoch below the recorded one is refused", _no_fence),
    "one b0": MigrationRule("B0 that is set is not set again", _any_b0),
    "reset when empty": MigrationRule("B0 is unset only while nothing was committed", _reset_with_records),
    "seeds": MigrationRule(
        "B0 is set together with what the classic log remembers of producers", lambda: [(diskless_log, "seed_producers", lambda *_: None)]
    ),
    "all seeds": MigrationRule("all of their last batches are remembered", _newest_seed_alone),
    "pending": MigrationRule("a classic partition takes nothing before B0 is set", _not_pending),
    "replicated": MigrationRule(
        "B0 is the end of what is replicated", lambda: [(driver, "obstacle_to", lambda _state, _epoch_min=0: None)]
    ),
    "second look": MigrationRule("the leader is asked again, as one that replicas follow, before B0 is proposed", _no_second_look),
    "writes refused": MigrationRule("writes are refused before B0 is chosen", _writes_go_on),
}
