"""The report of a monitor's folder, read-only: totals, heads, findings, quarantine. Needs no Spark, and no running monitor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from spark_jobs.store.acknowledge import open_without_row
from spark_jobs.store.engine import DATABASE, PostgresPlace, StoreConnection, StorePlace, exists, open_reader

Row = dict[str, object]

WITHOUT_ROW = "not kept"
"""Stands for the rule of findings that were counted beyond what a micro-batch keeps."""


class NoMonitorError(Exception):
    """No monitor has ever written the folder."""


@contextmanager
def open_report(place: StorePlace) -> Iterator[Report]:
    """Open the database of a folder for reading. Raises `NoMonitorError`, also while the tables are still to be made."""
    if not exists(place):
        raise NoMonitorError(f"{place} has no {DATABASE}: no monitor has written it; `diskless monitor run --dir` does")
    with closing(open_reader(place)) as connection:
        # The job makes the file first and then the tables, all at once.
        if not connection.is_made():
            if isinstance(place, PostgresPlace):
                raise NoMonitorError(f"{place} has no tables of a monitor: none has written it; `diskless monitor run --store` does")
            raise NoMonitorError(f"{place} has an empty {DATABASE}: the monitor that makes it has only just started; try again")
        yield Report(connection)


@dataclass(frozen=True, slots=True)
class Report:
    """Questions to one database."""

    connection: StoreConnection

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[Row]:
        return [dict(row) for row in self.connection.execute(query, parameters).fetchall()]

    def log(self) -> Row | None:
        """The topic that is followed."""
        rows = self._rows("SELECT topic, topic_id, partitions FROM log")
        return rows[0] if rows else None

    def heads(self) -> list[Row]:
        """Where the job is, by partition of the metadata topic."""
        return self._rows("SELECT * FROM head ORDER BY kpart")

    def totals(self) -> Mapping[str, int]:
        """Every total, summed over the partitions."""
        rows = self._rows("SELECT name, sum(value) AS value FROM total GROUP BY name ORDER BY name")
        return {str(row["name"]): _whole(row["value"]) for row in rows}

    def findings_by_rule(self, *, only_open: bool = False) -> Mapping[str, int]:
        """How many findings there are rows of, by rule; open ones that got no row are under `WITHOUT_ROW`."""
        where = "WHERE acknowledgement IS NULL" if only_open else ""
        rows = self._rows(f"SELECT rule, count(*) AS count FROM finding {where} GROUP BY rule ORDER BY rule")
        found = {str(row["rule"]): _whole(row["count"]) for row in rows}
        without_row = open_without_row(self.connection) if only_open else 0
        return found | {WITHOUT_ROW: without_row} if without_row else found

    def findings(self, limit: int, rule: str | None = None, *, only_open: bool = False) -> list[Row]:
        """The newest findings, each with who acknowledged it, when and why (None while it is open)."""
        conditions = [*([] if rule is None else ["rule = ?"]), *(["acknowledgement IS NULL"] if only_open else [])]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT f.*, a.who, a.reason, a.at_ms FROM (SELECT * FROM finding {where} ORDER BY id DESC LIMIT ?) f"
        query += " LEFT JOIN acknowledgement a ON a.id = f.acknowledgement ORDER BY f.id DESC"
        return self._rows(query, [*([] if rule is None else [rule]), limit])

    def open_rows(self) -> int:
        """How many findings there are rows of that are not acknowledged."""
        return _whole(self._rows("SELECT count(*) AS count FROM finding WHERE acknowledgement IS NULL")[0]["count"])

    def open_transactions(self) -> list[Row]:
        """The transactions of the log that are open, the oldest first."""
        return self._rows('SELECT kpart AS "partition", name, entry_offset AS "offset", append_ms FROM open_transaction ORDER BY append_ms')

    def quarantine(self, limit: int) -> list[Row]:
        """The newest entries that could not be read."""
        return self._rows("SELECT * FROM quarantine ORDER BY seen_ms DESC, kpart, entry_offset DESC LIMIT ?", [limit])

    def job(self) -> Mapping[str, str]:
        """Return the status that the job reports."""
        return {str(row["name"]): str(row["value"]) for row in self._rows("SELECT name, value FROM job")}


def _whole(value: object) -> int:
    assert isinstance(value, int), value
    return value
