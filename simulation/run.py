"""Lives one scenario: the cluster comes up, clients work while things go wrong, everything must heal, and then agree.

    outcome = simulate(scenario)

Deterministic: the same scenario and code give the same outcome and the same trace hash, whatever the hash seed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator.core.limits import ENTRY_RESERVE_BYTES, Limits
from coordinator.core.state.damage import StateFailed
from coordinator.kafka.topic_configs import Retention
from coordinator.runtime.files.rules import NO_SCANS, FileRules, ScanRules
from coordinator.runtime.retention.rules import RetentionRules
from coordinator.runtime.snapshots.keys import parse_snapshot_key
from coordinator.runtime.snapshots.rules import SnapshotRules
from records.levels import LEVEL_LATEST
from records.snapshot import BadSnapshot, SnapshotReader
from simulation.ending import Ending
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_log import FakeLog, Faults
from simulation.fakes.objects import FakeObjectStore, StoreFault
from simulation.fakes.snapshots import FakeObjects, SnapshotFault
from simulation.fakes.state_store import MemoryStateStores
from simulation.faults import NORMAL_NETWORK_MS, FaultMaker
from simulation.fold import HELD
from simulation.gateways.world import GatewayWorld
from simulation.judge import Judge
from simulation.loop import START_MS, VirtualLoop, VirtualTime
from simulation.network import Network, NetworkPeers
from simulation.process import TERM_TIMEOUT_MS, SimulatedProcess, Surroundings
from simulation.produced import GATEWAY_PREFIX, JudgedRecords
from simulation.protections.weakened import without
from simulation.restored import FinishingOperator, begin_restored
from simulation.scenario import Scenario, SimulatedGateways
from simulation.story import Story, Violation
from simulation.succession import Succession
from simulation.workload.clients import (
    Admin,
    Clients,
    DeletingClient,
    DescribingClient,
    FindingClient,
    MovingOperator,
    ReadingClient,
)
from simulation.workload.committing import CarelessClient, CommittingClient
from simulation.workload.keeping import KeepingClient
from simulation.workload.uploads import PREFIX, UNUSUAL_KEYS, Uploads

HEAL_S = 60.0
SUCCESSION_S = 30.0
LOOK_S = 0.25
EXPIRY_MS = 700
CLEANER_MS = 150
CLEANED_FILES_MAX = 20
FILES_GO_S = 120.0
"""How long after the last fault the last object may go: a cleaner that met failures pauses for long."""
SCAN_GRACE_S = 0.5
STALLED_S = 6.0
FAST_FOLDER = Path("/dev/shm")
"""Snapshots of a run are files; in memory where the machine has such a folder."""
FILE_FAULTS = [fault for fault in StoreFault if fault is not StoreFault.NONE]
STORE_FAULTS = [fault for fault in SnapshotFault if fault is not SnapshotFault.NONE]
OLD_LEVEL = LEVEL_LATEST - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The result of a run; `violation` is None when every rule held.

    `answers` counts judged commit answers, `looks` how often a replica was compared with the log, `transactions` those that ended.
    """

    scenario: Scenario
    violation: Violation | None
    story: str
    trace_hash: str
    answers: int
    looks: int
    claims: int
    transactions: int
    transactions_cut_off: int
    schema_level: int
    objects_removed: int
    """How many objects of files were deleted, by whomever."""
    batches_expired: int
    """How many batches were deleted because they were past retention."""
    moves: int
    """How many partitions have moved."""
    move_steps: tuple[str, ...]
    """The details of the faults at steps of moves whose moments came."""
    acknowledged: int
    """How many batches gateways have acknowledged."""
    virtual_s: float


