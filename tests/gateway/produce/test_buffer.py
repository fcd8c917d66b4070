"""When a file is cut, and what a client's unanswered requests tell: pure rules on given times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.produce.buffer import Buffer, BufferLimits
from gateway.produce.connections import DEFAULT_LIMIT, RESUMES_S, SILENT_S, RequestWindow

LIMITS = BufferLimits(buffer_bytes=100, buffer_ms=250, file_gap_ms=25, files_per_second_max=10, batches_max=8)


def waiting(unanswered: int, limit: int = DEFAULT_LIMIT) -> RequestWindow:
    """A connection with so many unanswered requests."""
    window = RequestWindow()
    window.limit = limit
    window.unanswered = unanswered
    return window


def test_nothing_is_never_due() -> None:
    assert Buffer[str](LIMITS).due_s(5.0) is None


def test_the_oldest_part_waits_no_longer_than_the_time_of_the_buffer() -> None:
    buffer = Buffer[str](LIMITS)
    buffer.add("a", 10, 1, waiting(1), 1.0)
    buffer.add("b", 10, 1, waiting(1), 1.2)
    assert buffer.due_s(1.2) == 1.25
    assert buffer.due_s(9.0) == 9.0
    assert buffer.take(1.25) == ["a", "b"]
    assert buffer.due_s(1.25) is None


def test_a_full_buffer_is_due_at_once_whatever_the_distance_of_files() -> None:
    buffer = Buffer[str](LIMITS)
    for number in range(30):
        buffer.add("a", 100, 1, None, 1.0 + number / 1000)
        assert buffer.due_s(1.0 + number / 1000) == 1.0 + number / 1000
        assert buffer.take(1.0 + number / 1000) == ["a"]


def test_too_many_batches_are_a_full_buffer() -> None:
    buffer = Buffer[str](LIMITS)
    buffer.add("a", 1, 7, None, 0.0)
    assert buffer.due_s(0.0) == 0.25
    buffer.add("b", 1, 1, None, 0.0)
    assert buffer.due_s(0.0) == 0.0
    assert buffer.take(0.0) == ["a", "b"]


def test_stalled_clients_are_due_at_the_distance_of_files() -> None:
    buffer = Buffer[str](LIMITS)
    buffer.add("a", 1, 1, waiting(5), 1.0)
    assert buffer.due_s(1.0) == 1.0
    buffer.take(1.0)
    buffer.add("b", 1, 1, waiting(5), 1.01)
    assert buffer.due_s(1.01) == 1.025
    buffer.add("c", 1, 1, waiting(2), 1.02)
    assert buffer.due_s(1.02) == 1.26


def test_a_client_with_data_that_gets_an_answer_is_not_stalled() -> None:
    buffer, window = Buffer[str](LIMITS), waiting(5)
    buffer.add("a", 1, 1, window, 1.0)
    window.answered(1.0)
    buffer.look_at(window)
    assert buffer.due_s(1.0) == 1.25
    window.asked(1.1)
    buffer.add("b", 1, 1, window, 1.1)
    assert buffer.due_s(1.1) == 1.1


def test_clients_without_data_here_do_not_count() -> None:
    buffer, other = Buffer[str](LIMITS), waiting(1)
    buffer.look_at(other)
    buffer.add("a", 1, 1, waiting(5), 1.0)
    assert buffer.due_s(1.0) == 1.0


def test_data_that_nobody_waits_for_stalls_nothing_and_is_not_due_early() -> None:
    buffer = Buffer[str](LIMITS)
    buffer.add("a", 1, 1, None, 1.0)
    assert buffer.due_s(1.0) == 1.25
    buffer.add("b", 1, 1, waiting(5), 1.0)
    assert buffer.due_s(1.0) == 1.0


def test_no_second_has_more_files_than_allowed() -> None:
    buffer, now_s, files = Buffer[str](LIMITS), 1.0, list[float]()
    while now_s < 6:
        buffer.add("a", 1, 1, waiting(5), now_s)
        due_s = buffer.due_s(now_s)
        assert due_s is not None
        now_s = due_s
        buffer.take(now_s)
        files.append(now_s)
        now_s += 0.001
    assert all(later - earlier >= 1 for earlier, later in zip(files, files[10:], strict=False))
    assert len(files) >= 49


def test_files_that_are_not_small_keep_no_distance() -> None:
    buffer = Buffer[str](LIMITS)
    for number in range(20):
        now_s = 1.0 + number / 1000
        buffer.add("a", 4, 1, waiting(5), now_s)
        assert buffer.due_s(now_s) == now_s
        buffer.take(now_s)
    buffer.add("small", 3, 1, waiting(5), 1.02)
    assert buffer.due_s(1.02) == 1.02, "large files cost small ones nothing"
    buffer.take(1.02)
    buffer.add("small", 3, 1, waiting(5), 1.021)
    assert buffer.due_s(1.021) == 1.045


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 5)), min_size=1, max_size=40))
def test_parts_come_out_once_in_order_and_files_keep_their_limits(sizes: list[tuple[int, int]]) -> None:
    buffer = Buffer[int](LIMITS)
    for number, (size, batches) in enumerate(sizes):
        buffer.add(number, size, batches, None, 0.0)
    found: list[int] = []
    while buffer.due_s(9.0) is not None:
        taken = buffer.take(9.0)
        assert taken
        assert sum(sizes[one][0] for one in taken) <= 100
        assert sum(sizes[one][1] for one in taken) <= 8
        found += taken
    assert found == list(range(len(sizes)))
    assert (buffer.size_bytes, buffer.batches) == (0, 0)


def talk(window: RequestWindow, in_flight: int, rounds: int, now_s: float = 0.0, *, thinks_s: float = 0.001) -> float:
    """A client that sends as much as it may, and gets answers after 100 ms."""
    for _ in range(rounds):
        for _ in range(in_flight):
            window.asked(now_s)
        now_s += 0.1
        for _ in range(in_flight):
            window.answered(now_s)
        now_s += thinks_s
    window.asked(now_s)
    window.answered(now_s)
    return now_s


def test_the_limit_of_a_client_that_waits_is_learned() -> None:
    for in_flight in (1, 2, 3, 5, 8):
        window = RequestWindow()
        talk(window, in_flight, 3)
        assert window.limit == in_flight


def test_a_client_that_has_nothing_to_send_keeps_the_default() -> None:
    window = RequestWindow()
    talk(window, 1, 20, thinks_s=10 * RESUMES_S)
    assert window.limit == DEFAULT_LIMIT


def test_a_client_that_sends_steadily_keeps_the_default() -> None:
    """It sends soon after answers because it always sends: there was no silence before them."""
    window, now_s = RequestWindow(), 0.0
    for _ in range(100):
        window.asked(now_s)
        now_s += SILENT_S / 3
        window.asked(now_s)
        window.answered(now_s + 0.001)
        window.answered(now_s + 0.001)
        now_s += 0.005
    assert window.limit == DEFAULT_LIMIT


def test_more_unanswered_requests_raise_the_limit() -> None:
    window = RequestWindow()
    now_s = talk(window, 1, 5)
    assert window.limit == 1
    talk(window, 4, 1, now_s)
    assert window.limit == 4


def test_a_limit_of_a_client_that_became_slow_is_forgotten() -> None:
    window = RequestWindow()
    now_s = talk(window, 1, 5)
    talk(window, 1, 6, now_s, thinks_s=1.0)
    assert window.limit == DEFAULT_LIMIT
