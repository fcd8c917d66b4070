"""Findings, quarantine, notes and counters of a scan: rows are bounded, counters are exact."""

from __future__ import annotations

from collections import Counter

from spark_jobs.scan.summary import CountRow, FindingRow, NoteRow, QuarantineRow

ROWS_MAX = 1000
"""Findings and quarantined entries that one micro-batch may add per partition of the metadata topic."""

RAW_BYTES_MAX = 1024
"""How much of an unreadable entry is kept."""

TEXT_CHARACTERS_MAX = 500


class Audit:
    """Collects what is wrong with one partition of the metadata topic."""

    def __init__(self, kpart: int) -> None:
        self._kpart = kpart
        self.findings: list[FindingRow] = []
        self.quarantined: list[QuarantineRow] = []
        self.notes: list[NoteRow] = []
        self.counts: Counter[str] = Counter()

    def find(self, finding: FindingRow) -> None:
        """Note something that is wrong."""
        self.counts["findings"] += 1
        if len(self.findings) < ROWS_MAX:
            self.findings.append(finding)

    def quarantine(self, offset: int, error: str, value: bytes) -> None:
        """Keep the beginning of an entry that cannot be read."""
        self.counts["quarantined"] += 1
        if len(self.quarantined) < ROWS_MAX:
            error = error[:TEXT_CHARACTERS_MAX]
            self.quarantined.append(QuarantineRow(self._kpart, offset, error, len(value), value[:RAW_BYTES_MAX]))

    def note(self, offset: int, text: str) -> None:
        """Note something worth knowing that is not wrong."""
        self.notes.append(NoteRow(self._kpart, offset, text))

    def count_rows(self) -> list[CountRow]:
        """The counters as rows."""
        return [CountRow(self._kpart, name, value) for name, value in self.counts.items() if value]