def simulate(scenario: Scenario, *, is_detailed: bool = False) -> RunOutcome:
    """Live one scenario; `is_detailed` keeps single requests in the story and the product's own log lines."""
    with without(scenario.weakened), _logging(is_detailed) as lines:
        run = Run(scenario, is_detailed)
        lines.story = run.story
        try:
            run.live()
        finally:
            # Tearing down is no part of the story.
            run.story.is_over = True
            run.time.on_error = lambda _loop, _context: None
            run.time.close()
            run.close()
    return RunOutcome(
        scenario=scenario,
        violation=run.judge.violation,
        story=run.story.text(),
        trace_hash=run.story.trace_hash,
        answers=run.judge.answers,
        looks=run.judge.looks,
        claims=sum(fold.claims for fold in run.judge.folds),
        transactions=sum(fold.transactions for fold in run.judge.folds),
        transactions_cut_off=sum(fold.cut_off for fold in run.judge.folds),
        schema_level=run.judge.folds[0].schema_level,
        objects_removed=0 if run.judge.objects is None else len(run.judge.objects.removed_keys),
        batches_expired=0 if run.judge.retention is None else run.judge.retention.expired_batches,
        moves=run.judge.folds[0].moves,
        move_steps=tuple(run.faults.move_steps.reached),
        acknowledged=0 if run.judge.records is None else run.judge.records.acknowledgements,
        virtual_s=run.time.now_s,
    )


class _Lines(logging.Handler):
    """Puts the product's log lines into the story."""

    def __init__(self) -> None:
        super().__init__()
        self.story: Story | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.story is not None:
            self.story.mention(f"  log: {record.getMessage()}")


