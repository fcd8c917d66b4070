"""Commits of files with batches of partitions that moved.

A file that was committed where such a partition was before has its batches there, and must not get them a second time where the partition
is now. So the coordinators that had it are looked at first: each has an entry from which on it takes no batch of it, and a replica that has
read that entry knows for certain whether the file was there.

A batch whose coordinator the file does not name is refused, for its object would be deleted without asking that one: a writer that did
not know of the move takes another file for it, as for a partition that has another leader (`not_taken` refuses the same way).

A node that does not lead where such a partition is now may not know enough to decide, and never will: it answers FENCED_LEADER_EPOCH, upon
which the client asks where the partition is and sends its batches of the file there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast

from coordinator.core.commands import OK, Answer, Barrier, CommitAnswer, CommitFile, CommitResult, Outcome
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.routing.cluster_view import ClusterView
from records.model import EarlierStretch

Respond = Callable[[CommitAnswer], None]
_Known: TypeAlias = dict[int, tuple[CommitResult, int]]
"""By the place of a batch: an answer that has its own, and at which place."""


class SplitsCommits(Protocol):
    """The router as these commits need it."""

    def split(self, command: CommitFile, owners: Sequence[int | None], timeout_ms: int, respond: Respond, size_bytes: int) -> None:
        """Give each coordinator its share; batches without one are left out."""


class _Unsure(Exception):
    """No replica here has read that a partition was released."""


def are_new_to_those_before(view: ClusterView, owner: int, commands: Sequence[CommitFile]) -> bool:
    """Whether files may be committed to the owner of all their partitions at once; False says that they have to be looked at one by one.

    Where partitions of the owner were before, all has been read that was committed there, and these files were not among it.
    """
    before = view.states_before.get(owner)
    if not before:
        return True
    if not view.replicas.is_leading(owner) or not all(owner in command.owner_ids for command in commands):
        return False
    keys = [command.object_key for command in commands]
    for coordinator_id, state in before.items():
        replica = view.replicas.get(coordinator_id)
        if replica is None or replica.view is not state:
            view.forget_owners()
            return False
        try:
            if replica.look(ShardView.may_have_heard_of_any, keys):
                return False
        except NotReadable:
            return False
    return True


class MovedCommit:
    """One such commit; `run` answers it, at once or when coordinators have answered their shares."""

    def __init__(self, router: SplitsCommits, view: ClusterView, command: CommitFile, owners: Sequence[int | None], window_ms: int) -> None:
        """`owners` are the coordinators of the batches; those without one are left out.

        A coordinator that had a partition and is not followed here is left out for files created later than `window_ms` after the move.
        """
        self._router = router
        self._view = view
        self._command = command
        self._owners = owners
        self._window_ms = window_ms
        self._keys: list[bytes] = command.batches["topic_partition"].tolist()
        self._known: _Known = {}
        self._undecided: set[int] = set()
        """Places of batches of which only another node can find out where they were."""

    def run(self, timeout_ms: int, respond: Respond, size_bytes: int) -> None:
        """Answer the file."""
        command, owners, count = self._command, self._owners, len(self._keys)
        try:
            self._look_before()
        except _Unsure as unsure:
            respond(CommitResult.refused(count, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(unsure)))
            return
        if command.checked in (None, OK) and (unnamed := self._unnamed()):
            self._refuse_behind_proof(unnamed, timeout_ms, respond)
            return
        self._send_to_owners()
        known = self._known
        if not known:
            self._router.split(command, owners, timeout_ms, respond, size_bytes)
            return

        def merge(answer: CommitAnswer) -> None:
            respond(_with_known(answer.result().changeable(), known))

        left: list[int | None] = [None if place in known else owner for place, owner in enumerate(owners)]
        if all(owner is None for owner in left):
            merge(CommitResult.refused(count, ErrorCode.NONE, None))
        else:
            self._router.split(command, left, timeout_ms, merge, size_bytes)

    def _look_before(self) -> None:
        """Find what the coordinators that had the partitions before have of the file. Raises `_Unsure`."""
        view, command = self._view, self._command
        places: dict[bytes, list[int]] = {}
        for place, (key, owner) in enumerate(zip(self._keys, self._owners, strict=True)):
            if owner is not None:
                places.setdefault(key, []).append(place)
        heard_of: dict[int, bool] = {}
        for key, mine in places.items():
            owner, is_read = cast(int, self._owners[mine[0]]), True
            for earlier in view.earlier_of(key):
                try:
                    answer = answer_before(view, earlier, command, key, mine, heard_of)
                except _Unsure:
                    is_read = False
                    if command.created_ms >= 0 and earlier.time_ms + self._window_ms < command.created_ms:
                        continue
                    if view.replicas.is_leading(owner):
                        raise
                    self._undecided.update(mine)
                    continue
                if answer is not None:
                    self._known |= {place: (answer, at) for at, place in enumerate(mine)}
                    break
            else:
                if is_read:
                    view.releases_are_read(key, owner)

    def _unnamed(self) -> list[int]:
        """Places of new batches that moved to one coordinator, which is led here, and is no owner of the file."""
        view, owner_ids = self._view, self._command.owner_ids
        unnamed: dict[int, list[int]] = {}
        for place, owner in enumerate(self._owners):
            if owner is None or owner in owner_ids or place in self._known or place in self._undecided:
                continue
            if view.replicas.is_leading(owner) and view.earlier_of(self._keys[place]):
                unnamed.setdefault(owner, []).append(place)
        return next(iter(unnamed.values()), [])

    def _refuse_behind_proof(self, unnamed: Sequence[int], timeout_ms: int, respond: Respond) -> None:
        """Refuse the file for the sake of these batches. A leader that was replaced may not know that they have moved on, to an owner."""
        keys, known, object_key = self._keys, self._known, self._command.object_key
        replica = self._view.replicas[cast(int, self._owners[unnamed[0]])]

        def proven(answer: Answer) -> None:
            outcome = cast(Outcome, answer)
            try:
                if outcome.error is ErrorCode.NONE and any(replica.look(ShardView.knows_release, keys[place]) for place in unnamed):
                    outcome = Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="a partition of the file is moving; retry")
            except NotReadable as unreadable:
                outcome = Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"{unreadable}; retry")
            if outcome.error is not ErrorCode.NONE:
                respond(CommitResult.refused(len(keys), outcome.error, outcome.message))
                return
            message = "another batch of the file has moved to a coordinator that the file does not name; retry without it"
            result = CommitResult.refused(len(keys), ErrorCode.COORDINATOR_NOT_AVAILABLE, message).changeable()
            text = (
                f"its partition has moved to coordinator {replica.partition}, which file {object_key} does not name as an owner;"
                " look where it is, and send the batch in another file"
            )
            for place in unnamed:
                result.errors[place], result.messages[place] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), text
            respond(_with_known(result, known))

        replica.submit(Barrier(), timeout_ms, proven)

    def _send_to_owners(self) -> None:
        """Have the batches that moved to coordinators which are led elsewhere sent there."""
        view = self._view
        for place, owner in enumerate(self._owners):
            if owner is None or place in self._known or view.replicas.is_leading(owner) or not view.earlier_of(self._keys[place]):
                continue
            message = f"its partition has moved to coordinator {owner}, which is led elsewhere; look where it is, and commit it there"
            self._known[place] = CommitResult.refused(1, ErrorCode.FENCED_LEADER_EPOCH, message), 0


def answer_before(
    view: ClusterView, earlier: EarlierStretch, command: CommitFile, key: bytes, places: Sequence[int], heard_of: dict[int, bool]
) -> CommitResult | None:
    """The answers of the coordinator that had a partition before, for the batches of it; None when it never had them. Raises `_Unsure`.

    `heard_of` keeps for the other partitions of the file which coordinators know its key.
    """
    coordinator_id = earlier.coordinator_id
    replica = view.replicas.get(coordinator_id)
    text = f"coordinator {coordinator_id} had a partition of the file before, and it is not known here yet what it took; retry"
    if replica is None:
        raise _Unsure(text)
    try:
        if not replica.look(ShardView.knows_release, key):
            raise _Unsure(text)
        if coordinator_id not in heard_of:
            heard_of[coordinator_id] = replica.look(ShardView.has_heard_of, command.object_key)
        if not heard_of[coordinator_id]:
            return None
        is_known = _has_file(view, command, key)
        return replica.look(ShardView.answer_committed_before, command, key, places, is_known_elsewhere=is_known)
    except NotReadable as unreadable:
        raise _Unsure(text) from unreadable


def _has_file(view: ClusterView, command: CommitFile, key: bytes) -> bool:
    """Whether the owner of a partition knows a file, as far as this node has read. Raises `NotReadable`."""
    owner = view.owner_of(key)
    replica = None if owner is None else view.replicas.get(owner)
    return replica is not None and replica.look(ShardView.knows_file, command.object_key)


def _with_known(result: CommitResult, known: _Known) -> CommitResult:
    for place, (answer, at) in known.items():
        result.errors[place], result.messages[place] = answer.errors[at], answer.messages[at]
        result.base_offsets[place], result.append_times[place] = answer.base_offsets[at], answer.append_times[at]
        result.log_starts[place], result.duplicates[place] = answer.log_starts[at], answer.duplicates[at]
    return result
