"""`docs/metrics.md` from the declarations of the metrics of nodes, gateways and exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import gateway.metrics
import tables.export.metrics
from coordinator.adapters.metrics import table
from coordinator.adapters.metrics.table import Metric

TARGET = Path("docs/metrics.md")

_HEAD = """# Metrics

Made by `python -m codegen` from `coordinator/adapters/metrics/table.py`, `gateway/metrics.py` and `tables/export/metrics.py`; do not edit.
All are at `/metrics` of the HTTP port, beside those of the process (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
`process_open_fds` and others). How Prometheus reads them: [prometheus](prometheus.md).
"""

_NODES = (
    ("Leadership", table.LEADERSHIP),
    ("Commits", table.COMMITS),
    ("Requests", table.REQUESTS),
    ("Log", table.LOG),
    ("State", table.STATE),
    ("Snapshots", table.SNAPSHOTS),
    ("Retention", table.RETENTION),
    ("Orphans", table.ORPHANS),
    ("Data directories", table.DIRECTORIES),
    ("Files", table.FILES),
    ("Moves of partitions", table.MOVES),
    ("Loops", table.LOOPS),
)
_GATEWAYS = (
    ("Clients and the group of gateways", gateway.metrics.FRONT),
    ("Produce", gateway.metrics.PRODUCE),
    ("Fetch", gateway.metrics.FETCH),
    ("Rights and rates", gateway.metrics.ACCESS),
)


def _section(title: str, prefix: str, groups: Sequence[tuple[str, Sequence[Metric]]]) -> Iterator[str]:
    yield f"\n## {title}\n"
    for subject, metrics in groups:
        yield f"\n### {subject}\n\n| metric | kind | labels | |\n|---|---|---|---|\n"
        for one in metrics:
            text = one.help.rstrip(".").replace("|", "\\|")
            yield f"| `{prefix}{one.name}` | {one.kind.value} | {', '.join(f'`{label}`' for label in one.labels)} | {text} |\n"


def generate(_: Path) -> str:
    """Return the text of `docs/metrics.md`."""
    nodes = _section("Nodes", table.PREFIX, _NODES)
    gateways = _section("Gateways", gateway.metrics.PREFIX, _GATEWAYS)
    exports = _section("Exports", tables.export.metrics.PREFIX, (("Tables", tables.export.metrics.TABLE),))
    return _HEAD + "".join((*nodes, *gateways, *exports))