@contextmanager
def _logging(is_detailed: bool) -> Iterator[_Lines]:
    """Keep the product's log lines for the story, or away from everything."""
    lines = _Lines()
    loggers = [logging.getLogger(package) for package in ("coordinator", "gateway")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    disabled = logging.root.manager.disable
    if is_detailed:
        for logger in loggers:
            logger.addHandler(lines)
            logger.setLevel(logging.INFO)
            logger.propagate = False
    else:
        logging.disable(logging.CRITICAL)
    try:
        yield lines
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(lines)
            logger.setLevel(level)
            logger.propagate = propagate
        logging.disable(disabled)


class WatchedLog(FakeLog):
    """A log whose entries the judge sees as they land."""

    def __init__(
        self, partition: int, judge: Judge, on_pruned: Callable[[int, int], None], on_landed: Callable[[int, bytes | None], None]
    ) -> None:
        super().__init__()
        self._on_landed = on_landed
        self._partition = partition
        self._judge = judge
        self._on_pruned = on_pruned

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> int:
        """Append an entry and return its offset."""
        offset = super().append(key, value, timestamp_ms)
        self._judge.landed(self._partition, offset, key, value)
        if key is not None:
            self._on_landed(self._partition, value)
        return offset

    def delete_before(self, offset: int) -> None:
        """Delete entries: a snapshot must replace them."""
        super().delete_before(offset)
        self._on_pruned(self._partition, offset)


def limits_of(scenario: Scenario) -> Limits:
    """The limits of every node; producers are forgotten within the run where the scenario says so."""
    limits = Limits(groups_in_flight_max=scenario.groups_in_flight, term_timeout_ms=TERM_TIMEOUT_MS)
    if scenario.producers_kept_s:
        limits = replace(limits, producer_id_expiration_ms=int(scenario.producers_kept_s * 1000), expiration_interval_ms=EXPIRY_MS)
    if scenario.files is not None:
        limits = replace(
            limits,
            file_commit_max_age_ms=int(scenario.files.commit_age_s * 1000),
            file_fence_retention_ms=int(scenario.files.fence_kept_s * 1000),
            expiration_interval_ms=EXPIRY_MS,
        )
    return limits


def file_rules_of(scenario: Scenario) -> FileRules | None:
    """The rules of every node for objects that no state needs."""
    life = scenario.files
    if life is None:
        return None
    return FileRules(
        commit_max_age_ms=int(life.commit_age_s * 1000),
        delete_grace_ms=int(life.grace_s * 1000),
        interval_ms=CLEANER_MS,
        max_files_per_cycle=CLEANED_FILES_MAX,
    )


def scan_rules_of(scenario: Scenario) -> ScanRules:
    """The rules of every node for orphans."""
    life = scenario.files
    if life is None or not life.scan_s:
        return NO_SCANS
    return ScanRules(prefix=PREFIX, interval_ms=int(life.scan_s * 1000), age_ms=int((life.commit_age_s + SCAN_GRACE_S) * 1000))


def retention_rules_of(scenario: Scenario) -> RetentionRules:
    """The rules of every node for batches that are past retention."""
    kept = scenario.retention
    if kept is None:
        return RetentionRules(check_interval_ms=500) if scenario.movers else RetentionRules()
    default = Retention(ms=kept.default_ms, size_bytes=kept.default_bytes)
    return RetentionRules(default=default, check_interval_ms=int(kept.check_s * 1000))


def snapshot_rules_of(scenario: Scenario) -> SnapshotRules | None:
    """The rules of every node: a snapshot every few seconds."""
    if not scenario.snapshot_bytes:
        return None
    return SnapshotRules(bytes_between=scenario.snapshot_bytes, changed_ratio_min=0.1, interval_ms=5_000, lag_time_max_ms=20_000)


class Run:
    """The parts of one run."""

    def __init__(self, scenario: Scenario, is_detailed: bool) -> None:
        self.scenario = scenario
        self.limits = limits_of(scenario)
        time = self.time = VirtualTime()
        world = self.world = time.new_loop("world")
        self.story = Story(lambda: time.now_s, is_detailed=is_detailed)
        self.judge = Judge(
            story=self.story,
            now_s=lambda: time.now_s,
            scenario=scenario,
            stop=self._stop,
            producers_kept_ms=self.limits.producer_id_expiration_ms,
            fences_kept_ms=self.limits.file_fence_retention_ms,
        )
        time.on_error = self._failed
        self.kafka = FakeKafka(
            loop=world,
            rng=self._rng("kafka"),
            partitions=scenario.partitions,
            clock_ms=lambda: START_MS + int(time.now_s * 1000),
            faults=Faults(network_ms=NORMAL_NETWORK_MS, rebalance_ms=(20.0, 300.0), late_ms=700.0),
        )
        if scenario.entry_bytes_max:
            self.kafka.config["max.message.bytes"] = str(scenario.entry_bytes_max + ENTRY_RESERVE_BYTES)
        self.kafka.logs = [WatchedLog(partition, self.judge, self._pruned, self._landed) for partition in range(scenario.partitions)]
        self._folder = TemporaryDirectory(prefix="diskless-simulation-", dir=FAST_FOLDER if FAST_FOLDER.is_dir() else None)
        self.objects = self._make_objects()
        network = Network(rng=self._rng("network"), world=world, on_late=self.judge.answered_late)
        around = Surroundings(
            time=time,
            world=world,
            kafka=self.kafka,
            judge=self.judge,
            story=self.story,
            seed=scenario.seed,
            partitions=scenario.partitions,
            limits=self.limits,
            snapshots=snapshot_rules_of(scenario),
            objects=self.objects,
            files=file_rules_of(scenario),
            scans=scan_rules_of(scenario),
            retention=retention_rules_of(scenario),
            open_store=self._open_store,
            folder=Path(self._folder.name),
            directories=scenario.directories,
            open_peers=lambda process: NetworkPeers(network, process),
        )
        skews = (*scenario.skews_ms, *[0] * scenario.nodes)
        self.processes = {
            node_id: SimulatedProcess(around, node_id, skews[node_id], OLD_LEVEL if node_id in scenario.old_nodes else LEVEL_LATEST)
            for node_id in range(scenario.nodes)
        }
        network.processes = self.processes
        self.clients = Clients(
            judge=self.judge, story=self.story, network=network, loop=world, nodes=scenario.nodes, partitions=scenario.partitions
        )
        if scenario.files is not None and self.judge.objects is not None:
            self.clients.uploads = Uploads(scenario.files, self.objects, self.judge, self.judge.objects, lambda: time.now_s)
        self.gateways = None if scenario.gateways is None else self._open_gateways(scenario.gateways, network)
        self.faults = FaultMaker(
            rng=self._rng("faults"),
            time=time,
            world=world,
            kafka=self.kafka,
            network=network,
            judge=self.judge,
            story=self.story,
            processes=self.processes,
            gateways=None if self.gateways is None else self.gateways.faults,
        )
        network.on_request = self.faults.move_steps.request
        self._store_rng = self._rng("files store")

    def _make_objects(self) -> FakeObjects:
        time, faults, rng = self.time, self.scenario.store_faults, self._rng("object store")

        def fault_of(_call: str, _key: str) -> SnapshotFault:
            is_fault = rng.random() < faults and not self.faults.is_over
            return rng.choice(STORE_FAULTS) if is_fault else SnapshotFault.NONE

        objects = FakeObjects(now_ms=lambda: START_MS + int(time.now_s * 1000), fault_of=fault_of, delay_s=lambda: rng.uniform(0.001, 0.1))
        if self.judge.objects is not None:
            objects.on_removed = self.judge.objects.removed
        return objects

    def _open_gateways(self, life: SimulatedGateways, network: Network) -> GatewayWorld:
        judged = self.judge.objects
        self.judge.records = records = JudgedRecords(self.objects, self.judge.folds, self.judge.broken)
        if judged is not None:
            self.objects.on_put = lambda key: judged.uploaded(key) if key.startswith(GATEWAY_PREFIX) else None
        return GatewayWorld(
            self.scenario,
            life,
            time=self.time,
            world=self.world,
            network=network,
            clients=self.clients,
            objects=self.objects,
            records=records,
            story=self.story,
            rng_of=self._rng,
        )

    def _open_store(self) -> FakeObjectStore:
        """The store of objects as a node sees it."""
        rng, life = self._store_rng, self.scenario.files

        def fault_of(_call: str) -> StoreFault:
            is_fault = life is not None and not self.faults.is_over and rng.random() < life.store_faults
            return rng.choice(FILE_FAULTS) if is_fault else StoreFault.NONE

        return FakeObjectStore(
            self.objects,
            fault_of=fault_of,
            later=lambda work: self.world.call_later(rng.uniform(0.1, STALLED_S), work),
            stalled_s=STALLED_S,
        )

    def close(self) -> None:
        """Remove what the run has written."""
        self._folder.cleanup()

    def _landed(self, partition: int, value: bytes | None) -> None:
        self.faults.move_steps.landed(partition, value)

    def _pruned(self, partition: int, offset: int) -> None:
        """The log of a partition begins at an offset now: the store must have a snapshot that can be loaded and goes on from there."""
        if partition == 0 and self.judge.folds[0].is_restore_open:
            self.judge.broken(HELD, f"the log of the directory was pruned before {offset}")
        for key, stored in self.objects.by_key.items():
            named = parse_snapshot_key(key)
            if named is not None and named.partition == partition and named.end_offset >= offset and self._is_loadable(stored.data):
                return
        self.judge.broken(
            "the log begins behind a snapshot", f"partition {partition} was pruned before {offset}: no snapshot reaches there"
        )

    def _is_loadable(self, data: bytes) -> bool:
        file = Path(self._folder.name) / "looked-at"
        file.write_bytes(data)
        try:
            with SnapshotReader(file) as reader:
                MemoryStateStores().prove(reader.head, reader.rows())
        except (BadSnapshot, StateFailed):
            return False
        return True

    def _rng(self, what: str) -> random.Random:
        return random.Random(f"{what} {self.scenario.seed}")

    def _stop(self) -> None:
        self.time.is_over = True

    def _failed(self, loop: VirtualLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Violation):
            self.judge.broken(error.rule, error.text)
        else:
            self.judge.broken("nothing fails unseen", f"process {loop.name}: {context.get('message')} {error!r}")

    # ---- the life

    def live(self) -> None:
        """Run the scenario to its end, or to the first broken rule."""
        scenario = self.scenario
        if scenario.restore is not None:
            begin_restored(self.kafka.logs, START_MS)
            self._put_lost_files(scenario.restore.lost_files)
        for process in self.processes.values():
            self.world.call_later(0.1 * process.node_id, process.start)
        for fault in scenario.faults:
            self.world.call_at(fault.at_s, self.faults.perform, fault)
        self._start_clients()
        self.time.run_until(scenario.duration_s)
        self.world.call_soon(self.faults.end)
        self.time.run_until(scenario.duration_s + 2.0)
        self.clients.is_closing = True
        heal_s = HEAL_S if scenario.files is None else FILES_GO_S
        ending = Ending(
            scenario=scenario,
            judge=self.judge,
            clients=self.clients,
            processes=self.processes,
            group=self.kafka.group,
            objects=self.objects,
            gateways=self.gateways,
        )
        unwell = ["nothing was looked at"]
        while unwell and not self.time.is_over and self.time.now_s < scenario.duration_s + heal_s:
            self.time.run_until(self.time.now_s + LOOK_S)
            self._look_for_failed_clients()
            unwell = ending.look()
        if self.time.is_over:
            return
        if unwell:
            self.judge.broken("everything heals", f"{heal_s} s after the last fault: {'; '.join(unwell)}")
            return
        ending.compare_with_log()
        self._let_one_die()

    def _let_one_die(self) -> None:
        """Kill a node of the settled cluster."""
        succession = Succession(judge=self.judge, processes=self.processes, rng=self._rng("succession"))
        succession.begin()
        end_s = self.time.now_s + SUCCESSION_S
        while (left := succession.left()) and not self.time.is_over:
            if self.time.now_s >= end_s:
                self.judge.broken("everything heals", f"{SUCCESSION_S:g} s after one death nobody leads partitions {left}")
                return
            self.time.run_until(self.time.now_s + LOOK_S)

    def _look_for_failed_clients(self) -> None:
        for task in self.tasks:
            if task.done() and (error := task.exception()) is not None:
                self._failed(self.world, {"message": "a client failed", "exception": error})

    def _put_lost_files(self, count: int) -> None:
        if self.clients.uploads is not None:
            for n in range(count):
                self.clients.uploads.put(f"{PREFIX}lost-{n}", self._store_rng)

    def _start_clients(self) -> None:
        scenario, clients = self.scenario, self.clients
        work = [
            CommittingClient(n, clients, self._rng(f"committer {n}"), self._rng(f"files committer {n}")).run()
            for n in range(scenario.committers)
        ]
        work += [ReadingClient(clients, self._rng(f"reader {n}")).run() for n in range(scenario.readers)]
        work += [FindingClient(clients, self._rng(f"finder {n}")).run() for n in range(scenario.finders)]
        work += [DescribingClient(clients, self._rng(f"describer {n}")).run() for n in range(scenario.describers)]
        work += [DeletingClient(clients, self._rng(f"pruner {n}")).run() for n in range(scenario.pruners)]
        work += [MovingOperator(clients, self._rng(f"mover {n}")).run() for n in range(scenario.movers)]
        reuses_names = self.gateways is not None
        work += [Admin(n, clients, self._rng(f"admin {n}"), reuses_names=reuses_names).run() for n in range(scenario.admins)]
        if scenario.files is not None:
            for key in UNUSUAL_KEYS:
                self.objects.put(key, b"of no service")
            work.append(CarelessClient(clients, self._rng("careless")).run())
            work += [FindingClient(clients, self._rng(f"files finder {n}")).run() for n in range(scenario.files.finders)]
            work += [DeletingClient(clients, self._rng(f"files pruner {n}")).run() for n in range(scenario.files.pruners)]
        if scenario.retention is not None:
            work += [KeepingClient(clients, self._rng(f"keeper {n}")).run() for n in range(scenario.retention.keepers)]
        if scenario.restore is not None:
            work.append(FinishingOperator(clients, self._rng("operator"), scenario.restore.finished_s).run())
        if self.gateways is not None:
            work += self.gateways.start()
        self.tasks = [self.world.create_task(one) for one in work]
