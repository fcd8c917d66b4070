"""Why this node should not lead: all partitions, or some of them. The group hears of it, and gives them to other nodes.

A node that cannot lead a partition (a newer version wrote its log, its log lost entries, its clock is wrong) refuses it, and stays in the
group for the others. It leads on what it leads until another node claims that. When every node refuses a partition, the group assigns it
all the same, because a coordinator without a leader serves nobody.
Nothing here writes to the log: a node that is not fit never claims, so it costs no epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

LOG = logging.getLogger("coordinator.membership")

UNSUPPORTED, UNLOADABLE, CLOCK, REFUSED, DIRECTORY, LOADING = "unsupported", "unloadable", "clock", "refused", "directory", "loading"
KINDS = (UNSUPPORTED, UNLOADABLE, CLOCK, REFUSED, DIRECTORY, LOADING)
"""Words for metrics: a newer version wrote the log; the log lost what the state has; this node's clock is off; Kafka refuses entries;
the data directory of a replica has failed; an assigned partition does not come to leading in time."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why this node should not lead: all partitions, or one of them. `kind` is a word for metrics, `reason` a sentence for people."""

    kind: str
    reason: str
    partition: int | None = None


class LeadRefusals:
    """See the module's text; one per node."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when the group should hear of it."""
        self._changed = changed
        self._unfit: dict[tuple[str, int | None], Unfit] = {}

    def withhold(self, kind: str, reason: str, partition: int | None = None) -> None:
        """Refuse a partition, or all, until `release`."""
        unfit = Unfit(kind, reason, partition)
        before = self._unfit.get((kind, partition))
        if before == unfit:
            return
        self._unfit[(kind, partition)] = unfit
        LOG.error("this node refuses to lead kind=%s partition=%s reason=%r", kind, "all" if partition is None else partition, reason)
        if before is None:
            self._changed()

    def release(self, kind: str, partition: int | None = None) -> None:
        """Withdraw the reason that `withhold` gave for this kind and partition."""
        if self._unfit.pop((kind, partition), None) is not None:
            LOG.info("this node may lead again kind=%s partition=%s", kind, "all" if partition is None else partition)
            self._changed()

    @property
    def reason(self) -> str | None:
        """Why this node refuses partitions, all or some; None while it does not."""
        return "; ".join(unfit.reason for unfit in self._unfit.values()) or None

    def kinds(self) -> frozenset[str]:
        """The kinds of reasons for which this node refuses partitions."""
        return frozenset(kind for kind, _ in self._unfit)

    @property
    def is_total(self) -> bool:
        """Whether this node refuses all partitions."""
        return any(partition is None for _, partition in self._unfit)

    def includes(self, partition: int) -> bool:
        """Whether this node refuses a partition."""
        return any(unfit.partition in (None, partition) for unfit in self._unfit.values())

    def of(self, partitions: Iterable[int]) -> frozenset[int]:
        """Return those of the partitions that this node refuses."""
        return frozenset(filter(self.includes, partitions)) if self._unfit else frozenset()
