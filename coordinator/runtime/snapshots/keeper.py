"""The snapshots of a node: where it leads it takes them and prunes the log, where it follows it verifies them.

Each metadata partition is looked at about once a second. Takes, verifications and prunes of one partition follow each other; those of
different partitions share one background thread. A failure is counted, remembered for operators, and tried again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.state.damage import StateFailed
from coordinator.core.yielding import Rest
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.pauses import doubled
from coordinator.runtime.ports import (
    DurableSnapshots,
    KafkaUnavailable,
    LocalSnapshots,
    SnapshotPiece,
    SnapshotStoreFailed,
    StateStores,
)
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.replica.state_writer import Marked
from coordinator.runtime.replica_config import ReplicaIdentity
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.snapshots.policy import OBJECTS_KEPT, Growth, why_due
from coordinator.runtime.snapshots.pruning import LogPruner, SnapshotsLost
from coordinator.runtime.snapshots.row_count import RowCount
from coordinator.runtime.snapshots.rules import SnapshotRules
from coordinator.runtime.snapshots.taking import SnapshotNotTaken, SnapshotTaker
from coordinator.runtime.snapshots.verifying import DigestDiffers, SnapshotVerifier
from coordinator.runtime.telemetry import SnapshotPurpose, Telemetry
from coordinator.runtime.threads import in_thread
from records.model import SnapshotCommitted
from records.snapshot import BadSnapshot, SnapshotId

LOG = logging.getLogger("coordinator.snapshots")

LOOK_S = (0.5, 1.5)
RETRY_MS = (5_000, 600_000)
"""After a failure the partition is left alone for so long; doubles with each: every attempt writes a whole snapshot."""
PRUNE_INTERVAL_MS = 5_000
CLEAN_UP = "clean up"
STEPS = ("look", "begin", "mark", "write", "upload", "commit", "verify", "prune", CLEAN_UP)
"""The steps that can fail; the last one removes useless snapshots from the data directory or the store."""


class KnownSnapshot(NamedTuple):
    """A committed snapshot. `is_verified`: this node has loaded it; `is_local`: a copy is in the data directory."""

    snapshot: SnapshotCommitted
    is_verified: bool
    is_local: bool


class PartitionSnapshots(NamedTuple):
    """The snapshots of one metadata partition, as a node knows them. `step` is the one under way, None while none is taken.

    `log_bytes` and `age_ms` count from the newest snapshot, as far as this process has seen; the age is -1 without a snapshot.
    """

    partition: int
    log_start: int
    applied_offset: int
    log_bytes: int
    age_ms: int
    step: str | None
    last_error: str
    known: tuple[KnownSnapshot, ...]
    prune_target: int
    prune_reason: str


@dataclass(slots=True)
class _Kept:
    """One metadata partition. `base_*` are the counters of the replica at its newest snapshot."""

    taker: SnapshotTaker
    verifier: SnapshotVerifier
    pruner: LogPruner
    local: LocalSnapshots
    row_count: RowCount
    newest_end: int = -1
    newest_at_ms: int = 0
    base_bytes: int = 0
    base_changed: int = 0
    next_try_ms: int = 0
    failures: int = 0
    """Failures since the last success."""
    step: str | None = None
    """The step under way, besides those of taking one."""
    next_prune_ms: int = 0
    last_error: str = ""
    refused_end: int = -1
    is_lost: bool = False
    """Whether a committed snapshot is not in the store any more."""
    local_ids: list[SnapshotId] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def use(self, stores: StateStores, local: LocalSnapshots) -> None:
        """Go on with another replica, whose counters have begun anew; what failed in another data directory is tried again at once."""
        self.base_bytes = self.base_changed = 0
        if self.local is not local:
            self.local = self.taker.local = self.verifier.local = local
            self.verifier.stores = stores
            self.local_ids, self.failures, self.next_try_ms = [], 0, 0


class SnapshotKeeper:
    """See the module's text; one per node. Without a durable store nothing is taken, and `describe` says so."""

    def __init__(
        self,
        context: NodeContext,
        *,
        durable: DurableSnapshots | None,
        rules: SnapshotRules,
        background: Executor,
        rest: Rest,
        telemetry: Telemetry,
    ) -> None:
        self.failures: Counter[tuple[int, str]] = Counter()
        """Failures by metadata partition and step."""
        self.digest_mismatches: Counter[int] = Counter()
        """Snapshots whose digest was not that of this replica at the mark, by metadata partition."""
        self._replicas = context.replicas
        self._context = context
        self._durable = durable
        self._rules = rules
        self._background = background
        self._rest = rest
        self._telemetry = telemetry
        self._clock_ms = context.clock_ms
        self._kept: dict[int, _Kept] = {}

    # ---- what replicas tell

    def loaded(self, identity: ReplicaIdentity, stores: StateStores, local: LocalSnapshots) -> None:
        """A replica is loaded: look after its snapshots from now on, in the data directory that it has now."""
        partition, durable = identity.partition, self._durable
        if durable is None:
            return
        if partition in self._kept:
            self._kept[partition].use(stores, local)
            return
        row_count = RowCount()
        self._kept[partition] = _Kept(
            taker=SnapshotTaker(
                local=local, durable=durable, background=self._background, rest=self._rest, rng=self._context.rng, row_count=row_count
            ),
            verifier=SnapshotVerifier(
                identity=identity,
                stores=stores,
                local=local,
                durable=durable,
                background=self._background,
                rest=self._rest,
                row_count=row_count,
            ),
            pruner=LogPruner(self._context, identity=identity, durable=durable, rules=self._rules),
            local=local,
            row_count=row_count,
            newest_at_ms=self._clock_ms(),
        )
        self._context.spawn(self._keep(partition), f"snapshots-{partition}")

    def marked(self, partition: int, marked: Marked) -> None:
        """The state database of a replica ends at a mark."""
        kept = self._kept.get(partition)
        if kept is not None:
            kept.taker.marked(marked)
        elif marked.pinned is not None:
            asyncio.get_running_loop().run_in_executor(self._background, marked.pinned.close)

    # ---- what operators ask

    async def take(self, partition: int, timeout_ms: int) -> Outcome:
        """Take a snapshot of a coordinator that this node leads; done when it is committed."""
        kept, replica = self._kept.get(partition), self._replicas.get(partition)
        if self._durable is None:
            return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"no snapshot can be taken: {self._rules.off_because}")
        if kept is None or replica is None or replica.view is None or not replica.view.is_leading:
            message = f"this node does not lead coordinator {partition}; find it and retry"
            return Outcome(error=ErrorCode.NOT_COORDINATOR, message=message)
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        # A task of its own: what was begun goes on when the one who asked waits no longer.
        self._context.spawn(self._take_asked(kept, replica, done), f"snapshot-{partition}")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(done)
        except TimeoutError:
            message = (
                f"coordinator {partition}: the snapshot was not committed within {timeout_ms} ms;"
                " `diskless snapshots list` shows whether it was later"
            )
            return Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message=message)

    async def _take_asked(self, kept: _Kept, replica: Replica, done: asyncio.Future[Outcome]) -> None:
        try:
            async with kept.lock:
                await self._take(kept, replica, "asked for")
        except SnapshotNotTaken as failed:
            self._failed(replica.partition, kept, failed.step, str(failed))
            done.set_result(Outcome(error=failed.error, message=f"coordinator {replica.partition}: {failed}"))
        except StateFailed as failed:
            # The snapshot is committed, only older ones could not be removed.
            self._failed(replica.partition, kept, CLEAN_UP, str(failed))
            kept.step = None
            done.set_result(OK)
        else:
            done.set_result(OK)

    def describe(self, partition: int) -> PartitionSnapshots | None:
        """Describe the snapshots of a coordinator as this node knows them; None while its replica is not loaded."""
        replica = self._replicas.get(partition)
        view = None if replica is None else replica.view
        if replica is None or view is None:
            return None
        kept = self._kept.get(partition)
        if kept is None:
            known = tuple(KnownSnapshot(one, is_verified=False, is_local=False) for one in view.snapshots)
            return PartitionSnapshots(
                partition, -1, view.applied_offset, replica.log_bytes, -1, None, "", known, -1, self._rules.off_because
            )
        return PartitionSnapshots(
            partition=partition,
            log_start=kept.pruner.log_start,
            applied_offset=view.applied_offset,
            log_bytes=replica.log_bytes - kept.base_bytes,
            age_ms=self._clock_ms() - kept.newest_at_ms if view.snapshots else -1,
            step=kept.taker.step or kept.step,
            last_error=kept.last_error,
            known=tuple(
                KnownSnapshot(
                    one,
                    is_verified=one.end_offset <= kept.verifier.verified_end,
                    is_local=SnapshotId(one.end_offset, one.epoch) in kept.local_ids,
                )
                for one in view.snapshots
            ),
            prune_target=kept.pruner.prune.before_offset,
            prune_reason=kept.pruner.prune.reason,
        )

    def verified_end(self, partition: int) -> int:
        """The end of the newest snapshot that this node has loaded and found right; -1 for none."""
        kept = self._kept.get(partition)
        return -1 if kept is None else kept.verifier.verified_end

    async def read(self, partition: int, snapshot_id: SnapshotId, position: int, max_bytes: int) -> SnapshotPiece | None:
        """A piece of a snapshot in the data directory; None when it is not there. Raises `DirectoryFailed`."""
        kept = self._kept.get(partition)
        if kept is None:
            return None
        return await in_thread(self._background, lambda: kept.local.read(snapshot_id, position, max_bytes))

    # ---- one metadata partition

    async def _keep(self, partition: int) -> None:
        """Look after one partition while it is followed."""
        while True:
            await asyncio.sleep(self._context.rng.uniform(*LOOK_S))
            kept, replica = self._kept[partition], self._replicas.get(partition)
            if replica is None:
                del self._kept[partition]
                return
            view = replica.view
            if view is None or kept.lock.locked() or self._clock_ms() < kept.next_try_ms:
                continue
            async with kept.lock:
                try:
                    self._note_newest(kept, replica)
                    kept.local_ids = await in_thread(self._background, kept.local.ids)
                    if view.is_leading:
                        await self._take_if_due(kept, replica)
                        await self._prune_if_due(kept, replica)
                    elif view.snapshots and view.snapshots[-1].end_offset > max(kept.verifier.verified_end, kept.refused_end):
                        await self._verify(kept, view.snapshots[-1])
                except SnapshotNotTaken as failed:
                    self._failed(partition, kept, failed.step, str(failed))
                except (KafkaUnavailable, SnapshotStoreFailed, StateFailed, OSError) as failed:
                    kept.is_lost |= isinstance(failed, SnapshotsLost)
                    self._failed(partition, kept, kept.step or "look", str(failed))
                except BadSnapshot as bad:
                    kept.refused_end = max((one.end_offset for one in view.snapshots), default=-1)
                    self.digest_mismatches[partition] += isinstance(bad, DigestDiffers)
                    self._failed(partition, kept, kept.step or "look", str(bad))
                except Exception as error:
                    # Any error: commits do not depend on snapshots, so the node goes on and logs the error.
                    LOG.exception("snapshots failed unforeseen partition=%d", partition)
                    self._failed(partition, kept, kept.step or "look", repr(error))
                finally:
                    kept.step = None

    def _note_newest(self, kept: _Kept, replica: Replica) -> None:
        view = replica.view
        newest = view.snapshots[-1].end_offset if view is not None and view.snapshots else -1
        if newest > kept.newest_end:
            kept.newest_end, kept.newest_at_ms = newest, self._clock_ms()
            kept.base_bytes, kept.base_changed = replica.log_bytes, replica.writer.written_batches

    async def _take_if_due(self, kept: _Kept, replica: Replica) -> None:
        view = replica.view
        if view is None or view.is_trimming:
            return
        newest = view.snapshots[-1] if view.snapshots else None
        growth = Growth(
            # The record of the newest snapshot itself, and what marked it, are no reason for another one.
            entries=view.applied_offset - (newest.end_offset + 1 if newest is not None else 0),
            log_bytes=max(0, replica.log_bytes - kept.base_bytes),
            changed=replica.writer.written_batches - kept.base_changed,
            rows=kept.row_count.rows if newest is not None else 0,
            snapshot_bytes=newest.size_bytes if newest is not None else 0,
            age_ms=self._clock_ms() - kept.newest_at_ms,
        )
        reason = "one that was committed is not in the store any more" if kept.is_lost else why_due(growth, self._rules)
        if reason is not None:
            await self._take(kept, replica, reason)

    async def _take(self, kept: _Kept, replica: Replica, reason: str) -> None:
        """Take a snapshot. Raises `SnapshotNotTaken`."""
        started = asyncio.get_running_loop().time()
        snapshot = await kept.taker.take(replica)
        seconds = asyncio.get_running_loop().time() - started
        self._telemetry.snapshot_taken(seconds)
        kept.last_error, kept.failures, kept.is_lost = "", 0, False
        self._note_newest(kept, replica)
        LOG.info(
            "snapshot taken partition=%d end_offset=%d bytes=%d seconds=%.3f reason=%r",
            replica.partition,
            snapshot.end_offset,
            snapshot.size_bytes,
            seconds,
            reason,
        )
        await self._keep_newest(kept)

    async def _verify(self, kept: _Kept, snapshot: SnapshotCommitted) -> None:
        kept.step = "verify"
        started = asyncio.get_running_loop().time()
        await kept.verifier.verify(snapshot, kept.taker.marks)
        self._telemetry.snapshot_loaded(SnapshotPurpose.PROOF, asyncio.get_running_loop().time() - started)
        kept.last_error, kept.failures = "", 0
        LOG.info("snapshot verified location=%s end_offset=%d", snapshot.location, snapshot.end_offset)
        await self._keep_newest(kept)

    async def _keep_newest(self, kept: _Kept) -> None:
        kept.step = CLEAN_UP
        await in_thread(self._background, lambda: kept.local.keep(OBJECTS_KEPT))
        kept.step = None

    async def _prune_if_due(self, kept: _Kept, replica: Replica) -> None:
        now_ms = self._clock_ms()
        view = replica.view
        if view is None or now_ms < kept.next_prune_ms:
            return
        kept.next_prune_ms = now_ms + PRUNE_INTERVAL_MS
        kept.step = "prune"
        decide = partial(kept.pruner.decide, is_restore_open=replica.partition == DIRECTORY_PARTITION and view.is_restore_open)
        prune = await decide(view.snapshots, kept.verifier.verified_end)
        if prune.before_offset < 0 and prune.needs_own_proof:
            # Alone: no other node can verify it.
            await self._verify(kept, view.snapshots[-1])
            kept.step = "prune"
            prune = await decide(view.snapshots, kept.verifier.verified_end)
        # Between the decision and here leadership may have gone: what is applied decided, so that does no harm.
        stored = await kept.pruner.carry_out(prune, view.snapshots)
        kept.step = CLEAN_UP
        await kept.pruner.look_after_store(view.snapshots, stored)

    def _failed(self, partition: int, kept: _Kept, step: str, reason: str) -> None:
        self.failures[partition, step] += 1
        kept.last_error = f"{step}: {reason}" if not reason.startswith(f"{step}: ") else reason
        first_ms, longest_ms = RETRY_MS
        kept.next_try_ms = self._clock_ms() + round(doubled(first_ms, kept.failures, longest_ms))
        kept.failures += 1
        LOG.error("snapshots failed partition=%d step=%s reason=%r", partition, step, reason)
