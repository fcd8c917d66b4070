"""Signs of life of a monitor: a small file beside its database, written anew every second while it follows the log.

It is a file of its own because a sign must not wait for a merge, which holds the database, and because readers of the
database see it change with every sign. Invariant: `alive_ms` moves only while the job can do its work; a job whose JVM
hangs gives no sign.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from spark_jobs.monitor.topic import KafkaUnavailableError
from spark_jobs.streaming import StopSignal

LOG = logging.getLogger("monitor.life")

LIFE_FILE = "monitor.life"
BEAT_EVERY_S = 1.0
FAILURE_TEXT_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The last sign of life of a monitor. `kafka_ms`: when Kafka last answered it, 0 before the first time.

    `ends` is where each partition of the log ended then, `read_until_ms` until when each is known to be merged whole. A monitor that
    ended has `ended_ms`, and `failure` when by an error.
    """

    started_ms: int
    alive_ms: int
    is_once: bool = False
    is_following: bool = False
    kafka_ms: int = 0
    kafka_error: str = ""
    ends: Mapping[int, int] = field(default_factory=dict)
    read_until_ms: Mapping[int, int] = field(default_factory=dict)
    ended_ms: int | None = None
    failure: str = ""


class KafkaNews(Protocol):
    """The knowledge of the topic's watcher."""

    @property
    def answered_ms(self) -> int: ...
    @property
    def error(self) -> str: ...
    def ends(self) -> Mapping[int, int]: ...
    def read_until_ms(self) -> Mapping[int, int]: ...


def read_life(folder: Path) -> Life | None:
    """Read the last sign of a folder's monitor; None when there is none that can be read."""
    try:
        said = json.loads((folder / LIFE_FILE).read_bytes())
        by_partition = {name: {int(kpart): value for kpart, value in said[name].items()} for name in ("ends", "read_until_ms")}
        return Life(**{**said, **by_partition})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_life(folder: Path, life: Life) -> None:
    """Replace the sign. Raises `OSError`."""
    file = folder / LIFE_FILE
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(life)), encoding="utf-8")
    os.replace(fresh, file)


class Beats:
    """Gives signs in a thread of its own. While the job starts or stops, that it runs is enough; otherwise only `looked` counts."""

    def __init__(self, folder: Path, stopping: StopSignal, *, is_once: bool, beat_every_s: float) -> None:
        self._beat_every_s = beat_every_s
        self._folder = folder
        self._stopping = stopping
        now_ms, before = _now_ms(), read_life(folder)
        # What the monitor before read stays read.
        self._life = Life(started_ms=now_ms, alive_ms=now_ms, is_once=is_once, read_until_ms={} if before is None else before.read_until_ms)
        self._looked_ms: int | None = None
        self._news: KafkaNews | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signs-of-life", daemon=True)

    def start(self) -> None:
        """Give the first sign, then go on in the thread. Raises `OSError`."""
        write_life(self._folder, self._life)
        self._thread.start()

    def watch(self, news: KafkaNews) -> None:
        """Tell what this knows of Kafka from now on."""
        self._news = news

    def looked(self) -> None:
        """The job follows the log and its JVM answers."""
        self._looked_ms = _now_ms()

    def end(self, failure: str) -> None:
        """Give the last sign; `failure` is empty for an end that was asked for."""
        self._end.set()
        self._thread.join()
        self._write(replace(self._now(), ended_ms=_now_ms(), failure=failure[:FAILURE_TEXT_MAX]))

    def _now(self) -> Life:
        looked_ms, news = self._looked_ms, self._news
        alive_ms = _now_ms() if looked_ms is None or self._stopping.is_set() else looked_ms
        known = replace(self._life, alive_ms=alive_ms, is_following=looked_ms is not None)
        if news is None:
            return known
        return replace(
            known,
            kafka_ms=news.answered_ms,
            kafka_error=news.error,
            ends=dict(news.ends()),
            read_until_ms={**known.read_until_ms, **news.read_until_ms()},
        )

    def _run(self) -> None:
        while not self._end.wait(self._beat_every_s):
            self._write(self._now())

    def _write(self, life: Life) -> None:
        try:
            write_life(self._folder, life)
        except OSError as error:
            LOG.warning("no sign of life could be written: %s", error)


@contextmanager
def signs_of_life(folder: Path, stopping: StopSignal, *, is_once: bool, beat_every_s: float = BEAT_EVERY_S) -> Iterator[Beats]:
    """Give signs while the block runs, and say in the end how it ended."""
    beats = Beats(folder, stopping, is_once=is_once, beat_every_s=beat_every_s)
    beats.start()
    failure = ""
    try:
        yield beats
    except KafkaUnavailableError as error:
        failure = f"Kafka: {error}"
        raise
    except Exception as error:
        failure = str(error) or type(error).__name__
        raise
    finally:
        beats.end(failure)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
