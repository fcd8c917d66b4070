"""librdkafka's threads of brokers wait for a free core, or get one at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from coordinator.adapters.kafka.producing.broker_threads import BrokerThreads
from integration_tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getscheduler") or os.sched_getscheduler(0) != os.SCHED_OTHER,
    reason="only Linux has these policies, and these tests were started under another one than the usual",
)


def policies() -> dict[str, set[int]]:
    """The policies of this process's threads, by whether librdkafka calls them those of a broker."""
    found: dict[str, set[int]] = {"broker": set(), "other": set()}
    for task in Path("/proc/self/task").iterdir():
        try:
            name, policy = (task / "comm").read_text(), os.sched_getscheduler(int(task.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        found["broker" if name.startswith("rdk:broker") else "other"].add(policy)
    return found


@contextmanager
def client() -> Iterator[Producer]:
    """A client with brokers, librdkafka's own."""
    producer = Producer({"bootstrap.servers": "its own", "test.mock.num.brokers": 2, "log_level": 0})
    producer.list_topics(timeout=10)
    yield producer
    producer.flush(10)


def policies_when(threads: BrokerThreads, *, are_waiting: bool) -> dict[str, set[int]]:
    """The policies after threads were told the other thing, and then this."""
    threads.wait(not are_waiting)
    threads.wait(are_waiting)
    return policies()


def test_threads_of_brokers_wait_for_a_free_core_when_told() -> None:
    with client():
        threads = BrokerThreads()
        assert policies()["broker"] == {os.SCHED_OTHER}
        # librdkafka may begin a thread between the telling and the look: then all are told once more.
        waiting = {"broker": {os.SCHED_BATCH}, "other": {os.SCHED_OTHER}}
        wait_until(lambda: policies_when(threads, are_waiting=True) == waiting, "the threads of brokers to wait for a free core")
        usual = {"broker": {os.SCHED_OTHER}, "other": {os.SCHED_OTHER}}
        wait_until(lambda: policies_when(threads, are_waiting=False) == usual, "the threads of brokers to run at once")


def told_by_a_thread_under(policy: int) -> set[int]:
    """The policies of threads of brokers that a thread under this policy told to wait. A process is told from the thread that begins it."""
    found: list[set[int]] = []

    def look() -> None:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        threads = BrokerThreads()
        threads.wait(True)
        found.append(policies()["broker"])
        threads.wait(False)

    with client():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return found[0]


def test_a_process_under_another_policy_is_left_alone() -> None:
    assert told_by_a_thread_under(os.SCHED_IDLE) == {os.SCHED_OTHER}


def test_a_thread_whose_children_get_the_usual_policy_has_it_too() -> None:
    # The event loop, since it has asked for short slices.
    assert os.SCHED_BATCH in told_by_a_thread_under(os.SCHED_OTHER | os.SCHED_RESET_ON_FORK)
