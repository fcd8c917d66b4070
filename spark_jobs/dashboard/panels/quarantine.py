"""Entries that could not be decoded: where, why, and their first bytes as a hex dump."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows, scalar, totals
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection

BYTES_SHOWN = 256


def quarantine(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/quarantine`: the newest first."""
    found = rows(
        db,
        "select kpart, entry_offset, error, size_bytes, first_bytes, seen_ms from quarantine"
        " order by seen_ms desc, kpart, entry_offset desc limit ? offset ?",
        query.limit,
        query.offset,
    )
    kept = scalar(db, "select count(*) from quarantine")
    return {
        "count": max(kept, totals(db).get("quarantined", 0)),
        "kept": kept,
        "offset": query.offset,
        "limit": query.limit,
        "rows": [
            {
                "coordinator": row["kpart"],
                "offset": row["entry_offset"],
                "error": row["error"],
                "size_bytes": row["size_bytes"],
                "seen_ms": row["seen_ms"],
                "hex": hex_dump(bytes(row["first_bytes"] or b"")[:BYTES_SHOWN]),
            }
            for row in found
        ],
    }


def hex_dump(data: bytes) -> str:
    """Sixteen bytes a line: place, hex, and the printable characters."""
    lines = []
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:04x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
