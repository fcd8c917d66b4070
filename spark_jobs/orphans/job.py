"""Joins the bucket with the log: orphans (in the bucket, unknown to every coordinator), and missing files (live, not in the bucket).

An object is an orphan when no coordinator knows its key as a committed file and it is older than any honest commit can
still be (`design: files`, the age limit of commits plus a grace period): what the service's scanner would fence and
delete. A missing file is lost data. Both joins are Spark's, so neither side has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.batch_read import LogPlace
from spark_jobs.log_begin import LogPrunedError, Starts, WholeLog
from spark_jobs.orphans.inventory import InventoryError
from spark_jobs.orphans.known import EMPTY, FAULT, KNOWN_DDL, LIVE, known_at_start, known_files
from spark_jobs.verify.job import Rebuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING_TOLD_MAX = 100
FOLDERS_TOLD_MAX = 20
KNOWN, YOUNG, ORPHAN, UNUSUAL, UNREADABLE = "known", "young", "orphan", "unusual", "unreadable"
NEVER_COMMITTED = "never committed"
HOUR_MS = 3_600_000
AGES = (("under 1 h", HOUR_MS), ("1 to 24 h", 24 * HOUR_MS), ("1 to 7 d", 168 * HOUR_MS), ("7 to 30 d", 720 * HOUR_MS))
OLDEST = "over 30 d"

Facts = dict[str, Any]


class LogUnusableError(Exception):
    """The log does not tell all known files, so nothing can be called an orphan; the text says why."""


class LogBeginsLateError(LogUnusableError):
    """The log's beginning is deleted, and no snapshot replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments of the comparison. Objects younger than `threshold_ms` are no orphans; `log_starts` are where the log begins.

    Known files count as missing when their entry is below `ends_before` (the log's ends before the listing began) and they
    were appended before `taken_ms` (when an inventory was made). What is below `kept_prefixes` is none of files, and neither is what
    has a key that `key_pattern` does not match as a whole, or one of more than `key_bytes_max` bytes.
    """

    log_starts: Mapping[int, int]
    ends: Mapping[int, int]
    ends_before: Mapping[int, int]
    now_ms: int
    threshold_ms: int
    taken_ms: int
    prefix: str
    key_pattern: str
    key_bytes_max: int
    kept_prefixes: Sequence[str] = ()


@dataclass(slots=True)
class OrphanSearch:
    """One comparison; close it by ending the session."""

    session: SparkSession
    place: LogPlace
    question: Question
    starts: Starts = field(default_factory=WholeLog)

    def run(self, objects: DataFrame, write_to: Path | None, write_format: str) -> Facts:
        """Compare; writes the orphans into a new folder when asked to. Raises `LogUnusableError`, `InventoryError`."""
        known = self._known().persist()
        judged = self._judge(objects, known).persist()
        try:
            _refuse_faults(known)
            sums = _sums(judged)
            if write_to is not None:
                orphans = judged.where(f"kind = '{ORPHAN}'").drop("kind", "age", "folder")
                orphans.write.format(write_format).options(header="true").save(write_to.absolute().as_uri())
            return self._summary(sums, judged, self._missing(objects, known))
        finally:
            known.unpersist()
            judged.unpersist()

    def _known(self) -> DataFrame:
        ends = {kpart: end for kpart, end in self.question.ends.items() if end > 0}
        if not ends:
            return self.session.createDataFrame([], KNOWN_DDL)
        rebuilder = Rebuilder(self.session, self.place, self.starts)
        for kpart, end in ends.items():
            try:
                rebuilder.begin(kpart, self.question.log_starts[kpart], end)
            except LogPrunedError as pruned:
                raise LogBeginsLateError(str(pruned)) from pruned
        deletions, faults = rebuilder.deletions(ends)
        for kpart, fault in faults.items():
            raise LogUnusableError(f"partition {kpart} of the metadata topic: {fault}")
        starts = rebuilder.with_snapshots(ends)
        in_log = {kpart: end for kpart, end in ends.items() if end > rebuilder.begin_of(kpart, end).offset}
        rows = [tuple(row.values()) for kpart in ends.keys() - in_log.keys() for row in known_at_start(starts, kpart)]
        known = self.session.createDataFrame(rows, KNOWN_DDL)
        if in_log:
            known = known.unionAll(rebuilder.read(in_log).mapInArrow(known_files(deletions, starts), KNOWN_DDL))
        return known

    def _judge(self, objects: DataFrame, known: DataFrame) -> DataFrame:
        """Every object with its kind (known, young, orphan, unusual, unreadable), the reason, its age and its folder."""
        from pyspark.sql import functions as f

        # A file with several owners is known as long as one of them knows it.
        rank = f.when(f.col("state") == LIVE, 5).when(f.col("state") == EMPTY, 4).when(f.col("state") == "handed over", 3)
        rank = rank.when(f.col("state") == "removed", 2).otherwise(1)
        states = known.groupBy("object_key").agg(f.max_by("state", rank).alias("state"))
        objects = objects.where(f.col("key").isNull() | f.col("key").startswith(self.question.prefix))
        for kept in self.question.kept_prefixes:
            objects = objects.where(f.col("key").isNull() | ~f.col("key").startswith(kept))
        joined = objects.join(states, objects.key == states.object_key, "left").drop("object_key")
        is_known = f.col("state").isin(LIVE, EMPTY)
        is_bad = f.col("key").isNull() | f.col("size_bytes").isNull() | f.col("modified_ms").isNull()
        is_usual = f.col("key").rlike(rf"\A(?:{self.question.key_pattern})\z") & (f.octet_length("key") <= self.question.key_bytes_max)
        kind = f.when(is_bad, UNREADABLE).when(f.coalesce(is_known, f.lit(False)), KNOWN).when(~is_usual, UNUSUAL)
        kind = kind.when(f.col("modified_ms") >= self.question.threshold_ms, YOUNG)
        age_ms = f.lit(self.question.now_ms) - f.col("modified_ms")
        age = f.when(age_ms < AGES[0][1], AGES[0][0])
        for name, limit_ms in AGES[1:]:
            age = age.when(age_ms < limit_ms, name)
        return joined.select(
            "key",
            "size_bytes",
            "modified_ms",
            f.coalesce("state", f.lit(NEVER_COMMITTED)).alias("reason"),
            kind.otherwise(ORPHAN).alias("kind"),
            age.otherwise(OLDEST).alias("age"),
            f.expr("CASE WHEN locate('/', key) > 0 THEN regexp_extract(key, '^(.*/)[^/]*$', 1) ELSE '' END").alias("folder"),
        )

    def _missing(self, objects: DataFrame, known: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        question = self.question
        before = f.lit(False)
        for kpart, end in question.ends_before.items():
            before = before | ((f.col("kpart") == kpart) & (f.col("file_offset") < end))
        live = known.where((f.col("state") == LIVE) & before & (f.col("append_ms") < question.taken_ms))
        live = live.where(f.col("object_key").startswith(question.prefix))
        return live.join(objects, live.object_key == objects.key, "left_anti")

    def _summary(self, sums: Sequence[Facts], judged: DataFrame, missing: DataFrame) -> Facts:
        from pyspark.sql import functions as f

        orphans = [one for one in sums if one["kind"] == ORPHAN]
        by_folder = (
            judged.where(f"kind = '{ORPHAN}'").groupBy("folder").agg(f.count("*").alias("count"), f.sum("size_bytes").alias("bytes"))
        )
        owners = f.array_sort(f.collect_set("kpart")).alias("coordinators")
        lost = missing.groupBy("object_key").agg(f.max("size_bytes").alias("size_bytes"), f.max("append_ms").alias("append_ms"), owners)
        told = [row.asDict() for row in lost.orderBy("object_key").limit(MISSING_TOLD_MAX + 1).collect()]
        total = {"count": len(told), "bytes": sum(row["size_bytes"] for row in told)}
        if len(told) > MISSING_TOLD_MAX:
            total = lost.agg(f.count("*").alias("count"), f.sum("size_bytes").alias("bytes")).collect()[0].asDict()
        ages = [*(name for name, _ in AGES), OLDEST]
        return {
            "at_ms": self.question.now_ms,
            "objects": sum(one["count"] for one in sums),
            "bytes": sum(one["bytes"] for one in sums),
            "known_objects": _total(sums, "count", KNOWN),
            "young_objects": _total(sums, "count", YOUNG),
            "unusual_objects": _total(sums, "count", UNUSUAL),
            "orphans": _total(sums, "count", ORPHAN),
            "orphan_bytes": _total(sums, "bytes", ORPHAN),
            "missing_files": total["count"],
            "missing_bytes": total["bytes"],
            "older_than_ms": self.question.threshold_ms,
            "by_age": sorted(_grouped(orphans, "age"), key=lambda row: ages.index(row["age"])),
            "by_reason": _grouped(orphans, "reason"),
            "by_folder": [row.asDict() for row in by_folder.orderBy(f.desc("bytes"), "folder").limit(FOLDERS_TOLD_MAX).collect()],
            "missing": told[:MISSING_TOLD_MAX],
        }


def _sums(judged: DataFrame) -> list[Facts]:
    """Counts and bytes by kind, reason and age. Raises `InventoryError` when there are objects that cannot be read."""
    from pyspark.sql import functions as f

    sums = (f.count("*").alias("count"), f.coalesce(f.sum("size_bytes"), f.lit(0)).alias("bytes"))
    found: list[Facts] = [row.asDict() for row in judged.groupBy("kind", "reason", "age").agg(*sums).collect()]
    count = _total(found, "count", UNREADABLE)
    if count:
        first = judged.where(f"kind = '{UNREADABLE}'").select("key", "size_bytes", "modified_ms").limit(1).collect()[0].asDict()
        raise InventoryError(f"{count} rows of the inventory have no key, size or time that can be read, the first is {first}")
    return found


def _total(sums: Sequence[Facts], what: str, kind: str) -> int:
    return sum(int(one[what]) for one in sums if one["kind"] == kind)


def _grouped(sums: Sequence[Facts], by: str) -> list[Facts]:
    groups: dict[str, Facts] = {}
    for one in sums:
        group = groups.setdefault(one[by], {by: one[by], "count": 0, "bytes": 0})
        group["count"] += one["count"]
        group["bytes"] += one["bytes"]
    return sorted(groups.values(), key=lambda group: (-group["bytes"], group[by]))


def _refuse_faults(known: DataFrame) -> None:
    faults = known.where(known.state == FAULT).collect()
    if faults:
        raise LogUnusableError(f"partition {faults[0]['kpart']} of the metadata topic: {faults[0]['object_key']}")


def newest(objects: DataFrame) -> int:
    """The newest time of all objects, in ms; -1 when there are none."""
    from pyspark.sql import functions as f

    found = objects.agg(f.max("modified_ms")).collect()[0][0]
    return -1 if found is None else int(found)
