"""Schema levels of entries: none may be above the one in force, which metadata partition 0 says (`FeatureLevelSet`).

In partition 0 itself that is judged here. Elsewhere the first use of a level is reported, and the store compares it with what
partition 0 says, which is read at its own speed. Each is reported once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from records.history import levels, schema_of_level
from records.levels import LEVEL_LATEST
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.columns import Int64s
from spark_jobs.scan.entries import Piece
from spark_jobs.scan.summary import FindingRow, LevelRow

HEADER_SIZE_BYTES = 10
DIRECTORY = 0
"""The partition of the metadata topic that says which level is in force."""

_FINGERPRINTS = {level: np.frombuffer(schema_of_level(level).header[2:], np.uint64)[0] for level in levels()}


class Levels:
    """The levels of one partition of the metadata topic; see the module's text."""

    def __init__(self, kpart: int, level: int, audit: Audit) -> None:
        self._kpart = kpart
        self._audit = audit
        self._raised: list[tuple[int, int]] = []
        self.level = level
        self.uses: list[LevelRow] = []

    def forget(self) -> None:
        """Entries were lost: the level may have been raised by one of them."""
        self.level = LEVEL_LATEST

    def raise_to(self, level: int, offset: int) -> None:
        """An entry that takes effect raises the level for later ones."""
        self._raised.append((offset, level))

    def check(self, piece: Piece, live: Int64s) -> None:
        """Look at entries that count, when everything in them was applied."""
        raised, self._raised = self._raised, []
        if self.level >= LEVEL_LATEST:
            return
        for index, level in self._above(piece, live):
            offset = int(piece.offsets[index])
            while raised and raised[0][0] < offset:
                self.level = max(self.level, raised.pop(0)[1])
            if level > self.level:
                self._tell(piece, index, level)
        self.level = max([self.level, *(level for _, level in raised)])

    def _above(self, piece: Piece, live: Int64s) -> list[tuple[int, int]]:
        """The entries above the level, and theirs, in order."""
        live = live[piece.ends[live] - piece.starts[live] >= HEADER_SIZE_BYTES]
        if not len(live):
            return []
        raw: npt.NDArray[np.uint8] = piece.data[piece.starts[live, None] + np.arange(2, HEADER_SIZE_BYTES)]
        names = np.ascontiguousarray(raw).view(np.uint64).ravel()
        found = [
            (int(index), level)
            for level, fingerprint in _FINGERPRINTS.items()
            if level > self.level
            for index in live[names == fingerprint].tolist()
        ]
        return sorted(found)

    def _tell(self, piece: Piece, index: int, level: int) -> None:
        offset = int(piece.offsets[index])
        if self._kpart == DIRECTORY:
            message = f"an entry is written at schema level {level}, level {self.level} is in force"
            self._audit.find(FindingRow(self._kpart, offset, "level-not-in-force", message, expected=self.level, found=level))
        else:
            self.uses.append(LevelRow(self._kpart, offset, level))
        self.level = level
