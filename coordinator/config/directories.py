"""Data directories (KIP-858): `meta.properties` says which cluster, node and directory a folder belongs to.

Owns the rules (pure: `directory_problems`) and the small I/O around them (`format_directories`,
`open_directories`, `lock_directory`). Invariant: nothing is written unless every readable directory passed all rules, and a
`meta.properties` is replaced as a whole or not at all. It never looks at what else a directory contains.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from coordinator.config.disk import remedy
from coordinator.config.sources import SourceError, parse_properties
from coordinator.kafka.directory_ids import directory_id_text, is_reserved, parse_directory_id
from records.durable import rename_durably

META_PROPERTIES = "meta.properties"
LOCK_FILE = ".lock"
VERSION = "1"


class DirectoryError(Exception):
    """The data directories cannot be used; every problem names the path and the remedy."""

    def __init__(self, problems: Sequence[str]) -> None:
        assert problems, "a DirectoryError needs a problem"
        self.problems = tuple(problems)
        super().__init__("the data directories cannot be used:\n  " + "\n  ".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of one meta.properties. `directory_id` is None where it is yet to be drawn; `other` keeps unknown keys."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None
    other: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDirectory:
    """A usable data directory."""

    path: Path
    directory_id: bytes
    lock: IO[bytes] = field(repr=False, compare=False)
    """Locks the directory for this process until it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineDirectory:
    """A data directory that could not be read or written at the start."""

    path: Path
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDirectories:
    """The directories of `data.dirs` as they were found; at least one directory is online."""

    online: tuple[DataDirectory, ...]
    offline: tuple[OfflineDirectory, ...]

    def unlock(self) -> None:
        """Let other processes use the directories."""
        for directory in self.online:
            directory.lock.close()


