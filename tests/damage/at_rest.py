"""Damages real state databases at rest, thousands of times, and holds what is then answered against the undamaged truth.

Databases of random logs are written, and of each copies are damaged: bits, pages that are zeroed, swapped or of an earlier moment,
files that are cut, grown, missing, of another partition or of another moment. A node that starts then must give the answers of a
state that the log had at some moment, and after reading on those of its end: from the database when it is right, else from the log.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import apsw

from coordinator.adapters.sqlite import StateCorrupt, StateDatabase, StateDatabases
from coordinator.adapters.sqlite.schema import PAGE_BYTES
from coordinator.core.state.damage import StateFailed
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BrokenInvariant
from records.model import Endpoint, NodeRegistered, PlacedRange, Record, TopicPlaced
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica, answers, header

ENTRIES = 40
DAMAGES_OF_A_LOG = 50
SUFFIXES = ("", "-wal", "-shm", ".lock")
FRAME_BYTES = PAGE_BYTES + 24
BAD = ("WRONG", "found later")
"""A start proves all of a database, so a read or a write behind it finds nothing more."""


@dataclass(slots=True)
class Moment:
    """Copies of a database's files as a killed process leaves them, and the applied offset they stand for."""

    folder: Path
    offset: int

    def file(self, suffix: str) -> Path:
        return self.folder / f"partition-{PARTITION}.db{suffix}"


@dataclass(slots=True)
class Subject:
    """A log with copies of its database at several moments, the last of them the newest, and the truth at its end."""

    entries: list[Record]
    model: LogModel
    moments: list[Moment]
    truth: dict[str, object]
    digest: bytes
    other: Moment


def write_subject(folder: Path, seed: int) -> Subject:
    """A database of a random log, copied while it is open or after it was closed."""
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 1), files_per_record=rng.choice([0.5, 0.8]))
    entries = [model.next_record() for _ in range(ENTRIES)]
    for at in sorted(rng.sample(range(ENTRIES), 3)):
        entries.insert(at, _directory_record(rng, at))
    replica = _replica(folder / "live")
    moments: list[Moment] = []
    for offset, record in enumerate(entries):
        replica.apply([record], offset)
        if rng.random() < 0.3 or offset == len(entries) - 1:
            if rng.random() < 0.5:
                replica.state.trim_step(3)
            replica.flush()
            if rng.random() < 0.1:
                _checkpoint(replica)
            if rng.random() < 0.4 or offset == len(entries) - 1:
                moments.append(_copied(folder, len(moments), offset))
    if rng.random() < 0.5:
        replica.store.close(clean=True)
        moments[-1] = _copied(folder, len(moments) - 1, len(entries) - 1)
        replica.start()
    replica.trim()
    truth, digest = answers(replica.state, model), replica.digest()
    replica.store.close(clean=False)
    other_replica = _replica(folder / "other")
    other_model = LogModel(random.Random(seed + 2))
    for offset in range(20):
        other_replica.apply([other_model.next_record()], offset)
    of_other = replace(header(other_replica.state), metadata_partition=PARTITION + 1)
    other_replica.store.write(other_replica.packer.pack(other_replica.state.freeze(of_other)))
    other = _copied(folder, "other", 19, source=folder / "other")
    other_replica.store.close(clean=False)
    return Subject(entries, model, moments, truth, digest, other)


def _directory_record(rng: random.Random, at: int) -> Record:
    if rng.random() < 0.5:
        endpoint = Endpoint(listener="PLAINTEXT", host=f"host-{at}", port=9000 + at)
        return NodeRegistered(
            node_id=rng.randrange(3),
            rack="",
            endpoints=[endpoint],
            schema_level_max=2,
            incarnation_id=rng.randbytes(16),
            log_dirs=[rng.randbytes(16)],
            is_any_dir_offline=False,
        )
    placed = PlacedRange(first_partition=0, num_partitions=3, coordinator_id=rng.randrange(3))
    return TopicPlaced(topic_id=rng.randbytes(16), name=f"placed-{at}", ranges=[placed], confirmed=False)


def _replica(folder: Path) -> Replica:
    folder.mkdir(exist_ok=True)
    stores = StateDatabases(folder, boot_id="boot")
    return Replica(lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID))


def _checkpoint(replica: Replica) -> None:
    assert isinstance(replica.store, StateDatabase)
    connection = apsw.Connection(str(replica.store.path))
    try:
        connection.wal_checkpoint()
    finally:
        connection.close()


def _copied(folder: Path, name: object, offset: int, source: Path | None = None) -> Moment:
    moment = Moment(folder / f"moment-{name}", offset)
    shutil.rmtree(moment.folder, ignore_errors=True)
    moment.folder.mkdir()
    for suffix in SUFFIXES:
        path = (source or folder / "live") / f"partition-{PARTITION}.db{suffix}"
        if path.exists():
            shutil.copyfile(path, moment.file(suffix))
    return moment


