"""librdkafka's threads wait for a free core while many entries leave together, and get one at once otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from coordinator.adapters.kafka.broker_threads import SWITCH_AFTER, BrokerThreads
from coordinator.adapters.kafka.in_flight_window import FEW_MAX
from integration_tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getscheduler") or os.sched_getscheduler(0) != os.SCHED_OTHER,
    reason="only Linux has these policies, and these tests were started under another one than the usual",
)

MANY, FEW = FEW_MAX + 1, FEW_MAX


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


def hand_over(threads: BrokerThreads, *groups: int) -> None:
    for entries in groups:
        threads.handing_over(entries)


def after(threads: BrokerThreads, first: int, then: int) -> dict[str, set[int]]:
    """The policies behind a load of groups of one size and one of another."""
    hand_over(threads, *[first] * SWITCH_AFTER, *[then] * SWITCH_AFTER)
    return policies()


def test_threads_of_brokers_wait_for_a_free_core_while_many_entries_leave_together() -> None:
    with client():
        threads = BrokerThreads()
        assert policies()["broker"] == {os.SCHED_OTHER}
        # librdkafka may begin a thread between the telling and the look: then all are told once more.
        waiting = {"broker": {os.SCHED_BATCH}, "other": {os.SCHED_OTHER}}
        wait_until(lambda: after(threads, FEW, MANY) == waiting, "the threads of brokers to wait for a free core")
        assert threads.are_waiting
        usual = {"broker": {os.SCHED_OTHER}, "other": {os.SCHED_OTHER}}
        wait_until(lambda: after(threads, MANY, FEW) == usual, "the threads of brokers to run at once")
        assert not threads.are_waiting


def test_neither_a_burst_nor_a_pause_changes_anything() -> None:
    threads = BrokerThreads()
    hand_over(threads, *[MANY] * (SWITCH_AFTER - 1), FEW, MANY)
    assert not threads.are_waiting
    hand_over(threads, MANY)
    assert threads.are_waiting
    hand_over(threads, *[FEW] * (SWITCH_AFTER - 1), MANY, FEW)
    assert threads.are_waiting
    hand_over(threads, FEW)
    assert not threads.are_waiting


def test_a_process_under_another_policy_is_left_alone() -> None:
    found: list[tuple[bool, dict[str, set[int]]]] = []

    def look() -> None:
        # The policy of one thread: a process is told from that of the thread that begins it.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        threads = BrokerThreads()
        hand_over(threads, *[MANY] * SWITCH_AFTER)
        found.append((threads.are_waiting, policies()))

    with client():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found[0][0]
    assert found[0][1]["broker"] == {os.SCHED_OTHER}