def random_directory_id(random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    """Draw a directory id (uuid version 4) that is neither reserved nor starts with '-'."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        drawn = bytes(raw)
        if not is_reserved(drawn) and not directory_id_text(drawn).startswith("-"):
            return drawn


def parse_meta_properties(content: str, name: str) -> MetaProperties:
    """Read the text of a meta.properties. Raises ValueError naming file, key and rule."""
    try:
        values = {key: value for _line, key, value in parse_properties(content, name)}
    except SourceError as error:
        raise ValueError(str(error)) from error
    missing = [key for key in ("version", "cluster.id", "node.id") if key not in values]
    if missing:
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    if values["version"] != VERSION:
        raise ValueError(f"{name} has version={values['version']}, only version={VERSION} is known")
    if not values["node.id"].isdecimal():
        raise ValueError(f"{name} has node.id={values['node.id']}, which is no number")
    directory_id = None
    if "directory.id" in values:
        try:
            directory_id = parse_directory_id(values["directory.id"])
        except ValueError as error:
            raise ValueError(f"{name} has directory.id={values['directory.id']}: {error}") from error
    known = {"version", "cluster.id", "node.id", "directory.id"}
    return MetaProperties(
        cluster_id=values["cluster.id"],
        node_id=int(values["node.id"]),
        directory_id=directory_id,
        other={key: value for key, value in values.items() if key not in known},
    )


def format_meta_properties(meta: MetaProperties) -> str:
    """Write the text of a meta.properties."""
    lines = {"version": VERSION, "cluster.id": meta.cluster_id, "node.id": str(meta.node_id)}
    if meta.directory_id is not None:
        lines["directory.id"] = directory_id_text(meta.directory_id)
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in (lines | dict(meta.other)).items())


def directory_problems(found: Mapping[Path, MetaProperties], *, cluster_id: str, node_id: int) -> list[str]:
    """List what forbids using these directories together for this node of this cluster."""
    problems = []
    paths_by_id: dict[bytes, list[Path]] = {}
    for path, meta in found.items():
        if meta.cluster_id != cluster_id:
            problems.append(
                f"{path} belongs to cluster {meta.cluster_id}, but bootstrap.servers leads to cluster {cluster_id}: "
                f"correct bootstrap.servers or data.dirs, or empty the directory (its state is a cache)"
            )
        if meta.node_id != node_id:
            problems.append(
                f"{path} belongs to node.id {meta.node_id}, this is node.id {node_id}: correct node.id or data.dirs, "
                f"or empty the directory (its state is a cache)"
            )
        if meta.directory_id is not None:
            paths_by_id.setdefault(meta.directory_id, []).append(path)
    for directory_id, paths in paths_by_id.items():
        if len(paths) > 1:
            problems.append(
                f"{' and '.join(map(str, paths))} have the same directory.id {directory_id_text(directory_id)}: one is a copy; "
                f"empty the copy or take it out of data.dirs"
            )
    return problems


def open_directories(
    paths: Sequence[Path], *, cluster_id: str, node_id: int, random_bytes: Callable[[int], bytes] = os.urandom
) -> OpenedDirectories:
    """Check every data directory, create what is missing, and return what is online, locked for this process, and what is not.

    Raises `DirectoryError` when a rule is broken, a directory is in use, or none can be read and written.
    """
    with ExitStack() as locks:
        opened = _open_locked(paths, locks, cluster_id, node_id, random_bytes)
        locks.pop_all()
    return opened


def _open_locked(
    paths: Sequence[Path], locks: ExitStack, cluster_id: str, node_id: int, random_bytes: Callable[[int], bytes]
) -> OpenedDirectories:
    """Open the directories; their locks are put into `locks`. Raises `DirectoryError`."""
    held: dict[Path, IO[bytes]] = {}
    offline: list[OfflineDirectory] = []

    def look(path: Path) -> MetaProperties | None:
        path.mkdir(parents=True, exist_ok=True)
        return _read_meta(path)

    def lock(path: Path) -> MetaProperties | None:
        # Read again: another process that was here first may have made it meanwhile.
        held[path] = locks.enter_context(lock_directory(path))
        return _read_meta(path)

    found = _read_all(paths, look, offline, cluster_id, node_id)
    found = _read_all(list(found), lock, offline, cluster_id, node_id)
    online = []
    for path, meta in found.items():
        complete = meta or MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=None)
        try:
            online.append(_complete(path, complete, held[path], random_bytes))
        except OSError as error:
            offline.append(OfflineDirectory(path=path, reason=str(error), remedy=remedy(error)))
    if not online:
        raise DirectoryError([f"{one.path} is unusable: {one.reason}; {one.remedy}" for one in offline])
    return OpenedDirectories(online=tuple(online), offline=tuple(offline))


def _read_all(
    paths: Sequence[Path],
    read: Callable[[Path], MetaProperties | None],
    offline: list[OfflineDirectory],
    cluster_id: str,
    node_id: int,
) -> dict[Path, MetaProperties | None]:
    """Read every directory; those that cannot be are added to `offline`. Raises `DirectoryError` when a rule is broken."""
    found: dict[Path, MetaProperties | None] = {}
    problems: list[str] = []
    for path in paths:
        try:
            found[path] = read(path)
        except DirectoryError as used:
            problems += used.problems
        except OSError as error:
            offline.append(OfflineDirectory(path=path, reason=str(error), remedy=remedy(error)))
        except ValueError as error:
            problems.append(f"{error}: restore the file, or empty the directory (its state is a cache)")
    problems += directory_problems({path: meta for path, meta in found.items() if meta is not None}, cluster_id=cluster_id, node_id=node_id)
    if problems:
        raise DirectoryError(problems)
    return found


def format_directories(
    paths: Sequence[Path],
    *,
    cluster_id: str,
    node_id: int,
    ignore_formatted: bool = False,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> list[DataDirectory]:
    """Write meta.properties into every directory; all must be usable. Raises `DirectoryError`.

    A directory that is formatted already is an error, before anything is written, unless `ignore_formatted` keeps it.
    """
    problems = []
    for path in paths:
        # An unusable directory is found here, not by open_directories: that one would write the others first.
        try:
            path.mkdir(parents=True, exist_ok=True)
            if (path / META_PROPERTIES).exists() and not ignore_formatted:
                problems.append(f"{path} is formatted already: use --ignore-formatted to keep it")
        except OSError as error:
            problems.append(f"{path} is unusable: {error}; {remedy(error)}")
    if problems:
        raise DirectoryError(problems)
    opened = open_directories(paths, cluster_id=cluster_id, node_id=node_id, random_bytes=random_bytes)
    opened.unlock()
    if opened.offline:
        raise DirectoryError([f"{one.path} is unusable: {one.reason}; {one.remedy}" for one in opened.offline])
    return list(opened.online)


def read_meta_properties(path: Path) -> MetaProperties | None:
    """Read the meta.properties of one directory; None when it has none. Raises `DirectoryError`."""
    try:
        return _read_meta(path)
    except (OSError, ValueError) as error:
        raise DirectoryError([f"{path}: {error}"]) from error


def lock_directory(path: Path) -> IO[bytes]:
    """Lock a directory for this process until the returned file is closed. Raises `DirectoryError` when another has it.

    The lock goes with the process, however it ends; the empty file stays.
    """
    file = (path / LOCK_FILE).open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DirectoryError([f"{path} is in use by another process: stop it, or give this one its own data.dirs"]) from None
    return file


def _read_meta(path: Path) -> MetaProperties | None:
    file = path / META_PROPERTIES
    try:
        content = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is no UTF-8 text: {error}") from error
    return parse_meta_properties(content, str(file))


def _complete(path: Path, meta: MetaProperties, lock: IO[bytes], random_bytes: Callable[[int], bytes]) -> DataDirectory:
    if meta.directory_id is not None:
        return DataDirectory(path=path, directory_id=meta.directory_id, lock=lock)
    directory_id = random_directory_id(random_bytes)
    _write_durably(path / META_PROPERTIES, format_meta_properties(replace(meta, directory_id=directory_id)))
    return DataDirectory(path=path, directory_id=directory_id, lock=lock)


def _write_durably(file: Path, content: str) -> None:
    """Replace a file so that a crash leaves the old or the new one, never half of it."""
    part = file.with_name(file.name + ".part")
    with part.open("w", encoding="utf-8") as writing:
        writing.write(content)
        writing.flush()
        os.fsync(writing.fileno())
    rename_durably(part, file)
