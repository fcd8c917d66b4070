"""The order in which requests of a connection start."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.app.requests.ordering import ConnectionOrder
from coordinator.operations.declaration import Lane


class Requests:
    """Records starts; requests in `immediate` are answered while they start, those in `undelivered` start without arriving."""

    def __init__(self, *, immediate: str = "", undelivered: str = "") -> None:
        self.order = ConnectionOrder()
        self.started: list[str] = []
        self._immediate = immediate
        self._undelivered = undelivered

    def enter(self, name: str, lane: Lane, connection_id: int = 1) -> None:
        def start() -> bool:
            self.started.append(name)
            if name in self._immediate:
                self.order.leave(connection_id)
            return name not in self._undelivered

        self.order.enter(connection_id, lane, start)

    def enter_together(self, names: str, lane: Lane, connection_id: int = 1) -> None:
        def start(first: int, stop: int) -> int:
            for place in range(first, stop):
                self.started.append(names[place])
                if names[place] in self._immediate:
                    self.order.leave(connection_id)
                if names[place] in self._undelivered:
                    return place - first
            return stop - first

        self.order.start_run(connection_id, lane, len(names), start)

    def answered(self, count: int = 1, connection_id: int = 1) -> str:
        for _ in range(count):
            self.order.leave(connection_id)
        return "".join(self.started)


def test_commits_run_together_and_so_do_reads_but_not_one_with_the_other() -> None:
    requests = Requests()
    for name, lane in zip("abCDe", [Lane.COMMIT] * 2 + [Lane.READ] * 2 + [Lane.COMMIT], strict=True):
        requests.enter(name, lane)
    assert "".join(requests.started) == "ab"
    assert requests.answered() == "ab"
    assert requests.answered() == "abCD"
    assert requests.answered(2) == "abCDe"


def test_what_must_be_alone_is_alone() -> None:
    requests = Requests()
    for name in "abc":
        requests.enter(name, Lane.ALONE)
    assert "".join(requests.started) == "a"
    assert requests.answered() == "ab"
    assert requests.answered() == "abc"


def test_a_request_of_the_lane_under_way_does_not_pass_one_that_waits() -> None:
    requests = Requests()
    for name, lane in zip("aBc", (Lane.COMMIT, Lane.READ, Lane.COMMIT), strict=True):
        requests.enter(name, lane)
    assert requests.answered() == "aB"


def test_nothing_follows_a_commit_that_has_not_reached_its_coordinators() -> None:
    requests = Requests(undelivered="b")
    for name in "abc":
        requests.enter(name, Lane.COMMIT)
    assert "".join(requests.started) == "ab"
    assert requests.answered() == "ab"
    assert requests.answered() == "abc"


def test_connections_do_not_wait_for_each_other() -> None:
    requests = Requests()
    requests.enter("a", Lane.ALONE, 1)
    requests.enter("b", Lane.ALONE, 2)
    assert requests.started == ["a", "b"]


def test_answers_given_while_starting_need_no_deep_recursion() -> None:
    names = [chr(0x4E00 + n) for n in range(5_000)]
    requests = Requests(immediate="".join(names))
    requests.enter("a", Lane.READ)
    for name in names:
        requests.enter(name, Lane.ALONE)
    assert requests.answered() == "a" + "".join(names)


@given(st.lists(st.tuples(st.sampled_from(list(Lane)), st.integers(1, 4)), max_size=8), st.randoms(use_true_random=False))
def test_requests_that_come_together_start_as_if_they_came_one_by_one(runs: list[tuple[Lane, int]], random: Random) -> None:
    names = [chr(ord("a") + n) for n in range(sum(count for _, count in runs))]
    immediate = "".join(name for name in names if random.random() < 0.2)
    undelivered = "".join(name for name in names if random.random() < 0.2)
    together, alone = (Requests(immediate=immediate, undelivered=undelivered) for _ in range(2))
    at = left = 0
    for lane, count in runs:
        if lane is Lane.UNORDERED:
            continue
        together.enter_together("".join(names[at : at + count]), lane)
        for name in names[at : at + count]:
            alone.enter(name, lane)
        at += count
        assert together.started == alone.started
        while random.random() < 0.5 and left < sum(name not in immediate for name in alone.started):
            left += 1
            assert together.answered() == alone.answered()
    while left < sum(name not in immediate for name in alone.started):
        left += 1
        assert together.answered() == alone.answered()
    assert together.started == names[:at]
