"""Protections of the life of files, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coordinator.core.commands import OK, Answer, Command, CommitFile, FencedFile, FenceFiles, FileStanding, Outcome
from coordinator.core.deciding import group
from coordinator.core.deciding.decide_files import fences
from coordinator.core.deciding.group import GroupBuilder
from coordinator.core.files import requests
from coordinator.core.files.requests import CommitContext, check_head
from coordinator.core.leadership.term import Term, Waiter
from coordinator.core.limits import Limits
from coordinator.core.reads.standings import standings_of
from coordinator.core.request import Reply, Request, Token
from coordinator.core.state.expiry import Expiry, decide_expiry
from coordinator.core.state.replica_state import ShardState
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.tables.in_memory import HotState
from coordinator.runtime.files import cleaner, empty_files
from coordinator.runtime.files.asking import OwnersAsked
from coordinator.runtime.files.empty_files import EmptyFiles
from coordinator.runtime.files.orphan_pages import OrphanPages
from coordinator.runtime.files.turns import Step, next_step
from records.model import Record
from simulation.protections.protection import Patch, Protection, around, instead

# ---- which keys are taken


# ---- who is asked


@instead(empty_files, "next_step")
def _later_owners_not_asked(owner_ids: Sequence[int], own_id: int, known: Mapping[int, FileStanding]) -> Step:
    return next_step(owner_ids[: owner_ids.index(own_id) + 1], own_id, known)


@instead(empty_files, "next_step")
def _earlier_owners_not_asked(owner_ids: Sequence[int], own_id: int, known: Mapping[int, FileStanding]) -> Step:
    return next_step(owner_ids[owner_ids.index(own_id) :], own_id, known)


@around(OwnersAsked, "ask")
async def _ask_without_fencing(
    ask: Callable[..., Awaitable[list[FileStanding] | Outcome]],
    asked: OwnersAsked,
    coordinator_id: int,
    keys: Sequence[str],
    created_ms: Sequence[int],
    *,
    only_tell: bool = False,
) -> list[FileStanding] | Outcome:
    return await ask(asked, coordinator_id, keys, created_ms, only_tell=True)


# ---- what a fence is worth


@instead(group, "fences")
def _fences_of_commits_under_way(state: ShardState, term: Term, command: FenceFiles, entry_bytes_max: int) -> list[Record]:
    return fences(state, replace(term, by_key={}), command, entry_bytes_max)


@instead(group, "check_head")
def _any_age(command: CommitFile, context: CommitContext) -> Outcome | None:
    return check_head(command._replace(created_ms=-1), context)


@instead(group, "decide_expiry")
def _forget_fences(hot: HotState, ages: TombstoneAges[int], limits: Limits) -> Expiry:
    return decide_expiry(hot, ages, replace(limits, file_fence_retention_ms=0))


def _answers_before_fences_are_logged() -> list[Patch]:
    take = GroupBuilder.take
    promised: dict[int, list[FencedFile]] = {}

    def fence(state: ShardState, term: Term, command: FenceFiles, entry_bytes_max: int) -> list[Record]:
        if command.is_fencing:
            standings = standings_of(state, command.object_keys)
            told = (FileStanding.FENCED if one is FileStanding.UNKNOWN else one for one in standings)
            promised[id(command)] = [FencedFile(outcome=OK, standing=one) for one in told]
        return fences(state, term, command, entry_bytes_max)

    def wait(token: Token, deadline_ms: int, command: Command, answer: Answer | None = None) -> Waiter:
        is_answered = isinstance(command, FenceFiles) and command.is_fencing
        return Waiter(token, deadline_ms, command, answer, is_answered=is_answered)

    def take_question(builder: GroupBuilder, request: Request) -> None:
        take(builder, request)
        answer = promised.pop(id(request.command), None)
        if answer is not None:
            builder.replies.append(Reply(request.token, answer))

    return [(group, "fences", fence), (group, "Waiter", wait), (GroupBuilder, "take", take_question)]


# ---- when an object goes


@around(OrphanPages, "ask_all")
async def _orphans_deleted_at_once(
    ask: Callable[..., Awaitable[list[tuple[FileStanding, ...]]]], pages: OrphanPages, keys: Sequence[str], *, only_tell: bool
) -> list[tuple[FileStanding, ...]]:
    standings = await ask(pages, keys, only_tell=True)
    if only_tell:
        return standings
    return [tuple(FileStanding.FENCED if one is FileStanding.UNKNOWN else one for one in found) for found in standings]


def _other_rules_for_empty_files(**changes: int) -> list[Patch]:
    def make(**given: Any) -> EmptyFiles:
        return EmptyFiles(**{**given, "rules": replace(given["rules"], **changes)})

    return [(cleaner, "EmptyFiles", make)]


FILE_PROTECTIONS: dict[str, Protection] = {
    "plain-keys": Protection(
        rule="only keys that an object can have are committed",
        patches=lambda: [(requests, "key_fault", lambda _key: "")],
        kinds=("slow",),
        files={},
    ),
    "later-owners": Protection(
        rule="an object is deleted only when later owners are out", patches=_later_owners_not_asked, kinds=("slow",), files={}
    ),
    "earlier-owners": Protection(
        rule="an object is deleted only when earlier owners are out", patches=_earlier_owners_not_asked, kinds=("slow",), files={}
    ),
    "owners-fenced": Protection(
        rule="an owner that never got a file promises not to take it, or its object stays for ever",
        patches=_ask_without_fencing,
        kinds=("slow",),
        files={"dying": 0.3},
    ),
    "fence-durable": Protection(
        rule="a fence is promised when it is in the log",
        patches=_answers_before_fences_are_logged,
        kinds=("produce", "expire"),
        files={"giving_up": 0.5},
        seed_first=16,
    ),
    "orphans-fenced": Protection(
        rule="an orphan is deleted when every coordinator has fenced it",
        patches=_orphans_deleted_at_once,
        kinds=("slow",),
        files={"pausing": 0.5, "scan_s": 0.7, "commit_age_s": 2.5, "fence_kept_s": 6.0, "giving_up": 0.0},
        seed_first=33,
    ),
    "fence-sees-commits": Protection(
        rule="a fence sees commits under way", patches=_fences_of_commits_under_way, kinds=("slow",), files={"giving_up": 0.5}
    ),
    "commit-sees-fences": Protection(
        rule="a commit sees fences under way",
        patches=lambda: [(group, "ruled_out_by", lambda _records: {})],
        kinds=("slow",),
        files={"giving_up": 0.5},
        seed_first=3,
    ),
    "commit-age": Protection(
        rule="old files are not committed", patches=_any_age, kinds=("network",), files={"pausing": 0.4}, seed_first=3
    ),
    "fence-retention": Protection(
        rule="fences are kept until the age limit refuses all commits of their files", patches=_forget_fences, kinds=("slow",), files={}
    ),
    "file-age": Protection(
        rule="no file is fenced that may still be committed",
        patches=lambda: _other_rules_for_empty_files(commit_max_age_ms=0),
        kinds=("slow",),
        files={"pausing": 0.4, "grace_s": 0.3, "dying": 0.0, "giving_up": 0.0, "pruners": 3},
        seed_first=2,
    ),
    "delete-grace": Protection(
        rule="an object stays as long as readers use what they were told",
        patches=lambda: _other_rules_for_empty_files(delete_grace_ms=0),
        kinds=("slow",),
        files={"grace_s": 2.0},
        seed_first=4,
    ),
}
