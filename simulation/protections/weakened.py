"""Protections of the design that a simulated run can do without, to show that the simulator notices each.

A protection is taken out of the product by patches for the time of one run; the product itself has no switches. What
is left is the design as it might have been written: every weaker version here was broken by a model or an
experiment before it was broken by a run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from coordinator.core import follower, view
from coordinator.core.assignor.plan import Because, _Leading
from coordinator.core.commands import CommitFile, DescribeFiles, ListOffsets
from coordinator.core.committed import Committed
from coordinator.core.deciding import decide, group
from coordinator.core.deciding.group import GroupBuilder
from coordinator.core.directory import decisions
from coordinator.core.events import Delivered, Delivery, Effect, Event, MayClaim, ProduceFailed, StateChanged, Submitted, Ticked, Unassigned
from coordinator.core.files.apply import ApplyResult
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.files.requests import RequestLines, read_lines
from coordinator.core.follower import Follower
from coordinator.core.leader import Leader
from coordinator.core.leadership import clock_votes
from coordinator.core.leadership.states import State, Trigger, transition
from coordinator.core.leadership.term import PendingEntry, Term, TermCause, TermOver
from coordinator.core.log_entry import ReadEntry
from coordinator.core.reads import queries
from coordinator.core.reads.queries import past_the_end
from coordinator.core.request import Reply
from coordinator.core.shard import Shard
from coordinator.core.state.damage import StateBusy, StateFailed
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.core.tables.stored_rows import Header
from coordinator.runtime.directories.keeper import DirectoryKeeper
from coordinator.runtime.directories.moving import ReplicaMove
from coordinator.runtime.directories.port import StateDirectory
from coordinator.runtime.loading.opening import Loaded, StateLoader
from coordinator.runtime.node.clocks import NodeClocks
from coordinator.runtime.node.following import Following
from coordinator.runtime.node.repairs import ReplicaRepairs
from coordinator.runtime.ports import Proof
from coordinator.runtime.replica.recovery import Recovery
from coordinator.runtime.replica.state_writer import StateWriter
from coordinator.runtime.routing.directory_worker import DirectoryWorker
from coordinator.runtime.routing.router import Router
from coordinator.runtime.snapshots import pruning
from coordinator.runtime.snapshots.policy import Prune
from records.codec import decode_entry
from records.entry_key import EntryKey, decode_key
from records.levels import LEVEL_LATEST
from records.log import Fence, Role, Verdict
from records.model import LeadershipClaimed, ProducersExpired, Record, SnapshotCommitted, TransactionBegan, TransactionEnded
from simulation.protections.protection import Patch, Protection, applied, around, instead
from simulation.protections.weakened_files import FILE_PROTECTIONS
from simulation.protections.weakened_gateways import GATEWAY_PROTECTIONS
from simulation.protections.weakened_moves import MOVE_PROTECTIONS
from simulation.protections.weakened_restores import RESTORE_PROTECTIONS
from simulation.protections.weakened_retention import RETENTION_PROTECTIONS

NODES_MAX = 10
TIMEOUT_MS = 1_000
PRODUCERS_KEPT_S = 1.0
T = TypeVar("T")


def without(names: Iterable[str]) -> AbstractContextManager[None]:
    """Take protections out for a while. Raises KeyError for a name that is not in `PROTECTIONS`."""
    return applied(*(PROTECTIONS[name].patches for name in names))


# ---- which entries count


@around(Fence, "judge")
def _any_later_epoch(judged: Callable[..., Verdict], fence: Fence, key: EntryKey | None) -> Verdict:
    if key is not None and key.seq == 0 and key.epoch > fence.epoch:
        return Verdict.CLAIM
    return judged(fence, key)


def _claims_by_epoch() -> list[Patch]:
    judged = Fence.judge

    def judge(fence: Fence, key: EntryKey | None) -> Verdict:
        return judged(fence, key if key is None else key._replace(term=fence.term))

    return [(Fence, "judge", judge), (Term, "is_begun_by", lambda term, claim: claim.epoch == term.epoch)]


@around(Fence, "judge")
def _last_claim_of_an_epoch(judged: Callable[..., Verdict], fence: Fence, key: EntryKey | None) -> Verdict:
    is_rival = key is not None and key.seq == 0 and 0 < key.epoch == fence.epoch and key.term != fence.term
    return Verdict.CLAIM if is_rival else judged(fence, key)


def _any_claim_body() -> list[Patch]:
    return [(follower, "claim_in", lambda _key, records: records[0] if isinstance(records[0], LeadershipClaimed) else None)]


@instead(follower, "decode_key")
def _stop_at_strangers(key: bytes | None) -> EntryKey | None:
    decoded = decode_key(key)
    if decoded is None:
        raise BrokenInvariant("a message without a key of ours")
    return decoded


@around(Fence, "judge")
def _any_seq(judged: Callable[..., Verdict], fence: Fence, key: EntryKey | None) -> Verdict:
    verdict = judged(fence, key)
    return Verdict.APPLY if verdict in (Verdict.VOID_GAP, Verdict.VOID_DUPLICATE) else verdict


def _no_contradictions() -> list[Patch]:
    apply_files = Committed.apply_files

    def apply(committed: Committed, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
        applied = apply_files(committed, files, first, stop)
        if applied.contradiction is not None:
            raise BrokenInvariant(applied.contradiction)
        return applied

    return [(follower, "check_records", lambda _state, _records: None), (Committed, "apply_files", apply)]


@around(Fence, "judge")
def _ended_terms_count(judged: Callable[..., Verdict], fence: Fence, key: EntryKey | None) -> Verdict:
    if key is not None and key.seq > 0 and key.epoch < fence.epoch:
        return Verdict.APPLY
    return judged(fence, key)


# ---- who leads, and what is acknowledged


@instead(Term, "take_placed")
def _any_offset(term: Term) -> Iterator[tuple[PendingEntry, int]]:
    while term.held:
        run = term.held.popleft()
        for place, seq in enumerate(range(run.first_seq, run.last_seq + 1)):
            entry = term.in_flight[0]
            entry.offsets.append(term.claim_offset + seq if run.offset is None else run.offset + place)
            if seq == entry.seq:
                yield entry, entry.offsets[-1]
                term.retire_oldest()


@around(Term, "reported")
def _errors_are_deliveries(
    reported: Callable[..., Iterator[tuple[PendingEntry, int]]], term: Term, reports: Sequence[Delivery]
) -> Iterator[tuple[PendingEntry, int]]:
    shift = term.claim_offset + term.void_shift
    believed = [item if item.error is None else item._replace(offset=shift + item.seq, error=None) for item in reports]
    return reported(term, believed)


@around(Term, "reported")
def _offsets_demanded(
    reported: Callable[..., Iterator[tuple[PendingEntry, int]]], term: Term, reports: Sequence[Delivery]
) -> Iterator[tuple[PendingEntry, int]]:
    return reported(term, [item._replace(error="no offset") if item.offset is None else item for item in reports])


@around(Term, "take_placed")
def _no_holes(taken: Callable[..., Iterator[tuple[PendingEntry, int]]], term: Term) -> Iterator[tuple[PendingEntry, int]]:
    yield from taken(term)
    if term.held:
        raise TermOver(TermCause.MISPLACED, "an entry stands further on than it must")


def _keep_speculation() -> list[Patch]:
    abandon, lead = Leader.abandon_term, Leader.lead
    kept: dict[int, HotState] = {}

    def abandon_term(leader: Leader, cause: TermCause, reason: str) -> None:
        if leader.overlay is not None:
            kept[id(leader)] = leader.overlay
        abandon(leader, cause, reason)

    def lead_on(leader: Leader, term: Term, claim_offset: int) -> None:
        lead(leader, term, claim_offset)
        leader.overlay = kept.pop(id(leader), leader.overlay)

    return [(Leader, "abandon_term", abandon_term), (Leader, "lead", lead_on)]


@around(Shard, "feed")
def _leave_when_unassigned(feed: Callable[..., list[Effect]], shard: Shard, event: Event, now_ms: int) -> list[Effect]:
    effects, term = feed(shard, event, now_ms), shard.leader.term
    if isinstance(event, Unassigned) and shard.phase is State.LEADING and term is not None:
        effects += feed(shard, ProduceFailed(term.term_id, "not assigned any more"), now_ms)
    return effects


@around(Shard, "feed")
def _lead_at_once(feed: Callable[..., list[Effect]], shard: Shard, event: Event, now_ms: int) -> list[Effect]:
    effects, term = shard.settle(), shard.leader.term
    if isinstance(event, Delivered) and term is not None and term.term_id == event.term_id and shard.phase is State.FENCING:
        for report in event.reports:
            if report.seq == 0 and report.offset is not None:
                shard.committed.fence = Fence(term.epoch, term.term_id, 0)
                shard.phase = transition(State.FENCING, Trigger.OWN_CLAIM)
                effects.append(StateChanged(State.FENCING, shard.phase, "the own claim is reported"))
                shard.leader.lead(term, report.offset)
                shard.follower.read_back_from_here()
    return effects + feed(shard, event, now_ms)


@around(Follower, "read_back")
def _no_stepping_down(
    read: Callable[..., EntryKey | LeadershipClaimed | None], follower: Follower, entry: ReadEntry
) -> EntryKey | LeadershipClaimed | None:
    is_claim = entry.key is not None and entry.key.endswith(bytes(8))
    return None if is_claim else read(follower, entry)


@instead(Recovery, "prove_membership")
async def _always_a_member(_: Recovery) -> Proof:
    return Proof.MEMBER


# ---- transactions and schema levels


def _chunks_at_once() -> list[Patch]:
    def decode(value: bytes) -> list[Record]:
        return [one for one in decode_entry(value) if not isinstance(one, TransactionBegan | TransactionEnded)]

    return [(follower, "decode_entry", decode), (follower, "role_of", lambda *_: Role.ALONE)]


@around(Shard, "header")
def _written_inside(header: Callable[..., Header], shard: Shard, cluster_id: str, topic_id: bytes) -> Header:
    fence = shard.committed.fence
    given = header(shard, cluster_id, topic_id)
    return replace(given, applied_offset=shard.follower.next_offset - 1, epoch=fence.epoch, term=fence.term, seq=fence.seq)


def _claims_end_nothing() -> list[Patch]:
    take = Committed.take_claim

    def take_claim(committed: Committed, claim: LeadershipClaimed, entry: ReadEntry) -> str | None:
        opened = committed.transaction
        cut_off = take(committed, claim, entry)
        committed.transaction = opened
        return cut_off

    return [(Committed, "take_claim", take_claim), (GroupBuilder, "note_aborted", lambda _builder, _name: None)]


def _wait_for_an_end() -> list[Patch]:
    feed = Shard.feed
    held: WeakKeyDictionary[Shard, MayClaim] = WeakKeyDictionary()

    def claim_late(shard: Shard, event: Event, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, MayClaim):
            held[shard] = event
        else:
            effects = feed(shard, event, now_ms)
        allowed = held.get(shard)
        if allowed is not None and shard.committed.transaction is None and shard.follower.next_offset >= allowed.end_offset:
            del held[shard]
            effects += feed(shard, allowed, now_ms)
        return effects

    return [(Shard, "feed", claim_late)]


def _before_each_group(prepare: Callable[[Leader], None]) -> list[Patch]:
    pump, forget_old = Leader.pump, Leader.forget_old

    def prepared_pump(leader: Leader, now_ms: int) -> None:
        prepare(leader)
        pump(leader, now_ms)

    def prepared_forget(leader: Leader, now_ms: int) -> None:
        prepare(leader)
        forget_old(leader, now_ms)

    return [(Leader, "pump", prepared_pump), (Leader, "forget_old", prepared_forget)]


def _newest_level() -> list[Patch]:
    def prepare(leader: Leader) -> None:
        leader.schema_level = LEVEL_LATEST

    return _before_each_group(prepare)


async def _raise_at_once(worker: DirectoryWorker) -> None:
    await worker.raise_schema_level(LEVEL_LATEST, frozenset(range(-1, NODES_MAX)), TIMEOUT_MS)


# ---- what is a function of the log alone


def _own_clock() -> list[Patch]:
    def prepare(leader: Leader) -> None:
        if leader.overlay is not None:
            leader.overlay.log_time_ms = 0

    return _before_each_group(prepare)


def _trust_own_clock() -> list[Patch]:
    return [
        (NodeClocks, "log_ahead_ms", lambda _clocks, _now_ms: 0),
        (NodeClocks, "verdict", lambda _clocks, _share=1.0: clock_votes.ClockVerdict(None, ())),
    ]


def _forget_by_own_clock() -> list[Patch]:
    feed = Shard.feed

    def forget(shard: Shard, event: Event, now_ms: int) -> list[Effect]:
        effects = feed(shard, event, now_ms)
        if isinstance(event, Ticked):
            expired = ProducersExpired(before_ms=now_ms - round(PRODUCERS_KEPT_S * 1000))
            for hot in filter(None, (shard.committed.state.hot, shard.leader.overlay)):
                hot.apply(expired, -1)
        return effects

    return [(Leader, "forget_old", lambda _leader, _now_ms: None), (Shard, "feed", forget)]


# ---- reads


def _answered_at_once(kind: type[ListOffsets | DescribeFiles]) -> list[Patch]:
    """Reads of a kind are answered from the committed state when they come."""
    feed = Shard.feed

    def answer(shard: Shard, event: Event, now_ms: int) -> list[Effect]:
        effects = shard.settle()
        if not isinstance(event, Submitted) or not shard.is_leading:
            return effects + feed(shard, event, now_ms)
        reads = [one for one in event.requests if isinstance(one.command, kind)]
        effects += [Reply(one.token, queries.answer_read(shard.committed.state, one.command)) for one in reads]
        return effects + feed(shard, Submitted([one for one in event.requests if not isinstance(one.command, kind)]), now_ms)

    return [(Shard, "feed", answer)]


def _out_of_range_anywhere() -> list[Patch]:
    return [(view, "past_the_end", lambda state, point, *, is_certain: past_the_end(state, point, is_certain=True))]


@instead(Router, "settle")
async def _stale_directory(_router: Router, _keys: Iterable[bytes], _timeout_ms: int) -> None:
    return None


# ---- retries


def _no_joining() -> list[Patch]:
    add, retire = Term.add, Term.retire_oldest

    def add_unseen(term: Term, entry: PendingEntry) -> None:
        add(term, entry)
        term.by_key.clear()

    def retire_unseen(term: Term) -> None:
        entry = term.in_flight[0]
        term.by_key.update({head.object_key: (entry, file) for file, head in enumerate(entry.heads)})
        retire(term)

    return [(Term, "add", add_unseen), (Term, "retire_oldest", retire_unseen)]


@instead(group, "read_lines")
def _any_content(raw: bytes, commands: Sequence[CommitFile]) -> RequestLines:
    return replace(read_lines(raw, commands), hashes=[bytes(16)] * len(commands))


# ---- topics and disks


@instead(pruning, "prune_to")
def _prune_to_the_mark(snapshots: Sequence[SnapshotCommitted], **_: object) -> Prune:
    if len(snapshots) < 2:
        return Prune(-1, "too few")
    return Prune(2 * snapshots[-1].end_offset - snapshots[-2].end_offset, "another one will be there soon")


async def _do_nothing(*_: object) -> None:
    pass


@around(DirectoryKeeper, "take_offline")
def _keep_the_last_directory(fail: Callable[..., None], self: DirectoryKeeper, directory: StateDirectory, reason: str) -> None:
    if sum(one.offline_reason is None for one in self.directories()) > 1:
        fail(self, directory, reason)


@around(StateWriter, "once_unlocked")
async def _locks_are_failures(unlocked: Callable[..., Awaitable[T]], writer: StateWriter, work: Callable[[], T]) -> T:
    def at_once() -> T:
        try:
            return work()
        except StateBusy as busy:
            raise StateFailed(str(busy)) from busy

    return await unlocked(writer, at_once)


@around(StateLoader, "load")
async def _locks_end_starts(load: Callable[..., Awaitable[Loaded]], loader: StateLoader) -> Loaded:
    try:
        return await load(loader)
    except StateBusy as busy:
        raise StateFailed(str(busy)) from busy


# ---- who follows


@instead(_Leading, "give_orphans")
def _orphans_to_any(self: _Leading) -> None:
    for partition in self.known.partitions:
        if partition not in self.leaders:
            nodes = [node_id for level in self.led.levels(partition) for node_id in level]
            self.give(partition, nodes[0], Because.LEAST_LOADED)


PROTECTIONS: dict[str, Protection] = {
    "warm-heir": Protection(
        rule="without a leader a partition goes to a replica that is warm", patches=_orphans_to_any, kinds=("pause",), seeds_max=30
    ),
    "let-go": Protection(
        rule="a node follows what it is told to, and lets go of the rest",
        patches=lambda: [(Following, "_may_go", lambda _following, _replica: False)],
        kinds=("restart", "pause"),
        seeds_max=30,
    ),
    "epoch-successor": Protection(
        rule="a claim counts only with the epoch after the one in force", patches=_any_later_epoch, kinds=("stray",)
    ),
    "term-id": Protection(
        rule="a claim is recognised by its term id, not by its epoch", patches=_claims_by_epoch, kinds=("stray", "ghost")
    ),
    "first-claim": Protection(
        rule="of two claims of an epoch the first in the log is in force", patches=_last_claim_of_an_epoch, kinds=("ghost", "expire")
    ),
    "claim-body": Protection(
        rule="a claim whose body is of another term is void", patches=_any_claim_body, kinds=("stray",), details=("false claim",)
    ),
    "strangers-void": Protection(
        rule="a message without a key of ours is void and stops nobody", patches=_stop_at_strangers, kinds=("stray",)
    ),
    "seq": Protection(rule="an entry counts only as the next of its term", patches=_any_seq, kinds=("produce", "replay")),
    "term-in-force": Protection(
        rule="entries of an ended term count for nobody", patches=_ended_terms_count, kinds=("pause", "hold", "replay"), seed_first=4
    ),
    "ack-offset": Protection(
        rule="an entry is acknowledged only where the claim says it must stand",
        patches=_any_offset,
        kinds=("lag", "expire", "pause"),
        seed_first=3,
    ),
    "delivery-error": Protection(
        rule="an entry whose report is an error is not acknowledged: the term ends",
        patches=_errors_are_deliveries,
        kinds=("produce",),
        details=("DROP", "FAIL_AFTER_LANDING"),
    ),
    "own-value": Protection(
        rule="an entry that the reader saw is acknowledged only when it has the value that was written",
        patches=lambda: [(Term, "count_own", lambda _term, _first_seq, entries: len(entries))],
        kinds=("forge", "unavailable"),
        seed_first=1,
    ),
    "reader-tells-place": Protection(
        rule="a report that does not say where its entry stands ends no term: the reader tells",
        patches=_offsets_demanded,
        kinds=("produce",),
        details=("NO_OFFSET", "FURTHER_ON"),
    ),
    "void-hole": Protection(rule="a hole that holds only void entries throws no leader out", patches=_no_holes, kinds=("stray", "replay")),
    "dropped-overlay": Protection(
        rule="what was in flight when a term ended is forgotten until the log tells it",
        patches=_keep_speculation,
        kinds=("produce",),
        details=("DROP", "DROP_SILENTLY"),
        seed_first=3,
    ),
    "lead-on": Protection(
        rule="a leader that loses its assignment leads on until it reads a foreign claim",
        patches=_leave_when_unassigned,
        kinds=("lose_all",),
    ),
    "own-claim-read": Protection(
        rule="lead only after reading everything up to the own claim",
        patches=_lead_at_once,
        kinds=("expire", "ghost", "slow"),
        seed_first=7,
    ),
    "foreign-claim": Protection(
        rule="a leader that reads a foreign claim steps down", patches=_no_stepping_down, kinds=("expire", "ghost")
    ),
    "membership-proof": Protection(
        rule="who was overtaken claims again only with a new proof of membership", patches=_always_a_member, kinds=("expire",)
    ),
    "term-deadline": Protection(
        rule="a term whose entries are not acknowledged in time ends",
        patches=lambda: [(Term, "oldest_age_ms", lambda _term, _now_ms: 0)],
        kinds=("produce",),
        details=("LOSE_REPORT", "DROP_SILENTLY"),
    ),
    "request-deadline": Protection(
        rule="a request is answered within its timeout, though its entry stays pending",
        patches=lambda: [(Leader, "expire", lambda _leader, _now_ms: None)],
        kinds=("unavailable", "hold"),
    ),
    "transaction-held": Protection(
        rule="nothing of a transaction takes effect before its end",
        patches=_chunks_at_once,
        kinds=("tear",),
        has_transactions=True,
        seed_first=3,
    ),
    "transaction-written": Protection(
        rule="a state database stays before a transaction until its end",
        patches=_written_inside,
        kinds=("tear",),
        has_transactions=True,
        seed_first=11,
    ),
    "transaction-cut-off": Protection(
        rule="a claim in force ends an open transaction", patches=_claims_end_nothing, kinds=("tear",), has_transactions=True
    ),
    "transaction-recovery": Protection(
        rule="who recovers waits for the end of the log, not for that of a transaction",
        patches=_wait_for_an_end,
        kinds=("tear",),
        has_transactions=True,
    ),
    "contradiction": Protection(
        rule="an entry that contradicts the log is void and breaks no replica", patches=_no_contradictions, kinds=("forge",)
    ),
    "lock": Protection(rule="a lock of another connection on a state database is waited for", patches=_locks_are_failures, kinds=("lock",)),
    "lock-at-start": Protection(
        rule="a start waits for the end of a lock on a state database", patches=_locks_end_starts, kinds=("lock_start",)
    ),
    "schema-level": Protection(rule="entries are written at the level in force", patches=_newest_level, kinds=("upgrade",)),
    "schema-level-agreed": Protection(
        rule="the schema level rises only when every node and every member supports it",
        patches=lambda: [(DirectoryWorker, "raise_to_agreed_level", _raise_at_once)],
        kinds=("upgrade",),
    ),
    "log-time": Protection(rule="append times are the log's time, which never goes back", patches=_own_clock, kinds=("clock", "expire")),
    "clocks-compared": Protection(
        rule="who knows that its clock is off does not lead, and no leader writes times far ahead of its brokers",
        patches=_trust_own_clock,
        kinds=("clock", "restart"),
        seed_first=1,
    ),
    "logged-expiry": Protection(
        rule="forgetting is an entry of the leader: no replica forgets on its own",
        patches=_forget_by_own_clock,
        kinds=("expire", "crash"),
        producers_kept_s=PRODUCERS_KEPT_S,
    ),
    "read-barrier": Protection(
        rule="a strict read waits for an own entry produced after it",
        patches=lambda: _answered_at_once(ListOffsets),
        kinds=("lag", "expire", "pause"),
        seed_first=22,
    ),
    "describe-barrier": Protection(
        rule="DescribeFiles waits for an own entry produced after it",
        patches=lambda: _answered_at_once(DescribeFiles),
        kinds=("lag", "expire", "pause"),
    ),
    "describe-trimmed": Protection(
        rule="DescribeFiles waits until deleted batches are counted out of their files",
        patches=lambda: [(Leader, "waits_for_trimming", lambda _leader, _command: False)],
        kinds=("slow",),
    ),
    "live-times": Protection(
        rule="the greatest timestamp is that of a batch that was not deleted",
        patches=lambda: [(queries, "recompute_max_timestamp", lambda _state, _row, _log_start: None)],
        kinds=("lag",),
        seed_first=1,
    ),
    "out-of-range-barrier": Protection(
        rule="only a leader behind a barrier says that an offset is out of range",
        patches=_out_of_range_anywhere,
        kinds=("slow",),
        seed_first=6,
    ),
    "directory-read": Protection(
        rule="'no such topic' is said only by who has read the directory to its end", patches=_stale_directory, kinds=("lag",), seed_first=3
    ),
    "stored-results": Protection(
        rule="a retry gets the stored answer",
        patches=lambda: [(GroupBuilder, "known_answer", lambda _builder, _command, _hashed: None)],
        kinds=("network",),
    ),
    "joined-retries": Protection(
        rule="a retry of a commit in flight waits with it", patches=_no_joining, kinds=("slow", "hold"), seed_first=5
    ),
    "content-hash": Protection(rule="a key stands for one content", patches=_any_content, kinds=("network",), seed_first=1),
    "deletion-order": Protection(
        rule="an owner remembers deletions: a create that was delayed finds them",
        patches=lambda: [(decide, "is_gone", lambda _hot, _share, _limits: False)],
        kinds=("network",),
        details=("double",),
        seeds_max=40,
        seed_first=4,
    ),
    "deleted-ids": Protection(
        rule="the directory never places a deleted topic id again",
        patches=lambda: [(decisions, "is_deleted", lambda _directory, _topic_id, _log_time_ms, _limits: False)],
        kinds=("network",),
        details=("double",),
        seeds_max=40,
        seed_first=1,
    ),
    "prune-behind-snapshot": Protection(
        rule="the log is pruned only to where a committed snapshot ends", patches=_prune_to_the_mark, kinds=("snapshot",), seed_first=2
    ),
    "resign-first": Protection(
        rule="leaders in a data directory that has failed lead on until another node has claimed",
        patches=lambda: [(ReplicaRepairs, "resign", _do_nothing)],
        kinds=("directory",),
    ),
    "assignment-first": Protection(
        rule="a replica that moves changes its data directory when partition 0 knows the new one",
        patches=lambda: [(ReplicaMove, "wait_recorded", _do_nothing)],
        kinds=("move", "cut"),
        details=("",),
    ),
    "last-directory": Protection(
        rule="the last data directory that fails ends the process", patches=_keep_the_last_directory, kinds=("directory",)
    ),
    "disk-identity": Protection(
        rule="a database whose last entry is not the log's is set aside",
        patches=lambda: [(StateLoader, "verify_position", _do_nothing)],
        kinds=("crash",),
    ),
    **FILE_PROTECTIONS,
    **GATEWAY_PROTECTIONS,
    **MOVE_PROTECTIONS,
    **RETENTION_PROTECTIONS,
    **RESTORE_PROTECTIONS,
}
