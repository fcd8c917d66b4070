"""Which topics changed since an offset of the directory's log, so that a listing that is asked for each second costs nothing.

The directory says what there is, not what changed. So it is compared with what was seen at the last question, when it has changed
since then. Invariant: `since(offset)` has every topic that changed behind the offset, and perhaps some that changed before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.core.directory.directory import Directory, Placement
from coordinator.core.directory.topic_settings import settings_of

REMEMBERED_MAX: Final = 10_000
"""The number of changes that are remembered; who asks for more gets all topics."""

Seen = tuple[Placement, Mapping[str, str]]


class ChangesOfTopics:
    """See the module's text. Used on the event loop of a node."""

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._is_dirty = True
        self._directory: Directory | None = None
        self._seen: dict[bytes, Seen] = {}
        self._changed: dict[bytes, int] = {}
        """The offset at which the last change of a topic was seen, ascending."""
        self._begins: int | None = None
        """Changes behind this offset are known."""

    def directory_changed(self) -> None:
        """Compare at the next question."""
        self._is_dirty = True

    def since(self, offset: int, directory: Directory, applied_offset: int) -> list[bytes] | None:
        """Return the topics that changed behind an offset; None when that is not known. `directory` is that at `applied_offset`."""
        if self._is_dirty or directory is not self._directory:
            self._look(directory, applied_offset)
        if self._begins is None or offset < self._begins:
            return None
        changed: list[bytes] = []
        for topic_id in reversed(self._changed):
            if self._changed[topic_id] <= offset:
                break
            changed.append(topic_id)
        return changed

    def _look(self, directory: Directory, applied_offset: int) -> None:
        seen = {topic_id: (one, settings_of(directory, topic_id)) for topic_id, one in directory.placements.items()}
        if self._begins is None:
            self._begins = applied_offset
        else:
            before = self._seen
            for topic_id in [*(i for i, one in seen.items() if _differs(before.get(i), one)), *(i for i in before if i not in seen)]:
                self._changed.pop(topic_id, None)
                self._changed[topic_id] = applied_offset
        while len(self._changed) > self._remembered_max:
            oldest = next(iter(self._changed))
            self._begins = max(self._begins, self._changed.pop(oldest))
        self._seen, self._directory, self._is_dirty = seen, directory, False


def _differs(before: Seen | None, now: Seen) -> bool:
    """Whether a topic is listed otherwise; that its owners have confirmed a placement changes no listing."""
    if before is None:
        return True
    (placed, settings), (placed_now, settings_now) = before, now
    if placed is placed_now and settings is settings_now:
        return False
    return (placed.name, placed.ranges, settings) != (placed_now.name, placed_now.ranges, settings_now)
