"""A short run of the fuzzer, the same every time, and proof that its judge sees what it looks for."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.fuzz.connection_target import serve
from tests.fuzz.engine import CORPUS, CPU_S, Coverage, Target, corpus_of, judge, mutations, starting_inputs
from tests.fuzz.targets import TARGETS
from tests.interpreted import REPOSITORY

RUNS = 800
SEED = 1

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@each_target
def test_seeds_and_kept_inputs(target: Target) -> None:
    inputs = starting_inputs(target)
    assert len(inputs) > 1
    assert [finding for data in inputs if (finding := judge(target, data))] == []


@each_target
def test_mutations(target: Target) -> None:
    assert [finding for data in mutations(target, SEED, RUNS) if (finding := judge(target, data))] == []


@each_target
def test_most_seeds_are_well_formed(target: Target) -> None:
    read = 0
    seeds = list(target.seeds())
    for data in seeds:
        try:
            target.run(data)
        except target.declared:
            continue
        read += 1
    assert read == len(seeds), f"{len(seeds) - read} seeds are refused, so little behind the first check is tried"


def test_every_folder_of_the_corpus_has_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    assert any(corpus_of(name) for name in TARGETS)


def test_every_fast_codec_of_the_protocol_has_a_target() -> None:
    codecs = (REPOSITORY / "coordinator/protocol").glob("*.py")
    general = {"codec"}
    fast = {path.stem for path in codecs if "\ndef decode_" in path.read_text("utf-8") and not path.stem.endswith("_loops")} - general
    assert fast >= {"commit_file", "find_batches", "list_offsets"}
    assert fast <= set(TARGETS)


def test_a_connection_is_served_after_a_right_login_alone() -> None:
    served = [len(serve(data)[0]) for data in TARGETS["connection"].seeds()]
    assert served == [1, 0, 0, 0, 1, 9] * 2


def _target(run) -> Target:  # type: ignore[no-untyped-def]
    return Target(name="judged", run=run, declared=(KeyError,), seeds=list, memory_bytes=10_000, memory_bytes_per_byte=10)


def _spend(_: bytes) -> None:
    """Take twice the CPU time that is allowed, however fast the machine is."""
    until = time.thread_time() + 2 * CPU_S
    while time.thread_time() < until:
        pass


def test_the_judge_sees_errors_waste_and_delay() -> None:
    assert judge(_target(lambda data: {}[data]), b"x") is None

    error = judge(_target(lambda data: data[5]), b"x")
    assert error is not None
    assert "IndexError" in error.fault

    waste = judge(_target(lambda data: [data] * 100_000), b"x")
    assert waste is not None
    assert "10010 are allowed" in waste.fault
    assert judge(_target(lambda data: [data] * 1000), b"x") is None

    delay = judge(_target(_spend), b"x")
    assert delay is not None
    assert "s are allowed" in delay.fault


def test_coverage_tells_new_code_from_old() -> None:
    coverage, target = Coverage(), TARGETS["commit_file"]
    first = list(target.seeds())[1]
    assert coverage.new_steps(lambda: target.run(first)) > 10
    assert coverage.new_steps(lambda: target.run(first)) == 0
    assert coverage.new_steps(lambda: target.run(first + b"\0")) > 0


def test_long_runs_see_the_steps_of_loops_that_are_compiled() -> None:
    program = """
from tests.interpreted import interpret_loops
interpret_loops()
from tests.fuzz.engine import Coverage
from tests.fuzz.targets import TARGETS
coverage, target = Coverage(), TARGETS["entries"]
for data in target.seeds():
    coverage.new_steps(lambda: target.run(data))
print(*sorted({code.co_filename for code, _, _ in coverage.seen if code.co_filename.endswith("_loops.py")}))
"""
    seen = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    assert "records/committed_files/file_loops.py" in seen


def test_mutations_are_repeatable_and_varied() -> None:
    made = list(mutations(TARGETS["entry"], 3, 200))
    assert made == list(mutations(TARGETS["entry"], 3, 200))
    assert len(set(made)) > 150
