"""Coordinators in memory that stand to object keys as FenceFiles says, and fall silent when they are told to."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import FileStanding, Outcome
from coordinator.kafka.errors import ErrorCode


class MadeCoordinators:
    """`Owners` of an orphan scan, and the commits that race with it."""

    def __init__(self, count: int) -> None:
        self.standings: list[dict[str, FileStanding]] = [{} for _ in range(count)]
        self.silent: set[int] = set()
        """Coordinators that cannot answer."""
        self.asked: list[tuple[int, int, bool]] = []
        """Coordinator, number of keys, and whether it was only to tell."""
        self.times: dict[str, int] = {}

    async def count(self) -> int:
        return len(self.standings)

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        """What happens when a coordinator is asked; an outcome is its answer."""
        silent = Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="no leader now")
        return silent if coordinator_id in self.silent else None

    async def ask(
        self, coordinator_id: int, keys: Sequence[str], created_ms: Sequence[int], *, only_tell: bool = False
    ) -> list[FileStanding] | Outcome:
        if (outcome := await self.before(coordinator_id, only_tell)) is not None:
            return outcome
        self.asked.append((coordinator_id, len(keys), only_tell))
        known = self.standings[coordinator_id]
        if not only_tell:
            self.times.update(zip(keys, created_ms, strict=True))
            for key in keys:
                known.setdefault(key, FileStanding.FENCED)
        return [known.get(key, FileStanding.UNKNOWN) for key in keys]

    def commit(self, coordinator_id: int, key: str) -> bool:
        """Commit a file of one batch; False when it is refused, because the coordinator has promised so."""
        return self.standings[coordinator_id].setdefault(key, FileStanding.LIVE) is FileStanding.LIVE
