"""Counters of everything the Kafka clients see. They are exported, never acted upon.

librdkafka's `error_cb` says `_ALL_BROKERS_DOWN` for a routine idle disconnect and `_TRANSPORT` several times a second
while a broker restarts, so it is a number for dashboards and nothing else. Several threads count here: each
increment happens under the interpreter lock and a lost one is harmless.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class KafkaStats:
    """Counters of one process's Kafka clients."""

    client_errors: Counter[str] = field(default_factory=Counter)
    """Errors that `error_cb` reported, by "<client>:<error name>"."""

    reader_chunks: int = 0
    reader_entries: int = 0
    reader_bytes: int = 0
    reader_stale_entries: int = 0
    """Entries dropped because their partition was followed anew or no longer."""
    reader_waits: int = 0
    """Times the reader paused because the event loop had not taken enough entries."""
    reader_partition_errors: Counter[str] = field(default_factory=Counter)
    reader_reopened: int = 0

    producers_made: int = 0
    producers_ready: int = 0
    """Spare producers whose producer id and metadata were fetched."""
    producers_opened: int = 0
    producers_opened_unready: int = 0
    """Terms that began with a producer not yet ready; each costs about half a second."""
    producers_abandoned: int = 0
    producers_destroyed: int = 0
    producer_failures: int = 0
    """Attempts to make a spare producer that failed."""
    reports: int = 0
    report_wakeups: int = 0
    report_errors: Counter[str] = field(default_factory=Counter)

    member_assignments: int = 0
    member_lost: int = 0
    member_watchdog_leaves: int = 0
    member_failures: int = 0
    """Exceptions the membership thread survived."""
    member_errors: Counter[str] = field(default_factory=Counter)
    proofs: Counter[str] = field(default_factory=Counter)

    admin_retries: int = 0
    admin_failures: Counter[str] = field(default_factory=Counter)
