"""Counters of Produce since the gateway began; metrics and, by them, the doctor read them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from coordinator.adapters.metrics.histogram import Series

CLIENTS_MAX: Final = 500
CLIENT_CHARACTERS_MAX: Final = 64
OTHERS: Final = "(others)"
"""The name under which clients are counted when `CLIENTS_MAX` have names of their own."""


@dataclass(slots=True)
class ClientBatches:
    """What the clients of one client id have written."""

    batches: int = 0
    size_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class ProduceStats:
    """Counters, and the seconds of uploads, of commits, and of requests from their last byte to their answer."""

    requests: int = 0
    request_seconds: Series = field(default_factory=lambda: Series(()))
    batches: int = 0
    size_bytes: int = 0
    files: int = 0
    """Files that were uploaded."""
    file_bytes: int = 0
    files_refused: int = 0
    """Files of which nothing was accepted."""
    upload_seconds: Series = field(default_factory=lambda: Series(()))
    uploads_repeated: int = 0
    uploads_given_up: int = 0
    commit_seconds: Series = field(default_factory=lambda: Series(()))
    commits_repeated: int = 0
    duplicates: int = 0
    timed_out: int = 0
    """Requests whose time was over before all of their batches had an outcome."""
    refused: Counter[int] = field(default_factory=Counter)
    """Partitions of requests by error code."""
    by_client: dict[str, ClientBatches] = field(default_factory=dict)

    def count_client(self, client_id: str | None, batches: int, size_bytes: int) -> None:
        """Count accepted batches of a client id."""
        name = (client_id or "")[:CLIENT_CHARACTERS_MAX]
        found = self.by_client.get(name)
        if found is None:
            if len(self.by_client) >= CLIENTS_MAX:
                name = OTHERS
            found = self.by_client.setdefault(name, ClientBatches())
        found.batches += batches
        found.size_bytes += size_bytes
