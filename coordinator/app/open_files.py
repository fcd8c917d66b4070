"""The process's limit of open files, raised to what the system lets it have: each connection costs one.

Service managers and shells often start programs with a soft limit of 256 or 1024, far below `connections.max`.
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
            "open files limit=%d needed=%d remedy='raise the hard limit (LimitNOFILE, ulimit -Hn) or lower connections.max'", wanted, needed
        )
    return wanted
