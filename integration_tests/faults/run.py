"""One run: start everything, let clients and faults loose, read what is left, judge it, write it down.

Whatever happens, the history so far and the report are written and every process is ended.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from cli.dev.coordinator import CoordinatorFailedError
from cli.dev.kafka import KafkaStartError
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.errors import DisklessError
from integration_tests.checker import check
from integration_tests.faults.client_checker import check_clients
from integration_tests.faults.client_history import ClientHistory, write_client_history
from integration_tests.faults.client_load import ClientLoad
from integration_tests.faults.gateway_topology import GATEWAY_ZONES, TOPIC, TOPIC_PARTITIONS, GatewayTopology
from integration_tests.faults.nemesis import SHARED_TIMEOUT_S, Done, Nemesis, plan
from integration_tests.faults.topology import BROKERS, NODES, Machine, Topology
from integration_tests.faults.unusual import DAMAGES, unusual_lines
from integration_tests.faults.waits import Waits
from integration_tests.final_state import log_ends, read_final_state
from integration_tests.history import FinalState, History
from integration_tests.load import Load
from integration_tests.recording import write_recording

HISTORY_FILE: Final = "history.jsonl.gz"
CLIENTS_FILE: Final = "clients.jsonl.gz"
SETTLE_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was asked for. `minutes` None: every action once, in full rounds of the shortest faults."""

    actions: tuple[str, ...]
    seed: int
    minutes: float | None
    together_max: int
    quick_brokers: bool
    folder: Path
    has_gateways: bool = False
    """Whether clients of others work through gateways, instead of our own at the nodes."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What was done and seen. `violations` are contradictions and failures; none of them is expected of a good service."""

    settings: Settings
    machine: Machine
    history: History = field(default_factory=History)
    final: FinalState | None = None
    clients: ClientHistory | None = None
    """Of a run with gateways, which has no other history."""
    faults: list[Done] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    broken_off: str | None = "it was ended, or failed by itself"
    """Why the run came to no end, when that is no fault of the service: a broker did not start. None once it has come to one."""
    unusual_log_lines: list[str] = field(default_factory=list)
    start_s: float = 0.0
    load_from_s: float = 0.0
    load_until_s: float = 0.0
    story: list[tuple[float, str]] = field(default_factory=list)


def run(result: Result, say: Callable[[str], None]) -> None:
    """Carry a run out."""
    settings = result.settings
    result.start_s = time.monotonic()

    def tell(text: str) -> None:
        at_s = time.monotonic() - result.start_s
        result.story.append((at_s, text))
        say(f"{at_s:7.1f} {text}")

    work, waits = settings.folder / "work", Waits(tell)
    try:
        kind = GatewayTopology if settings.has_gateways else Topology
        with failures_are_violations(result, tell), kind(result.machine, work, quick_brokers=settings.quick_brokers) as topology:
            tell(f"running: {', '.join((*BROKERS, *topology.processes))}")
            with failures_are_violations(result, tell):
                _disturb(topology, result, tell, waits)
            _judge(topology, result, tell, waits)
        result.broken_off = None
    except KafkaStartError as problem:
        result.broken_off = f"a broker did not start or come back: {problem}"
    finally:
        if result.clients is not None:
            write_client_history(settings.folder / CLIENTS_FILE, result.clients)
        else:
            write_recording(settings.folder / HISTORY_FILE, result.history, result.final)
        result.unusual_log_lines = unusual_lines(work, {one.target for one in result.faults if one.action in DAMAGES})
        _keep_logs(work, settings.folder / "logs")
        if result.broken_off is None and not result.violations:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def failures_are_violations(result: Result, tell: Callable[[str], None]) -> Iterator[None]:
    """A service that does not start, does not recover or does not answer in the end has failed, like one that contradicts itself."""
    try:
        yield
    except (AssertionError, CoordinatorFailedError, ConnectionLost, DisklessError, KafkaException, RequestTimedOut) as failure:
        result.violations.append(f"{type(failure).__name__}: {failure}")
        tell(f"failed: {(str(failure) or type(failure).__name__).splitlines()[0]}")


