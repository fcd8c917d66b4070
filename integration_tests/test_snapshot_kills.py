"""Nodes are killed at every step of snapshots while clients commit: nothing is lost or doubled, and the log goes on being pruned.

The whole log is read while it is there; the checker judges it and the clients' history as if nothing had been pruned.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from integration_tests.checker import check
from integration_tests.final_state import Logs, dump_topic, log_starts, read_final_state
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched

PARTITIONS = 2
OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "16384",
    "metadata.snapshot.min.changed_records.ratio": "0",
    "metadata.log.max.snapshot.interval.ms": "0",
}
"""Often under load, and not for the few entries of those who read the final state: a snapshot changes that."""
LOOK_S = 0.001
STEP_TIMEOUT_S = 60.0


class Recorder:
    """Reads the log of a topic for as long as it is open, so that what is pruned was read before."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._place = (bootstrap, topic)
        self.logs: Logs = dump_topic(bootstrap, topic)
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._record, name="recorder")

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _record(self) -> None:
        try:
            while not self._is_over.wait(0.3):
                self.logs = dump_topic(*self._place, known=self.logs)
        except Exception as failure:  # noqa: BLE001 - raised where the recorder ends
            self._failure = failure


def at_once(node: CoordinatorProcess, condition: Callable[[], bool], is_past: Callable[[], bool] = lambda: False) -> bool:
    """Kill a node as soon as a condition holds, which may be for a few milliseconds only; False when it passed unseen."""
    end_s = time.monotonic() + STEP_TIMEOUT_S
    while not condition():
        if is_past():
            return False
        assert time.monotonic() < end_s, f"node {node.node_id} did not come to the step within {STEP_TIMEOUT_S:g} s:\n{node.log_tail()}"
        time.sleep(LOOK_S)
    node.kill()
    return True


def files(node: CoordinatorProcess, pattern: str) -> set[Path]:
    """Files of a node's data directory."""
    return set(node.data_folder.rglob(pattern))


def is_new(look: Callable[[], set[Path]]) -> Callable[[], bool]:
    """Whether there is a file that was not there."""
    known = look()
    return lambda: bool(look() - known)


def logged(node: CoordinatorProcess, text: str) -> Callable[[], bool]:
    """Whether a node says something once more."""
    said = node.log_text().count(text)
    return lambda: node.log_text().count(text) > said


STEPS: dict[str, Callable[[Service, CoordinatorProcess], Callable[[], bool]]] = {
    "write": lambda _, node: is_new(lambda: files(node, "*.checkpoint.part")),
    "upload": lambda _, node: is_new(lambda: files(node, "*.checkpoint")),
    "commit": lambda service, _: is_new(lambda: set((service.folder / "objects").rglob("*.checkpoint"))),
    "prune": lambda _, node: logged(node, "snapshot taken"),
    "clean up": lambda _, node: logged(node, "log pruned"),
    "verify": lambda _, node: is_new(lambda: files(node, "proving/*")),
}
"""What is seen from outside when a node is at a step, or has just begun it."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nodes_are_killed_at_every_step_of_a_snapshot(kafka: Kafka, data_folder: Path) -> None:
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties=OFTEN) as service:
        service.start(2)
        run = Watched(service, "orders", 6)
        with Recorder(service.bootstrap, service.topic) as recorder:
            with run.load() as load:
                load.wait_flowing()
                wait_until(lambda: all(start > 0 for start in log_starts(service.bootstrap, service.topic)), "the log to be pruned", 120)
                for number, step in enumerate(STEPS):
                    node = service.nodes[1 + number % 2]
                    at_once(node, STEPS[step](service, node))
                    node.start()
                    load.wait_flowing(timeout_s=120)
                for node in service.nodes.values():
                    # Without its disk, and killed again while it loads.
                    node.kill()
                    shutil.rmtree(node.data_folder)
                    node.start()
                    at_once(node, is_new(lambda node=node: files(node, "partition-*.db*")))
                    node.start()
                    load.wait_flowing(timeout_s=120)
                starts = log_starts(service.bootstrap, service.topic)
                wait_until(
                    lambda: all(now > then for now, then in zip(log_starts(service.bootstrap, service.topic), starts, strict=True)),
                    "pruning to go on",
                    120,
                )
            service.wait_shared()
        final = read_final_state(run.nodes, run.owners, bootstrap=service.bootstrap, metadata_topic=service.topic, known=recorder.logs)
        problems = check(load.history, final)
        assert not problems, f"{len(problems)} contradictions:\n" + "\n".join(problems[:20])
