"""Performs the faults of a scenario, each at its time, and ends them all when the time of faults is over."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.drains import Drain
from coordinator.runtime.node.node import Node
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey
from records.levels import LEVEL_LATEST
from records.model import Endpoint, LeadershipClaimed, NoOp, TransactionBegan, TransactionEnded
from simulation.disk import EXCLUSIVE
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_log import Fate
from simulation.forgery import forged_entry
from simulation.gateways.faults import GatewayFaults
from simulation.judge import Judge
from simulation.loop import VirtualLoop, VirtualTime
from simulation.membership import SESSION_S
from simulation.move_steps import MoveSteps
from simulation.network import Network
from simulation.process import SimulatedProcess
from simulation.scenario import GATEWAY_DRAWS, LOADING, Fault
from simulation.story import Story

NORMAL_NETWORK_MS = (0.1, 1.0)
HUGE_EPOCH = 2**31 - 1
STRAY_TERM = 77
UNKNOWN_SCHEMA = b"\xc3\x01" + b"a newer." + b"body"
NOWHERE = Endpoint(listener="PLAINTEXT", host="nowhere", port=1)
HARMLESS = frozenset(
    {"cut", "directory", "drain", "expire", "future", "ghost", "lag", "lock", "lose_all", "move_step", "network", "replay", "slow", "stray"}
)
"""Faults that end no term by themselves: a leader leads on until another process's claim is in force."""
HARMLESS_FATES = frozenset({"NO_OFFSET", "FURTHER_ON"})
"""Fates of produced entries that end no term either."""
TEAR_S = (0.0, 0.002)
"""How long after an entry of a transaction was produced its process ends: some entries have landed then."""
STEP_WAIT_S, STEP_LOOK_S = 4.0, 0.002
"""How long a step of a snapshot is waited for, and how long until the next look."""
LOST_CHANCE = 0.3
REFETCH_S = (0.0, 0.3)
"""How long after a thaw fetching goes on."""


