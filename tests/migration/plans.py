"""Plans of migrations of a topic `orders`, made up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from coordinator.client.calls.migrations import DisklessLogState
from migration.classic import ClassicState, ClassicTransaction
from migration.kafka.topic import ClassicTopicFacts
from migration.plan import MigrationPlan

PENDING = DisklessLogState(state="pending")
BORN = DisklessLogState(state="born", start_offset=0)


def begun(start_offset: int) -> DisklessLogState:
    return DisklessLogState(state="initialised", start_offset=start_offset, leader_epoch=1)


def log(end: int, *, transactions: tuple[ClassicTransaction, ...] = ()) -> ClassicState:
    return ClassicState(leader_epoch=3, log_start_offset=2, high_watermark=end, log_end_offset=end, open_transactions=transactions)


def plan(
    classic: Sequence[ClassicState],
    known: Sequence[DisklessLogState] = (),
    *,
    is_compacted: bool = False,
    in_kafka: Mapping[str, str] | None = None,
    own: Collection[str] = ("retention.bytes",),
    is_closed: bool = False,
    settings: Mapping[str, str] | None = None,
) -> MigrationPlan:
    facts = ClassicTopicFacts(
        topic_id=bytes(16),
        partitions=len(classic),
        is_compacted=is_compacted,
        settings=in_kafka or {},
        own=frozenset(own),
    )
    return MigrationPlan(
        name="orders", topic=facts, classic=tuple(classic), known=tuple(known), settings=settings or {}, is_closed=is_closed
    )
