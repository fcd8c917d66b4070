"""The process's limit of open files, raised to what the system lets it have: each connection costs one.

Service managers and shells often start programs with a soft limit of 256 or 1024, far below `connections.max`. Where the hard limit
is low, too, connections are refused before they take the files that state databases and Kafka's clients need: a node without
those ends, and names its disk.
"""

from __future__ import annotations

import logging
import resource

LOG = logging.getLogger("coordinator.app")

OTHER_FILES = 500
"""State databases, Kafka's connections, nodes, logs."""


def raise_open_files(connections_max: int) -> int:
    """Raise the soft limit as far as needed and allowed; returns it. Logs a warning when it is below what may be needed."""
    needed = connections_max + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        LOG.warning("the limit of open files stays at %d: %s", soft, error)
        wanted = soft
    if wanted < needed:
        LOG.warning(
            "open files limit=%d needed=%d: fewer connections are taken remedy='raise the hard limit (LimitNOFILE, ulimit -Hn) or lower"
            " connections.max'",
            wanted,
            needed,
        )
    return wanted


def connections_that_fit(connections_max: int, listeners: int) -> int:
    """How many connections each of the listeners may have at the present limit: `connections_max`, or fewer."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return connections_max
    return max(1, min(connections_max, max(limit - OTHER_FILES, limit // 2) // listeners))