# ---- damages


def damage(rng: random.Random, subject: Subject, victim: Moment) -> str:
    """Damage the files of a copy; returns how."""
    kinds: dict[str, Callable[[random.Random, Subject, Moment], object]] = {
        "one bit": lambda r, _, v: _flip(r, v, 1),
        "several bits": lambda r, _, v: _flip(r, v, r.randrange(2, 40)),
        "bytes overwritten": _overwrite,
        "page zeroed": lambda r, _, v: _put_page(r, v, lambda raw, size, at: bytes(size)),
        "pages swapped": lambda r, _, v: _swap_pages(r, v),
        "page of an earlier moment": _old_page,
        "file cut": _cut,
        "file emptied": lambda r, _, v: _some_file(r, v).write_bytes(b""),
        "file grown": _grow,
        "file missing": lambda r, _, v: _some_file(r, v).unlink(),
        "database of another moment": lambda r, s, v: _replace(v, r.choice(s.moments), ""),
        "write-ahead log of another moment": lambda r, s, v: _replace(v, r.choice(s.moments), "-wal"),
        "both of another moment": lambda r, s, v: _replace(v, r.choice(s.moments), "", "-wal"),
        "each of another moment": lambda r, s, v: [_replace(v, r.choice(s.moments), suffix) for suffix in ("", "-wal")],
        "database of another partition": lambda _, s, v: _replace(v, s.other, ""),
        "write-ahead log of another partition": lambda _, s, v: _replace(v, s.other, "-wal"),
        "both of another partition": lambda _, s, v: _replace(v, s.other, "", "-wal"),
    }
    kind = rng.choice(list(kinds))
    kinds[kind](rng, subject, victim)
    if rng.random() < 0.5:
        victim.file("-shm").unlink(missing_ok=True)
    return kind


def _some_file(rng: random.Random, victim: Moment) -> Path:
    """The database or its write-ahead log, by their sizes."""
    paths = [path for path in (victim.file(""), victim.file("-wal")) if path.exists() and path.stat().st_size]
    return rng.choices(paths, [path.stat().st_size for path in paths])[0]


def _flip(rng: random.Random, victim: Moment, bits: int) -> None:
    path = _some_file(rng, victim)
    raw = bytearray(path.read_bytes())
    for _ in range(bits):
        at = _place(rng, raw)
        raw[at] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def _place(rng: random.Random, raw: bytearray) -> int:
    """A byte that is used, as far as can be told: most of a small database is empty."""
    for _ in range(20):
        at = rng.randrange(len(raw))
        if any(raw[max(0, at - 4) : at + 5]):
            return at
    return rng.randrange(len(raw))


def _overwrite(rng: random.Random, _: Subject, victim: Moment) -> None:
    path = _some_file(rng, victim)
    raw = bytearray(path.read_bytes())
    at, size = _place(rng, raw), rng.randrange(1, 600)
    raw[at : at + size] = rng.randbytes(len(raw[at : at + size]))
    path.write_bytes(raw)


def _pages(path: Path) -> list[int]:
    """Where the pages of a database or of its write-ahead log begin."""
    size = path.stat().st_size
    if path.name.endswith("-wal"):
        return list(range(32 + 24, size - PAGE_BYTES + 1, FRAME_BYTES))
    return list(range(0, size - PAGE_BYTES + 1, PAGE_BYTES))


def _put_page(rng: random.Random, victim: Moment, make: Callable[[bytes, int, int], bytes]) -> None:
    path = _some_file(rng, victim)
    raw = bytearray(path.read_bytes())
    at = rng.choice(_pages(path) or [0])
    raw[at : at + PAGE_BYTES] = make(bytes(raw), len(raw[at : at + PAGE_BYTES]), at)
    path.write_bytes(raw)


def _swap_pages(rng: random.Random, victim: Moment) -> None:
    path = _some_file(rng, victim)
    raw = bytearray(path.read_bytes())
    pages = _pages(path)
    if len(pages) > 1:
        one, other = rng.sample(pages, 2)
        raw[one : one + PAGE_BYTES], raw[other : other + PAGE_BYTES] = raw[other : other + PAGE_BYTES], raw[one : one + PAGE_BYTES]
    path.write_bytes(raw)


def _old_page(rng: random.Random, subject: Subject, victim: Moment) -> None:
    path = _some_file(rng, victim)
    source = rng.choice(subject.moments).folder / path.name
    raw, old = bytearray(path.read_bytes()), source.read_bytes() if source.exists() else b""
    pages = [at for at in _pages(path) if at + PAGE_BYTES <= len(old)]
    if pages:
        at = rng.choice(pages)
        raw[at : at + PAGE_BYTES] = old[at : at + PAGE_BYTES]
    path.write_bytes(raw)


