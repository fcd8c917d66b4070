"""FindBatches requests that wait until there are enough batches, or their time is over.

A poll waits at the replicas of this node, whether they lead or not. Nothing is appended for it and nothing is asked for while it waits.
When partitions change only these are looked at again; an answer that was found stays right while its partitions do not change.

Polls end at once when a partition gets an error, its topic is deleted, its replica fails, is too far behind (`freshness`) or ends, and
when the connection ends or brings another request, whose answer would have to wait behind theirs: so a client ends a poll by the next one.
A change of leader ends none: a replica that does not lead any more reads what the next leader commits.
Invariants: a poll that is not answered has a timer; it has watches at all replicas of its partitions, or a look at them is scheduled.
The polls of a node wait for at most `POINTS_MAX` partitions; further ones are answered after a pause with what there is then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from coordinator.core.commands import OK, FetchPoint, FoundBatches
from coordinator.core.reads.queries import FetchBudget
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.find_batches import FindBatchesBody
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node.node import Node
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.replica.watches import Watch
from coordinator.runtime.routing.applied import find_applied

POINTS_MAX: Final = 200_000
"""A waiting partition takes some 400 bytes."""
CROWDED_S: Final = 0.5
"""The pause of a poll for which there is no room: its client asks again at once."""
WAIT_MAX_S: Final = 300.0
"""No poll waits longer: its peer may have gone without a word."""

Find: TypeAlias = Callable[["Answered"], None]
"""Answers a request as it would be without waiting, now or later."""
Attempt: TypeAlias = Callable[[Callable[[], bool]], None]
"""Does some work when its turn among the reads of the connection comes."""
Answered: TypeAlias = Callable[[list[FoundBatches] | Exception], None]


class LongPolls:
    """The waiting polls of one process."""

    def __init__(self, node: Node, points_max: int = POINTS_MAX) -> None:
        self.node = node
        self.points_max = points_max
        self.points = 0
        """How many partitions are waited for."""
        self._of_connections: dict[int, set[LongPoll]] = {}

    @property
    def waiting(self) -> int:
        """How many polls are not answered."""
        return sum(map(len, self._of_connections.values()))

    def gone(self, connection_id: int) -> None:
        """Drop the polls of a connection that has ended."""
        for poll in list(self._of_connections.get(connection_id, ())):
            poll.drop()

    def hasten(self, connection_id: int) -> None:
        """Have the polls of a connection answered with what there is: another request has come."""
        if connection_id in self._of_connections:
            for poll in list(self._of_connections[connection_id]):
                poll.end()

    def hasten_all(self) -> None:
        """Have all polls answered with what there is: the rules by which their clients may read have changed."""
        for connection_id in list(self._of_connections):
            self.hasten(connection_id)

    def close(self) -> None:
        """Drop all polls."""
        for connection_id in list(self._of_connections):
            self.gone(connection_id)

    def begin(self, connection_id: int, poll: LongPoll) -> None:
        """Know a poll until it is answered."""
        self._of_connections.setdefault(connection_id, set()).add(poll)

    def answered(self, connection_id: int, poll: LongPoll) -> None:
        """Forget a poll."""
        polls = self._of_connections[connection_id]
        polls.remove(poll)
        if not polls:
            del self._of_connections[connection_id]


class LongPoll:
    """One poll. `take` gets what was found at first, and `answered` is called once."""

    def __init__(
        self,
        polls: LongPolls,
        connection_id: int,
        wanted: FindBatchesBody,
        points: Sequence[FetchPoint],
        *,
        find: Find,
        attempt: Attempt,
        answered: Callable[[float, list[FoundBatches] | Exception], None],
    ) -> None:
        """`answered` also takes for how many seconds the poll has waited."""
        loop = asyncio.get_running_loop()
        self._points = points
        self._polls = polls
        self._connection_id = connection_id
        self._min_bytes = min(wanted.min_bytes, wanted.fetch_max_bytes)
        self._limits = wanted.fetch_max_bytes, wanted.max_batches_per_partition
        self._find = find
        self._attempt = attempt
        self._answered = answered
        self._loop = loop
        self._found: list[FoundBatches] = []
        self._watches: list[tuple[Replica, Watch, list[int]]] = []
        self._changed: set[int] | None = set()
        self._waited_s = 0.0
        self._waits_since_s = 0.0
        self._points_counted: int | None = None
        self._is_looking = False
        self._is_over = False
        self._is_answered = False
        self._ends_s = loop.time() + min(wanted.max_wait_ms / 1000, WAIT_MAX_S)
        self._timer: asyncio.TimerHandle | None = None
        polls.begin(connection_id, self)

    @property
    def _is_waiting(self) -> bool:
        return self._points_counted is not None

    def drop(self) -> None:
        """End: nobody takes the answer any more."""
        self._answer(self._found or [FoundBatches(outcome=OK, batches=[])] * len(self._points))

    # ---- what was found

    def take(self, found: list[FoundBatches] | Exception) -> None:
        """Take an answer to the request: it is given, or waited with."""
        if isinstance(found, Exception) or self._is_over or self._is_enough(found):
            self._answer(found)
            return
        self._found = found
        self._waits_since_s = self._loop.time()
        if self._is_waiting or self._begin():
            self._watch()

    def _is_enough(self, found: Sequence[FoundBatches]) -> bool:
        """Whether an answer is worth giving: enough bytes, all that it may hold, or an error that waiting does not end."""
        size_bytes = 0
        for one in found:
            if one.outcome.error is not ErrorCode.NONE and not _is_ahead(one):
                return True
            if one.batches:
                size_bytes += sum([batch.byte_size for batch in one.batches])
                if one.batches[-1].last_offset + 1 < one.high_watermark:
                    return True
        return size_bytes >= self._min_bytes

    def _begin(self) -> bool:
        """Begin to wait; False when there is no room to wait for these partitions."""
        has_room = self._polls.points + len(self._points) <= self._polls.points_max
        self._points_counted = len(self._points) if has_room else 0
        self._polls.points += self._points_counted
        left_s = max(0.0, self._ends_s - self._waits_since_s)
        self._timer = self._loop.call_later(left_s if has_room else min(left_s, CROWDED_S), self.end)
        return has_room

    # ---- waiting

    def _watch(self) -> None:
        """Have every replica tell of changes since `_found`."""
        view = self._polls.node.view
        places: dict[int, list[int]] = {}
        for place, point in enumerate(self._points):
            owner = view.reader_of(partition_key(point.topic_id, point.partition), point.offset)
            if owner is None:
                self._wake(None, None)
                return
            places.setdefault(owner, []).append(place)
        for owner, mine in places.items():
            replica = view.replicas.get(owner)
            watch = None if replica is None else self._watch_of(replica, mine)
            if replica is None or watch is None:
                self._wake(None, None)
                return
            self._watches.append((replica, watch, mine))
            replica.watch(watch)

    def _watch_of(self, replica: Replica, places: list[int]) -> Watch | None:
        points = [self._points[place] for place in places]
        try:
            watched = replica.look(ShardView.watched, points)
        except NotReadable:
            watched = None
        if watched is None:
            return None
        rows, marks, forgotten = watched
        # The partitions may have changed after they were looked at. B0 does not while the log is there.
        marks[:, 0] = [self._found[place].high_watermark for place in places]
        marks[:, 1] = [self._found[place].log_start for place in places]
        return Watch(points, rows, marks, forgotten, lambda changed: self._wake(places, changed))

    def _unwatch(self) -> None:
        watches, self._watches = self._watches, []
        for replica, watch, _ in watches:
            replica.unwatch(watch)

    def _wake(self, places: list[int] | None, changed: list[int] | None) -> None:
        """Note what has changed, and look at it soon; called from within replicas."""
        if places is None or changed is None:
            self._changed = None
        elif self._changed is not None:
            self._changed.update([places[one] for one in changed])
        if not self._is_looking and self._is_waiting:
            self._is_looking = True
            self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        if not self._is_waiting:
            return
        self._unwatch()
        self._attempt(self._look)

    def _look(self) -> bool:
        """Look at what has changed; where that does not do, ask for everything anew."""
        if not self._is_waiting:
            return True
        self._is_looking = False
        self._waited_s += self._loop.time() - self._waits_since_s
        changed, self._changed = self._changed, set()
        self._go_on(changed, is_sound=True)
        return True

    def _go_on(self, changed: set[int] | None, *, is_sound: bool) -> None:
        """Take what is found once changed partitions are looked at. Without `is_sound` everything is asked for anew."""
        try:
            is_known = is_sound and changed is not None and self._refresh(sorted(changed))
        except Exception as error:  # noqa: BLE001 - its receiver tells the log, and ends the connection
            self._answer(error)
            return
        if is_known:
            self.take(self._found)
        else:
            self._find(self.take)

    def _refresh(self, places: Sequence[int]) -> bool:
        """Bring `_found` up to date; False when that needs more than a look at what is applied."""
        view, found = self._polls.node.view, self._found
        budget = FetchBudget(*self._limits)
        changing = set(places)
        for place, one in enumerate(found):
            if one.batches and place not in changing:
                budget.take(sum([batch.byte_size for batch in one.batches]), len(one.batches))
        for place in places:
            point = self._points[place]
            fresh = find_applied(view, point, budget) or self._still_ahead(point)
            if fresh is None:
                return False
            found[place] = fresh
        return True

    def _still_ahead(self, point: FetchPoint) -> FoundBatches | None:
        """The answer for an offset that this replica has not reached; None when something else is the matter."""
        view = self._polls.node.view
        owner = view.reader_of(partition_key(point.topic_id, point.partition), point.offset)
        replica = None if owner is None else view.replicas.get(owner)
        if replica is None or not replica.freshness.is_sufficient:
            return None
        try:
            bounds = replica.look(ShardView.bounds, point.topic_id, point.partition)
            if bounds is None or point.offset <= bounds[1]:
                return None
            return replica.look(ShardView.past_the_end, point, is_certain=False)
        except NotReadable:
            return None

    # ---- ends

    def end(self) -> None:
        """Answer with what there is: the time is over, or somebody waits for the connection."""
        self._is_over = True
        if not self._is_waiting:
            return  # it is being looked at, and answered then
        self._waited_s += self._loop.time() - self._waits_since_s
        # Only a leader behind a barrier can tell that an offset is out of range.
        is_sound = bool(self._watches) and all(replica.freshness.is_sufficient for replica, _, _ in self._watches)
        is_sound = is_sound and not any(map(_is_ahead, self._found))
        self._stop()
        self._go_on(self._changed, is_sound=is_sound)

    def _answer(self, found: list[FoundBatches] | Exception) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        self._stop()
        self._polls.answered(self._connection_id, self)
        self._answered(self._waited_s, found)

    def _stop(self) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        self._polls.points -= self._points_counted or 0
        self._points_counted = None


def _is_ahead(found: FoundBatches) -> bool:
    """Whether the offset lies past the high watermark of a replica that may have read less than others: waiting may end that."""
    return found.outcome.error is ErrorCode.OFFSET_NOT_AVAILABLE and found.high_watermark >= 0
