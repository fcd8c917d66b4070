"""The home of each replica: the data directory in which its state database is.

A database that is there already makes its directory the home. Of several of one partition, which a crash during a move or a directory
that was away can leave, the one that is further on wins; it is proven against the log as any other, and only when it is loaded are the
others removed. Without a database the home is the online directory with the fewest replicas, the first in the order of `data.dirs`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from coordinator.core.state.damage import DirectoryFailed
from coordinator.runtime.directories.port import StateDirectory

LOG = logging.getLogger("coordinator.directories")


class Homes:
    """See the module's text."""

    def __init__(self, directories: Sequence[StateDirectory]) -> None:
        self.online: list[StateDirectory] = list(directories)
        """The directories that are in use, in the order of `data.dirs`."""
        self._homes: dict[int, StateDirectory] = {}
        self._copies: dict[int, list[StateDirectory]] = {}
        self._spares: dict[int, None] = {}

    def find(self, cluster_id: str, topic_id: bytes) -> list[tuple[StateDirectory, DirectoryFailed]]:
        """Look for the databases of a log; returns the directories that failed meanwhile. Blocks.

        Raises `StateFailed`, when a database is in use.
        """
        holders: dict[int, list[StateDirectory]] = {}
        failed: list[tuple[StateDirectory, DirectoryFailed]] = []
        for directory in self.online:
            try:
                for partition in directory.partitions():
                    holders.setdefault(partition, []).append(directory)
            except DirectoryFailed as error:
                failed.append((directory, error))
        for partition, found in holders.items():
            self._copies[partition] = found
            if len(found) > 1:
                offsets = {}
                for one in found:
                    try:
                        offsets[one.directory_id] = one.applied_offset(partition, cluster_id, topic_id)
                    except DirectoryFailed as error:
                        offsets[one.directory_id] = -1
                        failed.append((one, error))
                found.sort(key=lambda one: -offsets[one.directory_id])
                LOG.warning(
                    "several state databases partition=%d used=%s others=%s applied_offsets=%s",
                    partition,
                    found[0].path,
                    ",".join(one.path for one in found[1:]),
                    ",".join(str(offsets[one.directory_id]) for one in found),
                )
        return failed

    def home(self, partition: int) -> StateDirectory:
        """The home of a replica, which is chosen when it has none. There is an online directory."""
        home = self._homes.get(partition)
        self._spares.pop(partition, None)
        if home is None:
            home = self._homes[partition] = self._choose(partition)
        return home

    def known(self, partition: int) -> StateDirectory | None:
        """The home of a replica; None when none was chosen."""
        return self._homes.get(partition)

    def living_in(self, directory: StateDirectory) -> list[int]:
        """The partitions whose home is a directory."""
        return sorted(partition for partition, home in self._homes.items() if home is directory)

    def take_away(self, directory: StateDirectory) -> None:
        """A directory is not to be used any more: no home is chosen there, and databases in it do not count."""
        self.online = [one for one in self.online if one is not directory]
        for copies in self._copies.values():
            if directory in copies:
                copies.remove(directory)

    def leave(self, partition: int) -> None:
        """Have the next `home` choose anew; a database in another directory counts."""
        self._homes.pop(partition, None)

    def retire(self, partition: int) -> None:
        """The replica of a partition is closed and not needed: its database stays where it is as a spare."""
        home = self._homes.pop(partition, None)
        if home is not None and home in self.online:
            self._copies[partition] = [home, *(one for one in self._copies.get(partition, ()) if one is not home)]
            self._spares[partition] = None

    def found(self) -> list[int]:
        """The partitions that have a database in a directory that is online."""
        return [partition for partition, found in self._copies.items() if found]

    def spares(self) -> dict[int, StateDirectory]:
        """The spares and where they are, the one first that was retired first."""
        return {partition: self._copies[partition][0] for partition in self._spares if self._copies.get(partition)}

    def move(self, partition: int, directory: StateDirectory) -> None:
        """A replica has another home from now on, and its former database there counts as a further one."""
        former = self._homes.get(partition)
        self._homes[partition] = directory
        copies = self._copies.setdefault(partition, [])
        if former is not None and former in self.online and former not in copies:
            copies.append(former)

    def superfluous(self, partition: int) -> list[StateDirectory]:
        """The other online directories with a database of a partition that is loaded."""
        home = self._homes.get(partition)
        return [] if home is None else [one for one in self._copies.get(partition, ()) if one is not home]

    def removed(self, partition: int, directory: StateDirectory) -> None:
        """The database of a partition in a directory is gone."""
        self._copies[partition] = [one for one in self._copies.get(partition, ()) if one is not directory]
        if not self._copies[partition]:
            self._spares.pop(partition, None)

    def _choose(self, partition: int) -> StateDirectory:
        copies = self._copies.get(partition)
        if copies:
            return copies[0]
        living = Counter(home.directory_id for home in self._homes.values())
        # Databases that no replica has opened yet count as well: all are found before the first home is chosen.
        for other, found in self._copies.items():
            if other not in self._homes and found:
                living[found[0].directory_id] += 1
        return min(self.online, key=lambda one: living[one.directory_id])
