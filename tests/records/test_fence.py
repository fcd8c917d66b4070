"""Which entries count, as a table: the fence is (epoch 3, term 30, seq 5) unless a row says otherwise."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.entry_key import EntryKey
from records.log import VOID_REASONS, Fence, Verdict
from records.model import LeadershipClaimed

FENCE = Fence(3, 30, 5)

VERDICTS: list[tuple[str, EntryKey | None, Verdict]] = [
    ("no key", None, Verdict.VOID_FOREIGN),
    ("next of the term in force", EntryKey(3, 30, 6), Verdict.APPLY),
    ("the last one again", EntryKey(3, 30, 5), Verdict.VOID_DUPLICATE),
    ("an older one again", EntryKey(3, 30, 1), Verdict.VOID_DUPLICATE),
    ("behind a gap", EntryKey(3, 30, 7), Verdict.VOID_GAP),
    ("same epoch, other term", EntryKey(3, 31, 6), Verdict.VOID_STALE),
    ("same term, older epoch", EntryKey(2, 30, 6), Verdict.VOID_STALE),
    ("same term, newer epoch", EntryKey(4, 30, 6), Verdict.VOID_STALE),
    ("older term", EntryKey(2, 20, 6), Verdict.VOID_STALE),
    ("claim of the next epoch", EntryKey(4, 40, 0), Verdict.CLAIM),
    ("claim of this epoch", EntryKey(3, 31, 0), Verdict.VOID_STALE),
    ("the claim in force again", EntryKey(3, 30, 0), Verdict.VOID_STALE),
    ("claim of an older epoch", EntryKey(2, 20, 0), Verdict.VOID_STALE),
    ("claim that skips an epoch", EntryKey(5, 50, 0), Verdict.VOID_STALE),
    ("claim of a huge epoch", EntryKey(2**31 - 1, 50, 0), Verdict.VOID_STALE),
]


@pytest.mark.parametrize(("key", "verdict"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS])
def test_verdict(key: EntryKey | None, verdict: Verdict) -> None:
    assert FENCE.judge(key) is verdict


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        (EntryKey(1, 9, 0), Verdict.CLAIM),
        (EntryKey(0, 0, 0), Verdict.VOID_STALE),
        (EntryKey(0, 0, 1), Verdict.VOID_STALE),
        (EntryKey(1, 9, 1), Verdict.VOID_STALE),
        (EntryKey(2, 9, 0), Verdict.VOID_STALE),
    ],
)
def test_in_a_log_without_a_claim_only_the_first_claim_may_count(key: EntryKey, verdict: Verdict) -> None:
    assert Fence().judge(key) is verdict


def test_a_fence_counts_on_within_a_term_and_starts_anew_with_a_claim() -> None:
    assert FENCE.advanced() == Fence(3, 30, 6)
    assert FENCE.claimed_by(LeadershipClaimed(epoch=4, term=40, node_id=1, rack="", endpoints=[])) == Fence(4, 40, 0)


def test_every_void_verdict_has_a_reason_for_the_metric() -> None:
    assert sorted(VOID_REASONS.values()) == ["contradiction", "duplicate", "foreign", "gap", "stale"]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)), max_size=40))
def test_what_counts_is_dense_within_a_term_and_epochs_rise_by_one(keys: list[tuple[int, int, int]]) -> None:
    fence = Fence()
    counted: list[EntryKey] = []
    for key in map(EntryKey._make, keys):
        match fence.judge(key):
            case Verdict.APPLY:
                fence = fence.advanced()
                counted.append(key)
            case Verdict.CLAIM:
                fence = fence.claimed_by(LeadershipClaimed(epoch=key.epoch, term=key.term, node_id=1, rack="", endpoints=[]))
                counted.append(key)
    for before, after in itertools.pairwise(counted):
        if after.seq:
            assert after == (before.epoch, before.term, before.seq + 1)
        else:
            assert after.epoch == before.epoch + 1
    assert not counted or counted[0][::2] == (1, 0)