def _cut(rng: random.Random, _: Subject, victim: Moment) -> None:
    path = _some_file(rng, victim)
    at = rng.randrange(path.stat().st_size)
    pages = _pages(path)
    path.write_bytes(path.read_bytes()[: rng.choice(pages) if pages and rng.random() < 0.5 else at])


def _grow(rng: random.Random, _: Subject, victim: Moment) -> None:
    path = _some_file(rng, victim)
    path.write_bytes(path.read_bytes() + rng.choice([bytes(PAGE_BYTES), rng.randbytes(rng.randrange(1, 2 * PAGE_BYTES))]))


def _replace(victim: Moment, source: Moment, *suffixes: str) -> None:
    for suffix in suffixes:
        if source.file(suffix).exists():
            shutil.copyfile(source.file(suffix), victim.file(suffix))
        else:
            victim.file(suffix).unlink(missing_ok=True)


# ---- what a node does then


def outcome(subject: Subject, victim: Moment) -> str:
    """What became of a damaged database: believed, rightly; older state; set aside; begun anew; found later; or what is wrong."""
    replica = None
    try:
        replica, how = _loaded(victim.folder)
        loaded_at = replica.state.applied_offset
        _follow(replica, subject)
        wrong = _wrong_answer(replica, subject)
        if wrong:
            return f"WRONG: {wrong}"
    except (StateFailed, BrokenInvariant) as failed:
        # Found by a read or a write behind the start: the replica is set aside and rebuilt.
        return f"found later: {failed!r:.300}"
    except Exception as error:  # noqa: BLE001 - whatever else comes out of a damaged file would have ended the process
        return f"WRONG: {type(error).__name__}: {error}"
    else:
        if how != "believed":
            return how
        return "believed, rightly" if loaded_at == len(subject.entries) - 1 else "older state"
    finally:
        if replica is not None:
            replica.store.close(clean=False)


def _loaded(folder: Path) -> tuple[Replica, str]:
    """A replica over the database, set aside and begun anew when loading it finds damage, as the runtime does."""
    stores = StateDatabases(folder, boot_id="boot")
    store = None
    try:
        store = stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)
        how = "begun anew" if store.load() is None else "believed"
    except StateCorrupt:
        how = "set aside"
    if store is not None:
        store.close(clean=False)
    if how == "set aside":
        stores.set_aside(PARTITION)
    return _replica(folder), how


def _follow(replica: Replica, subject: Subject) -> None:
    for offset in range(replica.state.applied_offset + 1, len(subject.entries)):
        replica.apply([subject.entries[offset]], offset)
    replica.trim()


def _wrong_answer(replica: Replica, subject: Subject) -> str:
    found = answers(replica.state, subject.model)
    for name, truth in subject.truth.items():
        if found[name] != truth:
            return f"{name}: {found[name]!r:.200} instead of {truth!r:.200}"
    if _files(replica.state) != [key for key in sorted(subject.model.all_keys) if replica.state.find_file(key) is not None]:
        return "DescribeFiles lists other files than are known"
    if replica.digest() != subject.digest:
        return "another digest"
    return ""


def _files(state: ShardState) -> list[str]:
    return [file.object_key for file in state.files_after("", 10_000)]


def damages(seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """How something was damaged and what came of it, without end."""
    for number in count(seed * 1_000_003):
        home = folder / f"log-{number}"
        home.mkdir()
        subject = write_subject(home, number)
        rng = random.Random(number)
        for attempt in range(DAMAGES_OF_A_LOG):
            newest = subject.moments[-1] if rng.random() < 0.7 else rng.choice(subject.moments)
            victim = Moment(home / f"victim-{attempt}", newest.offset)
            shutil.copytree(newest.folder, victim.folder)
            kind = damage(rng, subject, victim)
            result = outcome(subject, victim)
            yield kind, f"{result} (log {number}, damage {attempt})" if result.startswith(BAD) else result
            shutil.rmtree(victim.folder)
        shutil.rmtree(home)


def damage_at_rest(count: int, seed: int) -> bool:
    """Damage as often as is asked, or until it is interrupted, and print the tally; returns whether nothing was wrong."""
    tally: Counter[tuple[str, str]] = Counter()
    wrong: list[str] = []
    # What was found so far is told too.
    with tempfile.TemporaryDirectory(prefix="damage-") as folder, suppress(KeyboardInterrupt):
        for kind, result in islice(damages(seed, Path(folder)), count):
            if result.startswith(BAD):
                wrong.append(f"{kind}: {result}")
                print(wrong[-1], flush=True)
            tally[kind, result.split(":")[0]] += 1
    for (kind, result), number in sorted(tally.items()):
        print(f"{number:6d}  {kind:36s} {result}")
    print(f"{tally.total()} damages, {len(wrong)} wrong")
    return not wrong
