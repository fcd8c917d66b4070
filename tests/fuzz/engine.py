"""Runs a target on inputs and judges each run; a long run also looks for inputs that reach new code.

Invariant: an input is a finding when anything but a declared error came out, when the run held more memory or took more
time than the size of the input allows. Time is that of this thread, and the least of several runs counts, so a busy
machine makes no findings.
"""

from __future__ import annotations

import gc
import hashlib
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.mutation import mutate

CORPUS: Final = Path(__file__).parent / "corpus"
FINDING: Final = "finding-"
"""How the files of inputs begin that once showed a fault; they stay, whatever code they reach."""
KEPT_BYTES_MAX: Final = 700
TRIES: Final = 4
CPU_S: Final = 0.05
CPU_S_PER_BYTE: Final = 100e-6

_WATCHED: Final = tuple(f"{Path(__file__).parents[2]}/{package}/" for package in ("coordinator", "gateway", "records"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser. `run` raises a declared error, or AssertionError when two ways to read the same bytes disagree."""

    name: str
    run: Callable[[bytes], None]
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]
    memory_bytes: int = 100_000
    memory_bytes_per_byte: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An input that shows a fault, and the fault."""

    target: str
    data: bytes
    fault: str

    def __str__(self) -> str:
        return f"{self.target}: {self.fault}\n  input ({len(self.data)} bytes): {self.data.hex()}"


def judge(target: Target, data: bytes) -> Finding | None:
    """Run a target once, and again when it was slow."""
    fault = _run_once(target, data)
    if fault is None:
        fault = _find_waste(target, data)
    return None if fault is None else Finding(target=target.name, data=data, fault=fault)


def _run_once(target: Target, data: bytes) -> str | None:
    try:
        target.run(data)
    except target.declared:
        return None
    except Exception as error:  # noqa: BLE001 - every other error is what this looks for
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
        return f"{type(error).__name__}{where}: {error!s:.300}"
    return None


def _find_waste(target: Target, data: bytes) -> str | None:
    memory_max = target.memory_bytes + target.memory_bytes_per_byte * len(data)
    cpu_max_s = CPU_S + CPU_S_PER_BYTE * len(data)
    used_bytes, used_s = _measure(target, data)
    for _ in range(TRIES - 1):
        if used_s <= cpu_max_s and used_bytes <= memory_max:
            return None
        gc.collect()
        again_bytes, again_s = _measure(target, data)
        used_bytes, used_s = min(used_bytes, again_bytes), min(used_s, again_s)
    if used_bytes > memory_max:
        return f"held {used_bytes} bytes for an input of {len(data)}; {memory_max} are allowed"
    return f"took {used_s:.3f} s for {len(data)} bytes; {cpu_max_s:.3f} s are allowed" if used_s > cpu_max_s else None


def _measure(target: Target, data: bytes) -> tuple[int, float]:
    """The greatest number of bytes held at a time, and the seconds of this thread."""
    tracemalloc.start()
    try:
        began = time.thread_time()
        _run_once(target, data)
        return tracemalloc.get_traced_memory()[1], time.thread_time() - began
    finally:
        tracemalloc.stop()


# --- inputs ---


def corpus_of(name: str) -> list[bytes]:
    """Read the kept inputs of a target, in the order of their names."""
    return [bytes.fromhex(path.read_text("ascii")) for path in sorted((CORPUS / name).glob("*.hex"))]


def keep(name: str, data: bytes, *, prefix: str = "") -> Path:
    """Add an input to the corpus; its name tells its content, and whether it is to stay (`FINDING`)."""
    path = CORPUS / name / f"{prefix}{hashlib.sha256(data).hexdigest()[:12]}.hex"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = data.hex()
    path.write_text("".join(f"{text[start : start + 128]}\n" for start in range(0, len(text), 128)), encoding="ascii")
    return path


def starting_inputs(target: Target) -> list[bytes]:
    """List what a run starts from: the target's seeds, its corpus, and nothing at all."""
    return [b"", *target.seeds(), *corpus_of(target.name)]


def mutations(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Make inputs, always the same for a seed."""
    rng = random.Random(f"{target.name}:{seed}")
    inputs = starting_inputs(target)
    return (mutate(rng, rng.choice(inputs), inputs) for _ in range(count))


# --- long runs ---

Step = tuple[CodeType, int, int]
"""From one line of a function to another."""


class Coverage:
    """Which steps the product's code took, through Python's tracing; makes everything several times slower."""

    def __init__(self) -> None:
        self.seen: set[Step] = set()
        self._now: set[Step] = set()

    def new_steps(self, run: Callable[[], object]) -> int:
        """Run something; return how many of its steps were never taken before."""
        self._now = set()
        sys.settrace(self._enter)
        try:
            run()
        finally:
            sys.settrace(None)
        new = self._now - self.seen
        self.seen |= new
        return len(new)

    def _enter(self, frame: FrameType, _event: str, _arg: Any) -> Callable[[FrameType, str, Any], Any] | None:
        if not frame.f_code.co_filename.startswith(_WATCHED):
            return None
        last, now, code = 0, self._now, frame.f_code

        def step(frame: FrameType, event: str, _arg: Any) -> Callable[[FrameType, str, Any], Any]:
            nonlocal last
            # An exception that leaves through a line is a step of its own.
            line = -frame.f_lineno if event == "exception" else frame.f_lineno
            now.add((code, last, line))
            last = line
            return step

        return step


@dataclass(slots=True)
class Explored:
    """What a long run did."""

    runs: int
    kept: list[bytes]
    findings: list[Finding]
    steps: int


def explore(target: Target, seed: int, seconds: float) -> Explored:
    """Mutate for some seconds, going on from whatever reached new code. One finding for each kind of fault."""
    rng = random.Random(f"{target.name}:{seed}")
    coverage, inputs = Coverage(), starting_inputs(target)
    done = Explored(0, [], [], 0)
    faults: set[str] = set()
    for data in inputs:
        coverage.new_steps(lambda data=data: _run_once(target, data))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutate(rng, rng.choice(inputs), inputs)
        done.runs += 1
        new = coverage.new_steps(lambda data=data: _run_once(target, data))
        # Memory and time cost a second run: looked at for what is new, what is large, and now and then.
        finding = judge(target, data) if new or len(data) > KEPT_BYTES_MAX or rng.random() < 0.02 else _plain_fault(target, data)
        if finding is not None:
            kind = "".join(char for char in finding.fault if not char.isdigit())[:120]
            if kind not in faults:
                faults.add(kind)
                done.findings.append(finding)
        elif new and len(data) <= KEPT_BYTES_MAX:
            inputs.append(data)
            done.kept.append(data)
    done.steps = len(coverage.seen)
    return done


def _plain_fault(target: Target, data: bytes) -> Finding | None:
    fault = _run_once(target, data)
    return None if fault is None else Finding(target=target.name, data=data, fault=fault)


def distil(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Choose, smallest first, the inputs that reach code which neither the seeds nor those before them reach."""
    coverage = Coverage()
    for data in (b"", *target.seeds()):
        coverage.new_steps(lambda data=data: _run_once(target, data))
    return [
        data
        for data in sorted(set(inputs), key=lambda one: (len(one), one))
        if coverage.new_steps(lambda data=data: _run_once(target, data))
    ]
