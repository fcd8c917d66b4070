"""A record that this version cannot apply stops the replica: skipping it would make replicas differ."""

from __future__ import annotations

import pytest

from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from records.model import NoOp, Record, SnapshotMark, TransactionBegan


def test_record_of_a_later_capability_is_refused() -> None:
    with pytest.raises(BrokenInvariant, match="TransactionBegan"):
        HotState().apply(TransactionBegan(name="t"), 7)


@pytest.mark.parametrize("record", [NoOp(), SnapshotMark(mark_id=1)])
def test_record_without_effect_on_state_is_passed_over(record: Record) -> None:
    HotState().apply(record, 7)
