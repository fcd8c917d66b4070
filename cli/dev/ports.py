"""Free TCP ports on loopback, leased for as long as the lease is open.

A port found by binding to port 0 can be taken by any outgoing connection before the server binds it. So ports come from
below the kernel's range for outgoing connections, where no connection gets one by accident, and each carries a file lock, so
that two of our processes never choose the same. Invariant: a leased port was free, and no other lease has it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cli.java.cache import cache_folder

LOWEST_PORT = 15000
HIGHEST_PORT = 32767  # Linux hands out 32768 and above, macOS 49152 and above, for outgoing connections.
ATTEMPTS = 500


class NoPortError(Exception):
    """A port is in use, or no free one was found."""


class PortLease:
    """One port that no other lease takes until `close`."""

    def __init__(self, port: int, lock: IO[bytes]) -> None:
        self.port = port
        self._lock = lock

    def close(self) -> None:
        """Give the port back."""
        self._lock.close()


def port_range(kernel_range: str | None) -> tuple[int, int]:
    """Return the lowest and highest port to choose from, given the text of Linux' ip_local_port_range (or None)."""
    if kernel_range is None:
        return LOWEST_PORT, HIGHEST_PORT
    low, high = (int(word) for word in kernel_range.split())
    if low - 1 >= LOWEST_PORT + 1000:
        return LOWEST_PORT, min(HIGHEST_PORT, low - 1)
    if high + 1000 <= 65535:
        return high + 1, 65535
    return LOWEST_PORT, HIGHEST_PORT  # everything is handed out: the lock and the bind below must do


def lease_port(port: int) -> PortLease:
    """Lease this very port. Raises `NoPortError` when it is leased or in use."""
    lease = _try_lease(port)
    if lease is None:
        raise NoPortError(f"port {port} on 127.0.0.1 is in use: stop what listens there, or choose another port")
    return lease


def lease_ports(count: int, preferred: Sequence[int] = ()) -> list[PortLease]:
    """Lease `count` ports, the preferred ones where they are free."""
    kernel = Path("/proc/sys/net/ipv4/ip_local_port_range")
    low, high = port_range(kernel.read_text(encoding="ascii") if kernel.exists() else None)
    leases: list[PortLease] = []
    candidates = [*preferred, *(random.randint(low, high) for _ in range(ATTEMPTS + count))]
    for candidate in candidates:
        if len(leases) == count:
            break
        lease = _try_lease(candidate)
        if lease is not None:
            leases.append(lease)
    if len(leases) < count:
        for lease in leases:
            lease.close()
        raise NoPortError(f"only {len(leases)} of {count} free ports found between {low} and {high}")
    return leases


def lease_block(count: int) -> list[PortLease]:
    """Lease `count` ports with consecutive numbers. Raises `NoPortError`."""
    for _ in range(ATTEMPTS):
        leases = lease_ports(1)
        while len(leases) < count and (following := _try_lease(leases[-1].port + 1)) is not None:
            leases.append(following)
        if len(leases) == count:
            return leases
        for lease in leases:
            lease.close()
    raise NoPortError(f"no {count} free ports with consecutive numbers found")


def _try_lease(port: int) -> PortLease | None:
    folder = cache_folder() / "ports"
    folder.mkdir(exist_ok=True)
    lock = (folder / str(port)).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    if _is_free(port):
        return PortLease(port, lock)
    lock.close()
    return None


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # as servers do: a connection of a former server in TIME_WAIT does not count
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
