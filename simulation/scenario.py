"""The parts of one simulated life: the cluster, its clients, and the faults with their times.

A scenario and the code decide a run completely. `Scenario.random(seed)` draws one; every fault is an explicit element
of it, so that a shrinker can take faults away and a file can keep what is left.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong: `kind` names it (see `faults`), the rest is what it needs; times in virtual seconds."""

    at_s: float
    kind: str
    node: int = -1
    partition: int = -1
    duration_s: float = 0.0
    chance: float = 0.0
    detail: str = ""

    def __str__(self) -> str:
        words = [self.kind]
        if self.detail:
            words.append(self.detail)
        if self.node >= 0:
            words.append(f"node={self.node}")
        if self.partition >= 0:
            words.append(f"partition={self.partition}")
        if self.duration_s:
            words.append(f"for {self.duration_s:.2f} s")
        if self.chance:
            words.append(f"chance {self.chance:.2f}")
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFiles:
    """How files come and go; chances are for each file, times in virtual seconds."""

    commit_age_s: float = 2.0
    """Older files may not be committed."""
    grace_s: float = 1.0
    """How long an object stays when its last batch was deleted."""
    fence_kept_s: float = 10.0
    pausing: float = 0.1
    """The chance that an uploader pauses for about `commit_age_s` before it commits, and that it does so between two owners."""
    dying: float = 0.1
    """The chance that an uploader dies before it commits, and that it dies when one owner has got its batches."""
    giving_up: float = 0.1
    """The chance that an uploader takes a file back."""
    replacing: float = 0.0
    """The chance that an uploader dies when one owner has got its batches, and another one commits the whole file later on."""
    store_faults: float = 0.0
    """The chance that a call of the object store for files fails, does something else than it says, or takes seconds."""
    scan_s: float = 0.0
    """How often orphans are looked for; 0: never. Each scan writes to the logs: between two of them nodes must come to rest."""
    pruners: int = 1
    finders: int = 1

    @staticmethod
    def random(seed: int, *, are_clocks_true: bool) -> SimulatedFiles:
        """Draw a life of files, from a generator of its own: the rest of a scenario stays what it is."""
        rng = random.Random(f"files {seed}")
        commit_age_s = round(rng.uniform(1.0, 2.5), 3)
        return SimulatedFiles(
            commit_age_s=commit_age_s,
            grace_s=round(rng.uniform(0.6, 2.0), 3),
            fence_kept_s=2 * commit_age_s + (0.0 if are_clocks_true else CLOCK_SKEW_MAX_S),
            pausing=rng.choice([0.0, 0.1, 0.2]),
            dying=rng.choice([0.0, 0.05, 0.15]),
            giving_up=rng.choice([0.0, 0.05, 0.15]),
            store_faults=rng.choice([0.0, 0.1, 0.3]),
            scan_s=rng.choice([0.0, 4.0, 4.0]),
            pruners=rng.choice([1, 2]),
            finders=rng.choice([1, 2]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGateways:
    """The gateways of a run, and the Kafka clients that use them."""

    gateways: int = 2
    producers: int = 4
    first_kind: int = 0
    """How the first producer treats its batches (`Diligence`); the others follow in turn."""
    consumers: int = 2
    buffer_ms: int = 50
    buffer_bytes: int = 100_000
    file_gap_ms: int = 10
    memory_bytes: int = 1_000_000
    """For the requests that a gateway holds; above it no connection is read."""
    links_lost: float = 0.0
    """The chance that a message between a client and a gateway ends their connection."""
    links_slow: float = 0.0

    @staticmethod
    def random(seed: int) -> SimulatedGateways | None:
        """Draw the gateways of a run, mostly none."""
        return SimulatedGateways.drawn(seed) if random.Random(f"any gateways {seed}").random() < GATEWAYS_CHANCE else None

    @staticmethod
    def drawn(seed: int) -> SimulatedGateways:
        """Draw gateways, from a generator of their own: the rest of a scenario stays what it is."""
        rng = random.Random(f"gateways {seed}")
        return SimulatedGateways(
            gateways=rng.choice([2, 2, 3]),
            producers=rng.randint(2, 4),
            first_kind=rng.randrange(4),
            consumers=rng.choice([1, 2]),
            buffer_ms=rng.choice([10, 50, 250]),
            buffer_bytes=rng.choice([400, 100_000]),
            file_gap_ms=rng.choice([1, 25]),
            memory_bytes=rng.choice([2_000, 1_000_000]),
            links_lost=rng.choice([0.0, 0.0, 0.02]),
            links_slow=rng.choice([0.0, 0.0, 0.1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRetention:
    """How long batches are kept, and how much of a partition; times in virtual seconds unless they are settings."""

    default_ms: int = -1
    """The service's `log.retention.ms`, for topics without a setting of their own."""
    default_bytes: int = -1
    check_s: float = 0.5
    keepers: int = 1
    """Clients that change the settings of topics."""
    under_way_s: float = 12.0
    """How long after a change of settings a deletion may take effect that was decided by those before."""

    @staticmethod
    def random(seed: int) -> SimulatedRetention | None:
        """Draw the retention of a run, half of the time none, from a generator of its own: the rest of a scenario stays what it is."""
        rng = random.Random(f"retention {seed}")
        if rng.random() < 0.5:
            return None
        return SimulatedRetention(
            default_ms=rng.choice([-1, -1, 800, 3_000]),
            default_bytes=rng.choice([-1, -1, 40, 200]),
            check_s=round(rng.uniform(0.2, 1.5), 3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRestore:
    """A log that goes on from a lost one, and how the restore ends; times in virtual seconds."""

    finished_s: float
    """When the operator calls the restore finished."""
    lost_files: int = 3
    """How many files were committed after the snapshots: their objects are in the store, and no state knows them."""

    @staticmethod
    def random(seed: int, duration_s: float) -> SimulatedRestore | None:
        """Draw the restore of a run, mostly none, from a generator of its own: the rest of a scenario stays what it is."""
        rng = random.Random(f"restore {seed}")
        return SimulatedRestore(finished_s=round(rng.uniform(0.0, duration_s), 3)) if rng.random() < 0.25 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, its clients and its faults. `weakened` names protections that are switched off (see `weakened`)."""

    seed: int
    nodes: int = 3
    partitions: int = 2
    duration_s: float = 20.0
    committers: int = 3
    readers: int = 1
    finders: int = 1
    describers: int = 1
    admins: int = 1
    groups_in_flight: int = 4
    skews_ms: tuple[int, ...] = ()
    producers_kept_s: float = 0.0
    """How long idle producers are remembered; 0: for longer than a run takes."""
    pruners: int = 0
    movers: int = 0
    """Operators that move partitions between coordinators."""
    entry_bytes_max: int = 0
    """How large an entry may be, what is larger becomes a transaction; 0: as large as in production."""
    snapshot_bytes: int = 0
    """How much the log grows between two snapshots; 0: none is taken, and the log is never pruned."""
    store_faults: float = 0.0
    """The chance that a call of the object store fails, does something else than it says, or does it late."""
    directories: int = 1
    """How many data directories each node has."""
    files: SimulatedFiles | None = None
    """None: files have no objects, and none is ever deleted."""
    retention: SimulatedRetention | None = None
    """None: batches are kept for ever, and no client changes that."""
    restore: SimulatedRestore | None = None
    """None: the log begins with nothing."""
    gateways: SimulatedGateways | None = None
    """None: there are none, and no Kafka clients."""
    old_nodes: tuple[int, ...] = ()
    """Nodes that begin as a version with an older schema level; the fault "upgrade" brings them up to date."""
    faults: tuple[Fault, ...] = ()
    weakened: tuple[str, ...] = ()
    violates: str = ""
    """The rule that a weakened product breaks, in scenario files; empty when the run must be clean."""
    note: str = field(default="", compare=False)

    @staticmethod
    def random(
        seed: int, duration_s: float = 20.0, *, kinds: Sequence[str] = (), details: Sequence[str] = (), weakened: tuple[str, ...] = ()
    ) -> Scenario:
        """Draw a scenario; `kinds` and `details` narrow what may go wrong with nodes."""
        drawn = Scenario.of_nodes(seed, duration_s, kinds=kinds, details=details, weakened=weakened)
        if not kinds:
            drawn = drawn.with_move_steps()
        gateways = SimulatedGateways.random(seed)
        return drawn if gateways is None else drawn.with_gateways(gateways)

    @staticmethod
    def of_nodes(
        seed: int, duration_s: float, *, kinds: Sequence[str] = (), details: Sequence[str] = (), weakened: tuple[str, ...] = ()
    ) -> Scenario:
        """Draw a scenario without gateways."""
        rng = random.Random(f"scenario {seed}")
        nodes, partitions = rng.choice([3, 3, 4]), rng.choice([2, 2, 3])
        kinds = kinds or rng.sample(sorted(DRAWS), rng.randint(2, 6))
        faults = []
        for _ in range(rng.randint(3, max(4, round(duration_s * 0.8)))):
            kind = rng.choice(kinds)
            fault = DRAWS[kind](rng, Fault(at_s=round(rng.uniform(1.5, duration_s), 3), kind=kind))
            if details:
                fault = replace(fault, detail=rng.choice(details))
            node = rng.randrange(nodes) if fault.node == ANY else fault.node
            partition = rng.randrange(partitions) if fault.partition == ANY else fault.partition
            faults.append(replace(fault, node=node, partition=partition, duration_s=round(fault.duration_s, 3)))
        # Another one for each node: two that are wrong alike outvote those that are right.
        far = [sign * int(jump_s * 1000) for jump_s in CLOCK_JUMPS_S for sign in (1, -1)] if "clock" in kinds else []
        rng.shuffle(far)
        drawn = Scenario(
            seed=seed,
            nodes=nodes,
            partitions=partitions,
            duration_s=duration_s,
            committers=rng.randint(2, 4),
            readers=rng.randint(1, 2),
            finders=1,
            admins=rng.randint(1, 2),
            groups_in_flight=rng.choice([1, 2, 4]),
            skews_ms=tuple(rng.choice([0, 0, rng.randint(-4000, 4000), *far[node : node + 1]]) for node in range(nodes)),
            faults=tuple(sorted(faults, key=lambda fault: fault.at_s)),
            producers_kept_s=rng.choice([0.0, 0.0, 1.0, 4.0]),
            pruners=rng.choice([0, 1, 1]),
            entry_bytes_max=rng.choice([0, ENTRY_BYTES_MAX, ENTRY_BYTES_MAX]),
            old_nodes=tuple(node for node in range(nodes) if "upgrade" in kinds and rng.random() < 0.5),
            snapshot_bytes=rng.choice([0, 800, 3_000]) or (800 if "snapshot" in kinds else 0),
            store_faults=rng.choice([0.0, 0.0, 0.2]),
            directories=2 if {"directory", "move"} & set(kinds) else 1,
            weakened=weakened,
        )
        files = SimulatedFiles.random(seed, are_clocks_true=drawn.are_clocks_true)
        restore = SimulatedRestore.random(seed, duration_s)
        movers = drawn_movers(seed)
        if movers:
            files = replace(files, replacing=REPLACING)
        return replace(drawn, files=files, retention=SimulatedRetention.random(seed), restore=restore, movers=movers)

    def with_move_steps(self) -> Scenario:
        """The same life with faults at the steps of moves, half of the time, if there are any; from a generator of their own."""
        rng = random.Random(f"move steps {self.seed}")
        if not self.movers or rng.random() < 0.5:
            return self
        faults = [*self.faults]
        for _ in range(rng.randint(1, 4)):
            detail = f"{rng.choice(MOVE_MOMENTS)} {rng.choice(MOVE_VICTIMS)} {rng.choice(sorted(MOVE_HARMS))}"
            at_s, duration_s = round(rng.uniform(1.5, self.duration_s), 3), round(rng.uniform(0.05, 8.0), 3)
            faults.append(Fault(at_s=at_s, kind="move_step", detail=detail, duration_s=duration_s))
        return replace(self, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))

    def with_gateways(self, gateways: SimulatedGateways) -> Scenario:
        """The same life with gateways, and with faults of theirs.

        Their files may be of any size, and their producers are remembered: a batch is known to be a repetition as long as that. Clocks are
        true: they may be further apart than files may be old here, and a gateway whose clock is behind would have all its files refused.
        """
        rng = random.Random(f"gateways faults {self.seed}")
        faults = [fault for fault in self.faults if fault.kind != "clock"]
        for _ in range(rng.randint(2, max(3, round(self.duration_s * 0.6)))):
            kind = rng.choice(sorted(GATEWAY_DRAWS))
            fault = GATEWAY_DRAWS[kind](rng, Fault(at_s=round(rng.uniform(1.5, self.duration_s), 3), kind=kind))
            faults.append(replace(fault, node=rng.randrange(gateways.gateways), duration_s=round(fault.duration_s, 3)))
        faults.sort(key=lambda fault: fault.at_s)
        return replace(self, gateways=gateways, faults=tuple(faults), skews_ms=(), producers_kept_s=0.0, entry_bytes_max=0)

    @property
    def are_clocks_true(self) -> bool:
        """Whether all clocks show the same time, for as long as it lasts."""
        return not any(self.skews_ms) and all(fault.kind != "clock" for fault in self.faults)

    @property
    def are_clocks_near(self) -> bool:
        """Whether no clock is ever further from the others than is allowed (`clock.skew.max.ms`)."""
        return all(abs(skew_ms) <= CLOCK_SKEW_MAX_S * 1000 for skew_ms in self.skews_ms) and all(
            fault.kind != "clock" or fault.duration_s <= CLOCK_SKEW_MAX_S for fault in self.faults
        )

    def to_json(self) -> str:
        """The text of a scenario file; faults leave out what they do not use."""
        values = asdict(self)
        defaults = asdict(Fault(at_s=0.0, kind=""))
        values["faults"] = [
            {name: value for name, value in fault.items() if name in ("at_s", "kind") or value != defaults[name]}
            for fault in values["faults"]
        ]
        return json.dumps(values, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Scenario:
        """Read a scenario. Raises ValueError."""
        try:
            values: dict[str, Any] = json.loads(text)
            values["faults"] = tuple(Fault(**fault) for fault in values.get("faults", []))
            for name in ("skews_ms", "old_nodes", "weakened"):
                values[name] = tuple(values.get(name, ()))
            if values.get("files") is not None:
                values["files"] = SimulatedFiles(**values["files"])
            if values.get("retention") is not None:
                values["retention"] = SimulatedRetention(**values["retention"])
            if values.get("restore") is not None:
                values["restore"] = SimulatedRestore(**values["restore"])
            if values.get("gateways") is not None:
                values["gateways"] = SimulatedGateways(**values["gateways"])
            return Scenario(**values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a scenario: {error}") from error

    @staticmethod
    def load(path: Path) -> Scenario:
        """Read a scenario file. Raises OSError, ValueError."""
        return Scenario.from_json(path.read_text())


ANY = -2
ENTRY_BYTES_MAX = 200
"""Every file of the clients fits, and nine deletions."""
CLOCK_SKEW_MAX_S = 5.0
"""How far the clocks of leaders may be apart, as nodes are configured."""
GATEWAYS_CHANCE = 0.06
"""A life with gateways costs more than twice as much as one without."""
CLOCK_JUMPS_S = (30.0, 7_200.0, 30 * 86_400.0)
Draw = Callable[[random.Random, Fault], Fault]

DRAINS = ("PROCESS", "LASTING", "PROCESS for good", "LASTING for good")
"""How a node is drained that is let lead again after a while, or never."""
STRAYS = ("no key", "short key", "huge epoch", "bad claim", "false claim", "twin", "alien")
LOADING = "load"
SNAPSHOT_STEPS = ("mark", "write", "upload", "commit", "verify", "prune", "clean up", LOADING)
"""Where a process is killed that takes, verifies or loads a snapshot, or prunes to it."""
MOVE_STEPS = ("copy", "assign", "close", "adopt", "load")
"""Where a process is killed that moves a replica into another data directory."""
MOVE_MOMENTS = tuple(
    f"{when} {step}"
    for when in ("before", "after")
    for step in (
        "PartitionMoving", "PartitionReleased", "PartitionAdopted", "PartitionMoved",
        "DescribeStretchesRequest", "ReleasePartitionRequest", "AdoptPartitionRequest",
    )
)  # fmt: skip
"""The entries and requests of a move of a partition between coordinators, and when a fault of kind "move_step" comes."""
MOVE_VICTIMS = ("from", "to", "directory")
"""Whom it harms: who leads the coordinator that has the partition, the one that is to have it, or the directory."""
MOVE_HARMS = {"kill": ("crash", "kept"), "lose": ("crash", "lost"), "stop": ("restart", ""), "cut": ("cut", ""), "hold": ("hold", ""),
              "freeze": ("pause", "held")}  # fmt: skip
"""What is done to it, as a kind of fault and its detail."""
FORGERIES = ("offset", "partition", "again", "sequence", "garbage", "two files", "far deletion", "end")
PRODUCE_FATES = ("LOSE_REPORT", "LATE_REPORT", "FAIL_AFTER_LANDING", "DROP", "DROP_SILENTLY", "DOUBLE", "NO_OFFSET", "FURTHER_ON", "LATE")


def _crash(rng: random.Random, fault: Fault) -> Fault:
    return replace(fault, node=ANY, duration_s=rng.uniform(0.05, 8), detail=rng.choice(["kept", "kept", "lost", "forked"]))


def _pause(rng: random.Random, fault: Fault) -> Fault:
    duration_s = rng.choice([rng.uniform(0.05, 1), rng.uniform(1, 5), rng.uniform(6.5, 10)])
    return replace(fault, node=ANY, duration_s=duration_s, detail=rng.choice(["held", "landing"]))


def _produce(rng: random.Random, fault: Fault) -> Fault:
    fates = (*PRODUCE_FATES, "DROP", "DROP")
    return replace(
        fault, node=ANY, partition=ANY, duration_s=rng.uniform(0.3, 4), chance=rng.choice([0.02, 0.1, 0.4]), detail=rng.choice(fates)
    )


def _network(rng: random.Random, fault: Fault) -> Fault:
    return replace(
        fault, duration_s=rng.uniform(0.5, 5), chance=rng.choice([0.05, 0.2, 0.6]), detail=rng.choice(["lose", "late", "slow", "double"])
    )


REPLACING = 0.15
"""The chance that a file is committed by two uploaders, where partitions move between them."""


def drawn_movers(seed: int) -> int:
    """How many operators move partitions in the life of a seed."""
    return random.Random(f"moves {seed}").choice([0, 1, 2])


DRAWS: dict[str, Draw] = {
    "crash": _crash,
    "pause": _pause,
    "produce": _produce,
    "network": _network,
    "restart": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.05, 3)),
    "hold": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.1, 7)),
    "cut": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.5, 6)),
    "expire": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.choice([0.0, rng.uniform(0.5, 6)])),
    "future": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.1, 2)),
    "ghost": lambda rng, fault: replace(
        fault, node=ANY, partition=ANY, duration_s=rng.uniform(0.5, 4), detail=rng.choice(["one", "one", "all"])
    ),
    "lag": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.3, 4)),
    "lock": lambda rng, fault: replace(fault, node=ANY, partition=ANY, duration_s=rng.choice([rng.uniform(0.1, 2), rng.uniform(2, 12)])),
    "lock_start": lambda rng, fault: replace(fault, node=ANY, partition=ANY, duration_s=rng.uniform(0.5, 8), chance=rng.uniform(0.05, 1)),
    "lose_all": lambda rng, fault: fault,
    "unavailable": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.2, 6)),
    "slow": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.5, 5), chance=rng.uniform(10, 300)),
    "replay": lambda rng, fault: replace(fault, partition=ANY, chance=rng.random()),
    "stray": lambda rng, fault: replace(fault, partition=ANY, detail=rng.choice(STRAYS)),
    "flip": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.05, 3), chance=rng.random()),
    "forge": lambda rng, fault: replace(fault, partition=ANY, chance=rng.random(), detail=rng.choice(FORGERIES)),
    "refuse": lambda rng, fault: replace(fault, node=ANY, partition=ANY, duration_s=rng.uniform(0.05, 0.5)),
    "directory": lambda rng, fault: replace(fault, node=ANY, chance=rng.random(), detail=rng.choice(["kept", "lost"])),
    "disk": lambda rng, fault: replace(fault, node=ANY, partition=ANY),
    "drain": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.3, 6), detail=rng.choice(DRAINS)),
    "tear": lambda rng, fault: replace(
        fault, partition=ANY, duration_s=rng.uniform(1, 8), chance=rng.choice([0.1, 0.4]), detail=rng.choice(["lost", "lost", "ended"])
    ),
    "move": lambda rng, fault: replace(
        fault, node=ANY, partition=ANY, duration_s=rng.uniform(0.05, 3), detail=rng.choice([*MOVE_STEPS, "", "", ""])
    ),
    "upgrade": lambda rng, fault: replace(fault, node=ANY, duration_s=rng.uniform(0.05, 3)),
    "snapshot": lambda rng, fault: replace(
        fault, partition=ANY, duration_s=rng.uniform(0.05, 3), chance=rng.random(), detail=rng.choice(SNAPSHOT_STEPS)
    ),
    "clock": lambda rng, fault: replace(
        fault, node=ANY, duration_s=rng.choice([rng.uniform(0.1, 4), *CLOCK_JUMPS_S]), detail=rng.choice(["forward", "back"])
    ),
}
"""How each kind of fault is drawn."""

STORE_FAULTS = ("REFUSED", "UNKNOWN", "LATE", "STALLED")

GATEWAY_DRAWS: dict[str, Draw] = {
    "gateway_cut": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.5, 6)),
    "gateway_kill": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.05, 3)),
    "gateway_links": lambda rng, fault: replace(
        fault, duration_s=rng.uniform(0.5, 4), chance=rng.choice([0.05, 0.2, 0.5]), detail=rng.choice(["lose", "slow"])
    ),
    "gateway_move": lambda rng, fault: fault,
    "gateway_pause": lambda rng, fault: replace(fault, duration_s=rng.choice([rng.uniform(0.1, 1), rng.uniform(1, 8)])),
    "gateway_stop": lambda rng, fault: replace(fault, duration_s=rng.uniform(0.05, 2)),
    "gateway_store": lambda rng, fault: replace(
        fault, duration_s=rng.uniform(0.5, 5), chance=rng.choice([0.2, 0.6, 1.0]), detail=rng.choice(STORE_FAULTS)
    ),
}
"""How each kind of fault of gateways and their clients is drawn; `node` is the gateway."""
