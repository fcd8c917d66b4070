"""The owner that is responsible for a file without live batches: the first in turn (`records.file_owners`) that is not out.

An owner is out (`FileStanding.is_out`) when it has promised, durably, never to take live batches of the file again. So an owner whose file
is empty asks the earlier owners first: one that is not out is responsible, now or later. When all of them are out it is responsible itself,
and asks the later ones: the first that is not out gets the file. When all others are out no owner has a live batch of it, and none ever
will: its object is deleted. Pure; `empty_files` asks and carries out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coordinator.core.commands import FileStanding


@dataclass(frozen=True, slots=True)
class Ask:
    """This owner has to be asked next."""

    coordinator_id: int


@dataclass(frozen=True, slots=True)
class Wait:
    """This earlier owner has the file: it is not our turn."""

    coordinator_id: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """We are responsible, and this later owner has the file: it becomes responsible."""

    coordinator_id: int


@dataclass(frozen=True, slots=True)
class Delete:
    """All other owners are out."""


Step: TypeAlias = Ask | Wait | HandOver | Delete
DELETE = Delete()


def next_step(owner_ids: Sequence[int], own_id: int, known: Mapping[int, FileStanding]) -> Step:
    """Return what an owner whose file is empty does next; `owner_ids` are in turn, `known` is what others have answered.

    Raises ValueError for no owner.
    """
    own_place = owner_ids.index(own_id)
    for place, owner in enumerate(owner_ids):
        if place == own_place:
            continue
        standing = known.get(owner)
        if standing is None:
            return Ask(owner)
        if not standing.is_out:
            return Wait(owner) if place < own_place else HandOver(owner)
    return DELETE
