"""Protections of gateways, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.client.client import DisklessClient
from coordinator.client.model import CommitOutcome
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectStore
from gateway.produce import commits, taker
from gateway.produce.commits import CutFile, ShareCommits
from gateway.produce.files import FileLoad, sorted_load
from gateway.produce.request import UNDECIDED, PendingProduce
from gateway.produce.wire_loops import CODE
from gateway.tails.tail import Tail
from simulation.protections.protection import Patch, Protection, around, instead

# ---- what is committed, and in which order


@instead(taker, "sorted_load")
def _batches_in_any_order(load: FileLoad) -> FileLoad:
    return sorted_load(load.only(np.arange(len(load.rows))[::-1]))


@around(taker, "upload")
async def _called_stored(upload_: Callable[..., Awaitable[str | None]], store: ObjectStore, key: str, data: bytes, **options: Any) -> None:
    await upload_(store, key, data, **options)


@instead(ShareCommits, "drop")
def _committed_all_the_same(shares: ShareCommits, file: CutFile) -> None:
    shares.uploaded(file)


def _repeated_as(change: Callable[[str, int], tuple[str, int]]) -> list[Patch]:
    """Repeat shares with another key, or another size of their file."""
    commit_file, seen = DisklessClient.commit_file, set[tuple[str, int]]()

    async def commit(
        client: DisklessClient, object_key: str, file_size_bytes: int, batches: Any, *, coordinator_ids: Sequence[int] = (), **options: Any
    ) -> CommitOutcome:
        shares = {(object_key, coordinator_id) for coordinator_id in coordinator_ids}
        head = change(object_key, file_size_bytes) if shares & seen else (object_key, file_size_bytes)
        seen.update(shares)
        return await commit_file(client, *head, batches, coordinator_ids=coordinator_ids, **options)

    return [(DisklessClient, "commit_file", commit)]


# ---- what is answered, and when


@around(PendingProduce, "part_is_filed")
def _answered_before_the_commit(filed: Callable[[PendingProduce], None], pending: PendingProduce) -> None:
    filed(pending)
    if pending.parts == 0:
        results = pending.results
        results[results[:, CODE] == UNDECIDED, :2] = int(ErrorCode.NONE), 0
        pending.answer_unawaited()


GATEWAY_PROTECTIONS: dict[str, Protection] = {
    "share-order": Protection(
        rule="a share waits until its coordinator has decided those of the files before",
        patches=lambda: [(ShareCommits, "has_turn", lambda _shares, _file, _coordinator: True)],
        kinds=("slow",),
        gateways={},
    ),
    "order-in-file": Protection(
        rule="batches of a partition stay in order in a file", patches=_batches_in_any_order, kinds=("slow",), gateways={"buffer_ms": 250}
    ),
    "unknown-outcome": Protection(
        rule="a share without an outcome is sent again, and nothing is said of it before",
        patches=lambda: [(commits, "are_undecided", lambda codes: np.zeros(len(codes), np.bool_))],
        kinds=("network", "crash"),
        gateways={"first_kind": 2},
        seed_first=3,
    ),
    "same-key": Protection(
        rule="a share is repeated under the key of its file",
        patches=lambda: _repeated_as(lambda key, size: (f"{key}-again", size)),
        kinds=("network", "crash"),
        gateways={},
    ),
    "same-share": Protection(
        rule="a share is repeated unchanged",
        patches=lambda: _repeated_as(lambda key, size: (key, size + 1)),
        kinds=("network", "crash"),
        seed_first=16,
        gateways={"first_kind": 2},
    ),
    "stored-first": Protection(
        rule="a file is committed when the store has taken it", patches=_called_stored, kinds=("slow",), gateways={}
    ),
    "given-up": Protection(
        rule="a file that was given up is never committed", patches=_committed_all_the_same, kinds=("slow",), gateways={}
    ),
    "let-go": Protection(
        rule="files wait for no file that was given up",
        patches=lambda: [(ShareCommits, "drop", lambda _shares, _file: None)],
        kinds=("slow",),
        gateways={},
    ),
    "gone-partitions": Protection(
        rule="batches of deleted partitions are refused, and the rest of the share goes again",
        patches=lambda: [(commits, "are_not_here", lambda codes: np.zeros(len(codes), np.bool_))],
        kinds=("slow",),
        gateways={},
    ),
    "commit-answers": Protection(
        rule="a batch is acknowledged when a coordinator has answered for it",
        patches=_answered_before_the_commit,
        kinds=("slow",),
        gateways={},
    ),
    "memory-freed": Protection(
        rule="the bytes of a request are free when its batches have an outcome",
        patches=lambda: [(RequestMemory, "release", lambda _budget, _size_bytes: None)],
        kinds=("slow",),
        gateways={"memory_bytes": 1_000_000},
    ),
    "tails-woken": Protection(
        rule="who waits at the end of a partition is woken when something comes",
        patches=lambda: [(Tail, "wake", lambda _tail: None)],
        kinds=("slow",),
        gateways={},
    ),
}
