"""A short run of every kind of fault against real brokers and nodes, judged; and the proof that its history can be found bad.

Longer ones: `python -m integration_tests.faults --minutes 5 --seed 1 --report FOLDER`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.dev import die_with_parent
from cli.dev.kafka import BrokerRuntime
from integration_tests.checker import check
from integration_tests.faults.actions import ACTIONS, Needs
from integration_tests.faults.network import Network, delete_leftovers
from integration_tests.faults.run import HISTORY_FILE
from integration_tests.history import BatchAnswer, Description, FinalState, History, Unknown
from integration_tests.metadata_log import read_log
from integration_tests.recording import read_recording

SEED = 7
RUN_TIMEOUT_S = 600
pytestmark = [pytest.mark.long, pytest.mark.timeout(RUN_TIMEOUT_S + 60)]
REPOSITORY = Path(__file__).parent.parent


class Run(NamedTuple):
    """A run that has ended."""

    output: str
    report: dict[str, Any]
    history: History
    final: FinalState


@pytest.fixture(scope="module")
def once(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Every action once that this machine allows."""
    folder = tmp_path_factory.mktemp("faults")
    command = [sys.executable, "-m", "integration_tests.faults", "--once", "--seed", str(SEED), "--quick-brokers"]
    # It dies with this process: a test that is broken off leaves neither processes nor (at the next run) namespaces.
    wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    done = subprocess.run(
        [*wrapper, *command, "--report", str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, f"exit status {done.returncode}; the report is in {folder}\n{done.stdout[-6000:]}"
    history, final = read_recording(folder / HISTORY_FILE)
    assert final is not None
    return Run(done.stdout, json.loads((folder / "report.json").read_text(encoding="utf-8")), history, final)


def test_under_every_kind_of_fault_nothing_acknowledged_is_lost_doubled_or_moved(once: Run) -> None:
    print(once.output)
    report = once.report
    assert report["violations"] == []
    assert report["unusual_log_lines"] == []
    assert {fault["action"] for fault in report["faults"]} == set(report["actions"])
    assert len(once.history.finds) > 100
    assert sum(deletion.error_code == 0 for deletion in once.history.deletions) > 5
    assert len(once.history.descriptions) > 10
    assert len(once.final.copies) == 3


MISSING = {
    Needs.NETWORK: "faults of the network",
    Needs.CLOCK: "clock jumps",
    Needs.DISK: "disks that refuse",
    Needs.MOUNT: "full disks",
}


@pytest.mark.parametrize("needs", MISSING, ids=lambda needs: needs.name.lower())
def test_faults_that_need_something_were_there(once: Run, needs: Needs) -> None:
    wanted = {name for name, action in ACTIONS.items() if action.needs is needs}
    missing = [text for text in once.report["missing"] if MISSING[needs] in text]
    if missing:
        pytest.skip(missing[0])
    assert wanted <= {fault["action"] for fault in once.report["faults"]}


def test_faults_of_brokers_are_felt_by_every_commit(once: Run) -> None:
    """Otherwise the run says nothing: replication waits for a broker that is frozen or cut off, until the others miss it."""
    felt = {fault["action"]: fault["outage_most_s"] for fault in once.report["faults"]}
    wanted = {"broker_pause", "broker_cut"} & set(felt)
    assert wanted
    assert all(felt[action] > 1.0 for action in wanted), felt


def test_an_entry_was_forged_and_is_void(once: Run) -> None:
    details = next(fault["details"] for fault in once.report["faults"] if fault["action"] == "forgery")
    assert any(text.startswith("forged ") for text in details), details
    assert any(read_log(messages).contradictions for messages in once.final.logs.values())


def test_what_a_killed_run_left_is_deleted_by_the_next(once: Run) -> None:
    if "network" in str(once.report["missing"]):
        pytest.skip(once.report["missing"][0])
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Network(gone.pid, ("k1", "c1"))
    left.create()
    try:
        assert sorted(delete_leftovers()) == [f"dfr{gone.pid}-{name}" for name in ("c1", "k1", "switch")]
        assert delete_leftovers() == []
    finally:
        left.delete()


Plant = Callable[[History, FinalState], tuple[History, FinalState]]


def lose_an_acknowledged_commit(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Take the last batch of a partition away, as if its entry had been lost after the answer."""
    where, partition = next((w, p) for w, p in final.partitions.items() if len(p.batches) > 1)
    *rest, lost = partition.batches
    end = lost.base_offset
    shorter = replace(partition, batches=tuple(rest), high_watermark=end, latest_offset=end)
    return history, replace(final, partitions={**final.partitions, where: shorter})


def double_a_commit(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Commit the first batch of a partition again at its end."""
    where, partition = next((w, p) for w, p in final.partitions.items() if len(p.batches) > 1)
    first = partition.batches[0]
    again = first._replace(
        base_offset=partition.high_watermark, last_offset=partition.high_watermark + first.last_offset - first.base_offset
    )
    end = again.last_offset + 1
    longer = replace(partition, batches=(*partition.batches, again), high_watermark=end, latest_offset=end)
    return history, replace(final, partitions={**final.partitions, where: longer})


def answer_a_retry_otherwise(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Tell one client another offset than the log has."""
    at, attempt = next((i, a) for i, a in enumerate(history.attempts) if a.answers and a.answers[0].error_code == 0)
    first: BatchAnswer = attempt.answers[0]
    wrong = replace(attempt, answers=(first._replace(base_offset=first.base_offset + 1), *attempt.answers[1:]))
    return replace(history, attempts=[*history.attempts[:at], wrong, *history.attempts[at + 1 :]]), final


def read_the_past(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Let the last strict read see the beginning."""
    late = max(range(len(history.reads)), key=lambda at: history.reads[at].invoked_s)
    reads = [replace(read, offset=0) if at == late else read for at, read in enumerate(history.reads)]
    return replace(history, reads=reads), final


def call_a_live_file_dead(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Say at the end that nothing of a file is live whose batch, acknowledged, is the last of its partition."""
    told = {attempt.object_key for attempt in history.attempts if attempt.answers and not any(one.error_code for one in attempt.answers)}
    batch = next(p.batches[-1] for p in final.partitions.values() if p.batches and p.batches[-1].object_key in told)
    late = max(one.answered_s for one in history.descriptions)
    wrong = Description(object_key=batch.object_key, invoked_s=late + 60, answered_s=late + 61, error_code=0, has_live_batches=False)
    return replace(history, descriptions=[*history.descriptions, wrong]), final


def call_a_partition_unknown(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Tell one client for a moment that a partition is unknown, which a retry would have hidden."""
    where = next(iter(final.partitions))
    late_s = max(read.answered_s for read in history.reads)
    return replace(history, unknowns=[*history.unknowns, Unknown("FindBatches", where, 1, late_s, late_s + 1, 100)]), final


def write_a_contradiction(history: History, final: FinalState) -> tuple[History, FinalState]:
    """Take a forgery for an entry of the service."""
    return replace(history, forgeries=[]), final


def test_nothing_is_found_in_the_recorded_history_as_it_is(once: Run) -> None:
    assert check(once.history, once.final) == []


@pytest.mark.parametrize(
    "plant",
    [
        lose_an_acknowledged_commit,
        double_a_commit,
        answer_a_retry_otherwise,
        read_the_past,
        call_a_live_file_dead,
        call_a_partition_unknown,
        write_a_contradiction,
    ],
)
def test_a_violation_planted_in_the_recorded_history_is_found(once: Run, plant: Plant) -> None:
    assert check(*plant(once.history, once.final)) != []
