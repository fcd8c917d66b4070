"""The scheduling policy of librdkafka's broker threads: under heavy load they wait for a free core instead of taking one (Linux).

The thread of a broker is woken by the first entry of a group. If it takes a core from the event loop, or from the broker, before the
others of the group are there, it sends that one alone, and so on, until five are in flight; then it asks without a pause whether the others
may leave. Under the policy SCHED_BATCH a woken thread preempts no other; on a free core it still runs at once.
Why and how much: docs/decisions/001-five-messages-in-flight.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Final

LOG = logging.getLogger("coordinator.kafka.producer")

_TASKS: Final = "/proc/self/task"
_NAME: Final = b"rdk:broker"
"""How librdkafka begins the names of these threads."""


class BrokerThreads:
    """The threads of brokers of all clients of this process. Used on the event loop only.

    A process that was started under another policy than the default one, or may not set any, is left alone.
    """

    def __init__(self) -> None:
        self._may_set = _has_default_policy()

    def wait(self, are_waiting: bool) -> None:
        """Make the threads wait for a free core, or run at once."""
        if not self._may_set:
            return
        before, after = (os.SCHED_OTHER, os.SCHED_BATCH) if are_waiting else (os.SCHED_BATCH, os.SCHED_OTHER)
        try:
            for thread_id in _broker_threads():
                # Some end meanwhile.
                with contextlib.suppress(ProcessLookupError):
                    if os.sched_getscheduler(thread_id) == before:
                        os.sched_setscheduler(thread_id, after, os.sched_param(0))
        except OSError as error:
            self._may_set = False
            LOG.info("this system does not let threads wait for a free core (%s): more CPU is used while many commits come", error)


def _has_default_policy() -> bool:
    """True if the thread runs under the default scheduling policy; False if unknown."""
    if not hasattr(os, "sched_getscheduler") or not os.path.isdir(_TASKS):
        return False
    try:
        # The event loop's policy has this flag where `app.time_slice` has set it.
        return (os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK) == os.SCHED_OTHER
    except OSError:  # a C library, or a sandbox, without this call
        return False


def _broker_threads() -> list[int]:
    found = []
    for task in os.listdir(_TASKS):
        # 0.6 ms for fifty threads, on the event loop; `pathlib` and text take twice that.
        with contextlib.suppress(OSError), open(f"{_TASKS}/{task}/comm", "rb", buffering=0) as name:
            if name.read().startswith(_NAME):
                found.append(int(task))
    return found
