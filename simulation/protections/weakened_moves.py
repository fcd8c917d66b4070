"""Protections of moves of partitions, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from coordinator.core.deciding import decide_moves
from coordinator.core.tables import in_memory
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.tables import PartitionTable
from coordinator.runtime.files.asking import OwnersAsked
from coordinator.runtime.routing import moved_commits
from coordinator.runtime.routing.cluster_view import ClusterView
from records.model import SeededProducerBatch
from simulation.protections.protection import Protection, around, instead


@instead(moved_commits, "answer_before")
def _nobody_had_it(*_: object) -> None:
    """The coordinators that had a partition before are not asked whether the file was there."""


@instead(decide_moves, "remembered_batches")
def _no_producers(_: HotState, __: int) -> Iterator[SeededProducerBatch]:
    """Producers are not handed over."""
    return iter(())


@instead(in_memory, "release")
def _goes_on(_: PartitionTable, __: int) -> None:
    """A partition that was released takes batches as before."""


@around(ClusterView, "reader_of")
def _ask_the_owner(_: Callable[..., int | None], view: ClusterView, partition_key: bytes, __: int) -> int | None:
    """All batches of a partition are looked for at its owner."""
    return view.owner_of(partition_key)


@around(OwnersAsked, "with_linked")
def _owners_alone(_: Callable[..., tuple[int, ...]], __: OwnersAsked, owner_ids: Sequence[int], ___: int, ____: int) -> tuple[int, ...]:
    """Only the coordinators that a file names are asked before its object goes."""
    return (*owner_ids,)


_REPLACED = {"replacing": 0.5, "pausing": 0.0, "dying": 0.0, "giving_up": 0.0, "pruners": 3, "commit_age_s": 1.0, "grace_s": 0.3}
"""Files with two lists of owners, which end soon."""


MOVE_PROTECTIONS: dict[str, Protection] = {
    "moves-known-files": Protection(
        rule="a file that was committed where a partition was before is not committed again where it is",
        patches=_nobody_had_it,
        kinds=("network", "restart"),
        movers=3,
    ),
    "moves-producers": Protection(
        rule="what is remembered of producers goes with a partition",
        patches=_no_producers,
        kinds=("network",),
        movers=3,
    ),
    "moves-release": Protection(
        rule="a partition that was released takes no batches",
        patches=_goes_on,
        kinds=("lag", "restart"),
        movers=3,
    ),
    "moves-linked": Protection(
        rule="the object of a file stays until those have been asked between which partitions of it moved around its creation",
        patches=_owners_alone,
        kinds=("network",),
        movers=3,
        files=_REPLACED,
        seed_first=86,
    ),
    "moves-readers": Protection(
        rule="batches are looked for where they were committed",
        patches=_ask_the_owner,
        kinds=("network",),
        movers=3,
    ),
}
