"""Faults of disks: state databases damaged at rest and under a running node, old ones put back, exchanged, locked, disks that are full.

A node must notice every one of them, or be unharmed; nothing is mended from here but the space of a full disk.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Final

from integration_tests.faults.catalogue import Hits, Needs, Say, action, has_ended, leads, revive
from integration_tests.faults.damage import damage_some, keep_copies, put_back_some, swap_some
from integration_tests.faults.topology import Topology
from integration_tests.waiting import wait_until

START_TIMEOUT_S: Final = 60.0
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FILLER: Final = "filler"
CHUNK_BYTES: Final = 1_048_576
LOCK_TIMEOUT_S: Final = 20.0
LOCKED: Final = "locked by another connection"
LOCK_NEWS: Final = ("state database is locked", "state database not written", "the start waits for the end of a lock")
"""The lines in which a node tells of a lock that it waits for, and of what it had not written when it was stopped."""


@action("damage_rest", "SIGKILL of a node, whose databases are damaged before it starts again", hits=Hits.NODE, lasts_s=(0.5, 3))
def damage_rest(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    node.kill()
    try:
        for text in damage_some(node.data_folder, rng, is_running=False):
            say(text)
        yield
    finally:
        node.start()


@action("damage_running", "databases damaged under a running node", hits=Hits.NODE, lasts_s=(2, 8))
def damage_running(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """Half of the time the node is killed some time later, before it need have noticed."""
    node = topology.node(target)
    say(leads(topology, target))
    for text in damage_some(node.data_folder, rng, is_running=True):
        say(text)
    yield
    if rng.random() < 0.5:
        say("killed and started again")
        node.kill()
        node.start()


@action("old_copy", "databases of a node replaced by older copies of them", hits=Hits.NODE, lasts_s=(2, 6))
def old_copy(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    aside = node.folder / "copies"
    say(leads(topology, target))
    node.kill()
    try:
        keep_copies(node.data_folder, aside)
        node.start()
        yield
        node.kill()
        say(f"put back {', '.join(put_back_some(node.data_folder, aside, rng)) or 'nothing'}")
    finally:
        node.kill()
        node.start()


@action("swap", "SIGKILL of a node, two of whose databases are exchanged before it starts again", hits=Hits.NODE, lasts_s=(0.5, 3))
def swap(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    node.kill()
    try:
        say(swap_some(node.data_folder, rng))
        yield
    finally:
        node.start()


@action("disk_full", "the disk of a node's databases is full", needs=Needs.MOUNT, hits=Hits.NODE, lasts_s=(2, 10))
def disk_full(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    filler = fill(node.data_folder, left_bytes=rng.choice((0, 4096, 100_000)))
    try:
        yield
    finally:
        filler.unlink(missing_ok=True)
        revive(topology, target, say)


@action(
    "disk_full_start",
    "SIGKILL of a node; it starts again with damaged databases on a full disk",
    needs=Needs.MOUNT,
    hits=Hits.NODE,
    lasts_s=(1, 5),
)
def disk_full_start(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    node.kill()
    filler: Path | None = None
    try:
        for text in damage_some(node.data_folder, rng, is_running=False):
            say(text)
        filler = fill(node.data_folder, left_bytes=0)
        node.start()
        wait_until(lambda: has_ended(topology, target) or node.is_serving(), f"{target} to serve or to give up", START_TIMEOUT_S)
        if has_ended(topology, target):
            assert "full" in node.log_text(), f"{target} does not say that its disk is full:\n{node.log_tail()}"
        yield
    finally:
        if filler is not None:
            filler.unlink(missing_ok=True)
        revive(topology, target, say)


@action("disk_read_only", "the disk of a node's databases lets nothing be written", needs=Needs.DISK, hits=Hits.NODE, lasts_s=(2, 10))
def disk_read_only(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """Half of the time the node is started on it."""
    node, disk = topology.node(target), topology.disks[target]
    say(leads(topology, target))
    try:
        disk.refuse_writes()
        if rng.random() < 0.5:
            say("started on it")
            node.kill()
            node.start()
        yield
    finally:
        disk.heal()
        revive(topology, target, say)


@action("disk_failing", "reads and writes of a node's databases fail now and then", needs=Needs.DISK, hits=Hits.NODE, lasts_s=(2, 10))
def disk_failing(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    one_in = rng.choice((2, 10, 50))
    say(f"one in {one_in}, {leads(topology, target)}")
    try:
        topology.disks[target].fail(one_in)
        yield
    finally:
        topology.disks[target].heal()
        revive(topology, target, say)


@action("lock", "databases of a running node locked by another process", hits=Hits.NODE, lasts_s=(6, 20))
def lock(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    databases = sorted(node.data_folder.glob("partition-*.db"))
    with locked(rng.sample(databases, rng.randint(1, len(databases))), say):
        yield
    check_not_damaged(topology, target)


@action("lock_start", "SIGKILL of a node, whose databases another process has locked when it starts again", hits=Hits.NODE, lasts_s=(2, 10))
def lock_start(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(leads(topology, target))
    node.kill()
    try:
        databases = sorted(node.data_folder.glob("partition-*.db"))
        with locked(rng.sample(databases, min(len(databases), rng.randint(1, 3))), say, "PRAGMA locking_mode = EXCLUSIVE"):
            node.start()
            yield
    finally:
        revive(topology, target, say)
    check_not_damaged(topology, target)


@contextmanager
def locked(databases: Sequence[Path], say: Say, *settings: str) -> Iterator[None]:
    """Another process has begun to write these databases, and does not end."""
    say(f"locked {', '.join(path.name for path in databases)}")
    with ExitStack() as held:
        for path in databases:
            stranger = held.enter_context(closing(sqlite3.connect(path, isolation_level=None, timeout=LOCK_TIMEOUT_S)))
            for statement in (*settings, "BEGIN EXCLUSIVE"):
                stranger.execute(statement).fetchall()
        yield


def check_not_damaged(topology: Topology, target: str) -> None:
    """Raise AssertionError if a lock ended the node or made it take a database for damaged."""
    node = topology.node(target)
    told = [line for line in node.log_text().splitlines() if LOCKED in line and not any(mark in line for mark in LOCK_NEWS)]
    assert not told, f"{target} took a lock for a failure:\n" + "\n".join(told)
    assert not has_ended(topology, target), f"{target} ended under a lock:\n{node.log_tail()}"


def fill(folder: Path, *, left_bytes: int) -> Path:
    """Write a file until the disk has no more room than this."""
    filler = folder / FILLER
    folder.mkdir(parents=True, exist_ok=True)
    with filler.open("wb", buffering=0) as file:
        size = CHUNK_BYTES
        while size:
            try:
                file.write(bytes(size))
            except OSError as problem:
                if problem.errno not in NO_ROOM:
                    raise
                size //= 2
        os.truncate(filler, max(0, filler.stat().st_size - left_bytes))
    return filler
