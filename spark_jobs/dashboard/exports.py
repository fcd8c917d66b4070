"""Exports of topics to tables, from their own /metrics: how far behind each is, and how long retention leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.scraping import Scraping

EVERY_S: Final = 5.0
PREFIX: Final = "diskless_export_"
_SUMMED: Final = {
    f"{PREFIX}lag_records": "lag_records",
    f"{PREFIX}lost_records_total": "lost_records",
    f"{PREFIX}damaged_batches_total": "damaged_batches",
    f"{PREFIX}failures_total": "failures",
}
_SECONDS: Final = {
    f"{PREFIX}retention_seconds_left": "seconds_left",
    f"{PREFIX}last_caught_up_timestamp_seconds": "caught_up_s",
}


def exports_in(text: str) -> list[Json]:
    """Return what a process tells of each topic that it exports, in Prometheus' text format. Raises ValueError for another format."""
    found: dict[str, Json] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _SUMMED or sample.name in _SECONDS:
                topic = sample.labels.get("topic", "")
                row = found.setdefault(topic, {"topic": topic, **dict.fromkeys(_SUMMED.values(), 0), **dict.fromkeys(_SECONDS.values())})
                if sample.name in _SUMMED:
                    row[_SUMMED[sample.name]] += int(sample.value)
                else:
                    row[_SECONDS[sample.name]] = int(sample.value)
    if not found:
        raise ValueError("there is none of an export")
    return [found[topic] for topic in sorted(found)]


class AskedExports:
    """Asks exports in turn. An answer is kept until the next one: one that does not come is an error beside the address."""

    def __init__(self, addresses: Sequence[str], scraping: Scraping) -> None:
        self._addresses = addresses
        self._scraping = scraping
        self.rows: list[Json] = []

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while self._addresses:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Ask every export once, all at the same time."""
        answers = await asyncio.gather(*(asyncio.to_thread(self._scraping.fetch, address) for address in self._addresses))
        self.rows = [row for address, answer in zip(self._addresses, answers, strict=True) for row in _rows(address, *answer)]


def _rows(address: str, text: str, error: str) -> list[Json]:
    if error:
        return [{"address": address, "error": f"does not answer: {error}", "topic": ""}]
    try:
        return [{"address": address, "error": "", **row} for row in exports_in(text)]
    except (ValueError, KeyError, OverflowError) as wrong:
        return [{"address": address, "error": f"answers without metrics of an export: {wrong}", "topic": ""}]