def _make_load(topology: Topology, result: Result, waits: Waits) -> Load | ClientLoad:
    settings = result.settings
    if isinstance(topology, GatewayTopology):
        logs = settings.folder / "work" / "clients"
        clients = ClientLoad(topology.bootstrap, TOPIC, TOPIC_PARTITIONS, logs, waits, seed=settings.seed)
        result.clients, topology.history, topology.members = clients.history, clients.history, clients.members
        return clients
    load = Load(topology.addresses, topology.owners, seed=settings.seed, consumers=True)
    result.history = load.history
    load.history.forgeries = topology.forgeries
    return load


def _disturb(topology: Topology, result: Result, tell: Callable[[str], None], waits: Waits) -> None:
    settings = result.settings
    load = _make_load(topology, result, waits)
    nemesis = Nemesis(topology, load, tell, waits, seed=settings.seed)
    result.faults = nemesis.done
    with load, topology.moved or nullcontext():
        with waits.on("the first records"):
            load.wait_flowing()
            result.load_from_s = time.monotonic()
            load.wait_flowing(10)
        end_s = None if settings.minutes is None else result.load_from_s + settings.minutes * 60
        left = set(settings.actions)
        for planned in plan(settings.actions, settings.seed, brisk=end_s is None, together_max=settings.together_max):
            nemesis.run_round(planned, quiet_s=0 if end_s is None else None)
            left -= {one.action.name for one in planned}
            if (time.monotonic() > end_s) if end_s is not None else not left:
                break
        tell("no more faults")
        with waits.on("every node to lead its share"):
            topology.service.wait_shared(SHARED_TIMEOUT_S)
        with waits.on("the brokers to have all replicas in sync"):
            topology.kafka.wait_until_whole(SETTLE_TIMEOUT_S)
        with waits.on("all processes to serve, and moves to end"):
            topology.wait_back(SETTLE_TIMEOUT_S)
        with waits.on("records to flow"):
            load.wait_flowing(10)
            if topology.moved is not None:
                topology.moved.wait_flowing()
        nemesis.check_processes()
        result.load_until_s = time.monotonic()
    tell("the clients have all their answers")


def _judge(topology: Topology, result: Result, tell: Callable[[str], None], waits: Waits) -> None:
    is_read = waits.on("what is left to be read")
    if isinstance(topology, GatewayTopology):
        assert result.clients is not None
        with is_read:
            _read_what_is_left(topology, result.clients)
        result.violations += check_clients(result.clients)
    else:
        service = topology.service
        with is_read:
            result.final = read_final_state(topology.addresses, topology.owners, bootstrap=service.bootstrap, metadata_topic=service.topic)
        result.violations += check(result.history, result.final)
        if topology.moved is not None:
            with waits.on("records of partitions that moved"), failures_are_violations(result, tell):
                topology.moved.check()
    tell(f"judged: {len(result.violations)} contradictions")


def _read_what_is_left(topology: GatewayTopology, history: ClientHistory) -> None:
    """Read all records, and the ends of the shadow's logs."""
    for record in topology.stored_records():
        history.take({"partition": record.partition, "offset": record.offset, "stored": (record.value or b"").decode()})
    history.take({"shadow_ends": log_ends(topology.kafka.bootstrap, TOPIC)})


def _keep_logs(work: Path, logs: Path) -> None:
    logs.mkdir(exist_ok=True)
    sources: Sequence[tuple[str, Path]] = [
        *((name, work / f"node-{name[1:]}" / "coordinator.log") for name in NODES),
        *((f"twin-of-{name}", work / f"twin-{name[1:]}" / "coordinator.log") for name in NODES),
        *((name, work / f"gateway-{name[1:]}" / "gateway.log") for name in GATEWAY_ZONES),
        *((file.stem, file) for file in sorted((work / "clients").glob("*.log"))),
        *((name, work / "brokers" / f"node-{name[1:]}" / "broker.log") for name in BROKERS),
    ]
    for name, source in sources:
        if source.exists():
            shutil.copyfile(source, logs / f"{name}.log")
