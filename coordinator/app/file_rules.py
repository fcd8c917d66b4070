"""The limits for files without batches, and for orphans, as a node's settings have them."""

from __future__ import annotations

from coordinator.config.settings import Settings
from coordinator.runtime.files.rules import FileRules, ScanRules


def file_rules(settings: Settings) -> FileRules:
    """Return the limits for deleting files."""
    return FileRules(
        commit_max_age_ms=settings.file_commit_max_age_ms,
        delete_grace_ms=settings.file_delete_grace_ms,
        interval_ms=settings.file_cleaner_interval_ms,
        max_files_per_cycle=settings.file_cleaner_max_files_per_cycle,
        kept_prefix=f"{settings.snapshots_prefix}/",
    )


def scan_rules(settings: Settings) -> ScanRules:
    """Return the limits of the scan for orphans, and why there is none if so."""
    return ScanRules(
        prefix=settings.object_store_wal_prefix,
        kept_prefix=f"{settings.snapshots_prefix}/",
        interval_ms=settings.diskless_coordinator_orphan_scan_interval_ms,
        age_ms=settings.file_commit_max_age_ms + settings.diskless_coordinator_orphan_scan_grace_period_ms,
        off_because=_off_because(settings),
    )


def _off_because(settings: Settings) -> str:
    if settings.object_store_url.scheme == "memory":
        return "object.store.url is memory://, which no other process sees; name the store with the WAL files to have them deleted"
    return ""