class FaultMaker:
    """See the module's text."""

    def __init__(
        self,
        *,
        rng: random.Random,
        time: VirtualTime,
        world: VirtualLoop,
        kafka: FakeKafka,
        network: Network,
        judge: Judge,
        story: Story,
        processes: Mapping[int, SimulatedProcess],
        gateways: GatewayFaults | None,
    ) -> None:
        self._rng = rng
        self._time = time
        self._world = world
        self._kafka = kafka
        self._network = network
        self._judge = judge
        self._story = story
        self._processes = processes
        self._gateways = gateways
        self._produce: list[Fault] = []
        self._refuse: list[Fault] = []
        self._tear: list[Fault] = []
        self.move_steps = MoveSteps(world=world, story=story, processes=processes, harm=self.perform)
        self._inside: set[tuple[str, int]] = set()
        self.is_over = False
        self._kinds: dict[str, Callable[[Fault], None]] = {
            "clock": self._clock,
            "crash": self._crash,
            "cut": self._cut,
            "directory": self._directory,
            "disk": self._disk,
            "drain": self._drain,
            "expire": self._expire,
            "flip": self._flip,
            "forge": self._forge,
            "future": self._future,
            "ghost": self._ghost,
            "hold": self._hold,
            "lag": self._lag,
            "lock": self._lock,
            "lock_start": self._lock_start,
            "lose_all": self._lose_all,
            "move": self._move,
            "move_step": self.move_steps.wait,
            "network": self._disturb_network,
            "pause": self._pause,
            "produce": self._produce.append,
            "refuse": self._refuse.append,
            "replay": self._replay,
            "restart": self._restart,
            "slow": self._slow,
            "snapshot": self._snapshot,
            "stray": self._stray,
            "tear": self._tear.append,
            "unavailable": self._unavailable,
            "upgrade": self._upgrade,
        }
        kafka.faults.fate_of = self._fate_of
        kafka.faults.refuse_produce = self._refusal

    def perform(self, fault: Fault) -> None:
        """Make something go wrong."""
        if self.is_over:
            return
        if fault.kind in GATEWAY_DRAWS:
            if self._gateways is not None:
                self._story.tell(f"FAULT {fault}")
                self._gateways.kinds[fault.kind](fault)
            return
        if fault.node >= 0 and fault.node not in self._processes:
            return
        if fault.partition >= len(self._kafka.logs):
            return
        self._story.tell(f"FAULT {fault}")
        self._judge.may_terms_end |= fault.kind not in HARMLESS and fault.detail not in HARMLESS_FATES
        self._kinds[fault.kind](fault)

    def end(self) -> None:
        """Let everything be well from now on."""
        self.is_over = True
        self._story.tell("faults end")
        self._produce.clear()
        self._refuse.clear()
        self._tear.clear()
        self.move_steps.end()
        self._network.heal()
        self._kafka.set_available(True)
        self._kafka.faults.network_ms = NORMAL_NETWORK_MS
        if self._gateways is not None:
            self._gateways.end()
        for process in self._processes.values():
            process.disk.failing.clear()
            process.disk.locked.clear()
            process.disk.mend()
            process.thaw()
            if process.listener is not None:
                process.listener.release()
            if process.kafka_node is not None and process.kafka_node.is_held:
                process.kafka_node.release()
            process.start()

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        self._world.call_later(delay_s, lambda: None if self.is_over else action())

    # ---- processes

    def _crash(self, fault: Fault) -> None:
        process = self._processes[fault.node]
        process.kill(fault.detail)
        self._later(fault.duration_s, process.start)

    def _snapshot(self, fault: Fault) -> None:
        """A process is killed at a step of a snapshot, which a leader is asked for; or twice in a row, while it loads what it has lost."""
        if fault.detail == LOADING:
            process = self._processes[fault.partition]
            process.kill("lost")
            self._later(0.05, process.start)
            self._later(0.05 + fault.chance, lambda: self._crash(replace(fault, node=process.node_id, detail="kept")))
            return
        for process in self._processes.values():
            node = process.node
            if node is not None and process.loop is not None and node.replicas.is_leading(fault.partition):
                process.loop.call_soon(process.spawn, partial(self._take, node, fault.partition))
        self._kill_at(fault, self._world.time() + STEP_WAIT_S)

    async def _take(self, node: Node, partition: int) -> None:
        await node.workers.snapshots.take(partition, 3_000)

    def _drain(self, fault: Fault) -> None:
        """An operator drains a node, for the life of its process or longer, and lets it lead again after a while or never."""
        self._ask_to_drain(fault.node, Drain[fault.detail.removesuffix(" for good")])
        if not fault.detail.endswith(" for good"):
            self._later(fault.duration_s, lambda: self._ask_to_drain(fault.node, Drain.NONE))

    def _ask_to_drain(self, node_id: int, drain: Drain) -> None:
        """Have the leader of the directory, if there is one, log it."""
        for process in self._processes.values():
            node = process.node
            if node is not None and process.loop is not None and node.replicas.is_leading(DIRECTORY_PARTITION):
                process.loop.call_soon(process.spawn, partial(self._log_drain, node, node_id, drain))

    async def _log_drain(self, node: Node, node_id: int, drain: Drain) -> None:
        outcome = await node.directory.drain_node(node_id, drain, 3_000)
        self._story.tell(f"node {node_id}: drain {drain.name}: {outcome.error.name}")

    def _kill_at(self, fault: Fault, end_s: float) -> None:
        """Kill the process that is at the step, or look again a moment later."""
        for process in self._processes.values():
            known = None if process.node is None else process.node.workers.snapshots.describe(fault.partition)
            if known is not None and known.step == fault.detail:
                self._story.tell(f"node {process.node_id} is killed at step {fault.detail!r} of a snapshot")
                self._crash(replace(fault, node=process.node_id, detail="lost" if fault.chance < LOST_CHANCE else "kept"))
                return
        if self._world.time() < end_s:
            self._later(STEP_LOOK_S, lambda: self._kill_at(fault, end_s))

    def _flip(self, fault: Fault) -> None:
        """A process is killed, and a bit of each of its databases flips before it starts again."""
        self._crash(replace(fault, detail="kept"))
        self._processes[fault.node].disk.flip(fault.chance)

    def _restart(self, fault: Fault) -> None:
        process = self._processes[fault.node]
        # A stopped process is started again by the fault that stopped it, whatever else happens.
        process.stop_cleanly(lambda: self._start_later(process, fault.duration_s))

    def _upgrade(self, fault: Fault) -> None:
        """A process is stopped and comes back as the newest version."""
        self._processes[fault.node].schema_level_max = LEVEL_LATEST
        self._restart(fault)

    def _start_later(self, process: SimulatedProcess, delay_s: float) -> None:
        self._world.call_later(delay_s, process.start)

    def _pause(self, fault: Fault) -> None:
        process = self._processes[fault.node]
        kafka_node, membership, name = process.kafka_node, process.membership, process.name
        if kafka_node is None or membership is None:
            return
        process.freeze()
        if fault.detail == "held":
            kafka_node.hold()
        if fault.duration_s > SESSION_S:
            self._later(SESSION_S, lambda: membership.expire(0.0))

        listener = process.listener

        def thaw() -> None:
            if process.name == name:
                process.thaw()
            if kafka_node.is_held:
                kafka_node.release()

        self._later(fault.duration_s, thaw)
        if listener is not None:
            self._later(fault.duration_s + self._rng.uniform(*REFETCH_S), listener.release)

    def _lag(self, fault: Fault) -> None:
        listener = self._processes[fault.node].listener
        if listener is not None:
            listener.is_held = True
            self._later(fault.duration_s, listener.release)

    def _hold(self, fault: Fault) -> None:
        kafka_node = self._processes[fault.node].kafka_node
        if kafka_node is not None:
            kafka_node.hold()
            self._later(fault.duration_s, kafka_node.release)

    def _disk(self, fault: Fault) -> None:
        self._processes[fault.node].disk.failing.add(fault.partition)

    def _lock(self, fault: Fault) -> None:
        """Another connection locks a state database that is in use."""
        self._hold_lock(fault, "writing")

    def _lock_start(self, fault: Fault) -> None:
        """A process is killed, and another connection locks one of its state databases before it starts again."""
        self._crash(replace(fault, duration_s=fault.chance, detail="kept"))
        self._hold_lock(fault, EXCLUSIVE)

    def _hold_lock(self, fault: Fault, kind: str) -> None:
        locked = self._processes[fault.node].disk.locked
        locked[fault.partition] = kind
        self._later(fault.duration_s, lambda: locked.pop(fault.partition, None))

    def _directory(self, fault: Fault) -> None:
        """A data directory fails; it is mended when its process starts again."""
        self._processes[fault.node].fail_directory(int(fault.chance * 2), is_lost=fault.detail == "lost")

    def _move(self, fault: Fault) -> None:
        """A replica moves into another data directory; a step as the detail is the end of its process."""
        process = self._processes[fault.node]
        process.move(fault.partition)
        if fault.detail:
            self._kill_moving_at(fault, self._world.time() + STEP_WAIT_S)

    def _kill_moving_at(self, fault: Fault, end_s: float) -> None:
        process = self._processes[fault.node]
        step = None if process.node is None else process.node.keeper.directories.move_step(fault.partition)
        if step == fault.detail:
            self._story.tell(f"node {process.node_id} is killed at step {step!r} of a move")
            self._crash(replace(fault, detail="kept"))
        elif self._world.time() < end_s:
            self._later(STEP_LOOK_S, lambda: self._kill_moving_at(fault, end_s))

    def _clock(self, fault: Fault) -> None:
        step_ms = int(fault.duration_s * 1000)
        process = self._processes[fault.node]
        process.skew_ms += step_ms if fault.detail == "forward" else -step_ms
        process.disturbances += 1

    def _future(self, fault: Fault) -> None:
        """Clients give times in microseconds."""
        self._judge.microseconds_until_s = max(self._judge.microseconds_until_s, self._time.now_s + fault.duration_s)

    # ---- the network

    def _disturb_network(self, fault: Fault) -> None:
        name = {"lose": "loss", "late": "late", "slow": "slow", "double": "double"}[fault.detail]
        setattr(self._network, name, fault.chance)
        self._later(fault.duration_s, lambda: setattr(self._network, name, 0.0))

    def _cut(self, fault: Fault) -> None:
        self._network.cut.add(fault.node)
        self._later(fault.duration_s, lambda: self._network.cut.discard(fault.node))

    # ---- the group

    def _expire(self, fault: Fault) -> None:
        membership = self._processes[fault.node].membership
        if membership is not None:
            membership.expire(fault.duration_s)

    def _ghost(self, fault: Fault) -> None:
        """One member believes in an assignment that the group did not make; "all": every member does."""
        self._judge.ghosts_until_s = max(self._judge.ghosts_until_s, self._time.now_s + fault.duration_s)
        for node_id, process in self._processes.items():
            if process.membership is not None and (fault.detail == "all" or node_id == fault.node):
                process.membership.believe(fault.partition)
        # A new generation tells everybody the truth again.
        self._world.call_later(fault.duration_s, self._kafka.group.tell_all)

    def _lose_all(self, _: Fault) -> None:
        self._kafka.group.lose_all()

    # ---- Kafka

    def _unavailable(self, fault: Fault) -> None:
        self._kafka.set_available(False)
        self._later(fault.duration_s, lambda: self._kafka.set_available(True))

    def _slow(self, fault: Fault) -> None:
        self._kafka.faults.network_ms = (0.1, fault.chance)
        self._later(fault.duration_s, lambda: setattr(self._kafka.faults, "network_ms", NORMAL_NETWORK_MS))

    def _fate_of(self, node: str, partition: int, seq: int, value: bytes) -> Fate:
        for fault in self._produce:
            if fault.partition == partition and node.startswith(f"{fault.node}.") and self._time.now_s < fault.at_s + fault.duration_s:
                if self._rng.random() < fault.chance:
                    self._story.tell(f"node {fault.node} partition {partition}: entry {seq} {fault.detail}")
                    return Fate[fault.detail]
        if self.move_steps.producing(node, partition, value):
            return Fate.DROP_SILENTLY
        return self._torn(node, partition, value)

    def _torn(self, node: str, partition: int, value: bytes) -> Fate:
        """Lose an entry of a transaction, or the process that writes it."""
        for fault in self._tear:
            if fault.partition != partition or self._time.now_s >= fault.at_s + fault.duration_s:
                continue
            records = decode_entry(value)
            if isinstance(records[0], TransactionBegan):
                self._inside.add((node, partition))
            elif isinstance(records[0], TransactionEnded):
                self._inside.discard((node, partition))
            if (node, partition) in self._inside and self._rng.random() < fault.chance:
                self._inside.discard((node, partition))
                self._story.tell(f"node {node} partition {partition}: {type(records[0]).__name__} of a transaction, {fault.detail}")
                if fault.detail == "lost":
                    return Fate.DROP
                self._world.call_later(self._rng.uniform(*TEAR_S), self._end_life, node)
        return Fate.DELIVER

    def _end_life(self, name: str) -> None:
        process = self._processes[int(name.partition(".")[0])]
        if process.name == name:
            process.kill("kept")
            self._later(self._rng.uniform(*REFETCH_S), process.start)

    def _refusal(self, node: str, partition: int, _seq: int) -> str | None:
        for fault in self._refuse:
            if fault.partition == partition and node.startswith(f"{fault.node}.") and self._time.now_s < fault.at_s + fault.duration_s:
                return "queue full (injected)"
        return None

    def _replay(self, fault: Fault) -> None:
        """Some entry of the past arrives once more."""
        entries = self._kafka.logs[fault.partition].entries()
        if entries:
            entry = entries[int(fault.chance * len(entries))]
            self._kafka.append(fault.partition, entry.key, entry.value)

    def _stray(self, fault: Fault) -> None:
        """Write an entry to the topic that follows no rule of the log."""
        key: bytes | None = None
        value: bytes | None = b"?"
        match fault.detail:
            case "short key":
                key = b"short"
            case "huge epoch":
                key = encode_key(EntryKey(HUGE_EPOCH, STRAY_TERM, 0))
                value = encode_entry([LeadershipClaimed(epoch=HUGE_EPOCH, term=STRAY_TERM, node_id=99, rack="", endpoints=[NOWHERE])])
            case "bad claim":
                key = encode_key(EntryKey(self._epoch(fault.partition) + 1, STRAY_TERM, 0))
            case "false claim":
                epoch = self._epoch(fault.partition) + 1
                key = encode_key(EntryKey(epoch, STRAY_TERM, 0))
                value = encode_entry([LeadershipClaimed(epoch=epoch, term=STRAY_TERM + 1, node_id=99, rack="", endpoints=[NOWHERE])])
            case "alien":
                key, value = encode_key(EntryKey(self._epoch(fault.partition), STRAY_TERM, 1)), UNKNOWN_SCHEMA
            case "twin":
                key, value = self._twin(fault.partition)
            case _:
                pass
        self._kafka.append(fault.partition, key, value)

    def _forge(self, fault: Fault) -> None:
        """Write an entry in the name of the leader that contradicts the log."""
        fold = self._judge.folds[fault.partition]
        now = fold.in_force
        value = forged_entry(fold, fault.detail, fault.chance)
        if now.epoch == 0 or value is None:
            return
        fold.is_forged = True
        self._kafka.append(fault.partition, encode_key(EntryKey(now.epoch, now.term, now.seq + 1)), value)
        fold.is_forged = False

    def _epoch(self, partition: int) -> int:
        return self._judge.folds[partition].in_force.epoch

    def _twin(self, partition: int) -> tuple[bytes, bytes | None]:
        """Return an entry that a producer of a former topic of this name may still send: the epoch in force, the next seq, another term."""
        now = self._judge.folds[partition].in_force
        key = encode_key(EntryKey(now.epoch, STRAY_TERM, now.seq + 1))
        values = [entry.value for entry in self._kafka.logs[partition].entries() if (old := decode_key(entry.key)) and old.seq > 0]
        return key, self._rng.choice(values) if values else encode_entry([NoOp()])
