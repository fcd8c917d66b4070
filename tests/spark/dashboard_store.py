"""Stores made for tests of the dashboard: the tables of the contract, filled row by row."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from spark_jobs.monitor.life import Life, life_keeper
from spark_jobs.store.engine import StorePlace, open_empty, open_writer, tables
from spark_jobs.store.statements import insert_numbered, upsert

_TABLES = "select name from sqlite_master where type = 'table'"
NOW_MS = 1_800_000_000_000  # a whole minute
NOW_S = NOW_MS // 1000
ORDERS = bytes(range(16))
CLICKS = bytes(range(1, 17))
EVIL = bytes(range(2, 18))
EVIL_NAME = '<img src=x onerror="document.title=1"></script><script>document.title=1</script>'


class StoreMaker:
    """An empty store in a folder, and words for filling it."""

    def __init__(self, folder: Path, place: StorePlace | None = None) -> None:
        """`folder` has the database unless that is at a `place` of its own."""
        self.folder = folder
        self.place = folder if place is None else place
        for one in {folder, self.place if isinstance(self.place, Path) else folder}:
            one.mkdir(parents=True, exist_ok=True)
        self.db: Any = open_writer(self.place)
        if isinstance(self.place, Path):
            self.db.execute("pragma synchronous = off")
        self.db.script(tables())
        with closing(open_empty()) as empty:
            sql = "select name from pragma_table_info(?) where pk > 0 order by pk"
            self._keys = {table: [row[0] for row in empty.execute(sql, (table,))] for (table,) in empty.execute(_TABLES).fetchall()}

    def close(self) -> None:
        """Close the writer's connection."""
        self.db.close()

    def row(self, table: str, **values: object) -> None:
        """Insert or replace one row."""
        key = self._keys[table]
        statement = insert_numbered(table, *values) if key == ["id"] and "id" not in values else upsert(table, ",".join(key), *values)
        with self.db.writing():
            self.db.execute(statement, list(values.values()))

    def head(self, kpart: int, next_offset: int, *, now_ms: int = NOW_MS, lag: int = 0, age_ms: int = 800, epoch: int = 3) -> None:
        """Where the job is in one partition of the log; `epoch` 0: no entry told of a leader."""
        self.row(
            "head",
            kpart=kpart,
            next_offset=next_offset,
            epoch=epoch,
            term=7,
            seq=next_offset - 1,
            from_offset=0,
            from_ms=now_ms - 100_000,
            log_end=next_offset + lag,
            append_ms=now_ms - age_ms,
            merged_ms=now_ms,
        )

    def claim(self, kpart: int, epoch: int, node_id: int, offset: int, append_ms: int) -> None:
        """A claim that came into force."""
        self.row("claim", kpart=kpart, epoch=epoch, term=epoch * 10, node_id=node_id, entry_offset=offset, append_ms=append_ms)

    def second(self, second: int, kpart: int, files_count: int, batches: int) -> None:
        """Activity of a second: ten records of 100 bytes a batch."""
        self.row(
            "activity_second",
            second=second,
            kpart=kpart,
            files=files_count,
            batches=batches,
            records=batches * 10,
            bytes=batches * 1000,
            file_bytes=batches * 1100,
            multi_owner_files=files_count // 2,
            void_entries=0,
            entries=files_count,
        )

    def topic(self, topic_id: bytes, name: str, partitions: int) -> None:
        """A topic."""
        self.row("topic", topic_id=topic_id, name=name, partitions=partitions)

    def partition(self, topic_id: bytes, number: int, batches: int, *, kpart: int = 0) -> None:
        """A user partition."""
        self.row(
            "partition",
            kpart=kpart,
            topic_id=topic_id,
            partition=number,
            start_offset=0,
            next_offset=batches * 10,
            since_offset=0,
            batches=batches,
            records=batches * 10,
            bytes=batches * 1000,
            last_append_ms=NOW_MS - 1000,
        )

    def migrated(self, topic_id: bytes, number: int, base: int, since_ms: int, *, kpart: int = 0, **values: object) -> None:
        """A partition of a classic topic, B0 -1: it waits for its start."""
        start = max(base, 0)
        known = {"start_offset": start, "next_offset": start, "since_offset": 0, "batches": 0, "records": 0, "bytes": 0}
        where = {"kpart": kpart, "topic_id": topic_id, "partition": number, "last_append_ms": since_ms, "diskless_base": base}
        self.row("partition", **{**known, **where, **values})

    def totals(self, kpart: int, values: Mapping[str, int]) -> None:
        """Totals of one partition of the log."""
        for name, value in values.items():
            self.row("total", name=name, kpart=kpart, value=value)

    def finding(self, kpart: int, offset: int, rule: str, **values: object) -> None:
        """Something that is wrong."""
        row: dict[str, object] = {
            "message": f"{rule} here",
            "topic_id": ORDERS,
            "partition": 7,
            "expected": 5,
            "found": 6,
            "seen_ms": NOW_MS,
        }
        self.row("finding", **{**row, "kpart": kpart, "entry_offset": offset, "rule": rule, **values})

    def life(self, alive_ms: int, **values: object) -> None:
        """The monitor's last sign of life; by default it follows the log and Kafka answers."""
        said: dict[str, object] = {"started_ms": alive_ms - 50_000, "alive_ms": alive_ms, "is_following": True, "kafka_ms": alive_ms}
        kafka_ms = int(str(values.get("kafka_ms", alive_ms)))
        said["read_until_ms"] = {kpart: kafka_ms for (kpart,) in self.db.execute("select kpart from head")}
        with life_keeper(self.place) as keeper:
            keeper.write(Life(**{**said, **values}))  # type: ignore[arg-type]

    def healthy(self, now_ms: int = NOW_MS, *, watched_for_ms: int = 0) -> None:
        """Two coordinators with a little activity, all well; the monitor's sign of life is good for so long."""
        now_s = now_ms // 1000
        self.row("log", topic="__diskless_metadata", topic_id="abc", partitions=2, schema_version=1)
        for kpart in (0, 1):
            self.head(kpart, 100 + kpart, now_ms=now_ms)
            self.claim(kpart, 3, 1 + kpart, 1, now_ms - 100_000)
            self.row("node", node_id=1 + kpart, rack=f"rack-{kpart}", endpoints=f"node-{kpart}:9192", schema_level_max=1)
            for second in range(now_s - 60, now_s):
                self.second(second, kpart, 2 + kpart, 20 + kpart)
            self.totals(kpart, {"files": 120 + 60 * kpart, "batches": 1200, "records": 12000, "bytes": 1_200_000, "entries": 100 + kpart})
        self.topic(ORDERS, "orders", 2)
        self.topic(CLICKS, "clicks", 1)
        for number, topic_id, batches in ((0, ORDERS, 900), (1, ORDERS, 100), (0, CLICKS, 1400)):
            self.partition(topic_id, number, batches, kpart=number)
        for name, value in (("started_ms", now_ms - 50_000), ("pid", 1), ("trigger_s", 2), ("version", "1")):
            self.row("job", name=name, value=str(value))
        self.life(now_ms + watched_for_ms)
