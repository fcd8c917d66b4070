"""New empty files are looked at in every round, those that had to wait ever more rarely, and none is forgotten."""

from __future__ import annotations

from coordinator.runtime.files.walk import MOVED_SHARE_MIN, PAUSE_MS_MAX, START, Walk

INTERVAL_MS, GRACE_MS = 1_000, 60_000


def walk() -> Walk:
    return Walk(interval_ms=INTERVAL_MS, grace_ms=GRACE_MS)


def sweep(of: Walk, now_ms: int, *, seen: int, moved: int, unknown: int = 0, lasts_ms: int = 0) -> bool:
    """Go through everything at once, if it is time for that."""
    if of.sweep_from(now_ms) is None:
        return False
    of.swept(None, seen=seen, moved=moved, unknown=unknown, now_ms=now_ms + lasts_ms)
    return True


def next_sweep_ms(of: Walk, now_ms: int) -> int:
    """How long it is until files are looked at again."""
    return next(later for later in range(0, 100 * PAUSE_MS_MAX, 100) if of.sweep_from(now_ms + later) is not None)


def test_new_files_are_those_behind_the_newest_that_was_seen() -> None:
    one = walk()
    assert one.newest == START
    one.saw_new((5_000, 17))
    one.saw_new((4_000, 90))
    assert one.newest == (5_000, 17)


def test_a_sweep_goes_on_where_it_stopped() -> None:
    one = walk()
    assert one.sweep_from(0) == START
    one.swept((3_000, 4), seen=10, moved=10, unknown=0, now_ms=5)
    assert one.sweep_from(6) == (3_000, 4)
    one.swept(None, seen=10, moved=10, unknown=0, now_ms=10)
    assert one.sweep_from(11) is None
    assert one.sweep_from(10 + INTERVAL_MS) == START


def test_sweeps_that_move_little_become_rare_but_never_end() -> None:
    one, now_ms, pauses = walk(), 0, []
    for _ in range(14):
        assert sweep(one, now_ms, seen=1_000, moved=1_000 // MOVED_SHARE_MIN - 1)
        pauses.append(next_sweep_ms(one, now_ms))
        now_ms += pauses[-1]
    assert pauses[:4] == [2_000, 4_000, 8_000, 16_000]
    assert pauses[-1] == min(10 * GRACE_MS, PAUSE_MS_MAX)


def test_a_sweep_that_moves_much_is_followed_by_another_soon() -> None:
    one = walk()
    for _ in range(5):
        now_ms = next_sweep_ms(one, 0)
        assert sweep(one, now_ms, seen=1_000, moved=0)
    now_ms = next_sweep_ms(one, 0)
    assert sweep(one, now_ms, seen=1_000, moved=1_000 // MOVED_SHARE_MIN)
    assert next_sweep_ms(one, now_ms) == INTERVAL_MS


def test_a_long_sweep_in_vain_is_followed_by_a_pause_many_times_as_long() -> None:
    one = walk()
    assert sweep(one, 0, seen=1_000_000, moved=0, lasts_ms=100_000)
    one.hurry(100_000)
    assert next_sweep_ms(one, 100_000) == 900_000


def test_files_of_an_owner_that_does_not_answer_are_looked_at_again_soon_but_not_all_the_time() -> None:
    one = walk()
    assert sweep(one, 0, seen=10, moved=0)
    now_ms = next_sweep_ms(one, 0)
    assert sweep(one, now_ms, seen=10, moved=0, unknown=1)
    assert next_sweep_ms(one, now_ms) == INTERVAL_MS
    one = walk()
    assert sweep(one, 0, seen=1_000_000, moved=0, unknown=1, lasts_ms=10_000)
    assert next_sweep_ms(one, 10_000) == 90_000


def test_who_is_told_of_a_hand_over_looks_again_soon() -> None:
    one, now_ms = walk(), 0
    for _ in range(8):
        assert sweep(one, now_ms, seen=10, moved=0)
        now_ms += next_sweep_ms(one, now_ms)
    assert sweep(one, now_ms, seen=10, moved=0)
    one.hurry(now_ms)
    assert next_sweep_ms(one, now_ms) == INTERVAL_MS


def test_nothing_to_look_at_is_no_sweep_in_vain() -> None:
    one, now_ms = walk(), 0
    for _ in range(5):
        assert sweep(one, now_ms, seen=0, moved=0)
        assert next_sweep_ms(one, now_ms) == INTERVAL_MS
        now_ms += INTERVAL_MS
