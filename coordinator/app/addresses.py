"""Why a process cannot listen where its settings say, in words for an operator."""

from __future__ import annotations

import errno
import os
import socket

REASONS = {
    errno.EADDRINUSE: "another process listens there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have that address; name one of its own, or 0.0.0.0 for all of them "
    "(the address that others use goes to advertised.listeners)",
    errno.EACCES: "this user may not; ports below 1024 are for root",
}


def cannot_listen(key: str, address: str, error: OSError) -> str:
    """Say why the address of a setting cannot be listened on, and what to do."""
    if isinstance(error, socket.gaierror):
        reason = f"the host name cannot be resolved ({error.strerror}); name an address of this machine"
    else:
        reason = REASONS.get(error.errno or 0) or f"{os.strerror(error.errno) if error.errno else error}; correct {key}"
    return f"cannot listen on {address} ({key}): {reason}"
